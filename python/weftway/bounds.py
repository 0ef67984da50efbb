"""The capacity bound of simulated runs: what their links allow at best, whatever the scheduler and the controller."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weftway import _native

if TYPE_CHECKING:
    from weftway.job import Job


def of(jobs: Sequence["Job"], threads: int) -> Mapping[str, dict[str, Any]]:
    """The columns `bound_…` of each job's run, by its key. All schedulers of a scenario and a seed have the same."""
    alike = {(job.variant.hash, job.cc, job.seed): job for job in jobs}
    found = dict(zip(alike, map(json.loads, _native.bounds(list(alike.values()), threads)), strict=True))
    return {job.key: found[job.variant.hash, job.cc, job.seed] for job in jobs}
