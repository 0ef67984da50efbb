"""The Rust half of the package: private; `weftway` is the public face."""

import os
from collections.abc import Sequence
from typing import Any, final

__version__: str
CODE: str
"""The version and a hash of the sources that decide results."""
KERNEL_CODE: str
QUIC_CODE: str
"""The same of the sources that decide what the kernel is asked to do."""

Order = tuple[Variant, str, str, int, type | None]
"""A job: the variant, the scheduler's name, the controller's, the seed, and the class of a rule in Python."""

class ScenarioError(ValueError): ...
class TraceError(OSError): ...
class SimulationError(RuntimeError): ...
class EmulationError(RuntimeError): ...

def schedulers() -> list[dict[str, Any]]: ...
def controllers() -> list[dict[str, Any]]: ...
def tasks() -> list[dict[str, Any]]: ...
def scheduler(spec: str) -> tuple[str, str]: ...
def controller(spec: str) -> tuple[str, str]: ...
def labels(
    variants: Sequence[Variant],
    controllers: Sequence[str],
    episodes: int,
    seed: int,
    behaviours: Sequence[str],
    task: str = "graph",
    threads: int = 1,
    basis: str = "message",
) -> dict[str, bytes]:
    """What was seen at each question of the task, and what the oracle said: arrays as bytes of 32-bit numbers."""

@final
class Path:
    """One usable path at the time of the question. Bytes are payload."""

    id: int
    name: str
    role: str
    health: str
    recovery: str
    blocked: str | None
    is_open: bool
    is_active: bool
    mss: int
    latest_rtt_ms: float
    srtt_ms: float
    rttvar_ms: float
    min_rtt_ms: float
    mean_rtt_ms: float
    cwnd: int
    ssthresh: int | None
    bytes_in_flight: int
    space: int
    queued: int
    device_queue: int
    bottleneck: int | None
    queue_room: int | None
    next: int
    delivery_rate_mbps: float
    pacing_rate_mbps: float
    packets_sent: int
    packets_acked: int
    packets_lost: int
    packets_retransmitted: int
    pto_count: int

@final
class Packet:
    """The packet that would go next."""

    offset: int
    bytes: int
    reinjection: bool
    carried: list[int]
    avoid: list[int]

@final
class Flow:
    """The connection's data, as its sender sees them."""

    una: int
    next: int
    end: int
    edge: int
    unsent: int
    window: int
    credit: int
    message_start: int
    message_end: int
    message_age_ms: float
    message_class: int
    deadline_ms: float | None

@final
class Context:
    """One question: which path carries the packet at hand?"""

    now_ms: float
    paths: tuple[Path, ...]
    packet: Packet | None
    flow: Flow | None
    def sendable(self) -> list[Path]: ...

@final
class Event:
    """Something that happened.

    `sent`, `acked`, `lost`, `recalled`, `congestion`, `starved`, `path_up`, `path_down` or `wake`.
    """

    kind: str
    path: int | None
    offset: int | None
    bytes: int | None
    serial: int | None
    how: str | None

@final
class Ahead:
    """An answer: the first unsent packet at or after `offset` goes on `path`."""

    def __init__(self, path: Path | int, offset: int) -> None: ...

@final
class Repeat:
    """An answer: a copy of the first unacknowledged packet at or after `offset` goes on `path`."""

    def __init__(self, path: Path | int, offset: int) -> None: ...

@final
class Recall:
    """An answer: what waits unsent in the queue of `path` goes back to the connection."""

    def __init__(self, path: Path | int) -> None: ...

@final
class Scenario:
    """A scenario file, read and checked."""

    path: str
    name: str
    title: str
    hash: str
    sets: list[str]
    schedulers: list[str]
    controllers: list[str]
    backends: list[str]
    seeds: list[int]
    text: str
    @staticmethod
    def load(path: str, sets: Sequence[str] = ()) -> Scenario: ...
    @staticmethod
    def parse(text: str, name: str = "scenario.toml", folder: str = ".", sets: Sequence[str] = ()) -> Scenario: ...
    def variants(self) -> list[Variant]: ...

