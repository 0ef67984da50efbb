"""Random scenarios: cell *k* of a seed is the same whatever the number of cells, machine or version of Python.

All draws are of the stream `SEED/k`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from weftway.sample.quantities import rounded
from weftway.sample.stream import Stream

CONTROLLERS = ("newreno", "cubic", "bbr1")
"""Controllers that the kernel has, too: reno, cubic, bbr."""

MOST_PATHS = 4
RATE_MBPS = (1.0, 100.0)
DELAY_MS = (1.0, 75.0)
"""Delay of one way."""
LOSS_PERCENT = (0.01, 5.0)
LOSSLESS = 1 / 3
"""The share of paths without loss."""
QUEUE_BDP = (0.5, 4.0)
LEAST_QUEUE = 5
"""Packets. A shorter queue drops the burst of a single window update."""
STEADY = 0.5
"""The share of paths without jitter."""
JITTER = (0.01, 0.2)
"""Standard deviation, of the one-way delay."""
JITTER_MEMORY_MS = 20
"""As in the cells of `docs/explanation/fidelity.md`."""

AUTO_BUFFER = 0.5
"""The share of cells whose receive buffer grows by itself."""
BUFFER_KIB = (64, 4096)
"""The payload that a fixed receive buffer is asked for (`SO_RCVBUF`)."""
WRITE_KIB = (4, 4096)
"""Sizes of what the application writes at once; powers of two."""

HOST_JITTER = "50 us"
"""Mean lateness of the simulator's hosts: hosts of the kernel are never on time to the microsecond."""

SECONDS = 5.0
"""Time that a transfer is sized for: long against slow start, short enough for hundreds of runs."""
LEAST_BYTES = 100_000
TIME_LIMIT_S = 60
PACKET = 1500
MSS = {"tcp": 1448, "mptcp": 1428}


@dataclass(frozen=True)
class Link:
    """Path as the scenario says it. Zero loss or jitter is none."""

    rate_mbps: float
    delay_ms: float
    loss_percent: float
    queue_packets: int
    jitter_ms: float

    @property
    def line(self) -> str:
        """`10/10/1 q17 j2`: Mbit/s, ms one way, percent; packets; ms."""
        jitter = f" j{self.jitter_ms:g}" if self.jitter_ms else ""
        return f"{self.rate_mbps:g}/{self.delay_ms:g}/{self.loss_percent:g} q{self.queue_packets}{jitter}"


class SweepCell(Protocol):
    """Scenario of a sweep."""

    @property
    def number(self) -> int: ...

    @property
    def cc(self) -> str: ...

    @property
    def links(self) -> tuple[Link, ...]: ...

    @property
    def title(self) -> str: ...

    @property
    def line(self) -> str:
        """All of it in a line."""

    @property
    def file_name(self) -> str: ...

    @property
    def text(self) -> str:
        """The scenario file."""


@dataclass(frozen=True)
class Cell:
    """Scenario of the sweep, whose goodput is compared."""

    seed: int
    number: int
    cc: str
    links: tuple[Link, ...]
    bytes: int
    buffer_kib: int | None = None
    """The receive buffer; none: it grows by itself."""
    write_kib: int = 256
    """Size of what the application writes at once."""

    @property
    def title(self) -> str:
        return f"cell {self.number} of seed {self.seed}"

    @property
    def transport(self) -> str:
        return transport(len(self.links))

    @property
    def line(self) -> str:
        """All of it in a line: `cubic 12 MB 10/10/1 q17 j2 + 5/5/2 q5`."""
        buffer = f" buffer {self.buffer_kib} KiB" if self.buffer_kib else ""
        rest = f"{buffer} writes {self.write_kib} KiB"
        return f"{self.cc} {size(self.bytes)} {' + '.join(link.line for link in self.links)}{rest}"

    @property
    def file_name(self) -> str:
        return f"{self.number:03}.toml"

    @property
    def text(self) -> str:
        """The scenario file."""
        stack = [("stack", "linux-v1")] if self.transport == "mptcp" else []
        head = block(
            [
                ("title", self.title),
                ("transport", self.transport),
                *stack,
                ("direction", "upload"),
                ("scheduler", "linux-v1" if stack else "min-rtt"),
                ("cc", self.cc),
                ("time_limit", f"{TIME_LIMIT_S} s"),
            ]
        )
        paths = [f"[path.p{k}]\n{block(link_keys(link))}" for k, link in enumerate(self.links, start=1)]
        write = ("write", f"{self.write_kib} KiB")
        work = f"[workload]\n{block([('kind', 'bulk'), ('bytes', size(self.bytes)), write])}"
        buffer = [("receive_buffer", f'"{self.buffer_kib} KiB"')] if self.buffer_kib else []
        return "\n".join([head, options(*buffer), *paths, work])


def cells(seed: int, count: int, paths: int | None = None) -> list[Cell]:
    """The first `count` cells of a seed: of one to four paths, or all of `paths`."""
    return [cell(seed, number, paths) for number in range(count)]


