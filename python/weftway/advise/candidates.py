"""Candidates that a user can set: pairs of a scheduler and a controller, keys of the scenario, and their commands."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weftway import _native
from weftway._native import ScenarioError
from weftway.runs.backends.kernel import OWN_SCHEDULER

LINUX, QUIC = "linux", "quic"
PLACES = (LINUX, QUIC)

KERNEL = "kernel"
CARRIERS = ("proxy", "tunnel", "send", "pipe", KERNEL)
"""Programs that carry traffic, and the kernel."""

PROGRAM_CC = "cubic:random_loss=2"
PROGRAM_CONTROLLERS = (PROGRAM_CC, "bbr1", "bbr3", "bdp")
"""Controllers for the programs, their default first."""

PROGRAM_SCHEDULER = {"send": "earliest-delivery", "pipe": "deadline"}
"""Default scheduler of a program, where that is not min-rtt."""

CONTROLLERS = {"cubic": "cubic", "newreno": "reno", "bbr1": "bbr"}
"""Ours that Linux has, and what it calls them; the first is what it has if nobody changed it."""

QUIC_CONTROLLERS = ("cubic", "newreno", "bbr1", "bdp")
"""Controllers for a QUIC stack of the user's own, the default first."""

WINDOW, LARGER_WINDOW = 10, 32
"""Initial windows in packets: the default one everywhere, and one that is tried beside it."""

LARGE = (
    ("options.receive_buffer", '{ auto = "32 MiB" }', "net.ipv4.tcp_rmem='4096 131072 33554432'"),
    ("options.send_buffer", '{ auto = "16 MiB" }', "net.ipv4.tcp_wmem='4096 16384 16777216'"),
)
SMALL = (("options.send_buffer", '{ auto = "256 KiB" }', "net.ipv4.tcp_wmem='4096 16384 262144'"),)
BUFFERS = {"large buffers": LARGE, "a small send buffer": SMALL}
"""Bounds of buffers that Linux lets grow, beside its own (6 and 4 MiB): key, value, and the sysctl that does it."""

STEERERS = ("min-rtt", "llhd")
"""Schedulers that steer the kernel once an interval; of those that can, these gained something when it was measured
(docs/how-to/steer-the-kernel.md)."""

STEERED = ("messages", "stream", "voip", "call")
"""Workloads that one path may carry. A bulk transfer is not steered."""

STEERING = ("decision.interval=100 ms", "decision.mode=exclusive")


@dataclass(frozen=True)
class Candidate:
    """Something that can be set."""

    words: str
    scheduler: str
    cc: str
    sets: tuple[str, ...]
    """Keys of the scenario, with which it is simulated."""
    commands: tuple[str, ...] = ()
    """Commands that set it; nothing where everything stays as it comes."""
    backups: tuple[str, ...] = ()
    """Links that are used only while no other is."""
    alone: str = ""
    """The only link in use, where all others are backups."""
    window: int = WINDOW
    """Initial window in packets."""

    @property
    def pair(self) -> str:
        """Scheduler and controller, and the initial window where it is not the default one."""
        scheduler = "the kernel's scheduler" if self.scheduler == OWN_SCHEDULER else self.scheduler
        window = f", initial window of {self.window} packets" if self.window != WINDOW else ""
        return f"{scheduler} with {self.cc.partition(':')[0]}{window}"

    @property
    def is_steered(self) -> bool:
        """Tells if `weft steer` has to run beside the connection."""
        return STEERING[0] in self.sets

    def with_change(self, words: str, sets: Iterable[str], commands: Iterable[str], scheduler: str = "") -> "Candidate":
        """Candidate with a further change."""
        return replace(
            self,
            words=f"{self.words}, {words}",
            scheduler=scheduler or self.scheduler,
            sets=(*self.sets, *sets),
            commands=(*self.commands, *commands),
        )


def place(deployable: str | None, carrier: str) -> str:
    """Place where a carrier's settings are made."""
    if carrier and carrier not in CARRIERS:
        raise ScenarioError(f"--for {carrier}: there is {', '.join(CARRIERS)}")
    if carrier and deployable is not None:
        raise ScenarioError("--for says what can be set: leave out --deployable")
    return deployable or (QUIC if carrier and carrier != KERNEL else LINUX)


def baseline(place: str, keys: Mapping[str, Any], carrier: str = "") -> Candidate:
    """Candidate of a user who sets nothing."""
    if carrier and carrier != KERNEL:
        scheduler, direction = PROGRAM_SCHEDULER.get(carrier, "min-rtt"), ["direction=upload"] * (carrier == "send")
        as_it_comes = baseline(QUIC, keys)
        sets = (*as_it_comes.sets, *(one for one in direction if keys.get("direction") != "upload"))
        return replace(as_it_comes, words=f"{scheduler}, {PROGRAM_CC}", scheduler=scheduler, cc=PROGRAM_CC, sets=sets)
    wanted = {"transport": "mpquic"} if place == QUIC else {"transport": "mptcp", "stack": "linux-v1"}
    wanted |= {f"path.{name}.role": "active" for name in paths(keys) if f"path.{name}.role" in keys}
    sets = tuple(f"{key}={value}" for key, value in wanted.items() if keys.get(key) != value)
    if place == QUIC:
        return Candidate("min-rtt, cubic", "min-rtt", "cubic", sets)
    return Candidate("cubic, all paths active", OWN_SCHEDULER, "cubic", sets)


def first(place: str, keys: Mapping[str, Any], carrier: str = "") -> list[Candidate]:
    """The baseline, and what is tried in the first round."""
    if carrier and carrier != KERNEL:
        return _program(keys, carrier)
    return _linux(keys) if place == LINUX else _quic(keys)


