"""Watches the routes of a tunnel that runs, and sets again what other programs have taken away.

The kernel tells of each change of devices, addresses, routes, rules and tables of `nft` (rtnetlink(7)); then, and every
few seconds in any case, what is there is compared with what the tunnel needs.
"""

import select
import socket
import threading
import time
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import Protocol

from weftway import routing, routing_check
from weftway._native import TransferError
from weftway.routing import Plan, Routes

EVERY_S = 5.0
"""Time between two looks without a change that was told: messages get lost, and for some settings none is sent."""

SETTLE_S, PAUSE_S = 0.05, 1.0
"""Shortest time from a change to a look, since several changes come at once, and between two looks."""

MOST_MENDS, ANOTHER_MEND_S = 10, 30.0
"""Repairs in a row, and the time after which one more is allowed: another program may take away the same for ever."""

REPEAT_S = 600.0
"""Time after which the same is told again."""

KILL_SWITCH, SOURCES = "kill switch", "filter of sources"
"""Names of what a tunnel needs and `ip` does not set: the table of `nft`, and a loose `rp_filter`."""

_ROUTE_GROUPS = (
    # Groups of rtnetlink, as bits: link 1; addresses 5 and 9, routes 7 and 11, rules 8 and 19, settings 24 and 25.
    sum(1 << group - 1 for group in (1, 5, 9, 7, 11, 8, 19, 24, 25))
)
_NETFILTER, _NFTABLES_GROUP = 12, 1 << 7 - 1
"""The protocol of netfilter (linux/netlink.h), and its group for tables of nft (linux/netfilter/nfnetlink.h)."""


class Machine(Protocol):
    """A machine whose routes are watched."""

    def missing(self) -> list[str]:
        """Things that the tunnel needs and that are not there: lines for `ip`, `KILL_SWITCH`, `SOURCES`."""

    def make(self, missing: list[str]) -> str:
        """Sets these again; returns the complaint of the command that failed."""

    def beside(self) -> str | None:
        """Packets for the tunnel that go beside it though nothing is missing, in words."""


class TunnelMachine:
    """This machine with a tunnel."""

    def __init__(self, plan: Plan, routes: Routes) -> None:
        self._plan, self._routes = plan, routes

    def missing(self) -> list[str]:
        plan = self._plan
        missing = routing_check.missing(plan, routing_check.look(plan))
        if plan.kill_switch and not self._routes.is_closed_off():
            missing.append(KILL_SWITCH)
        if routing.strict_filters():
            missing.append(SOURCES)
        return missing

    def make(self, missing: list[str]) -> str:
        complaint = ""
        if KILL_SWITCH in missing:
            complaint = self._routes.close_off(self._plan)
        if SOURCES in missing:
            self._routes.loosen()
        lines = [line for line in missing if line not in (KILL_SWITCH, SOURCES)]
        complaint = self._routes.make(self._plan, lines, force=True) or complaint
        if any(line.startswith("link") or " address " in line for line in lines):
            routing.resolve_through(self._plan)
        return complaint

    def beside(self) -> str | None:
        return routing_check.beside(self._plan)


class Mender:
    """Sets again what is missing, each time that it is told to look, but not for ever."""

    def __init__(self, machine: Machine, now: float, *, kill_switch: bool = False) -> None:
        self._machine = machine
        self._mends, self._since = float(MOST_MENDS), now
        self._consequence = "packets do not reach the tunnel" if kill_switch else "packets go beside the tunnel"
        self._told: dict[str, float] = {}
        """Notes of the last ten minutes, and when they were told."""
        self.is_astray = False
        """True while packets of programs do not come to the tunnel."""

    def turn(self, now: float) -> list[str]:
        """Looks once; returns what the user is told."""
        try:
            notes = self._look(now)
        except OSError as error:
            # It has no memory for another process, or no descriptor: that may pass.
            notes = [f"the tunnel's routes cannot be looked at: {error.strerror}"]
        self._told = {note: told for note, told in self._told.items() if now - told < REPEAT_S}
        new = [note for note in notes if note not in self._told]
        self._told.update(dict.fromkeys(new, now))
        return new

    def _look(self, now: float) -> list[str]:
        notes, why = [], ""
        missing = self._machine.missing()
        if missing and not self._may_mend(now):
            why = f"another program takes away {_named(missing)} again and again"
        elif missing:
            complaint = self._machine.make(missing)
            still = self._machine.missing()
            mended = [line for line in missing if line not in still]
            if mended:
                notes.append(f"the tunnel was missing {_named(mended)}: set again")
            if still:
                why = f"missing {_named(still)}" + (f" ({complaint.splitlines()[0]})" if complaint else "")
        if not why and (route := self._machine.beside()):
            why = f"{route}, by a rule or a route of another program"
        if why:
            notes.append(f"{self._consequence}: {why}")
        elif self.is_astray:
            notes.append("packets come to the tunnel again")
        self.is_astray = bool(why)
        return notes

    def _may_mend(self, now: float) -> bool:
        self._mends = min(MOST_MENDS, self._mends + (now - self._since) / ANOTHER_MEND_S)
        self._since = now
        if self._mends < 1:
            return False
        self._mends -= 1
        return True


