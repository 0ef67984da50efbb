"""An agent of one's own as a scheduler: what `weftway/Packet-v0` asks in training, any function answers at work.

    class Mine(weftway.agent.Agent):
        def act(self, state):
            return int(network(observe(state)).argmax())

`state` is the raw state of `weftway.state`, of one connection. So the function that made the observations in training
makes them here, whatever it computes and whatever the network is: torch, JAX, Stable-Baselines3, or an `if`.
"""

import math
from collections.abc import Iterable
from typing import Any

from weftway._native import Context, Path
from weftway._native import VectorEnv as NativeVectorEnv
from weftway.state import State, empty


def state_of(cx: Context, paths: int, out: State | None = None) -> State:
    """The raw state at a question, as in an environment whose scenarios have so many paths; in `out`, if given."""
    state = empty(1, paths) if out is None else out
    row: Any = state[0]
    connection, each = NativeVectorEnv.state_names()
    for name in connection:
        row[name] = math.nan if cx.flow is None else _number(getattr(cx.flow, name, 0))
    row["now_ms"] = cx.now_ms
    row["packet_bytes"] = cx.packet.bytes if cx.packet else 0
    row["paths"] = 0
    for path in cx.paths:
        if path.id < paths:
            of_path = row["paths"][path.id]
            for name in each:
                of_path[name] = 1 if name == "is_up" else _number(getattr(path, name))
    return state


def _number(value: float | None) -> float:
    """No limit is infinite."""
    return math.inf if value is None else float(value)


class Agent:
    """A scheduler that is asked as an agent of `weftway/Packet-v0` is: about a packet that was not sent yet, while the
    fastest path is full and another has room. A class of yours says what it answers.

    An answer is kept as there: one to wait until the fastest path has room, one to send for its packet.
    """

    paths = 2
    """The most paths of a connection: so many are in the state."""

    def __init__(self) -> None:
        self._state = empty(1, self.paths)
        self._kept: tuple[int, int | None] | None = None
        """The fastest path at the last answer; the offset of the packet that another path takes, none to wait."""

    def act(self, state: State) -> int:
        """0 waits for the fastest path, 1 sends on the fastest of the others. Asked again, it answers the same."""
        raise NotImplementedError("a subclass of Agent says in `act(self, state)` what to do")

    def select(self, cx: Context) -> Path | None:
        """A path, or none to wait."""
        packet, standing = cx.packet, _first_tier(cx.paths)
        if packet is None or not standing:
            return None
        fast = min(standing, key=_srtt)
        untried = [path for path in standing if path.is_open and not path.srtt_ms] if not fast.srtt_ms else []
        if untried:
            return min(untried, key=lambda path: path.packets_sent)
        if fast.is_open:
            self._kept = None
            return fast
        slow = min((path for path in standing if path.is_open), key=_srtt, default=None)
        if slow is None or packet.reinjection or packet.carried:
            return slow
        if self._kept not in ((fast.id, None), (fast.id, packet.offset)):
            answer = self.act(state_of(cx, self.paths, self._state))
            if answer not in (0, 1):
                raise ValueError(f"`act` answered {answer!r}; expected 0 to wait or 1 to send")
            self._kept = (fast.id, packet.offset if answer else None)
        waits = self._kept == (fast.id, None) and fast.bytes_in_flight > 0  # else nothing would end the wait
        return None if waits else slow


def _srtt(path: Path) -> float:
    return path.srtt_ms


def _first_tier(paths: Iterable[Path]) -> list[Path]:
    """The paths that new data use: active ones, else backups, else those that do not answer."""
    ready = [path for path in paths if path.blocked != "validation"]
    good = [path for path in ready if path.health == "good"]
    return [path for path in good if path.is_active] or good or ready
