"""The live view of all programs of this user that carry something."""

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from weftway.listing import NOTHING, bars, plain_table
from weftway.status.local_socket import PATIENCE_S, Reader, running
from weftway.status.snapshot import MINUTE, Snapshot
from weftway.transfer import amount

NOTHING_RUNS = "no weft proxy, relay or send of this user runs on this machine"
REFRESH_S = 0.25
MOST_FLOWS = 10
"""So many connections are shown of each program, those that carried most."""
MINUTE_WIDTH = 30
"""How wide the last minute is drawn."""


def once() -> list[Snapshot]:
    """A snapshot of each program that runs."""
    readers, found = running(), []
    for reader in readers:
        deadline = time.monotonic() + PATIENCE_S
        with contextlib.closing(reader), contextlib.suppress(EOFError, OSError):
            while (left := deadline - time.monotonic()) > 0 and select.select([reader], [], [], left)[0]:
                if (snapshot := reader.read()) is not None:
                    found.append(snapshot)
                    break
    return found


def show(console: Console) -> None:
    """Shows all programs until q is pressed."""
    readers: list[Reader] = []
    snapshots: dict[Reader, Snapshot] = {}
    try:
        with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
            looked = 0.0
            while True:
                if time.monotonic() - looked >= 1:
                    looked = time.monotonic()
                    readers += running(tuple(reader.path for reader in readers))
                live.update(_all([snapshots[reader] for reader in readers if reader in snapshots]), refresh=True)
                waited: list[int | Reader] = [keys, *readers]
                ready = select.select(waited, [], [], REFRESH_S)[0]
                if keys in ready and os.read(keys, 1) in (b"q", b"Q", b""):
                    return
                for reader in [reader for reader in readers if reader in ready]:
                    try:
                        snapshots[reader] = reader.read() or snapshots.get(reader) or {}
                    except (EOFError, OSError):
                        reader.close()
                        readers.remove(reader)
    finally:
        for reader in readers:
            reader.close()


@contextlib.contextmanager
def _keys() -> Iterator[int]:
    """Standard input, where each key is there at once and is not shown."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)
        yield file
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def _all(snapshots: list[Snapshot]) -> RenderableType:
    views: list[RenderableType] = [view(snapshot) for snapshot in snapshots if snapshot]
    return Group(*(views or [Text(f"{NOTHING_RUNS}; one that starts is shown")]), Text("q: end", style="dim"))


def view(snapshot: Snapshot) -> RenderableType:
    """A program: its links, its clients, the connections that carried most."""
    parts: list[RenderableType] = [Text(_title(snapshot), style="bold")]
    if snapshot["paths"]:
        parts.append(_links(snapshot["paths"]))
    if snapshot["by_client"]:
        parts.append(_clients(snapshot["by_client"]))
    if snapshot["busiest"]:
        parts.append(_flows(snapshot["busiest"]))
    if snapshot["refusals"]:
        parts.append(Text(f"refused: {_reasons(snapshot['refusals'])}"))
    if snapshot["drops"]:
        parts.append(Text(f"dropped: {_reasons(snapshot['drops'])}"))
    return Group(*parts, Text(""))


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()))


def _title(snapshot: Snapshot) -> str:
    at = snapshot["ports"] or [address for address in [snapshot["listening"]] if address]
    where = f" at {', '.join(at)}" if at else ""
    title = f"weft {snapshot['program']}{where} ({snapshot['pid']}): {snapshot['state']}"
    if snapshot["state"] != "relaying":
        done = snapshot["had"] + snapshot["done"]
        return f"{title}, {amount(done)} of {amount(snapshot['bytes'])}" if snapshot["bytes"] else title
    clients = f", {snapshot['clients']} clients" if snapshot["listening"] else ""
    classes = ", ".join(f"{count} {name}" for name, count in snapshot["by_class"].items() if count)
    return f"{title}{clients}, {snapshot['flows']} connections" + (f" ({classes})" if classes else "")


def _table(*columns: str) -> Table:
    table = plain_table(None)
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if at else "left", no_wrap=True)
    return table


def _links(paths: list[dict[str, Any]]) -> Table:
    table = _table("link", "Mbit/s", "last minute", "round trip", "lost", "tier", "cap left", "")
    minutes = sparklines([path["minute"] for path in paths])
    for path, minute in zip(paths, minutes, strict=True):
        policy = path.get("policy") or {}
        rtt = NOTHING if path["srtt_ms"] is None else f"{path['srtt_ms']:.1f} ms"
        lost = f"{100 * path['lost'] / path['packets']:.1f} %" if path["packets"] else NOTHING
        left = NOTHING if policy.get("left") is None else amount(policy["left"])
        state = "down" if not path["up"] else "" if policy.get("open", True) else "closed"
        row = [f"{path['mbps']:.1f}", minute, rtt, lost, policy.get("tier", NOTHING), left, state]
        table.add_row(Text(path["path"]), *row)
    return table


def _clients(clients: list[dict[str, Any]]) -> Table:
    table = _table("client", "links", "connections", "from it", "to it", "round trips")
    for client in clients:
        links = [path for path in client["paths"] if path["up"]]
        rtts = ", ".join(f"{path['srtt_ms']:.0f} ms" for path in links if path["srtt_ms"] is not None)
        name = client["name"] or "without a name"
        carried = [amount(client["up"]), amount(client["down"])]
        table.add_row(Text(name), str(len(links)), str(client["flows"]), *carried, rtts or NOTHING)
    return table


def _flows(flows: list[dict[str, Any]]) -> Table:
    table = _table("connection", "class", "sent", "received")
    for flow in flows[:MOST_FLOWS]:
        target = "datagrams (UDP)" if flow["target"] == "udp:" else flow["target"]
        table.add_row(Text(target), flow["class"], amount(flow["up"]), amount(flow["down"]))
    return table


def sparklines(minutes: list[list[float]], width: int = MINUTE_WIDTH) -> list[str]:
    """The last minute of each link in bars, all of one scale, the latest on the right.

    Each bar is the mean of as many seconds as it stands for.
    """
    means = [_means(rates, MINUTE // width) for rates in minutes]
    most = max((mean for some in means for mean in some), default=0.0) or 1.0
    return [bars(some, most) for some in means]


def _means(rates: list[float], seconds: int) -> list[float]:
    groups = [rates[max(0, end - seconds) : end] for end in range(len(rates), 0, -seconds)]
    return [sum(group) / len(group) for group in reversed(groups)]
