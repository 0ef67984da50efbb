"""The Rust half of the package: private; `weftway` is the public face."""

import os
import random
from collections.abc import Sequence, Set
from typing import Any, Literal, final

from weftway.runs.backends.base import NativeResult
from weftway.runs.job import Job

__version__: str
CODE: str
"""The version and a hash of the sources that decide results."""
KERNEL_CODE: str
QUIC_CODE: str
PICOQUIC_CODE: str
"""The same of the sources that decide what the kernel is asked to do."""

class ScenarioError(ValueError): ...
class TraceError(ScenarioError): ...
class SimulationError(RuntimeError): ...
class EmulationError(RuntimeError): ...

def schedulers() -> list[dict[str, Any]]: ...
def controllers() -> list[dict[str, Any]]: ...
def options() -> list[tuple[str, list[str], str]]:
    """Options of the transport in a scenario: key, value for MPTCP v0.9x, MPTCP linux-v1, TCP and MPQUIC, meaning."""

def units() -> dict[str, dict[str, int]]:
    """Units of rates, sizes and times, with their values in bit/s, bytes and nanoseconds."""

def columns_of_results() -> list[tuple[str, str]]:
    """Every result that some run can have, in the order of the columns, and the type of its values: `text`, `integer`,
    `float` or `boolean`. Where it is one of a path, `*` stands for the path's name."""

def tasks() -> list[dict[str, Any]]: ...
def observed(task: str) -> list[str]:
    """The names of what a task sees, in its order."""

def scheduler(spec: str) -> tuple[str, str]: ...
def controller(spec: str) -> tuple[str, str]: ...
def behind_gate(spec: str) -> tuple[str | None, str | None]:
    """Scheduler that runs inside noq for the one that `spec` names, or why a gate refuses it."""

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
    """Its number, from 0, in the order in which the connection opened its paths."""
    name: str
    """As the scenario calls it."""
    role: str
    """`active`, or `backup`: to be used only while no active path is usable."""
    health: str
    """`good`; `suspect`: its timer fired and nothing was acknowledged since; `stale`: no progress for long."""
    recovery: str
    """Its loss recovery, by Linux's names: `open`, `disorder`, `cwr`, `recovery` or `loss`."""
    blocked: str | None
    """Why it cannot send now: `congestion` (full window), `pacing`, `validation` or `transport`; `None` if it can."""
    is_open: bool
    """Whether it can send now: `blocked is None`."""
    is_active: bool
    """Whether its role is `active`."""
    mss: int
    """Bytes of payload in its largest packet."""
    latest_rtt_ms: float
    """Milliseconds: the newest round-trip sample; 0 before the first."""
    srtt_ms: float
    """Milliseconds: the smoothed round-trip time (RFC 6298, RFC 9002), which starts with the handshake's."""
    rttvar_ms: float
    """Milliseconds: the mean deviation of the samples (RFC 6298's RTTVAR, not Linux's four times that)."""
    min_rtt_ms: float
    """Milliseconds: the smallest round-trip sample."""
    mean_rtt_ms: float
    """Milliseconds: the mean of all round-trip samples; 0 before the first."""
    cwnd: int
    """Bytes: the congestion window."""
    ssthresh: int | None
    """Bytes: the slow-start threshold; `None` until the first reduction."""
    bytes_in_flight: int
    """Bytes sent, and neither acknowledged nor declared lost."""
    space: int
    """Bytes of free window: `cwnd - bytes_in_flight - queued`, or 0."""
    queued: int
    """Bytes assigned to the path and not sent yet."""
    device_queue: int
    """Bytes that the sender's device holds on this path, for a rule that `needs` `device`; otherwise 0."""
    bottleneck: int | None
    """The number of the bottleneck that it shares with the paths of the same number; `None` if unknown."""
    queue_room: int | None
    """Bytes that its queue still takes from a rule that `needs` `queueing`; `None` without a limit."""
    next: int
    """Offset in bytes: the first after everything that this path has carried."""
    delivery_rate_mbps: float
    """Mbit/s: the newest sample of the delivery rate."""
    pacing_rate_mbps: float
    """Mbit/s: what the pacer allows; without pacing, the window over the smoothed round-trip time times 2 in slow start
    and 1.2 after."""
    link_rate_mbps: float
    """Mbit/s: the bottleneck's rate as the controller knows it; 0 where it does not say (all but `bdp`)."""
    bytes_sent: int
    """Bytes sent since it came up, retransmissions included."""
    bytes_acked: int
    """Bytes acknowledged."""
    bytes_lost: int
    """Bytes declared lost."""
    packets_sent: int
    """Packets sent since it came up, retransmissions included."""
    packets_acked: int
    """Packets acknowledged."""
    packets_lost: int
    """Packets declared lost."""
    packets_retransmitted: int
    """Packets sent again on this path."""
    pto_count: int
    """Consecutive probe timeouts, or retransmission timeouts, without progress."""

