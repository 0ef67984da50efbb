"""Links, rights and kernel of this machine and what they allow, tried rather than guessed."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weftway.runs import link_program, probe
from weftway.terminal.table import Row, Table, wrapped

Finding = dict[str, Any]


def examine() -> list[Finding]:
    """Findings: what was looked at, whether it is there, what is known of it, and what would help."""
    return [*_wire(), *_kernel()]


def _finding(kind: str, name: str, there: bool, note: str, remedy: str | None = None) -> Finding:
    return {"kind": kind, "name": name, "there": there, "note": note, "remedy": None if there else remedy}


def _wire() -> Iterator[Finding]:
    """Links, sockets and rights, as the program weft-link finds them."""
    if os.name != "posix":
        yield _finding("link", "interfaces", False, f"this is {sys.platform}", "use Linux or another Unix")
        return
    yield from json.loads(link_program.answer(["doctor", "--json"]).stdout or "[]")


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
    rows = []
    for finding in findings:
        mark = "yes" if finding["there"] else "no"
        note = finding["note"] + (f"; {finding['remedy']}" if finding["remedy"] else "")
        rows.append(Row([finding["kind"], finding["name"], mark, note]))
    return Table(None, wrapped("", "", "", ""), rows, has_heads=False)