class Watcher:
    """A thread that looks after the routes of a tunnel, so that packets do not wait for it."""

    def __init__(self, plan: Plan, routes: Routes) -> None:
        self._mender = Mender(TunnelMachine(plan, routes), time.monotonic(), kill_switch=plan.kill_switch)
        self._astray = "blocked" if plan.kill_switch else "bypassed"
        self._notes: SimpleQueue[str] = SimpleQueue()
        self._failure: Exception | None = None
        with ExitStack() as opened:
            self._stopped, self._stop = (opened.enter_context(end) for end in socket.socketpair())
            self._changes = [opened.enter_context(changes) for changes in _subscribe()]
            self._open = opened.pop_all()
        self._thread = threading.Thread(target=self._run, name="routes", daemon=True)
        self._thread.start()

    def state(self, carried: str) -> str:
        """The state of a tunnel that carries what comes to it."""
        return self._astray if carried == "relaying" and self._mender.is_astray else carried

    def notes(self) -> list[str]:
        """Takes the notes for the user since the last call."""
        if self._failure is not None:
            raise TransferError(f"the tunnel's routes are no longer watched: {self._failure}") from self._failure
        notes = []
        with suppress(Empty):
            while True:
                notes.append(self._notes.get_nowait())
        return notes

    def close(self) -> None:
        """Ends the thread: no route is set again after this."""
        self._stop.send(b".")
        self._thread.join()
        self._open.close()

    def _run(self) -> None:
        looked = time.monotonic() - PAUSE_S
        timeout = 0.0
        try:
            while not self._is_stopped(timeout, self._changes):
                if self._is_stopped(max(SETTLE_S, looked + PAUSE_S - time.monotonic())):
                    return
                self._drain()
                looked = time.monotonic()
                for note in self._mender.turn(looked):
                    self._notes.put(note)
                timeout = EVERY_S
        except Exception as error:
            self._failure = error

    def _is_stopped(self, timeout: float, changes: list[socket.socket] | None = None) -> bool:
        """Waits until it is stopped, something has changed, or the time is over; returns true if it is stopped."""
        return self._stopped in select.select([self._stopped, *(changes or [])], [], [], timeout)[0]

    def _drain(self) -> None:
        for changes in self._changes:
            # What does not fit is lost (ENOBUFS): it would say no more than the rest.
            with suppress(OSError):
                while changes.recv(1 << 16):
                    pass


def _subscribe() -> list[socket.socket]:
    """Sockets on which the kernel tells of changes. Where it does not, looking every few seconds has to do."""
    opened = []
    for protocol, groups in ((socket.NETLINK_ROUTE, _ROUTE_GROUPS), (_NETFILTER, _NFTABLES_GROUP)):
        with suppress(OSError), ExitStack() as made:
            changes = made.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol))
            changes.setblocking(False)
            changes.bind((0, groups))
            made.pop_all()
            opened.append(changes)
    return opened


def _named(missing: list[str]) -> str:
    """Names of what is missing, for people, each once."""
    return ", ".join(dict.fromkeys(map(_name, missing)))


def _name(missing: str) -> str:
    match missing.split():
        case ["link", *_]:
            return "device"
        case [("-4" | "-6") as family, kind, *_]:
            return f"IPv{family[1]} {'rules' if kind == 'rule' else kind}"
    return missing
