"""Backend `kernel`: MPTCP and TCP of the running Linux kernel, over links emulated in real time."""

import platform
import sys
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from weftway import _native
from weftway.runs import probe, specs
from weftway.runs.specs import SchedulerSpec

from .base import Batch, Generated

if TYPE_CHECKING:
    from weftway.runs.job import Job

OWN_SCHEDULER = "linux-v1"
"""The kernel has one scheduler, and this is our name for it."""

NEEDS = (*probe.LINKS, "MPTCP", "MPTCP_FULL_INFO", "MPTCP path manager")
"""Parts that have to be there, by the probe's names. The rest makes a run more punctual or tidier."""


class Kernel:
    """The kernel of this machine. Whichever schedulers are named, it runs its own, once per controller and seed."""

    name = "kernel"
    summary = "MPTCP v1 and TCP of the running Linux kernel, over links emulated in real time"
    is_repeatable = False
    remote_obstacle: str | None = "a run of the kernel is measured on this machine: leave out --ray"

    def code(self) -> str:
        return f"{_native.KERNEL_CODE}, Linux {platform.release()}"

    def obstacle(self) -> str | None:
        return probe.missing(NEEDS)

    def schedulers(self, named: list[SchedulerSpec]) -> list[SchedulerSpec]:
        return specs.parse(OWN_SCHEDULER)

    def start(
        self, jobs: Sequence["Job"], threads: int, singles: bool = True, watched: Set[int] = frozenset()
    ) -> Batch:
        if hasattr(_native, "KernelBatch"):
            return _native.KernelBatch(jobs, threads)
        reason = f"there is no Linux kernel here; this is {sys.platform}"
        return Generated(((at, "skipped", reason, None) for at in range(len(jobs))), len(jobs))

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        return kept
