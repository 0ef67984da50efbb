"""How urgent what programs send is: the rules of a file, and what one of them means for a flow."""

import json
from pathlib import Path
from typing import Any

from weftway import _native, reading
from weftway._native import ScenarioError
from weftway.identity import check_available

MEANING = {
    "realtime": "goes before all others; while others wait it has half of the connection's rate at most",
    "interactive": "goes after realtime and before bulk; while bulk waits it has half of what realtime leaves at most",
    "bulk": "goes when no other class waits; while both always do it has a quarter of the connection's rate at least, "
    "and half while one of them does",
}

MARK = ",dscp="


def read(file: Path | None) -> str | None:
    """The text of a file of rules, which make sense."""
    if file is None:
        return None
    check_available()
    text = reading.text(file)
    try:
        _native.check_classes(text)
    except ScenarioError as error:
        raise ScenarioError(f"{file}: {error}") from None
    return text


def explain(rules: str | None, target: str) -> list[str]:
    """Which rule decides for a flow to `target`, and what it is then, in lines. `rules` is the text of a file.

    A target may have a mark: `udp:192.0.2.7:3480,dscp=EF`.
    """
    check_available()
    place, _, mark = target.partition(MARK)
    found: dict[str, Any] = json.loads(_native.decide_class(rules, place, mark if MARK in target else None))
    name, is_stream = found["class"], found["transport"] == "TCP"
    over = found["transport"] + (f" with DSCP {found['mark']}" if found["mark"] else "")
    lines = [f"{found['target']} over {over} is {name}; the rule that decides is: {found['rule']}"]
    if found["mark"]:
        packets = "the first packet of a connection" if is_stream else "each packet"
        lines.append(f"  `weft tunnel` reads DSCP from {packets}; a program gives `weft proxy` none")
    if name == "bulk" and is_stream:
        lines.append(f"  its first {found['first_bytes'] >> 10} KiB in each direction go as interactive")
    lines.append(f"  {name} {MEANING[name]}")
    if not is_stream:
        lines.append(f"  a datagram that has not left after {found['deadline_ms']:g} ms is dropped")
    return lines
