"""Backends `picoquic`, where both ends of a connection are picoquic's, and `quic-to-picoquic`, where it receives what
the backend `quic` sends: over simulated links, in virtual time.

picoquic comes in the extension module of the package `aiopquic`, which exports its functions: nothing else of the
package is used, so that its wheel may be of another version of Python.
"""

import hashlib
import importlib.util
from collections.abc import Sequence, Set
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from weftway import _native
from weftway._native import ScenarioError
from weftway.runs import specs
from weftway.runs.specs import SchedulerSpec
from weftway.scenario import HOME

from .base import Batch

if TYPE_CHECKING:
    from weftway.runs.job import Job

PACKAGE = "aiopquic"
OWN_SCHEDULER = "picoquic"
"""picoquic chooses paths by itself: the name of the rule that follows it."""


class WithLibrary:
    """A backend that needs picoquic's library."""

    name: str
    is_repeatable = True
    remote_obstacle: str | None = "picoquic's library is on this machine: leave out --ray"

    def code(self) -> str:
        return f"{_native.PICOQUIC_CODE}, picoquic {digest()}"

    def obstacle(self) -> str | None:
        return lacking()

    def start(
        self, jobs: Sequence["Job"], threads: int, singles: bool = True, watched: Set[int] = frozenset()
    ) -> Batch:
        if (reason := lacking()) is not None:
            raise ScenarioError(f"backend {self.name}: {reason}")
        return _native.Batch(jobs, threads, singles, watched)

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        return None


class Picoquic(WithLibrary):
    """picoquic, its choice of paths and its controllers. Whichever schedulers are named, it runs its own."""

    name = "picoquic"
    summary = "picoquic at both ends, in virtual time: its own choice of paths, its own controllers"

    def schedulers(self, named: list[SchedulerSpec]) -> list[SchedulerSpec]:
        return specs.parse(OWN_SCHEDULER)


class QuicToPicoquic(WithLibrary):
    """Our schedulers and controllers over noq, answered by picoquic."""

    name = "quic-to-picoquic"
    summary = "Multipath QUIC (noq) in virtual time, received and acknowledged by picoquic"

    def schedulers(self, named: list[SchedulerSpec]) -> list[SchedulerSpec]:
        return named


@cache
def library() -> Path | None:
    """The module with picoquic in it: of an installed package, or of a checkout, where `.ci/setup.sh` puts it."""
    found = importlib.util.find_spec(PACKAGE)
    folders = [*(found.submodule_search_locations or () if found else ()), HOME / ".weft/picoquic" / PACKAGE]
    files = (file for folder in folders for file in sorted(Path(folder).glob("_binding/_transport*.so")))
    return next(files, None)


@cache
def lacking() -> str | None:
    """Reason why there is no picoquic here, if there is none."""
    file = library()
    if file is None:
        return "the package aiopquic is not installed (pip install aiopquic==0.6.1)"
    return _native.load_picoquic(str(file))


@cache
def digest() -> str:
    """Digest of the library: what is in it decides a row."""
    file = library()
    return "is missing" if file is None else hashlib.sha256(file.read_bytes()).hexdigest()[:12]
