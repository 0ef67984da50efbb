"""Failures of a path: forty scenarios with MPTCP in which one path stops, and often comes back, during a transfer.

How many cells have each value of a feature is fixed; the seed decides which values meet in a cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weftway.sample.quantities import rounded
from weftway.sample.stream import Stream

from .cells import CONTROLLERS, MSS, PACKET, Link, block, link_keys, options, queue_packets, size

CELLS = 40
TRANSPORT = "mptcp"

RATE_MBPS = (5.0, 30.0)
DELAY_MS = (5.0, 50.0)
"""Delay of one way."""
QUEUE_BDP = (1.0, 3.0)
LEAST_QUEUE = 20
"""Packets."""

FAILS_S = (1.0, 3.0)
"""Time at which the path fails, after the start."""
STAYS_AWAY_S = (4.0, 8.0)
"""Time that a transfer goes on, about, after a failure that it does not see the end of …"""
SEES_RETURN_S = 3.0
"""… and after the return, where it sees that."""
LAST_RETURN_S = 10.0
"""A later return comes when the transfer is over, if the other paths carry it on."""
TIME_LIMIT_S = 60

NEVER = float("inf")
BOTH, DATA, ACKS = "both", "data", "acks"
STATE, LOSS = "state", "loss"
"""The path's state is `down`; all packets are lost. `present` is none of them: the simulator takes such a path out at
once, as a path manager does, and the kernel's links fall silent."""
ACTIVE, BACKUP = "active", "backup"

CONTROLLER = dict(zip(CONTROLLERS, (13, 14, 13), strict=True))
PATHS = {2: 26, 3: 14}
FAILS = {0: 20, 1: 20}
"""Which path."""
OTHERS = {ACTIVE: 20, BACKUP: 20}
WAY = {
    (STATE, BOTH): 11,
    (LOSS, BOTH): 11,
    (STATE, DATA): 4,
    (STATE, ACKS): 5,
    (LOSS, DATA): 5,
    (LOSS, ACKS): 4,
}
"""Kind and direction of the failures."""
AWAY_S = {0.5: 6, 1.0: 6, 2.0: 6, 5.0: 6, 10.0: 5, 30.0: 5, NEVER: 6}


@dataclass(frozen=True)
class Features:
    """Features that the seed combines in a cell. The tables above say how many of the forty cells have each value."""

    cc: str
    paths: int
    fails: int
    others: str
    way: tuple[str, str]
    away_s: float


@dataclass(frozen=True)
class Failure:
    """Scenario in which `links[fails]` fails at `at_s` for `away_s`, in the directions named."""

    seed: int
    number: int
    cc: str
    links: tuple[Link, ...]
    roles: tuple[str, ...]
    fails: int
    how: str
    direction: str
    at_s: float
    away_s: float
    bytes: int

    @property
    def title(self) -> str:
        return f"failure {self.number} of seed {self.seed}"

    @property
    def file_name(self) -> str:
        return f"{self.number:03}.toml"

    @property
    def line(self) -> str:
        """All of it in a line: `cubic 9.8 MB 10/10 + 20/30 backup: path 1 loses all (data) at 1.5 s for 2 s`."""
        paths = [
            f"{link.rate_mbps:g}/{link.delay_ms:g}{' backup' if role == BACKUP else ''}"
            for link, role in zip(self.links, self.roles, strict=True)
        ]
        verb = {STATE: "down", LOSS: "loses all"}[self.how]
        where = "" if self.direction == BOTH else f" ({self.direction})"
        until = "for good" if self.away_s == NEVER else f"for {self.away_s:g} s"
        failure = f"path {self.fails + 1} {verb}{where} at {self.at_s:g} s {until}"
        return f"{self.cc} {size(self.bytes)} {' + '.join(paths)}: {failure}"

    @property
    def text(self) -> str:
        """The scenario file. The data go up."""
        head = block(
            [
                ("title", self.title),
                ("transport", TRANSPORT),
                ("stack", "linux-v1"),
                ("direction", "upload"),
                ("scheduler", "linux-v1"),
                ("cc", self.cc),
                ("time_limit", f"{TIME_LIMIT_S} s"),
            ]
        )
        work = f"[workload]\n{block([('kind', 'bulk'), ('bytes', size(self.bytes))])}"
        return "\n".join([head, options(), *(self._path(k) for k in range(len(self.links))), work])

    def _path(self, k: int) -> str:
        keys = block([*link_keys(self.links[k]), ("role", self.roles[k])])
        return f"[path.p{k + 1}]\n{keys}{self._outage if k == self.fails else ''}"

    @property
    def _outage(self) -> str:
        back = self.at_s + self.away_s
        broken, whole = ('state = "down"', 'state = "up"') if self.how == STATE else ('loss = "100 %"', 'loss = "0 %"')
        later = "" if back == NEVER else f', {{ at = "{back:g} s", {whole} }}'
        changes = f'[{{ at = "{self.at_s:g} s", {broken} }}{later}]'
        sides = {BOTH: ("up", "down"), DATA: ("up",), ACKS: ("down",)}[self.direction]
        return f"schedule = {{ {', '.join(f'{side} = {changes}' for side in sides)} }}\n"


