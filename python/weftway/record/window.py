"""How much load is under way: so much that the link always has something to send, and little more."""

from collections import deque

from .wire import Feedback

QUEUE_NS = 150_000_000
"""So long the load may wait in front of the link: some round trips, and less than what most links hold."""

LEAST_QUEUE_NS = 40_000_000
"""So long at least, however little the link holds: what is lost then is the price of a link that is never idle."""

EMPTY_NS = 10_000_000
"""If less than this waits, the link may carry more than arrives."""

GROWTH = 1.15
"""What is under way grows by this with each answer as long as the link may carry more: twofold in some 100 ms."""

LEAST_PACKETS = 10
"""So many are under way where nothing is known: the first window of RFC 6928."""

RATE_NS = 100_000_000
"""A rate is that of this time."""

BEST_NS = 500_000_000
"""The highest rate of this time counts: what arrives is less for a moment if this machine was late to send."""

TOO_MUCH_LOSS = 0.05
"""If more is lost, the link holds less than is under way."""

PEAK_SHARE = 0.25
PEAK_NS = 5_000_000_000
"""So much of what was under way of late stays so through an outage; the memory halves in this time. A link that is back
is full again at once."""

MOST_KEPT = 100
"""Answers come 20 ms apart: more of them than `BEST_NS` holds, and no peer makes it more."""

KNOCK_NS = 50_000_000
"""If nothing is known to arrive, one packet leaves so often."""


class Window:
    """As many packets as arrive in a round trip without our own queue, and the wanted queue on top."""

    def __init__(self) -> None:
        self.limit = LEAST_PACKETS
        self._queue_ns = float(QUEUE_NS)
        self._heeded_ns = 0
        self._peak = 0.0
        self._rates: deque[tuple[int, float]] = deque(maxlen=MOST_KEPT)
        self._told: deque[Feedback] = deque(maxlen=MOST_KEPT)
        self._expected = 0

    def in_flight(self, sent: int) -> int:
        """Packets under way of `sent`: those after the newest that arrived. Links keep the order nearly always."""
        return sent - self._expected

    def on_feedback(self, now_ns: int, told: Feedback, sent: int) -> None:
        """The other end tells what it has got; `sent` packets have left by now."""
        before = self._told[-1] if self._told else None
        if before and (told.now_ns <= before.now_ns or told.expected < before.expected):
            return
        self._told.append(told)
        self._expected = told.expected
        if before is None:
            return
        while len(self._told) > 2 and told.now_ns - self._told[1].now_ns >= RATE_NS:
            self._told.popleft()
        first = self._told[0]
        lossy = self._heed_losses(told, first)
        self._rates.append((told.now_ns, (told.count - first.count) / (told.now_ns - first.now_ns)))
        while told.now_ns - self._rates[0][0] > BEST_NS:
            self._rates.popleft()
        per_ns = max(rate for _, rate in self._rates)
        round_trip_ns = max(now_ns - told.sent_ns - told.queue_ns, 0)
        wanted = per_ns * (round_trip_ns + self._queue_ns)
        self._peak = max(self._peak * 0.5 ** ((told.now_ns - before.now_ns) / PEAK_NS), wanted)
        if told.queue_ns < EMPTY_NS and not lossy and told.expected > before.expected:
            is_used = self.in_flight(sent) > self.limit / 2
            wanted = max(wanted, self.limit * GROWTH if is_used else self.limit)
        self.limit = round(max(LEAST_PACKETS, wanted, self._peak * PEAK_SHARE))

    def _heed_losses(self, told: Feedback, first: Feedback) -> bool:
        """Whether much was lost since `first`; then less is to wait."""
        sent, came = told.expected - first.expected, told.count - first.count
        lossy = sent > 0 and (sent - came) / sent > TOO_MUCH_LOSS
        # What was lost is among what is told for that long.
        if lossy and told.now_ns - self._heeded_ns > RATE_NS:
            self._queue_ns, self._heeded_ns = max(self._queue_ns * 0.8, LEAST_QUEUE_NS), told.now_ns
        elif not lossy:
            self._queue_ns = min(self._queue_ns * 1.05, QUEUE_NS)
        return lossy

    def room(self, now_ns: int, sent: int, last_sent_ns: int) -> int:
        """How many packets may leave now."""
        room = self.limit - self.in_flight(sent)
        return room if room > 0 else int(now_ns - last_sent_ns >= KNOCK_NS)
