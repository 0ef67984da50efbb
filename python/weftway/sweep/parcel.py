"""Parcels of jobs that a node of a cluster is sent, and their work there.

A parcel holds all that its jobs need: the scenario's text and the traces and drives that it names, the source of
schedulers in Python, and which code is to carry them out. A node needs Weftway, and none of the user's files.
"""

import hashlib
import os
import re
import socket
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from weftway import _native
from weftway._native import Batch, Scenario, ScenarioError, Variant
from weftway.runs import specs
from weftway.runs.backends import SIM
from weftway.runs.job import Job
from weftway.runs.specs import IN_A_FILE, SchedulerSpec
from weftway.scenario import trace_file

KEPT = 8
"""Number of scenarios, and of rules, that stay read in a worker for the next parcels."""

NAMES_A_FILE = re.compile(r"trace|\bdrive\.file\b|^file\b")
"""Keys of traces, and of `[drive]`: `file` in the table, `drive.file` where it is set or varied."""


@dataclass(frozen=True)
class Origin:
    """A scenario and the files that it reads; equal ones are the same scenario."""

    text: str
    file: str
    sets: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...]
    """The names of traces and drives as the text has them, and what they hold."""


@dataclass(frozen=True)
class Source:
    """A scheduler in Python."""

    file: str
    content: bytes
    name: str


@dataclass(frozen=True)
class Task:
    """A job of a parcel."""

    variant: int
    hash: str
    """The variant's: the node must come to the same."""
    scheduler: str
    cc: str
    seed: int
    source: Source | None


@dataclass(frozen=True)
class Parcel:
    """Jobs of one scenario."""

    code: str
    origin: Origin
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Answer:
    """Results of a parcel."""

    results: list[tuple[str, str]]
    """For each task `row` and its results as JSON, or `skipped` or `failed` and why."""
    seconds: float
    refusal: str | None = None
    """Why the node did nothing."""


class Sender:
    """Makes parcels of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._origin = origin(scenario)
        self._variants = {(variant.hash, tuple(variant.sets)): at for at, variant in enumerate(scenario.variants())}

    def parcel(self, jobs: list[Job]) -> Parcel:
        """These jobs of the scenario."""
        return Parcel(_native.CODE, self._origin, tuple(map(self._task, jobs)))

    def _task(self, job: Job) -> Task:
        number = self._variants[job.variant.hash, tuple(job.variant.sets)]
        return Task(number, job.variant.hash, job.scheduler.name, job.cc[0], job.seed, _source(job))


def _source(job: Job) -> Source | None:
    match = IN_A_FILE.fullmatch(job.scheduler.name)
    if job.scheduler.rule is None or match is None:
        return None
    content = Path(match["file"]).read_bytes()
    if hashlib.sha256(content).hexdigest() != job.scheduler.source:
        raise ScenarioError(
            f"scheduler file `{match['file']}`: it changed while the sweep was running, or needs other files; a node "
            "gets this one alone"
        )
    return Source(Path(match["file"]).name, content, match["name"])


def origin(scenario: Scenario) -> Origin:
    """The scenario with its files. One that is named by its full path gets another name, which a node can have."""
    text, sets = scenario.text, list(scenario.sets)
    files = {}
    for name in sorted(file_names(text, sets), key=len, reverse=True):
        if (file := trace_file(name, Path(scenario.path).parent)) is None:
            continue
        sent = name
        if PurePath(name).is_absolute():
            sent = f"{hashlib.sha256(name.encode()).hexdigest()}.trace"
            text, sets = text.replace(name, sent), [setting.replace(name, sent) for setting in sets]
        # As they are: their hash is a part of the scenario's.
        files[sent] = file.read_bytes()
    return Origin(text, Path(scenario.path).name, tuple(sets), tuple(sorted(files.items())))


def file_names(text: str, sets: list[str]) -> set[str]:
    """Every text that a key may have as a trace or a drive: of the file, of its [vary], and of `--set`."""
    names = set(_texts(tomllib.loads(text), False))
    for key, _, value in (setting.partition("=") for setting in sets):
        try:
            parsed: Any = tomllib.loads(f"v={value}")["v"]
        except tomllib.TOMLDecodeError:
            parsed = value.strip()
        names |= set(_texts({key: parsed}, False))
    return names


def _texts(value: Any, is_file: bool) -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if is_file else []
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, is_file)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, is_file or NAMES_A_FILE.search(key) is not None)


def carried_out(parcel: Parcel) -> Answer:
    """Runs the jobs of a parcel on one core."""
    begin = time.monotonic()
    here = socket.gethostname()
    if parcel.code != _native.CODE:
        return Answer([], 0.0, f"node {here} has other code, {_native.CODE} in place of {parcel.code}")
    try:
        variants = _variants(parcel.origin)
        jobs = [_job(task, variants[task.variant]) for task in parcel.tasks]
    except (ScenarioError, OSError) as error:
        return Answer([], 0.0, f"node {here} cannot make the jobs out: {error}")
    return Answer(_run(jobs), time.monotonic() - begin)


def _run(jobs: list[Job]) -> list[tuple[str, str]]:
    """Each job's kind and text. A class in Python that cannot be asked at all costs its own runs."""
    batch = Batch(jobs, 1)
    results: dict[int, tuple[str, str]] = {}
    in_python = [at for at, job in enumerate(jobs) if job.scheduler.rule]
    try:
        while batch.remaining:
            try:
                results.update({at: (kind, text) for at, kind, text, _ in batch.wait(1.0)})
            except ScenarioError as error:
                # Classes run in the order of the jobs.
                results[next(at for at in in_python if at not in results)] = ("failed", str(error))
    finally:
        batch.cancel()
    return [results[at] for at in range(len(jobs))]


def _job(task: Task, variant: Variant) -> Job:
    if variant.hash != task.hash:
        raise ScenarioError(f"the scenario has the hash {variant.hash} here and {task.hash} where it was sent from")
    spec = SchedulerSpec(task.scheduler, "", rule=_rule(task.source) if task.source else None)
    return Job(variant, spec, (task.cc, ""), SIM.name, task.seed, "", SIM.code())


@lru_cache(KEPT)
def _variants(sent: Origin) -> list[Variant]:
    with tempfile.TemporaryDirectory(prefix="weftway-") as top:
        # Deep enough for names that lead upwards.
        depth = max((PurePath(name).parts.count("..") for name, _ in sent.files), default=0)
        folder = Path(top, *map(str, range(depth)))
        for name, content in sent.files:
            file = Path(os.path.normpath(folder / name))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        folder.mkdir(parents=True, exist_ok=True)
        return Scenario.parse(sent.text, sent.file, str(folder), list(sent.sets)).variants()


@lru_cache(KEPT)
def _rule(source: Source) -> type:
    with tempfile.TemporaryDirectory(prefix="weftway-") as folder:
        file = Path(folder, source.file)
        file.write_bytes(source.content)
        rule = specs.parse(f"{file}:{source.name}")[0].rule
    assert rule is not None, "a name of this form is a class in a file"
    return rule
