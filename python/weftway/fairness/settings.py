"""Settings of the measurement: scenarios of `scenarios/fairness`, and the keys that are set in them.

The two flows change places with every second seed, and the start of the second one changes with every two: no flow has
the advantage of being the first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

FOLDER = "scenarios/fairness"
ONE_LINK, TWO_SUBFLOWS, TWO_OTHERS, TWO_LINKS, SHORT_FLOWS = (
    f"{FOLDER}/{name}.toml" for name in ("one-link", "two-subflows", "two-others", "two-links", "short-flows")
)

QUEUES = {25: "0.4", 100: "1.5", 400: "6"}
"""Queues of the link in packets, and in products of its rate and the round trip: 20 Mbit/s for 40 ms are 67 packets of
1500 B."""

LOSSES = ("0 %", "1 %")
"""Random losses of the link."""

RIVALS = ("cubic", "bbr3")
"""Controllers of the flow beside the one under test; every controller also stands beside itself."""

CUBIC = "cubic"

NEVER = "3600 s"
"""Start of a flow that is not to take part: after the end of every run."""


@dataclass(frozen=True)
class Run:
    """Scenario, keys and controller of one run."""

    file: str
    sets: tuple[str, ...]
    cc: str


SECONDS = 40
"""Length of a run: 1000 round trips of an empty queue."""


def length(run: Run, seconds: int) -> tuple[str, ...]:
    """Keys that make a run so long; one of a short flow is over with it."""
    return () if seconds == SECONDS or run.file == SHORT_FLOWS else (f"workload.duration={seconds} s",)


class Setting(Protocol):
    """Something that is measured, once with each seed."""

    def run(self, at: int) -> Run:
        """Run with the seed at this place of the list."""
        ...


def start(at: int) -> str:
    """Start of the second flow, within a second: one for each two seeds, of which either flow is the first in one."""
    return f"rival.start={(at // 2 * 570 + 200) % 1000} ms"


def is_swapped(at: int) -> bool:
    """Tells if the flow under test is the scenario's second one."""
    return at % 2 == 1


@dataclass(frozen=True)
class Sharing:
    """One flow of a controller, or several subflows of a connection, beside a flow of another over one link."""

    cc: str
    rival: str
    queue: int
    loss: str
    subflows: int = 1

    def run(self, at: int) -> Run:
        """Run with the seed at this place of the list."""
        keys = (f"link.shared.queue={self.queue} packets", f"link.shared.loss={self.loss}", start(at))
        if is_swapped(at):
            file = TWO_OTHERS if self.subflows > 1 else ONE_LINK
            return Run(file, (*keys, f"rival.cc={self.cc}"), self.rival)
        file = TWO_SUBFLOWS if self.subflows > 1 else ONE_LINK
        return Run(file, (*keys, f"rival.cc={self.rival}"), self.cc)


@dataclass(frozen=True)
class TwoLinks:
    """A connection over two links, or over one of them, beside CUBIC flows on both or on the first alone."""

    cc: str
    uses: str = "both"
    """`both`, `first` or `second`."""
    is_second_free: bool = False

    def run(self, at: int) -> Run:
        """Run with the seed at this place of the list."""
        unused = {"both": (), "first": ("own2",), "second": ("own1",)}[self.uses]
        roles = [f"path.{name}.role=backup" for name in (*unused, *(["other2"] if self.is_second_free else []))]
        return Run(TWO_LINKS, (*roles, start(at)), self.cc)


@dataclass(frozen=True)
class ShortFlow:
    """A short flow beside a flow that always sends, or by itself."""

    beside: str | None
    queue: int
    number: int
    """Its place among the short flows, from 0."""

    def opens_ms(self, at: int) -> int:
        """Time at which it opens: between 5 and 15 s, when the other one has left slow start."""
        return 5000 + 400 * self.number + 90 * at

    def run(self, at: int) -> Run:
        """Run with the seed at this place of the list."""
        keys = (f"link.shared.queue={self.queue} packets", opening(self.opens_ms(at)))
        rival = (start(at), f"rival.cc={self.beside}") if self.beside else (f"rival.start={NEVER}",)
        return Run(SHORT_FLOWS, (*keys, *rival), CUBIC)


FLOWS = 25
"""Short flows with each seed: 100 with four seeds, of which one is beyond the 99th percentile."""


def opening(ms: int) -> str:
    """Key that has the connection open at that time: its path is there from then on."""
    return f'path.own1.present=["{ms} ms.."]'


@dataclass(frozen=True)
class Link:
    """A link at which a flow starts."""

    rate: int
    """In Mbit/s."""
    queue: int
    """In packets."""


LINKS = (Link(5, 25), Link(5, 100), Link(20, 100))
"""Links at which a larger start is tried: a slow one with a short and with a long queue, and the usual one."""

STARTED_MS = 1000
"""Start of the flow whose initial window it is."""

STARTING = 20
"""Short flows with each seed, one every 25 ms in the half second after the start."""


@dataclass(frozen=True)
class Starting:
    """A short flow in the half second in which another flow starts with such an initial window."""

    beside: str
    window: int
    """In packets."""
    link: Link
    number: int
    """Its place among the short flows, from 0."""

    def opens_ms(self, at: int) -> int:
        """Time at which it opens."""
        return STARTED_MS + 25 * self.number + 6 * (at % 4)

    def run(self, at: int) -> Run:
        """Run with the seed at this place of the list."""
        keys = (
            f"link.shared.rate={self.link.rate} Mbit/s",
            f"link.shared.queue={self.link.queue} packets",
            opening(self.opens_ms(at)),
            f"rival.start={STARTED_MS} ms",
            f"rival.cc={self.beside}",
            f"rival.initial_window={self.window} packets",
        )
        return Run(SHORT_FLOWS, keys, CUBIC)


def of(controllers: Sequence[str], windows: Sequence[int] = ()) -> Iterator[Setting]:
    """Settings that are needed to judge these controllers."""
    for cc in controllers:
        yield from shares(cc)
        yield from goals(cc)
        yield from (ShortFlow(cc, queue, number) for queue in QUEUES for number in range(FLOWS))
        for window in windows:
            yield from starting(cc, window)
    # What others are held against.
    for beside in (None, CUBIC):
        yield from (ShortFlow(beside, queue, number) for queue in QUEUES for number in range(FLOWS))


def shares(cc: str) -> Iterator[Sharing]:
    """Settings of the shares of one controller."""
    for rival in rivals(cc):
        for subflows in (1, 2):
            yield from (Sharing(cc, rival, queue, loss, subflows) for loss in LOSSES for queue in QUEUES)


def starting(cc: str, window: int) -> Iterator[Starting]:
    """Settings of the short flows while a flow starts."""
    yield from (Starting(cc, window, link, number) for link in LINKS for number in range(STARTING))


def rivals(cc: str) -> list[str]:
    """Controllers beside which one stands."""
    return list(dict.fromkeys([*RIVALS, cc]))


def goals(cc: str) -> Iterator[TwoLinks]:
    """Settings of goals 1 and 3."""
    yield from (TwoLinks(cc, uses) for uses in ("both", "first", "second"))
    yield from (TwoLinks(cc, uses, is_second_free=True) for uses in ("both", "first"))
