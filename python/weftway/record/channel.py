"""One path at one end: packets in, packets out, and when to come back. No socket, and no clock of its own."""

from dataclasses import dataclass, replace

from . import probes
from .arrivals import Arrivals
from .window import KNOCK_NS, Window
from .wire import ASK, FULL_BYTES, LOAD, Feedback, Kind, Packet, Plan, Probe, packed

QUIET_NS = 2_000_000_000
"""Load begins after this time, in which round trips are those without load."""

FEEDBACK_NS = 20_000_000

ANSWERED_BYTES_PER_S = 25_000
"""Ten times what records take, for those that are lost; a peer that asks for more gets nothing."""

MOST_NUMBER, MOST_WAIT_NS = 2**32 - 2, 3_600_000_000_000
"""What no honest peer says: more packets than a number counts, and a wait of an hour."""

PROBED_BESIDE_NS = 60_000_000_000
"""No honest peer sends probes for longer than this before and after what is recorded."""

REST = 0.02
"""The share of the cap that load and probes leave: half of it for feedback, the other half for answers alone."""

BURST = 64
"""No more packets of load leave before the other paths have their turn."""


@dataclass(frozen=True)
class RoundTrip:
    """What a probe that came back with an answer says. `offset_ns`: the other end's clock less this one's."""

    at_ns: int
    rtt_ns: int
    offset_ns: int


