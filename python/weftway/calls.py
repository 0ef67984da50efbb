"""Functions for programs: `weftway.compare`, `weftway.run` and `weftway.export`."""

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weftway._native import Scenario, ScenarioError, SimulationError
from weftway.runs import comparison, plan, seeds
from weftway.runs.backends import Row
from weftway.runs.runner import Progress
from weftway.scenario import load

if TYPE_CHECKING:
    import numpy.typing as npt

    from weftway.results import Results


def compare(
    scenario: Scenario | str | os.PathLike[str],
    *,
    scheduler: Any = None,
    cc: str | Iterable[str] | None = None,
    seeds: seeds.Seeds = None,
    set: Iterable[str] | Mapping[str, Any] = (),
    backend: str | Iterable[str] | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> "Results":
    """Runs a scenario: a row per scheduler, controller, variant and seed, in a Polars frame that a notebook shows as
    the table of `weft compare`.

    The scenario is a file, or the name of one of ours (`"wifi-lte"`); `set` replaces keys of it, as
    `{"path.lte.loss": "2 %"}` or `["path.lte.loss=2 %"]`.
    A scheduler is a name of the registry with its switches (`"ecf:beta=0.5"`), `"all"`, a class
    with a method `select(self, cx)`, or a list of these. What is not given is the scenario's own.
    The rows are the same, byte for byte, whatever `jobs` is. With `out`, rows are kept there as
    they finish, and a later call goes on from them. The folder keeps all that it ever got; what is returned are the
    rows that were asked for. Of a run that fails there is a warning and no row; if all fail, the first failure is
    raised.
    """
    from weftway.results import Results

    if out is not None and not isinstance(out, str | os.PathLike):
        raise ScenarioError(f"out={out!r}: `out` is a folder, a text or a path")
    loaded = load(scenario, set)
    wanted = plan.plan(loaded, scheduler, cc, seeds, backend)
    ran = comparison.execute(wanted, jobs, None if out is None else Path(out), progress)
    if not ran.rows:
        ran.complete()
    for reason in dict.fromkeys(f"skipped {skip.job.scheduler.title}: {skip.reason}" for skip in ran.skipped):
        warnings.warn(reason, stacklevel=2)
    for line in ran.warnings:
        warnings.warn(line, stacklevel=2)
    return Results(ran)


def run(
    scenario: Scenario | str | os.PathLike[str],
    *,
    scheduler: Any = None,
    cc: str | None = None,
    seed: int | None = None,
    set: Iterable[str] | Mapping[str, Any] = (),
    backend: str | None = None,
) -> Row:
    """The row of a single run, column by column. What is not given is the first that the scenario names."""
    ran = comparison.execute(comparison.single(load(scenario, set), scheduler, cc, seed, backend), 1)
    if ran.skipped:
        raise SimulationError(ran.skipped[0].reason)
    return ran.complete().rows[0]


def export(
    model: Any,
    task: str,
    file: str | os.PathLike[str],
    *,
    activation: str | None = None,
    head: str | None = None,
    ranges: "tuple[npt.ArrayLike, npt.ArrayLike] | None" = None,
    fallback: str = "min-rtt",
    card: Mapping[str, str] | None = None,
) -> Path:
    """Writes a trained network as a policy file: `weft compare --scheduler mine.safetensors` runs it.

    `model` is a torch module of `Linear` layers with `ReLU` or `Tanh` between them, after `LSTM` layers if it has some;
    or a list of pairs of arrays (W of shape (in, out), b). It takes observations of `task` as the environment gives
    them, (n, inputs), and returns a number per choice, (n, choices). The export is verified: the file has to give the
    model's answers.

    `activation` says what follows each layer but the last where no layer of the model does (`torch.relu` in `forward`).
    `head` is `greedy` (the largest output decides) or `sample` (drawn by their softmax). Outside `ranges`, the smallest
    and largest value of each input in training, the scheduler `fallback` decides; without `ranges`, nowhere. `card`
    tells where the policy comes from: `trained_on`, `cc`, `seed`, `steps`, `command`, `evaluation`, or what you like.
    """
    from weftway.deploy import write

    return write(model, task, Path(file), activation, head, ranges, fallback, card or {})
