"""Messages: random scenarios in which an application sends small messages at intervals, and their delays count.

The links are those of `cells`. All draws are of the stream `messages/SEED/k`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weftway.sample.quantities import rounded
from weftway.sample.stream import Stream

from .cells import CONTROLLERS, MSS, Link, block, expected_mbps, link, link_keys, options, transport

MOST_PATHS = 3
SIZE_BYTES = (200, 50_000)
LOAD = (0.05, 0.5)
"""The share of what the links are expected to carry: no message waits for long behind those before it."""
PERIOD_MS = (5.0, 100.0)
SECONDS = 10.0
"""Time for which messages are sent."""
NAGLE = 0.5
"""The share of cells whose application does not set `TCP_NODELAY`."""
TIME_LIMIT_S = 60


@dataclass(frozen=True)
class MessageCell:
    """Scenario of small messages."""

    seed: int
    number: int
    cc: str
    links: tuple[Link, ...]
    bytes: int
    """Bytes of a message."""
    period_ms: float
    count: int
    nodelay: bool

    @property
    def title(self) -> str:
        return f"messages {self.number} of seed {self.seed}"

    @property
    def file_name(self) -> str:
        return f"{self.number:03}.toml"

    @property
    def line(self) -> str:
        """All of it in a line: `cubic 6000 B each 50 ms 10/10/1 q17 + 5/5/2 q5`."""
        held = "" if self.nodelay else " without nodelay"
        return (
            f"{self.cc} {self.bytes} B each {self.period_ms:g} ms {' + '.join(link.line for link in self.links)}{held}"
        )

    @property
    def text(self) -> str:
        """The scenario file. The data go up."""
        kind = transport(len(self.links))
        stack = [("stack", "linux-v1")] if kind == "mptcp" else []
        head = block(
            [
                ("title", self.title),
                ("transport", kind),
                *stack,
                ("direction", "upload"),
                ("scheduler", "linux-v1" if stack else "min-rtt"),
                ("cc", self.cc),
                ("time_limit", f"{TIME_LIMIT_S} s"),
            ]
        )
        paths = [f"[path.p{k}]\n{block(link_keys(link))}" for k, link in enumerate(self.links, start=1)]
        message = [("kind", "messages"), ("size", f"{self.bytes} B"), ("period", f"{self.period_ms:g} ms")]
        work = f"[workload]\n{block(message)}count  = {self.count}\n"
        return "\n".join([head, options(("nodelay", str(self.nodelay).lower())), *paths, work])


def cells(seed: int, count: int) -> Sequence[MessageCell]:
    """The first `count` cells of a seed."""
    return [cell(seed, number) for number in range(count)]


def cell(seed: int, number: int) -> MessageCell:
    """Cell `number` of a seed."""
    stream = Stream(f"messages/{seed}/{number}")
    cc = stream.one_of(CONTROLLERS)
    links = tuple(link(stream) for _ in range(stream.count(1, MOST_PATHS)))
    rate = sum(expected_mbps(link, cc, MSS[transport(len(links))]) for link in links)
    load, wanted, nodelay = stream.log(LOAD), stream.log(SIZE_BYTES), not stream.chance(NAGLE)
    shortest, longest = PERIOD_MS
    period = min(max(rounded(wanted * 8 / (load * rate * 1e3)), shortest), longest)
    # Where the period is bounded, the size follows from the load.
    bytes_ = round(rounded(min(wanted, load * rate * 1e3 * period / 8)))
    return MessageCell(seed, number, cc, links, bytes_, period, round(SECONDS * 1e3 / period), nodelay)
