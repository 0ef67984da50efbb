"""A ranking as it is shown, and its report."""

from pathlib import Path
from typing import TYPE_CHECKING

from weftway import _native
from weftway.report import page
from weftway.report.numbers import counted
from weftway.runs import plan, specs
from weftway.runs.backends import SIM

from . import ranking
from .ranking import Ranked
from .runs import STEADY_SEEDS, Ranking, Request, groups, single_path, standings, worst

if TYPE_CHECKING:
    import polars as pl


def ranked(found: Ranking) -> Ranked:
    """The numbers, and the words around them."""
    counts = [
        counted(len(some), what) for some, what in ((found.judged, "cell"), (found.seeds, "seed"), (found.rows, "run"))
    ]
    if found.left_out:
        counts.append(f"not among the others: {', '.join(found.left_out)}")
    return Ranked(
        title=f"Schedulers ranked on {', '.join(found.request.on)}",
        facts=", ".join(counts),
        others=found.kept.sentence,
        command=replay(found.request),
        standings=standings(found),
        single=single_path(found),
        groups=groups(found),
        worst=worst(found),
        labels={cell.name: cell.label for cell in found.cells},
        registry=[one["name"] for one in _native.schedulers()],
        code=SIM.code(),
        own=[one.title for one in found.schedulers if one.is_own],
        named=[one.title for one in found.schedulers if one.is_named],
        left_out=found.left_out,
        few_seeds=len(found.seeds) if len(found.seeds) < STEADY_SEEDS else None,
        shares=found.shares,
    )


def write(found: Ranking, shown: Ranked, out: Path) -> Path:
    """Writes `report.html` into the folder."""
    return page.save(ranking.render(shown, costs(found)), out)


def costs(found: Ranking) -> "pl.DataFrame":
    """The mean cost of each scheduler, and of each path, in each cell."""
    import polars as pl

    by = ["cell", "label", "scheduler"]
    return found.frame.group_by(by, maintain_order=True).agg(pl.col("cost_ms").mean())


def replay(request: Request) -> str:
    """The command that carries out a request."""
    words = [f"--on {plan.quoted(name)}" for name in request.on]
    words += [] if request.cells is None else [f"--cells {request.cells}"]
    words += [f"--seeds {request.seeds}", f"--seed {request.seed}"]
    words += [f"--schedulers {plan.quoted(str(request.schedulers))}"]
    words += [] if request.candidate is None else [f"--candidate {plan.quoted(str(request.candidate))}"]
    left_out = [plan.quoted(one.text) for one in specs.parse(request.not_among_others)]
    words += [f"--not-among-others {','.join(left_out)}"] if left_out else []
    words += ["--clairvoyant"] if request.clairvoyant else []
    words += ["--oracle"] if request.oracle else []
    words += ["--oracle-cc"] if request.oracle_cc else []
    under = [name for name, _ in plan.controllers(request.cc)]
    words += [f"--cc {plan.quoted(','.join(under))}"] if under else []
    words += [f"--initial-window {','.join(map(str, request.windows))}"] if request.windows else []
    words += [f"--split {request.split}", *(f"--set {plan.quoted(one)}" for one in request.set)]
    return " ".join(["weft rank", *words])