def cells(seed: int, count: int = CELLS) -> list[Failure]:
    """The first `count` of the forty cells of a seed."""
    stream = Stream(f"failures/{seed}")
    columns = (
        stream.shuffled(CONTROLLER),
        stream.shuffled(PATHS),
        stream.shuffled(FAILS),
        stream.shuffled(OTHERS),
        stream.shuffled(WAY),
        stream.shuffled(AWAY_S),
    )
    rows = zip(*columns, strict=True)
    return [cell(seed, number, Features(*row), stream) for number, row in enumerate(rows)][:count]


def cell(seed: int, number: int, features: Features, stream: Stream) -> Failure:
    """Draws a cell: these features on links that are drawn."""
    links = tuple(link(stream) for _ in range(features.paths))
    at_s, lasts_s = rounded(stream.linear(FAILS_S)), stream.linear(STAYS_AWAY_S)
    roles = roles_of(features, all_backup=stream.chance(0.5))
    how, direction = features.way
    count = transfer_bytes(links, roles, features, at_s, lasts_s)
    return Failure(
        seed, number, features.cc, links, roles, features.fails, how, direction, at_s, features.away_s, count
    )


def roles_of(features: Features, all_backup: bool) -> tuple[str, ...]:
    """The path that fails is active. Of two others, one may be active beside it and the last a backup."""
    roles = [ACTIVE] * features.paths
    if features.others == BACKUP:
        others = [k for k in range(features.paths) if k != features.fails]
        for k in others if all_backup else others[-1:]:
            roles[k] = BACKUP
    return tuple(roles)


def transfer_bytes(links: Sequence[Link], roles: Sequence[str], features: Features, at_s: float, lasts_s: float) -> int:
    """The bytes that the links carry from the start until `SEES_RETURN_S` after the return, about; or, if the transfer
    does not see it, until `lasts_s` after the failure."""
    rates = [link.rate_mbps * MSS[TRANSPORT] / PACKET for link in links]
    lost = rates[features.fails]
    active = sum(rate for rate, role in zip(rates, roles, strict=True) if role == ACTIVE)
    left = active - lost or sum(rates) - lost
    seen = features.away_s <= LAST_RETURN_S
    after = left * features.away_s + active * SEES_RETURN_S if seen else left * lasts_s
    return round(rounded((active * at_s + after) * 1e6 / 8))


def link(stream: Stream) -> Link:
    """A path without loss and jitter: the failure alone is compared."""
    rate, delay = rounded(stream.linear(RATE_MBPS)), rounded(stream.log(DELAY_MS))
    return Link(rate, delay, 0.0, queue_packets(rate, delay, stream.log(QUEUE_BDP), LEAST_QUEUE), 0.0)
