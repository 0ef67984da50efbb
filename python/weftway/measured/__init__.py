"""What users have measured of their links: `ping`, `iperf3 --json`, pcap and Mahimahi traces, told by their content.

`reading` says what a measurement can tell, and each kind of file has a module with `reads(file) -> Reading`.
"""

from pathlib import Path

from weftway._native import ScenarioError

from . import iperf3, mahimahi, pcap, ping
from .reading import Range, Reading

__all__ = ["Range", "Reading", "read"]

KINDS = "the output of `ping`, of `iperf3 --json`, a pcap or pcapng file, or a Mahimahi trace"


def read(path: Path) -> Reading:
    """What the file tells of a link. Its kind is told by its content."""
    if path.is_dir():
        raise ScenarioError(f"{path}: a folder; expected a file: {KINDS}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    if not data.strip():
        raise ScenarioError(f"{path}: the file is empty; expected {KINDS}")
    if pcap.is_capture(data):
        return pcap.reads(path, data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: a binary file, but not a capture; expected {KINDS}") from None
    if text.lstrip().startswith("{"):
        return iperf3.reads(path, text)
    if mahimahi.is_trace(text):
        return mahimahi.reads(path, text)
    if ping.is_ping(text):
        return ping.reads(path, text)
    raise ScenarioError(f"{path}: unknown kind of file; expected {KINDS}")
