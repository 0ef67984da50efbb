"""From what left and what came to a line for each moment: the rate, the delay and the losses of a direction.

Times are by the clock of the end with the links, in ns from the begin of the recording.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from . import probes
from .arrivals import BIN, BIN_NS, MOST_QUEUE_US, PROBE, Record
from .channel import RoundTrip
from .probes import STEP_NS
from .recording import Line, Recorded

LOSS_STEPS = 10
"""A share of losses is of so many steps: 80 packets."""

SLOW_SENDER = 0.5
"""A train says nothing of the link if its sender took more than this share of the time in which it arrived."""

LEAST_OF_TRAIN = 3
"""Packets, first and last included, between which a train's rate is taken."""

EMPTY_QUEUE_US = 1000
EMPTY_SHARE = 0.2
"""A link was not always full in a step if in more than this share of its time no load waited and none was lost."""


@dataclass(frozen=True)
class Direction:
    """What is known of one direction of a path."""

    records: Sequence[Record]
    """In the order in which they came; times from the begin of the recording."""
    trains: Mapping[int, int]
    """When the probes of trains left, by their numbers; by any clock, since only differences count."""
    origin_ns: int
    """When the first probe left."""
    round_trips: Sequence[tuple[int, int]]
    """When each was complete, and how long it took."""


@dataclass(frozen=True)
class Step:
    """What a link does from one line to the next."""

    mbps: float | None
    """Of IP bytes."""
    delay_ms: float | None
    """One way: half a round trip."""
    loss_percent: float | None


@dataclass
class Estimate:
    """A direction of a path."""

    steps: list[Step]
    not_full: int = 0
    """Under load: in so many steps the link may have carried more."""
    slow: bool = False
    """Of trains: none left faster than the link carries, so that the link carries at least the rate."""
    rtt_ms: float | None = None
    """The median round trip; under load, of the time before it."""
    probes_sent: int = 0
    probes_lost: int = 0

    @property
    def mean_mbps(self) -> float | None:
        """The mean rate."""
        return _mean([step.mbps for step in self.steps])


@dataclass
class Path:
    """Both directions, seen from the end with the links."""

    name: str
    up: Estimate
    down: Estimate

    @property
    def directions(self) -> dict[str, Estimate]:
        """Both, by name."""
        return {"down": self.down, "up": self.up}


def paths(recorded: Recorded) -> list[Path]:
    """All paths of a recording, for as many steps as are known of each."""
    offset_ns = clock_offset_ns([trip for line in recorded.lines if line.channel for trip in line.channel.round_trips])
    sides = [_sides(recorded, line, offset_ns) for line in recorded.lines]
    ends = [_known(up) for line, (up, _) in zip(recorded.lines, sides, strict=True) if not line.is_complete]
    count, load = min([recorded.steps, *ends]), recorded.plan.load
    return [
        Path(line.name, estimate(up, count, load), estimate(down, count, load))
        for line, (up, down) in zip(recorded.lines, sides, strict=True)
    ]


def clock_offset_ns(trips: Sequence[RoundTrip]) -> int:
    """The other end's clock less this one's, by the shortest round trip: no more than half of it can be wrong."""
    return min(trips, key=lambda trip: trip.rtt_ns).offset_ns if trips else 0


def _sides(recorded: Recorded, line: Line, offset_ns: int) -> tuple[Direction, Direction]:
    """What is known of a path, up and down."""
    channel, begin_ns = line.channel, recorded.begin_ns
    assert channel is not None, "it was greeted"
    trips = [(trip.at_ns - begin_ns, trip.rtt_ns) for trip in channel.round_trips]
    shift_ns = offset_ns + begin_ns
    down = Direction(
        _shifted(channel.arrivals.records, begin_ns), channel.trains, line.other_begin_ns - shift_ns, trips
    )
    up = Direction(_shifted(line.records, shift_ns), channel.probes_sent_ns, channel.begin_ns - begin_ns, trips)
    return up, down


