"""Bounds of a simulated run: the capacity bound, which is what its links allow at best, whatever the
scheduler and the controller; what a clairvoyant, or an oracle, does under the run's own controller; and what the
scheduler does where an oracle is the controller."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weftway import _native

if TYPE_CHECKING:
    from weftway.runs.job import Job

TRIES = 400
"""At how many questions of a run the clairvoyant tries answers out."""


def of(jobs: Sequence["Job"], threads: int) -> Mapping[str, dict[str, Any]]:
    """The columns `bound_…` of each job's run, by its key. All schedulers of a scenario and a seed have the same."""
    alike = {(job.variant.hash, job.cc, job.seed): job for job in jobs}
    bounds = dict(zip(alike, map(json.loads, _native.bounds(list(alike.values()), threads)), strict=True))
    return {job.key: bounds[job.variant.hash, job.cc, job.seed] for job in jobs}


def clairvoyants(jobs: Sequence["Job"], threads: int, tries: int = TRIES) -> list[dict[str, Any]]:
    """The results of each job's run by a clairvoyant that starts from the job's scheduler. Takes seconds for each."""
    return [json.loads(text) for text in _native.clairvoyants(jobs, threads, tries)]


SIGHTS = ("present", "arrival")
"""Foresight of an oracle: when a packet would arrive if the links stayed as they are, or when it will arrive."""


def oracles(jobs: Sequence["Job"], threads: int, sight: str) -> list[dict[str, Any]]:
    """The results of each job's run by `earliest-delivery` with this sight."""
    return [json.loads(text) for text in _native.oracles(jobs, threads, sight)]


def oracle_key(job: "Job", sight: str) -> str:
    """The key of that run."""
    return f"{job.key}-oracle-{sight}"


CONTROLLER = "controller"
"""An oracle that is the controller: each path's window is what its link holds at its present rate, whatever is lost."""


def controlled(jobs: Sequence["Job"], threads: int) -> list[dict[str, Any]]:
    """The results of each job's run by its scheduler where an oracle is the controller."""
    return [json.loads(text) for text in _native.controlled(jobs, threads)]


def clairvoyant_key(job: "Job") -> str:
    """The key of that run."""
    return f"{job.key}-clairvoyant-{TRIES}"
