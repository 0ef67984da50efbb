"""Backend `live`: bulk transfers over this machine's own links to a peer, where `weft recv --measure` listens.

What a scenario sends goes over real links: the first `--path` stands for the scenario's first path, and so on.
Conditions change while one measures. So all runs of a seed are next to one another, each path alone among them, in a
random order that the seed decides: no scheduler always follows the same one, and none has the quiet hour to itself.
"""

import json
import os
import random
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weftway import _native
from weftway._native import ScenarioError, SimulationError
from weftway.runs import link_program
from weftway.runs.specs import SchedulerSpec
from weftway.terminal.exit_status import BAD_INPUT

from .base import Batch, Generated, NativeResult

if TYPE_CHECKING:
    from weftway.runs.job import Job

ALONE = "min-rtt"
"""Scheduler where there is one path."""

CHUNK = 1 << 20

RULES_STAY = "a scheduler in Python decides in the simulator only"


@dataclass(frozen=True)
class Peer:
    """Machine to which the transfers go, and the links that they take."""

    host: str
    """Its name or address, and the port if it is not the usual one."""
    pairing: str
    links: tuple[str, ...]


class Live:
    """Real links. Each seed is one repetition: nothing else of a run can be repeated."""

    name = "live"
    summary = "bulk transfers over this machine's own links to a peer (--peer): the driver of weft send"
    is_repeatable = False
    remote_obstacle: str | None = "a run over this machine's links is measured here: leave out --ray"
    peer: Peer | None = None
    """Set by the command."""

    def code(self) -> str:
        to = f" to {self.peer.host} over {','.join(self.peer.links)}" if self.peer else ""
        return f"{_native.QUIC_CODE}{to}"

    def obstacle(self) -> str | None:
        if os.name != "posix":
            return "sockets of this kind are there on Unix only"
        return None if self.peer else "no other machine is named: --peer HOST --pair LINE, and --path for each path"

    def options(self) -> list[str]:
        """Options that name the peer on the command line. The pairing line is left out: it lets anyone send there."""
        if self.peer is None:
            return []
        return [f"--peer {self.peer.host}", "--pair LINE", *(f"--path {link}" for link in self.peer.links)]

    def schedulers(self, named: list[SchedulerSpec]) -> list[SchedulerSpec]:
        return named

    def start(
        self, jobs: Sequence["Job"], threads: int, singles: bool = True, watched: Set[int] = frozenset()
    ) -> Batch:
        if self.peer is None:
            raise ScenarioError(f"backend live: {self.obstacle()}")
        return Generated(_results(jobs, self.peer), len(jobs))

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        return None


def _results(jobs: Sequence["Job"], peer: Peer) -> Generator[NativeResult, None, None]:
    """Results of each run, after the reasons of those that cannot run."""
    runnable = []
    for at, job in enumerate(jobs):
        reason = _bytes(job, peer)[1] if job.scheduler.rule is None else RULES_STAY
        if reason is None:
            runnable.append(job)
        else:
            yield at, "skipped", reason, None
    with tempfile.TemporaryDirectory(prefix="weftway-live-") as folder:
        for _, of_seed in groupby(sorted(runnable, key=lambda job: job.seed), lambda job: job.seed):
            for job, row in _Round(list(of_seed), peer, Path(folder)).rows():
                yield jobs.index(job), "row", row, None


def _bytes(job: "Job", peer: Peer) -> tuple[int | None, str | None]:
    return _native.live_bytes(job.variant, job.scheduler.name, len(peer.links))


Alone = tuple[int, str, str]
"""A number of bytes, a controller and a link by itself."""


def order(jobs: Sequence["Job"], links: Sequence[str], sizes: dict[str, int]) -> list["Job | Alone"]:
    """All runs of a seed in a random order that the seed decides. `sizes` are by the jobs' keys."""
    settings = {(sizes[job.key], job.cc[0]) for job in jobs} if len(links) > 1 else set()
    runs: list[Job | Alone] = [*jobs, *((size, cc, link) for size, cc in sorted(settings) for link in links)]
    random.Random(jobs[0].seed).shuffle(runs)
    return runs


class _Round:
    """The runs of one seed."""

    def __init__(self, jobs: list["Job"], peer: Peer, folder: Path) -> None:
        self._jobs, self._peer, self._folder = jobs, peer, folder

    def rows(self) -> Iterator[tuple["Job", str]]:
        """Each job and its row as JSON, which is whole when each path was measured alone."""
        sizes = {job.key: _bytes(job, self._peer)[0] or 0 for job in self._jobs}
        measured: dict[Alone, float] = {}
        waiting: list[tuple[Job, dict[str, Any]]] = []
        for run in order(self._jobs, self._peer.links, sizes):
            if isinstance(run, tuple):
                size, cc, link = run
                measured[run] = self._transfer(size, ALONE, cc, [link])["goodput_mbps"]
            else:
                waiting.append((run, self._transfer(sizes[run.key], run.scheduler.name, run.cc[0], self._peer.links)))
            whole = [pair for pair in waiting if all(key in measured for key in self._singles(pair[0], sizes))]
            for job, report in whole:
                waiting.remove((job, report))
                singles = [measured[key] for key in self._singles(job, sizes)]
                yield job, _native.live_row(job.variant, json.dumps(report), list(self._peer.links), singles)

    def _singles(self, job: "Job", sizes: dict[str, int]) -> list[Alone]:
        links = self._peer.links
        return [(sizes[job.key], job.cc[0], link) for link in links] if len(links) > 1 else []

    def _transfer(self, size: int, scheduler: str, cc: str, links: Sequence[str]) -> dict[str, Any]:
        """Sends so many bytes as `weft send` does; returns its report."""
        paths = [word for link in links for word in ("--path", link)]
        choice = ["--scheduler", scheduler, "--cc", cc, "--json"]
        command = ["weft", "send", str(self._file(size)), "--to", self._peer.host, *paths, *choice]
        known = os.environ | {"WEFT_PAIR": self._peer.pairing}
        done = subprocess.run(
            command, executable=link_program.program(), env=known, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            message = "; ".join(line.removeprefix("weft: ") for line in done.stderr.splitlines())
            raise (ScenarioError if done.returncode == BAD_INPUT else SimulationError)(message)
        report: dict[str, Any] = json.loads(done.stdout)[0]
        return report

    def _file(self, size: int) -> Path:
        """Random bytes: no link compresses them."""
        file = self._folder / f"{size}.bin"
        if not file.exists():
            with file.open("wb") as out:
                for at in range(0, size, CHUNK):
                    out.write(os.urandom(min(CHUNK, size - at)))
        return file