class Channel:
    """What is sent on a path and what came there."""

    def __init__(self, session: bytes, path: int, plan: Plan, begin_ns: int, header: int) -> None:
        """It begins at `begin_ns`. `header` is what IP and UDP add to a packet, in bytes."""
        self._session, self._path, self._plan = session, path, plan
        self.begin_ns = begin_ns
        self._header = header
        self._probes = 0
        self.probes_sent_ns: dict[int, int] = {}
        self._load, self._load_sent_ns = 0, 0
        self._window = Window()
        self.sent_bytes = 0
        self.is_spent = False
        """Whether the cap allows no more."""
        self.other_is_spent = False
        self.arrivals = Arrivals()
        self._most_probes = probes.between(0, plan.seconds * 1_000_000_000 + PROBED_BESIDE_NS).stop
        self._came_probes: set[int] = set()
        self.trains: dict[int, int] = {}
        """When probes of trains left, by their number and the other end's clock."""
        self.round_trips: list[RoundTrip] = []
        self._echo, self._echo_ns = 0, 0
        self._fastest_ns: int | None = None
        self._came = 0
        self._newest = Feedback(path, 0, 0, 0, 0, 0, False)
        self._feedback_ns: int | None = None
        self._answered_bytes = 0
        self._is_over = False

    def end_load(self) -> None:
        """No more load leaves, and none is answered: so the other end has nothing that makes it go on."""
        self._is_over, self._feedback_ns = True, None

    def receive(self, arrived_ns: int, packet: Packet, size: int) -> None:
        """A packet of `size` bytes came."""
        bytes_ = size + self._header
        if packet.kind == Kind.PROBE:
            probe = Probe.unpack(packet.body)
            # Each once, and no more than there can be: what is kept of a peer does not grow as it likes.
            if probe and probe.number < self._most_probes and probe.number not in self._came_probes:
                self._came_probes.add(probe.number)
                self._on_probe(arrived_ns, probe, bytes_)
        elif packet.kind == Kind.LOAD:
            if len(packet.body) >= LOAD.size:
                number, sent_ns = LOAD.unpack_from(packet.body)
                self._on_load(arrived_ns, min(number, MOST_NUMBER), sent_ns, bytes_)
        else:
            self.arrivals.add(arrived_ns, bytes_)

    def on_feedback(self, arrived_ns: int, told: Feedback) -> None:
        """The other end tells what it has got of the load on this path."""
        self.other_is_spent = told.is_spent
        self._window.on_feedback(arrived_ns, told, self._load)

    def _on_probe(self, arrived_ns: int, probe: Probe, size: int) -> None:
        self.arrivals.add_probe(arrived_ns, probe.number, size)
        if probes.in_train(probe.number) is not None:
            self.trains[probe.number] = probe.sent_ns
        if probe.number + 1 > self._echo:
            self._echo, self._echo_ns = probe.number + 1, arrived_ns
        if (left := self.probes_sent_ns.get(probe.echo - 1)) is not None:
            waited = probe.sent_ns - probe.echo_arrived_ns
            there, back = probe.echo_arrived_ns - left, probe.sent_ns - arrived_ns
            self.round_trips.append(RoundTrip(arrived_ns, max(arrived_ns - left - waited, 0), (there + back) // 2))

    def _on_load(self, arrived_ns: int, number: int, sent_ns: int, size: int) -> None:
        took = arrived_ns - sent_ns
        self._fastest_ns = took if self._fastest_ns is None else min(self._fastest_ns, took)
        queue_ns = min(took - self._fastest_ns, MOST_WAIT_NS)
        lost = max(number - self._newest.expected, 0)
        self.arrivals.add(arrived_ns, size, queue_ns // 1000, lost)
        self._came += 1
        if number + 1 > self._newest.expected:
            self._newest = replace(self._newest, expected=number + 1, sent_ns=sent_ns, queue_ns=queue_ns)
        if self._feedback_ns is None and not self._is_over:
            self._feedback_ns = arrived_ns

    def due(self, now_ns: int) -> list[bytes]:
        """What leaves now."""
        self.arrivals.close(now_ns)
        found = []
        while self.begin_ns + probes.due_ns(self._probes) <= now_ns and self._may_send():
            found.append(self._probe(now_ns))
        if self._plan.load and not self._is_over and now_ns >= self.begin_ns + QUIET_NS:
            room = min(self._window.room(now_ns, self._load, self._load_sent_ns), BURST)
            while room > 0 and self._may_send():
                found.append(self._next_load(now_ns))
                room -= 1
        return found

    def wake_ns(self, now_ns: int) -> int:
        """When something is due next, if nothing comes."""
        found = [] if self._feedback_ns is None else [self._feedback_ns]
        if not self.is_spent:
            found.append(self.begin_ns + probes.due_ns(self._probes))
        if self._plan.load and not self.is_spent and not self._is_over:
            begins = self.begin_ns + QUIET_NS
            free = self._window.in_flight(self._load) < self._window.limit
            found.append(max(begins, now_ns if free else self._load_sent_ns + KNOCK_NS))
        return min(found, default=now_ns + 1_000_000_000)

    def _may_send(self) -> bool:
        """Whether the cap allows another probe, or packet of load."""
        self.is_spent = self.is_spent or not self._has_left(REST)
        return not self.is_spent

    def _has_left(self, share: float) -> bool:
        """Whether this share of the cap is left after another packet."""
        return self.sent_bytes + FULL_BYTES + self._header <= self._plan.cap * (1 - share)

    def _packed(self, kind: Kind, body: bytes, size: int = 0) -> bytes:
        data = packed(kind, self._path, self._session, body, size)
        self.sent_bytes += len(data) + self._header
        return data

    def _probe(self, now_ns: int) -> bytes:
        number = self._probes
        self._probes += 1
        self.probes_sent_ns[number] = now_ns
        # Under load, what arrives tells the rate.
        is_full = probes.in_train(number) is not None and not self._plan.load
        body = Probe(number, now_ns, self._echo, self._echo_ns).pack()
        return self._packed(Kind.PROBE, body, FULL_BYTES if is_full else probes.SINGLE_BYTES)

    def _next_load(self, now_ns: int) -> bytes:
        body = LOAD.pack(self._load, now_ns)
        self._load += 1
        self._load_sent_ns = now_ns
        return self._packed(Kind.LOAD, body, FULL_BYTES)

    def feedback(self, now_ns: int) -> Feedback | None:
        """What this end has got of the load, if it is time to tell."""
        if self._feedback_ns is None or now_ns < self._feedback_ns:
            return None
        self._feedback_ns = now_ns + FEEDBACK_NS
        return replace(self._newest, now_ns=now_ns, count=self._came, is_spent=self.is_spent)

    def told(self, feedback: Feedback) -> list[bytes]:
        """Feedback about this path or another one, as it leaves here, if the cap allows it."""
        return [self._packed(Kind.FEEDBACK, feedback.pack())] if self._has_left(REST / 2) else []

    def ask(self, path: int, first: int) -> bytes:
        """Asks for the other end's records of a path, from `first` on."""
        return self._packed(Kind.ASK, ASK.pack(path, first))

    def answer(self, records: bytes) -> list[bytes]:
        """The answer to that, unless more was asked for than there can be, or than the cap allows."""
        if self._answered_bytes > ANSWERED_BYTES_PER_S * self._plan.seconds or not self._has_left(0):
            return []
        data = self._packed(Kind.RECORDS, records)
        self._answered_bytes += len(data) + self._header
        return [data]
