"""Job: a run, what decides its row, and the key under which the row is kept."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from weftway._native import Variant
from weftway.runs.specs import SchedulerSpec


@dataclass(frozen=True)
class Job:
    """Run that is asked for. Its result depends on nothing else."""

    variant: Variant
    scheduler: SchedulerSpec
    cc: tuple[str, str]
    backend: str
    seed: int
    command: str
    code: str
    """The identity of the code that decides its row."""

    @property
    def head(self) -> dict[str, Any]:
        """Columns of a row before its results: which run it was, and of what."""
        line, _ = _line(self.variant, self.scheduler, self.cc, self.backend)
        return {**line, "seed": self.seed, "code": self.code, "command": self.command}

    @cached_property
    def key(self) -> str:
        """Key of the run: equal for equal runs of the same code; for others only where a class's source is unknown."""
        # The JSON of all that the head says but the command.
        _, begun = _line(self.variant, self.scheduler, self.cc, self.backend)
        whole = begun.copy()
        whole.update(f'"seed": {self.seed}, "code": {json.dumps(self.code)}}}'.encode())
        return whole.hexdigest()[:32]

    @property
    def identity(self) -> dict[str, Any]:
        """The key, and what a row says before its results."""
        return {"key": self.key, **self.head}


@lru_cache(maxsize=16)
def _line(
    variant: Variant, scheduler: SchedulerSpec, cc: tuple[str, str], backend: str
) -> tuple[dict[str, Any], "hashlib._Hash"]:
    """Columns of jobs that differ in their seed alone, and the hash of its JSON as far as it is the same."""
    named, version = cc
    line = {
        "scenario": variant.scenario.name,
        "scenario_hash": variant.hash,
        **variant.values,
        "backend": backend,
        "transport": variant.transport,
        "scheduler": scheduler.title,
        "scheduler_version": scheduler.version,
        "scheduler_source": scheduler.source,
        "cc": named,
        "cc_version": version,
    }
    return line, hashlib.sha256(f"{json.dumps(line)[:-1]}, ".encode())
