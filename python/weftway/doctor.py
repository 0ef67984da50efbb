"""What this machine's links, rights and kernel allow, tried rather than guessed."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from weftway import _native, probe
from weftway.listing import plain_table

Finding = dict[str, Any]

CAP_NET_ADMIN = 12
"""Its bit in the capability sets (capabilities(7))."""


def examine() -> list[Finding]:
    """Findings: what was looked at, whether it is there, what is known of it, and what would help."""
    return [*_links(), *_rights(), *_kernel()]


def _finding(kind: str, name: str, there: bool, note: str, remedy: str | None = None) -> Finding:
    return {"kind": kind, "name": name, "there": there, "note": note, "remedy": None if there else remedy}


def _links() -> Iterator[Finding]:
    if not hasattr(_native, "links"):
        yield _finding("link", "interfaces", False, f"this is {sys.platform}", "use Linux or another Unix")
        return
    found = json.loads(_native.links())
    for link in found["interfaces"]:
        state = "up" if link["up"] else "down"
        note = f"{state}, {', '.join(link['addresses']) or 'no address'}"
        yield _finding("link", link["name"], link["up"], note, "bring it up") | {"addresses": link["addresses"]}
        why = link["bind_obstacle"]
        bound = f"weft send --path {link['name']}" if why is None else why
        yield _finding("socket", f"bind to {link['name']}", why is None, bound, "give its address with --path")
    sockets = found["sockets"]
    for name, key in (("GSO (UDP_SEGMENT)", "send_segments"), ("GRO (UDP_GRO)", "receive_segments")):
        count = sockets[key]
        yield _finding("socket", name, count > 1, f"{count} datagrams in one call", "a kernel since 5.0 has it")
    got, wanted = sockets["receive_buffer"], sockets["receive_buffer_wanted"]
    note = f"{got >> 10} KiB of {wanted >> 10} KiB"
    yield _finding("socket", "receive buffer", got >= wanted, note, f"as root: sysctl -w net.core.rmem_max={wanted}")


def _rights() -> Iterator[Finding]:
    try:
        status = Path("/proc/self/status").read_text()
        held = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    except (OSError, StopIteration):
        return
    there = bool(held >> CAP_NET_ADMIN & 1)
    yield _finding("right", "CAP_NET_ADMIN", there, "held" if there else "not held", "not needed for weft send")


ENABLED = Path("/proc/sys/net/mptcp/enabled")
"""1 where programs of this machine may use MPTCP. Labs have namespaces of their own, in which it is 1."""


def _kernel() -> Iterator[Finding]:
    if ENABLED.exists():
        is_on = ENABLED.read_text(encoding="ascii").strip() != "0"
        note = f"{'1' if is_on else '0'}: programs of this machine {'may' if is_on else 'cannot'} use MPTCP"
        yield _finding("kernel", "net.mptcp.enabled", is_on, note, "as root: sysctl -w net.mptcp.enabled=1")
    for part in probe.parts():
        yield _finding("kernel", part["part"], part["there"], part["note"], part.get("remedy"))


def table(findings: list[Finding]) -> Table:
    """A row for each finding."""
    made = plain_table(None, show_header=False)
    for _ in range(4):
        made.add_column()
    for finding in findings:
        mark = "yes" if finding["there"] else "no"
        note = finding["note"] + (f"; {finding['remedy']}" if finding["remedy"] else "")
        made.add_row(finding["kind"], finding["name"], mark, note)
    return made