@final
class Packet:
    """The packet that would go next."""

    offset: int
    """Offset in bytes of its first byte in the stream of the connection."""
    bytes: int
    """Bytes of payload."""
    reinjection: bool
    """Whether it has been sent before: lost and handed back, or reinjected."""
    carried: list[int]
    """The numbers of the paths that have carried it."""
    avoid: list[int]
    """The numbers of the paths that the transport would not have it take again while others may."""

@final
class Flow:
    """The connection's data, as its sender sees them."""

    una: int
    """Offset in bytes: everything before it has arrived, as far as the sender can tell."""
    next: int
    """Offset in bytes: the first that has never been sent."""
    end: int
    """Offset in bytes: the end of what the application has written."""
    edge: int
    """Offset in bytes: the right edge of the peer's receive window."""
    unsent: int
    """Bytes written and not yet assigned to a path."""
    window: int
    """Bytes: the whole receive window that the peer advertises, from `una`."""
    credit: int
    """Bytes: the part of the window that is left for new data."""
    message_start: int
    """Offset in bytes of the message that `next` lies in; bulk data are one message."""
    message_end: int
    """Offset in bytes of the end of that message."""
    message_age_ms: float
    """Milliseconds since the application wrote the message."""
    message_class: int
    """How urgent the application says the message is: 0 the most."""
    deadline_ms: float | None
    """Milliseconds since the start of the run: when the message should have arrived; `None` without a deadline."""

@final
class Context:
    """One question: which path carries the packet at hand?"""

    now_ms: float
    """Milliseconds since the start of the run."""
    paths: tuple[Path, ...]
    """Every usable path, blocked or not, in the order of their numbers."""
    packet: Packet | None
    """The packet that would go next; `None` if only copies may go."""
    flow: Flow | None
    """The connection's data; `None` where the host cannot see them."""
    rng: random.Random
    """What a rule draws from. It is seeded for each question, from the run's seed and the events told so far.

    Asked again with no event between, `select` draws the same. Take it from the `cx` of each call.
    """
    def sendable(self) -> list[Path]: ...

@final
class Event:
    """Something that happened.

    `sent`, `acked`, `lost`, `recalled`, `congestion`, `starved`, `path_up`, `path_down` or `wake`.
    """

    kind: str
    """One of the names above."""
    path: int | None
    """The number of the path; `None` for `starved` and `wake`."""
    offset: int | None
    """Offset in bytes of the packet's first byte; of `sent`, `acked`, `lost` and `recalled`."""
    bytes: int | None
    """Bytes of its payload; of the same kinds."""
    serial: int | None
    """The number of the decision, from 0, to which a delayed reward can be bound; of the same kinds."""
    how: str | None
    """How it was `sent`: `fresh`, `ahead`, `reinjection`, `duplicate`; why it `starved`: `window`, `send_buffer`."""

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
    text_as_set: str
    """The text with the keys of `sets` replaced, as it is run."""
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
    columns: list[str]
    """The names of all results that a run of it can have, in their order; those of links in real time follow."""

@final
class Batch:
    """Jobs on native threads, in the simulator or on Multipath QUIC as each says. Those with a class in Python run on
    the thread that waits, one with each call; what the class raises is raised, and that job counts as finished.

    Without `singles`, the columns that need runs over single paths are null. Of simulated jobs with an index in
    `watched`, the timeline is told with the row.
    """

    def __init__(
        self, jobs: Sequence[Job], threads: int, singles: bool = True, watched: Set[int] = frozenset()
    ) -> None: ...
    remaining: int
    def wait(self, seconds: float) -> list[NativeResult]: ...
    def cancel(self) -> None: ...

