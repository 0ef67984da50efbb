"""Places where a scenario can run, each a `Backend`: whatever differs between them is asked of it.

`base` has the protocol, `sim` the simulator, `quic` Multipath QUIC in virtual time, `picoquic` the same with another
stack, which receives or does both with its own decisions, `kernel` the running Linux kernel, `live` this machine's own
links.
"""

import difflib

from weftway import _native
from weftway._native import ScenarioError
from weftway.runs.specs import SchedulerSpec

from .base import Backend, Failed, NoRow, Result, Row, Skipped, result
from .kernel import Kernel
from .live import Live
from .picoquic import Picoquic, QuicToPicoquic
from .quic import Quic
from .sim import Sim

__all__ = [
    "ALL",
    "BACKENDS",
    "KERNEL",
    "LIVE",
    "PICOQUIC",
    "QUIC",
    "QUIC_TO_PICOQUIC",
    "SIM",
    "Backend",
    "Failed",
    "NoRow",
    "Result",
    "Row",
    "Skipped",
    "is_of_this_code",
    "is_repeatable",
    "parse",
    "result",
]

SIM = Sim()
QUIC = Quic()
PICOQUIC = Picoquic()
QUIC_TO_PICOQUIC = QuicToPicoquic()
KERNEL = Kernel()
LIVE = Live()

BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (SIM, QUIC, PICOQUIC, QUIC_TO_PICOQUIC, KERNEL, LIVE)
}
"""By name, in the order in which they run: a busy machine would make the kernel's links late, so it is after them."""

ALL = ("sim", "quic", "kernel")
"""Meaning of `all`, here as in a scenario file: all that need no other machine."""


def code(name: str) -> str:
    """Identity of the code that makes a backend's rows: what decides a row's results besides the scenario."""
    return BACKENDS[name].code() if name in BACKENDS else _native.CODE


def is_of_this_code(row: Row) -> bool:
    """Tells if today's code of its backend made this row. A row that names no backend is of the simulator."""
    name, made = row.get("backend") or SIM.name, str(row.get("code"))
    # After it, a run over links of this machine has the peer and the links.
    own = _native.QUIC_CODE if name == LIVE.name else code(name)
    return made == own or made.startswith(f"{own} to ")


def is_repeatable(name: str | None) -> bool:
    """Tells if the rows of a backend are the same every time; rows that name none count as such."""
    return name not in BACKENDS or BACKENDS[name].is_repeatable


def schedulers(name: str, named: list[SchedulerSpec]) -> list[SchedulerSpec]:
    """Which schedulers run on a backend where these are named."""
    return BACKENDS[name].schedulers(named) if name in BACKENDS else named


def options(name: str) -> list[str]:
    """Options that name a backend on the command line."""
    return [] if name == SIM.name else [f"--backend {name}", *(LIVE.options() if name == LIVE.name else ())]


def parse(names: list[str]) -> list[str]:
    """The names of backends that these mean, each once."""
    places: list[str] = []
    for name in names:
        places += ALL if name.lower() == "all" else [name.lower()]
    for name in places:
        if name not in BACKENDS:
            near = difflib.get_close_matches(name, BACKENDS, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else f": there is {', '.join(BACKENDS)}"
            raise ScenarioError(f"unknown backend `{name}`{hint}")
    return list(dict.fromkeys(places))