@final
class Variant:
    """A scenario with one choice made for everything that it varies, but for schedulers and controllers."""

    scenario: Scenario
    values: dict[str, Any]
    sets: list[str]
    transport: str
    hash: str

@final
class Batch:
    """Jobs on native threads. A finished one is `row` and its results as JSON, or `skipped` or `failed` and why.

    Without `singles`, the columns that need runs over single paths are null. With `quic` they run on Multipath QUIC
    in virtual time, else in the simulator.
    """

    def __init__(self, jobs: Sequence[Order], threads: int, singles: bool = True, quic: bool = False) -> None: ...
    remaining: int
    def wait(self, seconds: float) -> list[tuple[int, str, str]]: ...
    def run(self, job: Order) -> tuple[str, str]: ...
    def cancel(self) -> None: ...

@final
class KernelBatch:
    """Runs of the kernel in labs. A finished one is `row`, its results as JSON and its timeline, or `skipped` or
    `failed` and why. On Linux only."""

    def __init__(self, jobs: Sequence[tuple[Variant, str, int]], labs: int) -> None: ...
    remaining: int
    def wait(self, seconds: float) -> list[tuple[int, str, str, str | None]]: ...
    def cancel(self) -> None: ...

@final
class Emulation:
    """Two commands at work over the paths of a scenario. On Linux only."""

    def __init__(
        self,
        variant: Variant,
        seed: int,
        client: Sequence[str],
        server: Sequence[str] | None = None,
        log: str | None = None,
        pcap: str | None = None,
        provenance: Sequence[str] = (),
        quiet: bool = False,
    ) -> None: ...
    def wait(self, seconds: float) -> int | None: ...
    def finish(self) -> str: ...

@final
class SteeredRun:
    """A transfer of the kernel that a scheduler steers, if one is named: `row` and its results as JSON, or `skipped` or
    `failed` and why. On Linux only."""

    def __init__(
        self, variant: Variant, scheduler: str | None, cc: str, seed: int, interval_ms: float, preferred: bool
    ) -> None: ...
    def told(self) -> tuple[str, str] | None: ...
    def cancel(self) -> None: ...

@final
class LiveSteering:
    """A scheduler that steers the connections of the caller's namespace. On Linux only."""

    def __init__(self, scheduler: str, interval_ms: float, preferred: bool, token: int | None) -> None: ...
    def connections(self, seconds: float) -> str | None: ...
    def stop(self) -> str: ...

def steering_obstacle(spec: str) -> str | None: ...
def probe() -> str: ...
def record(job: Order, details: list[tuple[str, str]], events: str | None, qlog: str | None) -> tuple[str, str]: ...
def timeline(job: Order) -> str: ...
def run_vectors(kind: str, text: str) -> int: ...
def bench() -> str: ...

class VectorEnv:
    def __init__(
        self, task: str, variants: list[Variant], controllers: list[str], envs: int, seed: int, threads: int = 1
    ) -> None: ...
    inputs: int
    names: list[str]
    low: list[float]
    high: list[float]
    kind: str
    choices: int
    actions: int
    envs: int
    def reset(self, observation: Any, seed: int | None = None) -> None: ...
    def renew(self, observation: Any) -> None: ...
    def step(self, actions: Any, observation: Any, outcome: tuple[Any, Any, Any]) -> None: ...
    def last(self, observation: Any) -> None: ...
    def masks(self, open: Any) -> None: ...
    def decisions(self, numbers: Any) -> None: ...
    def closed(self) -> tuple[bytes, bytes, bytes]: ...
    def episodes(self) -> list[str]: ...
    def drawn(self) -> list[dict[str, Any]]: ...

class Policy:
    def __init__(self, path: str | os.PathLike[str]) -> None: ...
    card: dict[str, str]
    inputs: int
    outputs: int
    def forward(self, observation: Any, out: Any) -> None: ...
