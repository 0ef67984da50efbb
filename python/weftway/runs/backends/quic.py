"""Backend `quic`: real Multipath QUIC packets between two endpoints of noq, over simulated links, in virtual time."""

from typing import TYPE_CHECKING

from weftway import _native
from weftway.runs.specs import SchedulerSpec

if TYPE_CHECKING:
    from weftway.runs.job import Job


class Quic:
    """Multipath QUIC in virtual time: our schedulers and controllers, the same links, somebody else's stack."""

    name = "quic"
    summary = "Multipath QUIC (noq) in virtual time: real frames and packets over simulated links"
    is_repeatable = True
    remote_obstacle: str | None = None
    start = _native.Batch

    def code(self) -> str:
        return _native.QUIC_CODE

    def obstacle(self) -> str | None:
        return None

    def schedulers(self, named: list[SchedulerSpec]) -> list[SchedulerSpec]:
        return named

    def timeline(self, job: "Job", kept: str | None) -> str | None:
        return None
