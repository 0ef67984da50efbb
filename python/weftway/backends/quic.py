"""Backend `quic`: real Multipath QUIC packets between two endpoints of noq, over simulated links, in virtual time."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from weftway import _native
from weftway._native import Batch
from weftway.specs import SchedulerSpec

from .base import Result, Skipped, failures_last, result
from .sim import POLL_S, order

if TYPE_CHECKING:
    from weftway.plan import Job


class Quic:
    """Multipath QUIC in virtual time: our schedulers and controllers, the same links, somebody else's stack."""

    name = "quic"
    summary = "Multipath QUIC (noq) in virtual time: real frames and packets over simulated links"
    is_repeatable = True
    remote_obstacle: str | None = None

    def code(self) -> str:
        return _native.QUIC_CODE

    def obstacle(self) -> str | None:
        return None

    def schedulers(self, named: list[SchedulerSpec]) -> list[SchedulerSpec]:
        return named

    def run(self, jobs: Sequence["Job"], threads: int, timelines: dict[str, str]) -> Iterator[tuple["Job", Result]]:
        native = [job for job in jobs if job.scheduler.rule is None]
        yield from ((job, Skipped(job, RULES_STAY)) for job in jobs if job.scheduler.rule is not None)
        batch = Batch([order(job) for job in native], threads, quic=True)
        try:
            while batch.remaining:
                for index, kind, text in failures_last(batch.wait(POLL_S)):
                    yield native[index], result(native[index], kind, text)
        finally:
            batch.cancel()

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        return None


RULES_STAY = "a scheduler in Python is not run on QUIC yet"
