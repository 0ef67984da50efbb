"""Backend `kernel`: MPTCP and TCP of the running Linux kernel, over links emulated in real time."""

import platform
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from weftway import _native, probe, specs
from weftway.specs import SchedulerSpec

from .base import Result, Skipped, failures_last, result

if TYPE_CHECKING:
    from weftway.plan import Job

OWN_SCHEDULER = "linux-v1"
"""The kernel has one scheduler, and this is our name for it."""

NEEDS = (*probe.LINKS, "MPTCP", "MPTCP_FULL_INFO", "MPTCP path manager")
"""What has to be there, by the probe's names. The rest makes a run more punctual or tidier."""

LABS_PER_THREAD = 6
"""A lab waits most of the time: so many run beside one another for each thread that is asked for."""

POLL_S = 0.1
"""How long the main thread waits for rows at a time: it answers an interrupt within this."""


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

    def run(self, jobs: Sequence["Job"], threads: int, timelines: dict[str, str]) -> Iterator[tuple["Job", Result]]:
        if not hasattr(_native, "KernelBatch"):
            yield from ((job, Skipped(job, f"there is no Linux kernel here; this is {sys.platform}")) for job in jobs)
            return
        batch = _native.KernelBatch([(job.variant, job.cc[0], job.seed) for job in jobs], LABS_PER_THREAD * threads)
        try:
            while batch.remaining:
                for index, kind, text, timeline in failures_last(batch.wait(POLL_S)):
                    if timeline is not None:
                        timelines[jobs[index].key] = timeline
                    yield jobs[index], result(jobs[index], kind, text)
        finally:
            batch.cancel()

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        return kept
