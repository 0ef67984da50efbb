"""One run: what decides its row, and the key under which the row is kept."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from weftway._native import Variant
from weftway.specs import SchedulerSpec


@dataclass(frozen=True)
class Job:
    """One run. Its result depends on nothing else."""

    variant: Variant
    scheduler: SchedulerSpec
    cc: tuple[str, str]
    backend: str
    seed: int
    command: str
    code: str
    """The identity of the code that decides its row."""

    @cached_property
    def head(self) -> dict[str, Any]:
        """What a row says before its results: which run it was, and of what."""
        scenario = self.variant.scenario
        cc, cc_version = self.cc
        return {
            "scenario": scenario.name,
            "scenario_hash": self.variant.hash,
            **self.variant.values,
            "backend": self.backend,
            "transport": self.variant.transport,
            "scheduler": self.scheduler.name,
            "scheduler_version": self.scheduler.version,
            "scheduler_source": self.scheduler.source,
            "cc": cc,
            "cc_version": cc_version,
            "seed": self.seed,
            "code": self.code,
            "command": self.command,
        }

    @cached_property
    def key(self) -> str:
        """The same for the same run of the same code, and for nothing else."""
        deciding = {name: value for name, value in self.head.items() if name != "command"}
        return hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:32]

    @property
    def identity(self) -> dict[str, Any]:
        """The key, and what a row says before its results."""
        return {"key": self.key, **self.head}
