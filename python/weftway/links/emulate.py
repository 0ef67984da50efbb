"""Ordinary commands at both ends of a scenario's paths, in real time."""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weftway import _native
from weftway._native import EmulationError, ScenarioError, Variant
from weftway.terminal.table import NOTHING, Column, Table, plain, wrapped

POLL_S = 0.1
"""Wait of the main thread at a time: it answers an interrupt within this."""

Outcome = dict[str, Any]


def run(
    variant: Variant,
    client: Sequence[str],
    server: Sequence[str] | None = None,
    *,
    seed: int = 0,
    log: Path | None = None,
    pcap: Path | None = None,
    provenance: Sequence[str] = (),
    quiet: bool = False,
    watch: Callable[[dict[str, Any]], None] | None = None,
) -> Outcome:
    """Runs `client` until it ends, with `server` at the other end: what went over each link, and how punctually.

    What the server prints goes to standard error, and with `quiet` what the client prints, too.

    `watch` is told ten times a second how the links stand. An interrupt ends both commands and is then raised.
    """
    if not hasattr(_native, "Emulation"):
        raise EmulationError(f"links are emulated on Linux only; this is {sys.platform}")
    for words in filter(None, (client, server)):
        if shutil.which(words[0]) is None:
            why = "it is not executable" if Path(words[0]).is_file() and "/" in words[0] else "there is no such program"
            raise ScenarioError(f"`{words[0]}` cannot be started: {why}")
    session = _native.Emulation(
        variant,
        seed,
        list(client),
        list(server) if server else None,
        str(log) if log else None,
        str(pcap) if pcap else None,
        list(provenance),
        quiet,
    )
    try:
        while session.wait(POLL_S) is None:
            if watch:
                watch(json.loads(session.links()))
    finally:
        text = session.finish()
    outcome: Outcome = json.loads(text)
    return outcome


def links(outcome: Outcome) -> Table:
    """Table of what went over each link."""
    heads = ("packets", "MB", "lost", "dropped", "rate when busy\nMbit/s", "least delay\nms", "median delay\nms")
    rows = []
    for link in outcome["links"]:
        lost = f"{link['lost']} ({100 * link['lost'] / link['packets']:.2f} %)" if link["lost"] else "0"
        numbers = (link["busy_rate_mbps"], link["least_delay_ms"], link["median_delay_ms"])
        shown = (NOTHING if number is None else f"{number:.3f}" for number in numbers)
        counts = (str(link["packets"]), f"{link['delivered_bytes'] / 1e6:.2f}", lost, str(link["dropped"]))
        rows.append([link["link"], *counts, *shown])
    columns = [*wrapped("link"), *(Column(head, right=True, wraps=True) for head in heads)]
    return plain("what went over each link", columns, rows)


def server(outcome: Outcome) -> list[str]:
    """A line, if the server's command ended by itself and with an error."""
    status = outcome.get("server")
    if not status or outcome["server_was_asked"]:
        return []
    return [f"warning: the server ended by itself with status {status}: what CMD measured may be of no server"]


def punctuality(outcome: Outcome) -> list[str]:
    """Lines that say how late packets were handed over; the last says so if the run is not fit for use."""
    emulator = outcome["emulator"]
    bounds = [f"≤ {bound} µs" for bound in emulator["bins_us"]] + [f"> {emulator['bins_us'][-1]} µs"]
    bins = ", ".join(f"{bound}: {count}" for bound, count in zip(bounds, emulator["bins"], strict=True) if count)
    lines = [
        f"lateness: mean {emulator['late_mean_us']:.1f} µs, most {emulator['late_max_us'] / 1e3:.2f} ms, "
        f"{emulator['late_over_1ms']} of {emulator['packets']} packets over 1 ms",
        f"  {bins}" if bins else "  no packet was handed over",
    ]
    if not emulator["realtime"]:
        lines.append("without real-time priority: root, or `ulimit -r 50`, would make it more punctual")
    if not emulator["fit"]:
        lines.append("NOT FIT FOR USE: more than 0.5 % of the packets were over 1 ms late; is the machine busy?")
    return lines
