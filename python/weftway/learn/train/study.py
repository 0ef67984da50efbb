"""STSGAT against the two networks its paper measures it by: which settles sooner, and on how small a loss?

All networks get the same labelled decisions, the same optimiser and the same order of samples, once per seed. The
paper says that STSGAT's loss "stabilises at 48 iterations", before STSGCN's and Graph WaveNet's, at the smallest loss.
Data set and iterations are not printed, so the number cannot be tested; the order can: a network has settled at the
first epoch from which the mean of five losses changes by less than 1 % for five epochs (`graph.fit.plateau`). Seeds
are pairs for an exact sign test.

Each run, a network with a seed, has a folder of its own and is kept: `--resume` goes on with the next one. Reference:
PDASTSGAT, Figure 5.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar

import altair as alt
import equinox as eqx
import jax
import numpy as np
import polars as pl
from jax import Array

from weftway._native import CODE
from weftway.learn.train import stsgat
from weftway.learn.train.curve import Point
from weftway.learn.train.graph import Network, Shape
from weftway.learn.train.graph.fit import Dataset, Run, against, compare, evaluate
from weftway.learn.train.graph.stsgat import STSGAT
from weftway.learn.train.graph.stsgcn import STSGCN
from weftway.learn.train.graph.wavenet import WaveNet
from weftway.learn.train.limits import Count, Pattern, SettingError
from weftway.learn.train.session import Progress, quiet
from weftway.report.palette import SCHEDULER_LIGHT
from weftway.runs.store import whole

NETWORKS: dict[str, Callable[[Shape, Array], Network]] = {"stsgat": STSGAT, "stsgcn": STSGCN, "graph-wavenet": WaveNet}
"""Networks in the order that the paper claims, the best first."""

MEASURES: dict[str, Callable[[Run], float | None]] = {
    "plateau": lambda run: run.plateau,
    "final loss": lambda run: run.final_loss,
}
"""Measures that are claimed to be in the order of `NETWORKS`; smaller is better."""


@dataclass(frozen=True, kw_only=True)
class Args(stsgat.Args):
    """Settings and their defaults."""

    steps: int = 1_600
    epochs: int = 24
    """Epochs of each run. A quarter of an hour on one core with five seeds; 8 000 and 60 take about three hours."""
    against: Annotated[str, Pattern(r"|[a-z][a-z-]*(, ?[a-z][a-z-]*)*", "networks separated by commas")] = (
        "stsgcn,graph-wavenet"
    )
    """Networks to compare with STSGAT, separated by commas: `stsgcn`, `graph-wavenet`."""
    seeds: Count = 5
    """Runs of each network, from `seed` on."""

    ALGORITHM: ClassVar[str] = "stsgat-study"
    QUICK: ClassVar[dict[str, Any]] = {"steps": 1_600, "epochs": 20, "pool": 48, "seeds": 1}

    @property
    def networks(self) -> list[str]:
        """The networks' names, in the order of the claim."""
        named = {"stsgat", *(name.strip() for name in self.against.split(",") if name.strip())}
        if unknown := named - NETWORKS.keys():
            raise SettingError(f"--against {self.against}: no network `{min(unknown)}`, there is {', '.join(NETWORKS)}")
        return [name for name in NETWORKS if name in named]

    def fit_together(self) -> None:
        super().fit_together()
        _ = self.networks


@dataclass(frozen=True)
class Studied:
    """Results of a study."""

    runs: list[Run]
    tests: list[dict[str, Any]]
    """Sign tests of "the first is smaller", for each pair of neighbours in the claimed order and each measure."""
    file: Path | None
    """The JSON file with all of it, if a folder was named."""

    def lines(self) -> list[str]:
        """Lines that report it."""
        return [
            *map(_of_run, self.runs),
            *map(_of_test, self.tests),
            *([f"curves beside {self.file}"] if self.file else []),
        ]


def _of_run(run: Run) -> str:
    settled = "no plateau" if run.plateau is None else f"plateau at epoch {run.plateau}"
    return f"{run.model}, seed {run.seed}: {settled}, loss {run.final_loss:.4f}, {run.epoch_seconds:.1f} s an epoch"


def _of_test(test: dict[str, Any]) -> str:
    return "{measure} of {first} < {second}: {smaller} of {pairs} seeds, larger {larger}, p = {p:.3f}".format(**test)


def train(args: Args, progress: Progress = quiet) -> Studied:
    """Trains every network with every seed."""
    stsgat.prepare(args)
    data = stsgat.dataset(stsgat.collected(args, args.variants(), None, 0), args)
    makers = {name: partial(NETWORKS[name], args.shape) for name in args.networks}
    total, done = len(makers) * args.seeds * args.epochs, 0

    def tell(model: str, seed: int, point: Point) -> None:
        nonlocal done
        done += 1
        progress(done, total)

    runs: list[Run] = []
    for seed in range(args.seed, args.seed + args.seeds):
        folder = args.out / "runs" if args.out else None
        runs += compare(makers, data, [seed], args.fit, folder=folder, progress=tell)
        studied = Studied(runs, tests(args.networks, runs), args.file("json"))
        written(args, data, studied)
    return studied


def tests(networks: list[str], runs: list[Run]) -> list[dict[str, Any]]:
    """Each network against the next in the claimed order."""
    rows = []
    for (first, second), (measure, of) in (
        (pair, measured) for pair in pairwise(networks) for measured in MEASURES.items()
    ):
        counts = against(runs, first, second, of)
        pairs = counts.smaller + counts.larger + counts.equal
        rows.append({"measure": measure, "first": first, "second": second, "pairs": pairs, **counts._asdict()})
    return rows


def written(args: Args, data: Dataset, studied: Studied) -> None:
    """Writes the JSON file, and the curves as a drawing."""
    if studied.file is None or args.out is None:
        return
    zero = data.batch(data.test)
    first = {name: NETWORKS[name](args.shape, jax.random.key(args.seed)) for name in args.networks}
    about = {
        "command": args.command(),
        "code": CODE,
        "samples": {part: len(getattr(data, part)) for part in ("train", "validation", "test")},
        "weights": {name: weights(network) for name, network in first.items()},
        "untrained_accuracy": {name: evaluate(network, zero)[1] for name, network in first.items()},
        "tests": studied.tests,
        "runs": [asdict(run) for run in studied.runs],
    }
    with whole(studied.file) as half:
        half.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    drawn(studied.runs, args.networks, studied.file.with_suffix(".svg"))


def weights(network: Network) -> int:
    """Number of trained weights."""
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))


def drawn(runs: list[Run], networks: list[str], file: Path) -> None:
    """Draws training loss and validation accuracy by epoch: a line per run."""
    rows = [
        {"network": run.model, "seed": run.seed, "epoch": point["step"], "what": what, "value": point[key]}
        for run in runs
        for point in run.curve
        for what, key in (("training loss", "loss"), ("validation accuracy", "validation_accuracy"))
    ]
    colour = alt.Scale(domain=networks, range=list(SCHEDULER_LIGHT[: len(networks)]))
    lines = alt.Chart(pl.DataFrame(rows)).mark_line(strokeWidth=1.5, opacity=0.8)
    chart = lines.encode(
        x=alt.X("epoch:Q", title="epoch"),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
        color=alt.Color("network:N", scale=colour, sort=networks, title=None),
        strokeDash=alt.StrokeDash("network:N", sort=networks, title=None),
        detail="seed:N",
    ).properties(width=340, height=240)
    faceted = chart.facet(column=alt.Column("what:N", title=None)).resolve_scale(y="independent")
    with alt.data_transformers.enable("default", max_rows=None):
        faceted.save(str(file))
