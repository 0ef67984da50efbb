"""A ranking as it is shown, and its report."""

from pathlib import Path
from typing import TYPE_CHECKING

from weftway import _native
from weftway.report import page
from weftway.report.numbers import counted
from weftway.runs import plan
from weftway.runs.backends import SIM

from .ranking import Ranked, render
from .runs import Ranking, Request, groups, single_path, standings, worst

if TYPE_CHECKING:
    import polars as pl


def ranked(ranking: Ranking) -> Ranked:
    """The numbers, and the words around them."""
    counts = [
        counted(len(some), what)
        for some, what in ((ranking.judged, "cell"), (ranking.seeds, "seed"), (ranking.rows, "run"))
    ]
    return Ranked(
        title=f"Schedulers ranked on {', '.join(ranking.request.on)}",
        facts=", ".join(counts),
        others=ranking.kept.sentence,
        command=replay(ranking.request),
        standings=standings(ranking),
        single=single_path(ranking),
        groups=groups(ranking),
        worst=worst(ranking),
        labels={cell.name: cell.label for cell in ranking.cells},
        registry=[entry["name"] for entry in _native.schedulers()],
        code=SIM.code(),
        own=[scheduler.name for scheduler in ranking.schedulers if scheduler.rule is not None],
        named=[scheduler.name for scheduler in ranking.schedulers if scheduler.is_named],
    )


def write(ranking: Ranking, shown: Ranked, out: Path) -> Path:
    """Writes `report.html` into the folder."""
    return page.save(render(shown, costs(ranking)), out)


def costs(ranking: Ranking) -> "pl.DataFrame":
    """The mean cost of each scheduler, and of each path, in each cell."""
    import polars as pl

    by = ["cell", "label", "scheduler"]
    return ranking.frame.group_by(by, maintain_order=True).agg(pl.col("cost_ms").mean())


def replay(request: Request) -> str:
    """The command that carries out a request."""
    words = [f"--on {plan.quoted(name)}" for name in request.on]
    words += [] if request.cells is None else [f"--cells {request.cells}"]
    words += [f"--seeds {request.seeds}", f"--seed {request.seed}"]
    words += [f"--schedulers {plan.quoted(str(request.schedulers))}"]
    words += [] if request.candidate is None else [f"--candidate {plan.quoted(str(request.candidate))}"]
    words += ["--clairvoyant"] if request.clairvoyant else []
    words += ["--oracle"] if request.oracle else []
    words += [f"--split {request.split}", *(f"--set {plan.quoted(setting)}" for setting in request.set)]
    return " ".join(["weft rank", *words])