def arrivals(
    jobs: Sequence[Job], threads: int, every: int, policy: str | os.PathLike[str] | None = None
) -> list[bytes]:
    """For each job, rows of float32: what the network of `foreseen` sees (`arrival_inputs`), and the label."""

def load_picoquic(library: str) -> str | None:
    """Loads picoquic from a shared library, for the backend `picoquic`: why it cannot be used, if it cannot."""

def arrival_inputs() -> list[str]:
    """The names of what it sees."""

def demonstrations(jobs: Sequence[Job], task: str, threads: int, student: str | None = None) -> list[bytes]:
    """For each job, how its scheduler answers the questions of a task: rows of float32, what the task sees, how often
    the scheduler waited for the full fastest path until the next question, and how often it sent on another. With a
    student that one decides, and the job's scheduler says what it would have done."""

def bounds(jobs: Sequence[Job], threads: int) -> list[str]:
    """What a run of each job can have done at most, whatever its scheduler and controller: as JSON, the columns
    `bound_fct_ms`, `bound_p50_ms`, `bound_p95_ms`, `bound_p99_ms`, `bound_bytes` and `bound_miss_rate`, null where they
    are not known."""

def oracles(jobs: Sequence[Job], threads: int, sight: str) -> list[str]: ...
def controlled(jobs: Sequence[Job], threads: int) -> list[str]:
    """The results of each job's run by its scheduler, where an oracle is the controller: as JSON."""

def clairvoyants(jobs: Sequence[Job], threads: int, tries: int) -> list[str]:
    """The results of each job's run by a clairvoyant that starts from the job's scheduler, and tries answers out at so
    many questions: as JSON."""

@final
class KernelBatch:
    """Runs of the kernel, in several labs for each thread. On Linux only."""

    def __init__(self, jobs: Sequence[Job], threads: int) -> None: ...
    remaining: int
    def wait(self, seconds: float) -> list[NativeResult]: ...
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
    def links(self) -> str: ...
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
def live_bytes(variant: Variant, scheduler: str, links: int) -> tuple[int | None, str | None]:
    """How many bytes a run between two machines sends over so many links, or in the second place why it cannot."""

def live_row(variant: Variant, report: str, links: Sequence[str], alone: Sequence[float]) -> str:
    """The row of a transfer whose sender reports this (JSON). `alone` is each link's own goodput in Mbit/s."""

def record(job: Job, details: list[tuple[str, str]], events: str | None, qlog: str | None) -> tuple[str, str]: ...
def timeline(job: Job) -> str | None: ...
def thinned(values: Sequence[float | None], stride: int, how: Literal["mean", "max", "sum"]) -> list[float | None]: ...
def shown_run(text: str, most: int, with_reasons: bool) -> str | None: ...
def read_again(text: str, name: str, folder: str, sets: Sequence[str], hash: str) -> Scenario:
    """A scenario out of a pickle."""

def variant_again(scenario: Scenario, labels: Sequence[tuple[str, str]]) -> Variant:
    """A variant out of a pickle."""

def drive_runs(text: str) -> list[tuple[int, float, dict[str, int]]]:
    """Of each run of a drive file its number, how long it lasts in seconds, and each link's mean rate in bit/s."""

def schema() -> str:
    """The JSON Schema of scenario files, as text."""

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
    space: str
    choices: int
    actions: int
    envs: int
    def reset(self, observation: Any, seed: int | None = None) -> None: ...
    def renew(self, observation: Any) -> None: ...
    def step(self, actions: Any, observation: Any, outcome: tuple[Any, Any, Any]) -> None: ...
    def last(self, observation: Any) -> None: ...
    @staticmethod
    def state_names() -> tuple[list[str], list[str]]: ...
    paths: int
    def state(self, out: Any) -> None: ...
    def last_state(self, out: Any) -> None: ...
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
