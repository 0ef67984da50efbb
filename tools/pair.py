"""Scheduler and controller together: `./weft python tools/pair.py --seed S --out DIR`.

It runs every pair in cells of a distribution, whatever controller a cell has, with two rulers: the capacity bound, and
an oracle as controller; and what `weft fairness` runs. Its tables go to `site/data/pair.json`, from where `./weft docs`
puts them below what `docs/explanation/pair.md` says.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from weftway import fairness
from weftway.fairness import CUBIC, Fairness
from weftway.fairness.settings import LOSSES, QUEUES, Link
from weftway.markdown import table
from weftway.rank import cells, standing
from weftway.rank.cells import Cell
from weftway.rank.costs import COLUMN, bound, cost, needed
from weftway.report.numbers import counted, listed
from weftway.runs import bounds, plan, seeds, specs
from weftway.runs.job import Job
from weftway.runs.runner import Outcome, RowHandling, Runner, Wanted, threads
from weftway.scenario import HOME
from weftway.stats.estimates import geometric_mean
from weftway.terminal.console import PlainConsole
from weftway.terminal.progress import Bar

DATA = HOME / "site/data/pair.json"
"""Tables of the runs that were made last."""

SCHEDULERS = ("min-rtt", "ecf", "blest", "lin-ucb", "q-learning", "dqn", "earliest-delivery")
CONTROLLERS = ("cubic", "bbr1", "bbr2", "bbr3", "bbr3:bursts=yes", "lia", "bdp")
ORACLE = "oracle"
"""The controller whose windows follow the links (`bounds.controlled`)."""

USUAL = ("earliest-delivery", "cubic")
"""The pair that others are held against."""

IN_THE_PAPER = {(scheduler, cc) for scheduler in SCHEDULERS[:-1] for cc in CONTROLLERS[:3]}
"""Cells of Popov, Stepanov and Getman 2025, whose question this is."""

WINDOWS = (10, 16, 32)
"""Initial windows whose cost to short flows is told."""

Pair = tuple[str, str]
Costs = Mapping[str, Mapping[Pair, float]]
"""Mean cost over the seeds, by cell and pair."""


def comparable(drawn: Sequence[Cell]) -> list[Cell]:
    """The cells whose workload has an end, and one sender: there is no oracle of a call, in which two decide."""
    return [cell for cell in drawn if cell.workload in COLUMN and cell.workload != "call"]


def measured(chosen: Sequence[Cell], numbers: Sequence[int], out: Path, count: int) -> tuple[Costs, dict[str, float]]:
    """Mean costs of each pair, and the bound, in each cell."""
    wanted = list(_wanted(chosen, numbers))
    usual = [one for one in wanted if one.asker[1][1] != ORACLE]
    ruled = [one for one in wanted if one.asker[1][1] == ORACLE]

    def kept(one: Wanted[Job, tuple[Cell, Pair]], row: dict[str, Any]) -> dict[str, Any]:
        return {**one.job.identity, **needed(row), "cell": one.asker[0].name}

    def oracles(todo: Sequence[Job]) -> Iterator[Outcome[Job]]:
        for start in range(0, len(todo), count):
            some = todo[start : start + count]
            yield from map(Outcome, some, bounds.controlled(some, count))

    def key(job: Job) -> str:
        return bounds.oracle_key(job, bounds.CONTROLLER)

    held: dict[str, dict[Pair, list[float]]] = {cell.name: {} for cell in chosen}
    with Bar(PlainConsole(stderr=True)) as bar, Runner(out, bar.tell, len(wanted)) as runner:
        plainly: RowHandling[Job, tuple[Cell, Pair]] = RowHandling(kept=kept)
        by_oracle: RowHandling[Job, tuple[Cell, Pair]] = RowHandling(
            key=key, kept=lambda one, row: {**kept(one, row), "key": key(one.job)}
        )
        for runs in (
            runner.run(usual, threads(count, singles=False), plainly),
            runner.run(ruled, oracles, by_oracle),
        ):
            for one, row in runs:
                cell, pair = one.asker
                held[cell.name].setdefault(pair, []).append(cost(needed(row), cell.workload))
    costs = {name: {pair: fmean(some) for pair, some in by.items()} for name, by in held.items()}
    return costs, _bounds(chosen, numbers, costs, count)


def _wanted(chosen: Sequence[Cell], numbers: Sequence[int]) -> Iterator[Wanted[Job, tuple[Cell, Pair]]]:
    controllers = [*plan.controllers(",".join(CONTROLLERS)), (ORACLE, "")]
    usual = plan.controllers(USUAL[1])[0]
    for cell in chosen:
        for spec in specs.parse(",".join(SCHEDULERS)):
            for cc in controllers:
                for seed in numbers:
                    # An oracle takes the place of whatever controller the job has.
                    job = plan.simulated(cell.variant, spec, usual if cc[0] == ORACLE else cc, seed)
                    yield Wanted(job, (cell, (spec.title, cc[0])))


def _bounds(chosen: Sequence[Cell], numbers: Sequence[int], costs: Costs, count: int) -> dict[str, float]:
    """Mean bound of each cell that has one."""
    (spec,), (cc,) = specs.parse(USUAL[0]), plan.controllers(USUAL[1])
    jobs = {(cell.name, seed): plan.simulated(cell.variant, spec, cc, seed) for cell in chosen for seed in numbers}
    limits = bounds.of(list(jobs.values()), count)
    found: dict[str, float] = {}
    for cell in chosen:
        # Each cell's workload has a column of its own: the row counts for nothing.
        some = [bound({"elapsed_ms": 0.0}, limits[jobs[cell.name, seed].key], cell.workload) for seed in numbers]
        known = [one for one in some if one is not None]
        if len(known) == len(numbers) and cell.name in costs:
            found[cell.name] = fmean(known)
    return found


def ratio(costs: Costs, pair: Pair, over: Pair = USUAL) -> tuple[float, float | None, float | None]:
    """The geometric mean over cells of a pair's cost over that of another, and its interval."""
    return standing.geometric([by[pair] / by[over] for by in costs.values() if pair in by and over in by])


