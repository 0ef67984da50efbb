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

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from weftway.listing import NOTHING, bars, plain_table
from weftway.status.hour import queue_ms
from weftway.status.local_socket import PATIENCE_S, Reader, running
from weftway.status.programs import Programs
from weftway.status.prompt import ESCAPE, KEY, Prompt
from weftway.status.snapshot import MINUTE, Snapshot, path_shares, target_name
from weftway.transfer import CARRYING, amount, number_of

NOTHING_RUNS = "no weft proxy, relay, tunnel or send of this user runs on this machine"
REFRESH_S = 0.25
MOST_FLOWS = 10
"""So many connections are shown of each program, those that carried most."""
MINUTE_WIDTH = 30
"""How wide the last minute is drawn."""


def once(with_hour: bool = False) -> list[Snapshot]:
    """A snapshot of each program that runs, with its last hour if that is wanted."""
    readers, found = running(), []
    for reader in readers:
        deadline = time.monotonic() + PATIENCE_S
        with contextlib.closing(reader), contextlib.suppress(EOFError, OSError):
            if with_hour:
                reader.ask({"hour": True})
            while (left := deadline - time.monotonic()) > 0 and select.select([reader], [], [], left)[0]:
                snapshot = reader.read()
                if snapshot is not None and (not with_hour or "hour" in snapshot):
                    found.append(snapshot)
                    break
    return found


def show(console: Console) -> None:
    """Shows all programs until q is pressed, and switches their schedulers."""
    prompt: Prompt | None = None
    with (
        contextlib.closing(Programs()) as programs,
        _keys() as keys,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            programs.look()
            snapshots = programs.snapshots()
            live.update(Screen(snapshots, prompt), refresh=True)
            waited: list[int | Reader] = [keys, *programs.readers]
            ready = select.select(waited, [], [], REFRESH_S)[0]
            programs.read(ready)
            if keys not in ready:
                continue
            typed = os.read(keys, 256).decode(errors="ignore")
            if not typed:
                return
            for key in KEY.findall(typed):
                if prompt is None and key in "qQ":
                    return
                if prompt is None:
                    prompt = Prompt(scheduler_names()) if key in "sS" else None
                elif key == ESCAPE or prompt.press(key):
                    program = prompt.program(snapshots)
                    if key != ESCAPE and program is not None:
                        programs.ask(program["pid"], {"scheduler": prompt.text.strip()})
                    prompt = None


def scheduler_names() -> list[str]:
    """Those of the registry."""
    from weftway import catalogue

    return [catalogue.short(entry) for entry in catalogue.matching("scheduler")]


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


class Screen:
    """All programs, and in the last line what keys do. Where not all fits, fewer connections of each are shown."""

    def __init__(self, snapshots: list[Snapshot], prompt: Prompt | None) -> None:
        self._snapshots = [snapshot for snapshot in snapshots if snapshot]
        self._foot = _foot(snapshots, prompt)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        free = options.update(height=None)
        foot = console.render_lines(self._foot, free)
        room = max((options.height or options.max_height) - len(foot), 0)
        lines = self._lines(console, free, MOST_FLOWS)
        if len(lines) > room:
            lines = self._lines(console, free, self._flows_without(len(lines) - room))
        for line in [*lines[:room], *foot]:
            yield from line
            yield Segment.line()

    def _lines(self, console: Console, options: ConsoleOptions, flows: int) -> list[list[Segment]]:
        views: list[RenderableType] = [view(snapshot, flows) for snapshot in self._snapshots]
        nothing = Text(f"{NOTHING_RUNS}; one that starts is shown")
        return console.render_lines(Group(*(views or [nothing])), options)

    def _flows_without(self, lines: int) -> int:
        """How many connections of each program may be shown if `lines` of all of them are to go."""
        counts = [min(len(snapshot["busiest"]), MOST_FLOWS) for snapshot in self._snapshots]
        left = sum(counts) - lines
        return next((most for most in range(MOST_FLOWS, 0, -1) if sum(min(n, most) for n in counts) <= left), 0)


def _foot(snapshots: list[Snapshot], prompt: Prompt | None) -> Text:
    """What keys do, or what is being typed."""
    if prompt is None:
        return Text("q: end   s: switch a scheduler", style="dim")
    program = prompt.program(snapshots)
    if program is None:
        return Text("no program is here that has a scheduler   Esc: back", style="dim")
    asked = Text(f"scheduler of weft {program['program']} ({program['pid']}): {prompt.text}")
    return asked.append("▏  Enter: switch   Tab: next name   ↑ ↓: another program   Esc: back", style="dim")


def view(snapshot: Snapshot, flows: int = MOST_FLOWS) -> RenderableType:
    """A program: its links, its clients, the connections that carried most, so many of them at most."""
    parts: list[RenderableType] = [Text(_title(snapshot), style="bold")]
    if snapshot["paths"]:
        parts.append(_links(snapshot["paths"]))
    if snapshot.get("last_packet"):
        parts.append(Text(_last_packet(snapshot["last_packet"])))
    if snapshot["by_client"]:
        parts.append(_clients(snapshot["by_client"]))
    if busiest := snapshot["busiest"][:flows]:
        parts.append(_flows(busiest))
    if (unread := snapshot.get("unread")) and unread["connections"]:
        parts.append(Text(_unread(unread)))
    if snapshot["refusals"]:
        parts.append(Text(f"refused: {_reasons(snapshot['refusals'])}"))
    if snapshot["drops"]:
        parts.append(Text(f"dropped: {_reasons(snapshot['drops'])}"))
    if lines := snapshot.get("dropped_lines"):
        parts.append(Text(f"nobody reads what it prints: {number_of(lines, 'line')} dropped"))
    parts += [Text(note, style="italic") for note in snapshot["notes"]]
    return Group(*parts, Text(""))


def _last_packet(last: dict[str, Any]) -> str:
    """Where one of the last packets went, and what the scheduler says of it."""
    return f"a packet went over {last['path']}: {last['scheduler_says'] or 'this scheduler gives no reasons'}"


def _unread(unread: dict[str, Any]) -> str:
    """Line about connections that hold memory without being read."""
    most = ", ".join(f"{target_name(flow)} {amount(flow['bytes'])}" for flow in unread["most"])
    held = f"not read: {number_of(unread['connections'], 'connection')} with {amount(unread['bytes'])} ({most})"
    return f"{held}, {amount(unread['promised'])} of {amount(unread['memory'])} of memory are promised"


def _reasons(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()))