def _known(up: Direction) -> int:
    """In how many steps it is known what came, of a direction whose last records did not arrive."""
    return max(max((one.arrived_ns for one in up.records), default=0) // STEP_NS, 0)


def _shifted(records: Sequence[Record], by_ns: int) -> list[Record]:
    return [replace(one, arrived_ns=one.arrived_ns - by_ns) for one in records]


def estimate(direction: Direction, count: int, under_load: bool) -> Estimate:
    """What the link did in each of the first `count` steps."""
    made = Estimate([])
    carried = [0.0] * count
    came = [False] * count
    for record in direction.records:
        _spread(record, carried, came)
    delays = _delays(direction, count)
    if under_load:
        rates: list[float | None] = [bytes_ * 8e3 / STEP_NS for bytes_ in carried]
        made.not_full = _not_full(direction, count)
        before = [rtt for at, rtt in direction.round_trips if at < 0]
        # Probes that wait behind our own load tell neither the delay nor the losses of the link.
        quiet = before[: max(len(before) // 2, 1)]
        delays = [median(quiet) / 2e6 if quiet else None, *([None] * (count - 1))][:count]
        losses: list[float | None] = [None] * count
        made.rtt_ms = median(quiet) / 1e6 if quiet else None
    else:
        rates, made.slow = _train_rates(direction, came)
        losses, made.probes_sent, made.probes_lost = _losses(direction, came)
        trips = [rtt for at, rtt in direction.round_trips if 0 <= at < count * STEP_NS]
        made.rtt_ms = median(trips) / 1e6 if trips else None
    made.steps = [Step(*one) for one in zip(_begun(rates), _begun(delays), _begun(losses), strict=True)]
    return made


def _spread(record: Record, carried: list[float], came: list[bool]) -> None:
    """Adds the bytes of a record to the steps in which they came: those of a bin evenly."""
    took = BIN_NS if record.kind == BIN else 0
    step, rest = divmod(record.arrived_ns, STEP_NS)
    later = max(rest + took - STEP_NS, 0) / took if took else 0.0
    for at, share in ((step, 1 - later), (step + 1, later)):
        if share > 0 and 0 <= at < len(carried):
            carried[at] += share * record.size
            came[at] = True


def _train_rates(direction: Direction, came: Sequence[bool]) -> tuple[list[float | None], bool]:
    """What each step's train reached, 0 where nothing came at all; and whether all left too slowly to say more."""
    trains: dict[int, list[Record]] = {}
    for record in direction.records:
        if record.kind == PROBE and (train := probes.in_train(record.number)) is not None:
            trains.setdefault(train, []).append(record)
    clean: list[float | None] = [None if any_ else 0.0 for any_ in came]
    every = list(clean)
    for some in trains.values():
        some.sort(key=lambda record: record.number)
        at = some[0].arrived_ns // STEP_NS
        if not 0 <= at < len(came) or (found := train_mbps(some, direction.trains)) is None:
            continue
        mbps, left_fast = found
        every[at] = mbps
        if left_fast:
            clean[at] = mbps
    slow = not any(clean) and any(every)
    return (every, True) if slow else (clean, False)


def train_mbps(train: Sequence[Record], left_ns: Mapping[int, int]) -> tuple[float, bool] | None:
    """The rate at which a train arrived, and whether it left at twice that rate or more."""
    first, last = train[0], train[-1]
    took = last.arrived_ns - first.arrived_ns
    if last.number - first.number + 1 < LEAST_OF_TRAIN or took <= 0:
        return None
    # What is lost between them was on the link, too.
    bits = (last.number - first.number) * last.size * 8
    sent = left_ns[last.number] - left_ns[first.number] if {first.number, last.number} <= set(left_ns) else took
    return bits * 1e3 / took, sent <= SLOW_SENDER * took


def _losses(direction: Direction, came: Sequence[bool]) -> tuple[list[float | None], int, int]:
    """The share that is lost of the probes of some steps; without the steps in which the link carried nothing."""
    there = {record.number for record in direction.records if record.kind == PROBE}
    found: list[float | None] = [None] * len(came)
    all_sent = all_lost = 0
    for begin in range(0, len(came), LOSS_STEPS):
        sent = [
            number
            for step in range(begin, min(begin + LOSS_STEPS, len(came)))
            if came[step]
            for number in _left_in(direction, step)
        ]
        lost = sum(number not in there for number in sent)
        all_sent, all_lost = all_sent + len(sent), all_lost + lost
        if sent:
            found[begin] = 100 * lost / len(sent)
    return found, all_sent, all_lost


def _left_in(direction: Direction, step: int) -> range:
    begin_ns = step * STEP_NS - direction.origin_ns
    return probes.between(begin_ns, begin_ns + STEP_NS)


def _delays(direction: Direction, count: int) -> list[float | None]:
    by_step: list[list[int]] = [[] for _ in range(count)]
    for at, rtt in direction.round_trips:
        if 0 <= at < count * STEP_NS:
            by_step[at // STEP_NS].append(rtt)
    return [median(some) / 2e6 if some else None for some in by_step]


def _not_full(direction: Direction, count: int) -> int:
    """In how many steps load came, and the link had nothing left to do for a while."""
    bins = [one for one in direction.records if one.kind == BIN and one.number < MOST_QUEUE_US]
    times = [one.arrived_ns for one in bins]
    found = 0
    for step in range(count):
        some = bins[bisect_left(times, step * STEP_NS) : bisect_left(times, (step + 1) * STEP_NS)]
        empty = sum(one.number < EMPTY_QUEUE_US and not one.lost for one in some)
        found += empty > EMPTY_SHARE * max(len(some), 1)
    return found


def _begun(values: list[float | None]) -> list[float | None]:
    """A drive begins with a value: the first that was measured."""
    first = next((value for value in values if value is not None), None)
    return [first, *values[1:]] if values else values


def _mean(values: Sequence[float | None]) -> float | None:
    """Of values that hold until the next one."""
    known, now = [], None
    for value in values:
        now = now if value is None else value
        if now is not None:
            known.append(now)
    return sum(known) / len(known) if known else None
