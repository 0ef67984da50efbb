"""The end with the links: greets the other one over each of them, measures, and fetches what the other one got."""

import secrets
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weftway import transfer
from weftway._native import TransferError

from . import arrivals, places
from .arrivals import Record
from .channel import QUIET_NS, Channel
from .listening import SILENCE_NS
from .probes import STEP_NS
from .wire import (
    HELLO_BYTES,
    READY,
    RECORDS_PER_PACKET,
    SESSION_BYTES,
    Feedback,
    Kind,
    Packet,
    Plan,
    other_version,
    packed,
    unpacked,
    versions_differ,
)

ANSWER_NS = 5_000_000_000
"""The other end is not there, or a link leads nowhere, if nothing comes within this time."""

AGAIN_NS = 250_000_000
"""What is not answered is asked again after this time."""

SETTLE_NS = 1_000_000_000
"""The recording begins so long after the probes, or after the load."""

SILENT_NS = 2_000_000_000
"""A path from which nothing comes for so long is greeted again: its address may be another one."""

FETCH_NS = 1_000_000_000
"""From one question for records to the next, while the recording goes on."""

LINGER_NS = 1_000_000_000
"""What left at the end of the recording is there after this time, or lost."""

DRAIN_NS = 10_000_000_000
"""How long the other end is asked for its last records."""

Tell = Callable[[int, int], None]


@dataclass
class Line:
    """One path from this end."""

    name: str
    socket: socket.socket
    peer: places.Address
    greeted_ns: int = -AGAIN_NS
    cookie: bytes | None = None
    channel: Channel | None = None
    other_begin_ns: int = 0
    """When the other end began on it, by its own clock."""
    heard_ns: int = 0
    records: list[Record] = field(default_factory=list)
    """What the other end got, as far as it is known here."""
    asked_ns: int = 0
    is_complete: bool = False
    """Whether the other end's records are all here."""
    waiting: list[bytes] = field(default_factory=list)
    """What the socket did not take."""


@dataclass(frozen=True)
class Recorded:
    """What was measured, from `begin_ns` to `end_ns` by this end's clock."""

    lines: list[Line]
    plan: Plan
    begin_ns: int
    end_ns: int
    spent: str | None
    """The path whose cap was spent before the end."""
    interrupted: bool
    missing: str | None
    """Why records of the other end are missing, if they are."""

    @property
    def steps(self) -> int:
        """How many steps of a drive there are between begin and end."""
        return max(self.end_ns - self.begin_ns, 0) // STEP_NS


