"""The end that listens: it answers only peers that have shown where they are, one recording at a time.

Who has not shown it gets no more bytes than it sent (`Kind.COOKIE`, `Kind.OTHER_VERSION`), and nothing is kept of it.
"""

import secrets
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from weftway import transfer

from . import arrivals, places
from .channel import Channel
from .wire import ASK, HEAD, HELLO_BYTES, READY, SESSION_BYTES, Cookies, Feedback, Kind, Packet, Plan, other_version
from .wire import packed as wire_packed
from .wire import unpacked as wire_unpacked

MOST_SECONDS = 3600
MOST_PATHS = 16

SILENCE_NS = 30_000_000_000
"""A recording ends of which nothing is heard for so long: longer than most outages of all links."""

GONE_NS = 5_000_000_000
"""After this silence another recording may take its place."""

GRACE_NS = 20_000_000_000
"""What a recording takes before its first second and after its last."""

Out = list[tuple[bytes, places.Address]]


@dataclass
class Peer:
    """The other end of one path."""

    channel: Channel
    address: places.Address


@dataclass
class Session:
    """The recording that is going on."""

    name: bytes
    plan: Plan
    begin_ns: int
    heard_ns: int
    peers: dict[int, Peer] = field(default_factory=dict)


class Host:
    """What the listening end says to what: no socket, and no clock of its own."""

    def __init__(self, cap: int, secret: bytes, tell: Callable[[str], None]) -> None:
        """It grants `cap` bytes a path and direction at most. `tell` is told what goes on."""
        self._cap, self._tell = cap, tell
        self._cookies = Cookies(secret)
        self.session: Session | None = None

    def receive(self, now_ns: int, arrived_ns: int, data: bytes, address: places.Address) -> Out:
        """A packet came: what to answer."""
        if other_version(data) is not None:
            if len(data) < HELLO_BYTES:
                # As short as such an answer is itself: two ends would answer each other for ever.
                return []
            name = data[HEAD.size - SESSION_BYTES : HEAD.size]
            return [(wire_packed(Kind.OTHER_VERSION, 0, name), address)]
        packet = wire_unpacked(data)
        if packet is None:
            return []
        if packet.kind == Kind.HELLO:
            if len(data) < HELLO_BYTES:
                return []
            cookie = self._cookies.bake(now_ns, _text(address), packet.session, packet.path)
            return [(wire_packed(Kind.COOKIE, packet.path, packet.session, cookie), address)]
        if packet.kind == Kind.START:
            return self._start(now_ns, packet, address)
        session = self.session
        if session is None or packet.session != session.name:
            return []
        peer = session.peers.get(packet.path)
        if peer is None or peer.address != address:
            return []
        session.heard_ns = now_ns
        return self._heard(arrived_ns, packet, len(data), peer)

    def _start(self, now_ns: int, packet: Packet, address: places.Address) -> Out:
        asked = Plan.unpack(packet.body)
        if asked is None:
            return []
        cookie, plan = asked
        if not self._cookies.is_valid(cookie, now_ns, _text(address), packet.session, packet.path):
            return []
        if reason := self._obstacle(now_ns, packet, plan):
            return [(wire_packed(Kind.REFUSED, packet.path, packet.session, reason.encode()), address)]
        if self.session is None or self.session.name != packet.session:
            self.session = Session(packet.session, plan, now_ns, now_ns)
            load = f"load up to {transfer.amount(plan.cap)} a path and direction" if plan.load else "probes"
            self._tell(f"{address[0]}: {plan.paths} paths, {plan.seconds} s, {load}")
        session = self.session
        session.heard_ns = now_ns
        if peer := session.peers.get(packet.path):
            # Asked again: the answer was lost, or the path has another address since.
            peer.address = address
        else:
            channel = Channel(packet.session, packet.path, session.plan, now_ns, places.header(address))
            peer = session.peers[packet.path] = Peer(channel, address)
        ready = READY.pack(peer.channel.begin_ns)
        return [(wire_packed(Kind.READY, packet.path, packet.session, ready), address)]

    def _obstacle(self, now_ns: int, packet: Packet, plan: Plan) -> str | None:
        """Why what is asked for is not granted."""
        session = self.session
        if session and session.name != packet.session and now_ns - session.heard_ns < GONE_NS:
            return "it is busy with another recording"
        if plan.seconds > MOST_SECONDS:
            return f"a recording takes at most {MOST_SECONDS} s there"
        if plan.paths > MOST_PATHS or packet.path >= plan.paths:
            return f"a recording has at most {MOST_PATHS} paths there"
        if plan.cap > self._cap:
            asked, granted = transfer.amount(plan.cap), transfer.amount(self._cap)
            return f"it grants at most {granted} a path and direction, and {asked} are asked for; its --cap allows more"
        return None

    def _heard(self, arrived_ns: int, packet: Packet, size: int, peer: Peer) -> Out:
        assert self.session
        if packet.kind == Kind.BYE:
            self._end("finished")
            return []
        peer.channel.receive(arrived_ns, packet, size)
        if packet.kind == Kind.FEEDBACK:
            self._on_feedback(arrived_ns, packet)
        if packet.kind == Kind.ASK and len(packet.body) >= ASK.size:
            path, first = ASK.unpack_from(packet.body)
            if wanted := self.session.peers.get(path):
                records = arrivals.packed(path, first, wanted.channel.arrivals.records)
                return [(data, peer.address) for data in peer.channel.answer(records)]
        return []

    def _on_feedback(self, arrived_ns: int, packet: Packet) -> None:
        told = Feedback.unpack(packet.body)
        if told and self.session and (about := self.session.peers.get(told.path)):
            about.channel.on_feedback(arrived_ns, told)

    def due(self, now_ns: int) -> Out:
        """What leaves now without having been asked for in this moment."""
        session = self.session
        if session is None:
            return []
        if now_ns - session.heard_ns > SILENCE_NS:
            self._end(f"nothing was heard for {SILENCE_NS // 1_000_000_000} s")
            return []
        if now_ns - session.begin_ns > session.plan.seconds * 1_000_000_000 + GRACE_NS:
            self._end("over")
            return []
        peers = session.peers.values()
        news = [told for peer in peers if (told := peer.channel.feedback(now_ns))]
        found = [(data, peer.address) for told in news for peer in peers for data in peer.channel.told(told)]
        return found + [(data, peer.address) for peer in peers for data in peer.channel.due(now_ns)]

    def wake_ns(self, now_ns: int) -> int:
        """When something is due next, if nothing comes."""
        waits = [now_ns + 1_000_000_000]
        if self.session:
            waits += [peer.channel.wake_ns(now_ns) for peer in self.session.peers.values()]
        return min(waits)

    def is_peer(self, address: places.Address) -> bool:
        """Whether something is sent there without having been asked for."""
        return self.session is not None and any(peer.address == address for peer in self.session.peers.values())

    def _end(self, why: str) -> None:
        self._tell(why)
        self.session = None


def _text(address: places.Address) -> str:
    return f"{address[0]} {address[1]}"


def serve(opened: socket.socket, cap: int, tell: Callable[[str], None]) -> None:
    """Answers one recording after another until it is interrupted."""
    host = Host(cap, secrets.token_bytes(32), tell)
    places.hurry()
    backs: dict[places.Address, list[tuple[int, int, bytes]]] = {}
    waiting: Out = []
    while True:
        now_ns = time.monotonic_ns()
        out = waiting or host.due(now_ns)
        waiting = []
        for at, (data, address) in enumerate(out):
            if not places.send(opened, data, address, backs.get(address, [])):
                waiting = out[at:]
                break
        if host.session is None:
            backs.clear()
        wait_s = max(host.wake_ns(now_ns) - time.monotonic_ns(), 0) / 1e9
        select.select([opened], [opened] if waiting else [], [], 1.0 if waiting else wait_s)
        for one in places.received(opened):
            answers = host.receive(time.monotonic_ns(), one.arrived_ns, one.data, one.address)
            if answers and host.is_peer(one.address):
                backs[one.address] = one.back
            for data, address in answers:
                places.send(opened, data, address, one.back)