def of_bound(costs: Costs, limits: Mapping[str, float], pair: Pair) -> float:
    """The median over cells of a pair's cost over the bound."""
    return median(costs[name][pair] / limit for name, limit in limits.items() if pair in costs[name])


def tables(costs: Costs, limits: Mapping[str, float]) -> list[str]:
    """Both tables."""
    controllers = (*CONTROLLERS, ORACLE)
    heads = ["", *(f"`{cc}`" for cc in controllers)]

    def cell(pair: Pair) -> str:
        value, low, high = ratio(costs, pair)
        text = f"**{value:.2f}**" if pair in IN_THE_PAPER else f"{value:.2f}"
        return text if low is None or pair == USUAL else f"{text} ({low:.2f}–{high:.2f})"

    def bounded(pair: Pair) -> str:
        value = f"{of_bound(costs, limits, pair):.2f}"
        return f"**{value}**" if pair in IN_THE_PAPER else value

    lines = [[f"`{name}`", *(cell((name, cc)) for cc in controllers)] for name in SCHEDULERS]
    limited = [[f"`{name}`", *(bounded((name, cc)) for cc in controllers)] for name in SCHEDULERS]
    over = f"`{USUAL[0]}` under `{USUAL[1]}`"
    return [
        f"Cost over that of {over}, geometric mean of {counted(len(costs), 'cell')}, 95 % interval:",
        "",
        *table(heads, lines),
        "",
        f"Cost over the capacity bound, median of {counted(len(limits), 'cell')}:",
        "",
        *table(heads, limited),
    ]