def _title(snapshot: Snapshot) -> str:
    at = snapshot["ports"] or [address for address in [snapshot["listening"]] if address]
    where = f" at {', '.join(at)}" if at else ""
    title = f"weft {snapshot['program']}{where} ({snapshot['pid']}): {snapshot['state']}"
    if snapshot["state"] not in CARRYING:
        done = snapshot["had"] + snapshot["done"]
        return f"{title}, {amount(done)} of {amount(snapshot['bytes'])}" if snapshot["bytes"] else title
    clients = f", {number_of(snapshot['clients'], 'client')}" if snapshot["listening"] else ""
    classes = ", ".join(f"{count} {name}" for name, count in snapshot["by_class"].items() if count)
    scheduler = f", scheduler {snapshot['scheduler']}" if snapshot.get("scheduler") else ""
    connections = number_of(snapshot["flows"], "connection") + (f" ({classes})" if classes else "")
    return f"{title}{scheduler}{clients}, {connections}"


def _table(*columns: str) -> Table:
    table = plain_table(None)
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if at else "left", no_wrap=True)
    return table


class Minute:
    """The last minute of a link. Where there is no room for all of it, the latest part is shown."""

    def __init__(self, bars: str) -> None:
        self.bars = bars

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, max(len(self.bars), 1))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.bars[-options.max_width :], justify="right")


def _links(paths: list[dict[str, Any]]) -> Table:
    table = _table("link", "Mbit/s", "last minute", "round trip", "queue", "lost", "tier", "cap left", "")
    # The only column that gives way.
    table.columns[2].no_wrap = False
    minutes = sparklines([path["minute"] for path in paths])
    for path, minute in zip(paths, minutes, strict=True):
        policy = path.get("policy") or {}
        rtt = NOTHING if path["srtt_ms"] is None else f"{path['srtt_ms']:.1f} ms"
        queue = queue_ms(path)
        waits = NOTHING if queue is None else f"{queue:.1f} ms"
        lost = f"{100 * path['lost'] / path['packets']:.1f} %" if path["packets"] else NOTHING
        left = NOTHING if policy.get("left") is None else amount(policy["left"])
        state = "down" if not path["up"] else "" if policy.get("open", True) else "closed"
        row = [f"{path['mbps']:.1f}", Minute(minute), rtt, waits, lost, policy.get("tier", NOTHING), left, state]
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
    table = _table("connection", "class", "sent", "received", "links")
    table.columns[-1].justify = "left"
    for flow in flows:
        table.add_row(
            Text(target_name(flow)), flow["class"], amount(flow["up"]), amount(flow["down"]), Text(path_shares(flow))
        )
    return table


def sparklines(minutes: list[list[float]]) -> list[str]:
    """The last minute of each link in bars, all of one scale, the latest on the right.

    Each bar is the mean of as many seconds as it stands for.
    """
    means = [_means(rates, MINUTE // MINUTE_WIDTH) for rates in minutes]
    most = max((mean for some in means for mean in some), default=0.0) or 1.0
    return [bars(some, most) for some in means]


def _means(rates: list[float], seconds: int) -> list[float]:
    groups = [rates[max(0, end - seconds) : end] for end in range(len(rates), 0, -seconds)]
    return [sum(group) / len(group) for group in reversed(groups)]
