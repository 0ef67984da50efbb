"""How much load is under way: so much that the link always has something to send, and little more."""

from collections import deque

from .wire import Feedback

QUEUE_NS = 150_000_000
"""So long the load may wait in front of the link: twice what an outage of a radio frame or two lasts, and less than
what most links hold."""

LEAST_QUEUE_NS = 5_000_000

LEAST_PACKETS = 10
"""So many are under way where nothing is known: the first window of RFC 6928."""

RATE_NS = 100_000_000
"""The rate is that of this time."""

TOO_MUCH_LOSS = 0.05
"""If more is lost, the link holds less than is under way."""

KNOCK_NS = 50_000_000
"""If nothing is known to arrive, one packet leaves so often."""


class Window:
    """As many packets as arrive in a round trip without our own queue, and the wanted queue on top."""

    def __init__(self) -> None:
        self.limit = LEAST_PACKETS
        self._queue_ns = float(QUEUE_NS)
        self._told: deque[Feedback] = deque()
        self._expected = 0

    def in_flight(self, sent: int) -> int:
        """Packets under way of `sent`: those after the newest that arrived. Links keep the order nearly always."""
        return sent - self._expected

    def on_feedback(self, now_ns: int, told: Feedback) -> None:
        """The other end tells what it has got."""
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
        self._heed_losses(told.expected - first.expected, told.count - first.count)
        per_ns = (told.count - first.count) / (told.now_ns - first.now_ns)
        round_trip_ns = max(now_ns - told.sent_ns - told.queue_ns, 0)
        self.limit = max(LEAST_PACKETS, round(per_ns * (round_trip_ns + self._queue_ns)))

    def _heed_losses(self, sent: int, came: int) -> None:
        if sent > 0 and (sent - came) / sent > TOO_MUCH_LOSS:
            self._queue_ns = max(self._queue_ns * 0.9, LEAST_QUEUE_NS)
        else:
            self._queue_ns = min(self._queue_ns * 1.05, QUEUE_NS)

    def room(self, now_ns: int, sent: int, last_sent_ns: int) -> int:
        """How many packets may leave now."""
        room = self.limit - self.in_flight(sent)
        return room if room > 0 else int(now_ns - last_sent_ns >= KNOCK_NS)