class Recorder:
    """A recording over several paths."""

    def __init__(self, paths: Sequence[str], peer: str, plan: Plan, tell: Tell) -> None:
        """`tell` is told for how many seconds of how many the other end was heard."""
        self._plan, self._tell, self._peer = plan, tell, peer
        self._session = secrets.token_bytes(SESSION_BYTES)
        self._lines: list[Line] = []
        self._is_over = False
        self._gone: str | None = None
        """Why the other end does not go on with this recording."""
        found = places.addresses(peer)
        try:
            for path in paths:
                self._lines.append(Line(path, *places.at(path, found)))
        except BaseException:
            self._close()
            raise

    def run(self) -> Recorded:
        """Measures, until the time is over, a cap is spent, the other end is gone, or Ctrl-C."""
        places.hurry()
        self._tell(0, self._plan.seconds)
        try:
            self._greet()
            return self._measure()
        finally:
            self._close()

    def _close(self) -> None:
        for line in self._lines:
            line.socket.close()

    def _greet(self) -> None:
        end = time.monotonic_ns() + ANSWER_NS
        while silent := [line.name for line in self._lines if line.channel is None]:
            if time.monotonic_ns() > end:
                raise TransferError(_no_answer(silent, self._peer, len(self._lines)))
            self._turn()

    def _measure(self) -> Recorded:
        settle_ns = (QUIET_NS if self._plan.load else 0) + SETTLE_NS
        begin = max(line.channel.begin_ns for line in self._lines if line.channel) + settle_ns
        end, spent, interrupted = begin + self._plan.seconds * 1_000_000_000, None, False
        try:
            while (now := time.monotonic_ns()) < end and spent is None and not self._is_gone(now):
                self._turn()
                spent = self._spent()
                self._fetch(now, FETCH_NS)
                self._tell(max(min(now, self._heard_ns()) - begin, 0) // 1_000_000_000, self._plan.seconds)
        except KeyboardInterrupt:
            interrupted = True
        end = min(time.monotonic_ns(), end)
        try:
            self._drain(end, (2_000_000_000 if interrupted else DRAIN_NS) + LINGER_NS)
        except KeyboardInterrupt:
            interrupted = True
        return Recorded(self._lines, self._plan, begin, end, spent, interrupted, self._missing())

    def _heard_ns(self) -> int:
        """When the other end was heard last, over any path."""
        return max(line.heard_ns for line in self._lines)

    def _is_gone(self, now_ns: int) -> bool:
        """Whether the other end does not go on: it says so, or has forgotten this recording, since all is silent."""
        return self._gone is not None or now_ns - self._heard_ns() > SILENCE_NS

    def _missing(self) -> str | None:
        if self._gone or self._is_complete():
            return self._gone
        silent_ns = time.monotonic_ns() - self._heard_ns()
        if silent_ns < SILENT_NS:
            return f"the last records of {self._peer} did not arrive"
        return f"{self._peer} has not answered for {silent_ns / 1e9:.0f} s"

    def _is_complete(self) -> bool:
        return all(line.is_complete for line in self._lines)

    def _spent(self) -> str | None:
        lines = (
            line for line in self._lines if line.channel and (line.channel.is_spent or line.channel.other_is_spent)
        )
        return next((line.name for line in lines), None)

    def _fetch(self, now_ns: int, every_ns: int) -> None:
        """Asks for records that are not here yet; for those of each path over itself, and then over another one."""
        count = len(self._lines)
        for at, line in enumerate(self._lines):
            if now_ns - line.asked_ns < every_ns or line.is_complete:
                continue
            line.asked_ns = now_ns
            via = self._lines[(at + now_ns // every_ns) % count]
            if via.channel:
                self._send(via, [via.channel.ask(at, len(line.records))])

    def _drain(self, end_ns: int, patience_ns: int) -> None:
        """Waits for what is under way, and fetches all records; then says goodbye."""
        for line in self._lines:
            if line.channel:
                line.channel.end_load()
        give_up_ns = time.monotonic_ns() + patience_ns
        while (now := time.monotonic_ns()) < give_up_ns and not self._is_complete() and not self._is_gone(now):
            self._turn()
            if now > end_ns + LINGER_NS:
                self._is_over = True
                self._fetch(now, AGAIN_NS)
        for _ in range(2):
            for at, line in enumerate(self._lines):
                self._send(line, [packed(Kind.BYE, at, self._session)])

    def _turn(self) -> None:
        """Sends what is due, and takes what has come before something is due again."""
        now = time.monotonic_ns()
        open_ = [(line, line.channel) for line in self._lines if line.channel]
        news = [told for _, channel in open_ if (told := channel.feedback(now))]
        for line, channel in open_:
            self._send(line, [data for told in news for data in channel.told(told)])
        for at, line in enumerate(self._lines):
            self._greet_again(now, at, line)
            if line.channel:
                out, line.waiting = line.waiting or line.channel.due(now), []
                self._send(line, out)
        wakes = [line.channel.wake_ns(now) for line in self._lines if line.channel and not line.waiting]
        wait_ns = min(wakes, default=now + 50_000_000) - time.monotonic_ns()
        busy = [line.socket for line in self._lines if line.waiting]
        sockets = [line.socket for line in self._lines]
        select.select(sockets, busy, [], min(max(wait_ns, 0), 50_000_000) / 1e9)
        for at, line in enumerate(self._lines):
            for one in places.received(line.socket):
                self._receive(at, line, one)

    def _send(self, line: Line, out: list[bytes]) -> None:
        for at, data in enumerate(out):
            if not places.send(line.socket, data, line.peer, []):
                line.waiting += out[at:]
                return

    def _greet_again(self, now_ns: int, at: int, line: Line) -> None:
        if line.channel and now_ns - line.heard_ns < SILENT_NS:
            return
        if now_ns - line.greeted_ns >= AGAIN_NS:
            line.greeted_ns = now_ns
            self._send(line, [packed(Kind.HELLO, at, self._session, size=HELLO_BYTES)])

    def _receive(self, at: int, line: Line, one: places.Received) -> None:
        theirs = other_version(one.data)
        packet = unpacked(one.data)
        if theirs is not None and line.channel is None:
            raise versions_differ(theirs)
        if packet is None or packet.session != self._session:
            return
        line.heard_ns = time.monotonic_ns()
        if packet.kind == Kind.COOKIE:
            self._send(line, [packed(Kind.START, at, self._session, self._plan.pack(packet.body[:16]))])
        elif packet.kind == Kind.REFUSED:
            reason = transfer.printable(packet.body.decode(errors="replace"))
            if line.channel is None:
                raise TransferError(f"{self._peer} refused: {reason}")
            self._gone = f"{self._peer} refused to go on: {reason}"
        elif packet.kind == Kind.READY and len(packet.body) >= READY.size:
            (other_begin_ns,) = READY.unpack_from(packet.body)
            if line.channel is None:
                line.other_begin_ns = other_begin_ns
                header = places.header(line.peer)
                line.channel = Channel(self._session, at, self._plan, time.monotonic_ns(), header)
            elif line.other_begin_ns != other_begin_ns:
                self._gone = f"{self._peer} began anew, and what it had got before is lost"
        elif line.channel:
            line.channel.receive(one.arrived_ns, packet, len(one.data))
            if packet.kind == Kind.RECORDS:
                self._take(packet)
            elif packet.kind == Kind.FEEDBACK:
                self._on_feedback(one.arrived_ns, packet)

    def _on_feedback(self, arrived_ns: int, packet: Packet) -> None:
        told = Feedback.unpack(packet.body)
        if told and told.path < len(self._lines) and (about := self._lines[told.path].channel):
            about.on_feedback(arrived_ns, told)

    def _take(self, packet: Packet) -> None:
        """Records of the other end; those that are here already are left out."""
        told = arrivals.unpacked(packet.body)
        if told is None or told[0] >= len(self._lines):
            return
        at, first, records = told
        line = self._lines[at]
        if first > len(line.records):
            return
        line.records += records[len(line.records) - first :]
        if len(records) == RECORDS_PER_PACKET:
            line.asked_ns = 0
        elif self._is_over:
            line.is_complete = True


def _no_answer(silent: Sequence[str], peer: str, paths: int) -> str:
    over = f"over {' and '.join(silent)}" if len(silent) < paths else "over any path"
    seconds = ANSWER_NS // 1_000_000_000
    hint = "is `weft record --listen` running there, and is its UDP port open?"
    if len(silent) < paths:
        hint = "the other paths have answers: has this link a route to it?"
    return f"no answer from {peer} {over} within {seconds} s; {hint}"
