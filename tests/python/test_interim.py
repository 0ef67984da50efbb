"""The table of those who wait for a comparison: what has come so far, best first."""

from pathlib import Path
from typing import Any

from rich.console import Console

from weftway import rank
from weftway.rank.so_far import SoFar
from weftway.report.interim import Interim
from weftway.runs import comparison, plan
from weftway.runs.backends import Row
from weftway.runs.job import Job
from weftway.scenario import load


def lines(so_far: Interim | SoFar) -> list[list[str]]:
    console = Console(width=120)
    with console.capture() as text:
        console.print(so_far.table())
    return [line.split() for line in text.get().splitlines()]


def wanted(small: Path, **more: Any) -> plan.Plan:
    return plan.plan(load(small, []), "min-rtt,round-robin", more.get("cc"), "0..2", None)


def test_the_table_has_means_runs_and_a_bar_for_each(small: Path) -> None:
    chosen = wanted(small)
    so_far = Interim(chosen)
    for job, ms in zip(chosen.jobs, (4000.0, 2000.0, 1000.0, 1000.0), strict=True):
        so_far.add(job, {"fct_ms": ms, "goodput_mbps": 1.0})
    title, head, *rows = lines(so_far)
    assert title == ["Completion", "time", "so", "far,", "mean"]
    assert head[:3] == ["scheduler", "s", "runs"]
    names = [job.scheduler.name for job in chosen.jobs]
    means = {name: [ms for other, ms in zip(names, (4, 2, 1, 1), strict=True) if other == name] for name in names}
    expected = {
        name: (f"{sum(ms) / 2:.3g}", "2", "".join("█" if value == 4 else "▅" if value == 2 else "▃" for value in ms))
        for name, ms in means.items()
    }
    best = sorted(expected, key=lambda name: float(expected[name][0]))
    assert rows == [[name, *expected[name]] for name in best]


def test_controllers_are_told_apart_where_there_are_several(small: Path) -> None:
    chosen = wanted(small, cc="cubic,newreno")
    so_far = Interim(chosen)
    for job in chosen.jobs:
        so_far.add(job, {"fct_ms": 10.0})
    head = lines(so_far)[1]
    assert head[:2] == ["controller", "scheduler"]
    assert len(lines(so_far)) == 2 + 4


def test_a_comparison_tells_each_row_once_kept_ones_too(small: Path, tmp_path: Path) -> None:
    heard: list[str] = []

    def hear(job: Job, row: Row) -> None:
        heard.append(job.key)

    for names in ("min-rtt", "min-rtt,ecf"):
        chosen = plan.plan(load(small, []), names, None, "0..2", None)
        heard.clear()
        comparison.execute(chosen, 1, tmp_path / "out", on_row=hear)
        assert sorted(heard) == sorted(job.key for job in chosen.jobs)


def test_a_ranking_tells_costs_over_those_of_min_rtt_in_the_same_run() -> None:
    so_far = SoFar()
    for cell, scheduler, cost in (
        *(("one", "min-rtt", 100.0), ("one", "ecf", 50.0), ("two", "ecf", 80.0), ("two", "min-rtt", 10.0)),
        *(("one", "blest", 200.0), ("three", "blest", 7.0)),  # of the third cell, nothing of min-RTT is known
    ):
        so_far.add(cell, 0, scheduler, cost)
    # 0.5 and 8 are 2 on the geometric mean.
    _, _, *rows = lines(so_far)
    assert rows == [["min-rtt", "1.000", "2", "▅▅"], ["ecf", "2.000", "2", "▃█"], ["blest", "2.000", "1", "█"]]


def test_a_ranking_tells_each_run_of_a_scheduler_once_kept_ones_too(small: Path, tmp_path: Path) -> None:
    heard: list[tuple[str, int, str]] = []
    for names in ("min-rtt,ecf", "min-rtt,ecf,blest"):
        heard.clear()
        request = rank.Request([str(small)], seeds="0..2", schedulers=names)
        rank.run(request, 1, tmp_path / "out", on_cost=lambda cell, seed, name, cost: heard.append((cell, seed, name)))
        assert sorted(heard) == sorted((heard[0][0], seed, name) for seed in (0, 1) for name in names.split(","))