def second(place: str, keys: Mapping[str, Any], best: Sequence[Candidate], carrier: str = "") -> list[Candidate]:
    """Candidates of the second round: changes to the best of the first."""
    if place == QUIC:
        return _larger_windows(keys, best, carrier)
    changed: list[Candidate] = []
    for candidate in best:
        for words, changes in BUFFERS.items():
            # A buffer of a fixed size is the application's own: a sysctl does not change it.
            free = [change for change in changes if change[0] not in keys]
            if free:
                sets = [f"{key}={value}" for key, value, _ in free]
                changed.append(candidate.with_change(words, sets, [f"sysctl -w {sysctl}" for *_, sysctl in free]))
        if keys.get("workload.kind") in STEERED:
            changed += [_steered(candidate, name) for name in STEERERS if _can_steer(name)]
    return changed


def _larger_windows(keys: Mapping[str, Any], best: Sequence[Candidate], carrier: str) -> list[Candidate]:
    """The best, and what nobody has set, with a larger initial window; nothing where the scenario fixes it."""
    if "options.initial_window" in keys:
        return []
    sets = [f"options.initial_window={LARGER_WINDOW} packets"]
    setup = f"weftway_cc::Setup {{ initial_window: {LARGER_WINDOW} packets, … }}"
    commands = [f"--initial-window {LARGER_WINDOW}" if carrier else setup]
    words = f"initial window of {LARGER_WINDOW}"
    return [
        replace(one.with_change(words, sets, commands), window=LARGER_WINDOW)
        for one in dict.fromkeys([*best, baseline(QUIC, keys, carrier)])
    ]


def paths(keys: Mapping[str, Any]) -> list[str]:
    """The connection's paths."""
    names = dict.fromkeys(key.split(".")[1] for key in keys if key.startswith("path."))
    return [name for name in names if keys.get(f"path.{name}.connection") != "rival"]


def _linux(keys: Mapping[str, Any]) -> list[Candidate]:
    names = paths(keys)
    if len(names) < 2:
        raise ScenarioError(f"the scenario has the path `{names[0]}` alone; advice needs two or more")
    as_it_comes = baseline(LINUX, keys)
    every = []
    for cc, theirs in CONTROLLERS.items():
        changed = [f"sysctl -w net.ipv4.tcp_congestion_control={theirs}"] if cc != as_it_comes.cc else []
        own = replace(as_it_comes, words=f"{theirs}, all paths active", cc=cc, commands=tuple(changed))
        every.append(own)
        kept = {(name,) for name in names} | {tuple(other for other in names if other != name) for name in names}
        for backups in sorted(kept, key=lambda some: [names.index(name) for name in some]):
            sets = [f"path.{name}.role=backup" for name in backups]
            commands = [f"ip mptcp endpoint change <address of {name}> backup" for name in backups]
            kept_back = f"{' and '.join(backups)} as backup"
            others = [name for name in names if name not in backups]
            named = replace(own, words=theirs, backups=backups, alone=others[0] if len(others) == 1 else "")
            every.append(named.with_change(kept_back, sets, commands))
    return every


def _steered(candidate: Candidate, name: str) -> Candidate:
    command = f"weft steer --live --scheduler {name} --interval 100ms"
    return candidate.with_change(f"steered by {name}", STEERING, [command], name)


def _can_steer(name: str) -> bool:
    return hasattr(_native, "steering_obstacle") and _native.steering_obstacle(name) is None


def _program(keys: Mapping[str, Any], carrier: str) -> list[Candidate]:
    """Options of the programs: each scheduler and controller, and each link alone with the others in reserve."""
    names = paths(keys)
    if len(names) < 2:
        raise ScenarioError(f"the scenario has the path `{names[0]}` alone; advice needs two or more")
    as_it_comes = baseline(QUIC, keys, carrier)

    def candidate(scheduler: str, cc: str) -> Candidate:
        options = [f"--scheduler {scheduler}"] if scheduler != as_it_comes.scheduler else []
        options += [f"--cc {cc}"] if cc != as_it_comes.cc else []
        return replace(as_it_comes, words=f"{scheduler}, {cc}", scheduler=scheduler, cc=cc, commands=tuple(options))

    schedulers = [entry["name"] for entry in _native.schedulers() if entry["name"] != OWN_SCHEDULER]
    every = [candidate(name, cc) for name in schedulers for cc in PROGRAM_CONTROLLERS]
    alone = [
        replace(
            candidate(as_it_comes.scheduler, cc).with_change(
                f"{' and '.join(backups)} in reserve",
                [f"path.{other}.role=backup" for other in backups],
                [f"--path {other},tier=backup" for other in backups],
            ),
            backups=tuple(backups),
            alone=name,
        )
        for name in names
        for backups in [[other for other in names if other != name]]
        for cc in PROGRAM_CONTROLLERS
    ]
    return [as_it_comes, *(one for one in every if one != as_it_comes), *alone]


def _quic(keys: Mapping[str, Any]) -> list[Candidate]:
    as_it_comes = baseline(QUIC, keys)
    names = [entry["name"] for entry in _native.schedulers()]
    every = [as_it_comes]
    for name in names:
        for cc in QUIC_CONTROLLERS:
            # The kernel's rule is about the queues of its TCP.
            if name == OWN_SCHEDULER or (name, cc) == (as_it_comes.scheduler, as_it_comes.cc):
                continue
            commands = [f'weftway_sched::build("{name}")'] if name != as_it_comes.scheduler else []
            commands += [f'weftway_cc::build("{cc}", …)'] if cc != as_it_comes.cc else []
            every.append(Candidate(f"{name}, {cc}", name, cc, as_it_comes.sets, tuple(commands)))
    return every
