"""Measurements that users have made of their links; the content of a file tells its kind.

`reading` says what a measurement can tell, and each kind of file has a module with `reads(file, content) -> Reading`.
"""

from collections.abc import Sequence
from pathlib import Path

from weftway._native import ScenarioError

from . import iperf3, irtt, mahimahi, nuttcp, pcap, ping, speedtest, srt, starlink
from .reading import Range, Reading, Undecided
from .text import decode

__all__ = ["Range", "Reading", "Undecided", "read"]

KINDS = (
    "the output of `ping`, of `iperf3 --json`, of `speedtest --format=json`, of `irtt client -o`, of `nuttcp -i1`, "
    "statistics of SRT, a record of a Starlink dish, a pcap or pcapng file, or a Mahimahi trace"
)

COMPRESSED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"\x28\xb5": "zstd", b"PK": "zip"}
"""First bytes of compressed files."""


def read(path: Path, local: Sequence[str] = ()) -> Reading:
    """Reads what a file tells of a link; its content tells its kind. `local` are addresses of the user's side."""
    if path.is_dir():
        raise ScenarioError(f"{path}: a folder; expected a file: {KINDS}")
    if path.is_char_device() or path.is_block_device():
        raise ScenarioError(f"{path}: a device; expected a file: {KINDS}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    if not data.strip():
        raise ScenarioError(f"{path}: the file is empty; expected {KINDS}")
    if pcap.is_capture(data):
        return pcap.reads(path, data, local)
    text = decode(data)
    if text is None:
        packed = COMPRESSED.get(data[:2])
        what = f"compressed by {packed}; unpack it first" if packed else "a binary file, but not a capture"
        raise ScenarioError(f"{path}: {what}; expected {KINDS}")
    if starlink.is_record(text):
        return starlink.reads(path, text)
    if srt.is_record(text):
        return srt.reads(path, text)
    if irtt.is_report(text):
        return irtt.reads(path, text)
    if nuttcp.is_output(text):
        return nuttcp.reads(path, text)
    if speedtest.is_report(text):
        return speedtest.reads(path, text)
    if iperf3.is_report(text):
        return iperf3.reads(path, text, local)
    if mahimahi.is_trace(text):
        # The simulator reads the file by itself, as it is.
        return mahimahi.reads(path, data.decode("latin-1"))
    if ping.is_ping(text):
        return ping.reads(path, text)
    raise ScenarioError(f"{path}: unknown kind of file; expected {KINDS}")