def equal_shares(seed: int, count: int) -> list[Cell]:
    """The first `count` cells of a seed: one path, two, three, four, and from one again."""
    return [cell(seed, number, 1 + number % MOST_PATHS) for number in range(count)]


def cell(seed: int, number: int, paths: int | None = None) -> Cell:
    """Cell `number` of a seed. Buffer and writes are drawn last: they move no other draw."""
    stream = Stream(f"{seed}/{number}")
    cc, drawn = stream.one_of(CONTROLLERS), stream.count(1, MOST_PATHS)
    links = tuple(link(stream) for _ in range(paths or drawn))
    rate = sum(expected_mbps(link, cc, MSS[transport(len(links))]) for link in links)
    grows, buffer, write = stream.chance(AUTO_BUFFER), stream.log(BUFFER_KIB), stream.log(WRITE_KIB)
    buffer_kib = None if grows else round(rounded(buffer))
    if buffer_kib:
        rate = within_window(rate, buffer_kib, links)
    return Cell(
        seed,
        number,
        cc,
        links,
        bytes=max(round(rounded(rate * 1e6 / 8 * SECONDS)), LEAST_BYTES),
        buffer_kib=buffer_kib,
        write_kib=2 ** round(math.log2(write)),
    )


def link(stream: Stream) -> Link:
    """Draws a path. It takes the same number of draws whatever comes out."""
    rate, delay = rounded(stream.log(RATE_MBPS)), rounded(stream.log(DELAY_MS))
    lossless, loss = stream.chance(LOSSLESS), rounded(stream.log(LOSS_PERCENT))
    queue = queue_packets(rate, delay, stream.log(QUEUE_BDP), LEAST_QUEUE)
    steady, jitter = stream.chance(STEADY), rounded(delay * stream.linear(JITTER))
    return Link(rate, delay, 0.0 if lossless else loss, queue, 0.0 if steady else jitter)


def queue_packets(rate_mbps: float, delay_ms: float, bdp: float, least: int) -> int:
    """A queue of so many bandwidth-delay products, in packets."""
    return max(round(rounded(rate_mbps * 1e6 / 8 * 2 * delay_ms / 1e3 / PACKET * bdp)), least)


def expected_mbps(link: Link, cc: str, mss: int) -> float:
    """Roughly what a controller gets from a path: its rate, or what losses leave of it.

    Losses by Mathis et al., 1997: mss / rtt · √(3/2p), which measured cells with New Reno and CUBIC reach to a
    half at least. The model with timeouts (Padhye et al., 1998) is off by up to three on short paths, where
    selective acknowledgements avoid what it counts. BBR hardly reacts to losses.
    """
    share, loss = mss / PACKET, link.loss_percent / 100
    goodput = link.rate_mbps * share * (1 - loss)
    if cc == "bbr1" or not loss:
        return goodput
    return min(goodput, mss * 8 / 1e6 / (2 * link.delay_ms / 1e3) * math.sqrt(1.5 / loss))


def within_window(mbps: float, buffer_kib: int, links: Sequence[Link]) -> float:
    """Roughly what is left of a rate where the receive buffer is fixed.

    At most a buffer is on its way, and what is behind a packet waits for it: for the longest round trip that a path has
    when its queue is full. The times that a byte takes by either bound add up: where both are near, neither is reached.
    """
    longest = max(2 * link.delay_ms / 1e3 + link.queue_packets * PACKET * 8 / (link.rate_mbps * 1e6) for link in links)
    window = buffer_kib * 1024 * 8 / 1e6 / longest
    return 1 / (1 / mbps + 1 / window)


def transport(paths: int) -> str:
    return "mptcp" if paths > 1 else "tcp"


def size(count: int) -> str:
    """Bytes as a scenario file has them."""
    return f"{count / 1e6:g} MB" if count >= 1_000_000 else f"{count / 1e3:g} kB"


def link_keys(link: Link) -> list[tuple[str, str]]:
    keys = [("rate", f"{link.rate_mbps:g} Mbit/s"), ("delay", f"{link.delay_ms:g} ms")]
    if link.loss_percent:
        keys.append(("loss", f"{link.loss_percent:g} %"))
    keys.append(("queue", f"{link.queue_packets} packets"))
    if link.jitter_ms:
        keys.append(("jitter", f"correlated {link.jitter_ms:g} ms over {JITTER_MEMORY_MS} ms"))
    return keys


def options(*keys: tuple[str, str]) -> str:
    """The settings of the transport: these, with values as they are written, and how late hosts are."""
    lines = [*keys, ("host_jitter", f'"{HOST_JITTER}"')]
    width = max(len(key) for key, _ in lines)
    return "[options]\n" + "".join(f"{key:<{width}} = {value}\n" for key, value in lines)


def block(keys: list[tuple[str, str]]) -> str:
    """Lines `key = "value"` with their signs under one another."""
    width = max(len(key) for key, _ in keys)
    return "".join(f'{key:<{width}} = "{value}"\n' for key, value in keys)