def by_random_loss(costs: Costs, chosen: Sequence[Cell]) -> list[str]:
    """Table of the usual scheduler under each controller, by the largest random loss of a cell's paths."""
    groups: dict[str, dict[str, Mapping[Pair, float]]] = {}
    for cell in sorted(chosen, key=_loss):
        groups.setdefault(f"{_loss(cell):g} %", {})[cell.name] = costs[cell.name]
    controllers = (*CONTROLLERS, ORACLE)
    lines = [
        [f"{loss}, {counted(len(some), 'cell')}", *(f"{ratio(some, (USUAL[0], cc))[0]:.2f}" for cc in controllers)]
        for loss, some in groups.items()
    ]
    what = f"Cost of `{USUAL[0]}` over that under `{USUAL[1]}`, by the largest random loss of a path:"
    return [what, "", *table(["", *(f"`{cc}`" for cc in controllers)], lines)]


def _loss(cell: Cell) -> float:
    """The largest random loss of a path, in per cent; what is no number counts as none."""
    texts = [str(cell.keys.get(f"path.{name}.loss", "0 %")).removesuffix("%").strip() for name in cell.paths]
    return max((float(text) for text in texts if text.replace(".", "", 1).isdecimal()), default=0.0)


def left_to_others(found: Fairness) -> list[str]:
    """Table of what each controller leaves to others."""
    queues = list(QUEUES.values())
    heads = ["", *(f"share, {one}" for one in queues), "1 % loss", *(f"2 ×, {one}" for one in queues)]
    lines = [_left(found, cc) for cc in found.controllers]
    made = [
        f"Share beside a CUBIC flow at queues of {listed(queues)} products, with 1 % random loss (mean of the three), "
        "and that of two subflows; goals of RFC 6356 that are met; time of short flows over that beside a CUBIC flow:",
        "",
        *table([*heads, "goals", "short flows"], lines),
    ]
    by_link: dict[Link, dict[int, str]] = {}
    for one in found.starts:
        if one.cc == CUBIC:
            by_link.setdefault(one.link, {})[one.window] = f"{one.mean_ms:.0f}, {one.p99_ms:.0f}"
    windows = sorted({window for some in by_link.values() for window in some})
    lines = [
        [f"{link.rate} Mbit/s, {link.queue} packets", *(some.get(window, "–") for window in windows)]
        for link, some in by_link.items()
    ]
    starts = table(["", *map(str, windows)], lines)
    what = "Mean and 99th percentile, in ms, in the half second in which a CUBIC flow starts with so many packets:"
    return [*made, "", what, "", *starts]


def _left(found: Fairness, cc: str) -> list[str]:
    one, lossy, two = (
        [share.share for share in found.share(cc, CUBIC, subflows, loss)]
        for subflows, loss in ((1, LOSSES[0]), (1, LOSSES[1]), (2, LOSSES[0]))
    )
    met = next((goals.verdicts for goals in found.goals if goals.cc == cc), ())
    goals = ", ".join(str(number) for number, is_met in enumerate(met, 1) if is_met) or "–"
    short = geometric_mean(some.over_cubic for some in found.short if some.cc == cc)
    shares = (*one, geometric_mean(lossy), *two)
    return [f"`{cc}`", *(f"{value:.2f}" for value in shares), goals, f"{short:.2f}"]


def page() -> str:
    """Generated part of the page."""
    made = json.loads(DATA.read_text(encoding="utf-8"))
    return "\n".join(line for heading, lines in made.items() for line in (f"## {heading}", "", *lines, ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="seed of the cells: a number that nobody has tuned on")
    parser.add_argument("--on", default="drives", help="distribution")
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--seeds", default="0..2")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs; resumes")
    given = parser.parse_args()
    drawn = cells.read([given.on], given.cells, given.seed, "held-out", (), given.out)
    chosen = comparable(drawn)
    costs, limits = measured(chosen, seeds.parse(given.seeds), given.out, given.jobs)
    made = {"Cost of each pair": [*tables(costs, limits), "", *by_random_loss(costs, chosen)]}
    with Bar(PlainConsole(stderr=True)) as bar:
        asked = fairness.Request(windows=WINDOWS)
        made["What each controller leaves to others"] = left_to_others(
            fairness.run(asked, given.jobs, given.out / "fairness", bar.tell)
        )
    DATA.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(page())


if __name__ == "__main__":
    main()
