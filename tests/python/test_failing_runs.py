"""Runs that fail: they cost no other run, they are told, and the same command tries them again."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest

import weftway
from conftest import Weft
from weftway import SimulationError, advise, rank, sweep
from weftway.runs import runner
from weftway.runs.backends import Failed
from weftway.runs.caveats import MOST_FAILURES, failures
from weftway.runs.comparison import Comparison
from weftway.runs.job import Job
from weftway.runs.plan import plan
from weftway.runs.runner import Outcome
from weftway.scenario import load

# Fails with seeds that a file beside it names: the seed decides the first number that it draws.
RULE = """\
from pathlib import Path

import random


class Sometimes:
    def __init__(self):
        self.fails = None

    def select(self, cx):
        if self.fails is None:
            wrong = Path(__file__).with_name("wrong").read_text().split()
            self.fails = str(cx.rng.random()) in wrong
        if self.fails:
            raise RuntimeError("this seed is too much for me")
        return next(iter(cx.sendable()), None) if cx.packet is not None else None


class Drawn(Sometimes):
    def select(self, cx):
        if self.fails is None:
            self.fails = False
            with Path(__file__).with_name("drawn").open("a") as out:
                print(cx.rng.random(), file=out)
        return super().select(cx)
"""
LINE = 15
"""Line that raises."""

Wrong = Callable[[list[int]], None]


@pytest.fixture
def wrong(small: Path) -> Wrong:
    """Says with which seeds the rule fails."""
    folder = small.parent
    (folder / "rule.py").write_text(RULE)
    (folder / "wrong").write_text("")
    weftway.compare(small, scheduler=f"{folder}/rule.py:Drawn", seeds=range(4), jobs=1)
    drawn = (folder / "drawn").read_text().split()
    assert len(set(drawn)) == 4, "a number for each seed"

    def tell(seeds: list[int]) -> None:
        (folder / "wrong").write_text(" ".join(drawn[seed] for seed in seeds))

    return tell


def kept(folder: Path) -> set[tuple[str, int]]:
    """Scheduler and seed of each row that is kept."""
    table = pl.read_parquet(folder / "rows.parquet")
    return set(zip(table["scheduler"], table["seed"], strict=True))


def test_a_run_that_fails_costs_no_other_one(
    wrong: Wrong, weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong([1])
    words = ("compare", "small.toml", "--scheduler", "rule.py:Sometimes,min-rtt", "--seeds", "0..4", "--out", "out")
    done = weft(*words)
    assert done.returncode == 1, done.stderr
    assert f"rule.py:{LINE}: scheduler `rule.py:Sometimes` failed" in done.stderr
    assert "warning: rule.py:Sometimes failed in small, newreno, sim, seed 1: " in done.stderr
    assert "RuntimeError: this seed is too much for me" in done.stderr and "--seed 1" in done.stderr
    assert "rule.py:Sometimes" in done.stdout and "min-rtt" in done.stdout, "what finished is shown"
    assert (tmp_path / "out" / "report.html").exists()
    others = {("min-rtt", seed) for seed in range(4)} | {("rule.py:Sometimes", seed) for seed in (0, 2, 3)}
    assert kept(tmp_path / "out") == others
    # Now it is right, and it alone is run: the others would fail.
    wrong([0, 2, 3])
    counts: list[int] = []
    weftway.compare(
        tmp_path / "small.toml",
        scheduler=["rule.py:Sometimes", "min-rtt"],
        seeds=range(4),
        out=tmp_path / "out",
        progress=lambda done, _: counts.append(done),
    )
    assert counts == [7, 8]
    assert kept(tmp_path / "out") == others | {("rule.py:Sometimes", 1)}


def test_a_failure_is_raised_where_there_is_nothing_else(wrong: Wrong, small: Path) -> None:
    wrong([0, 1])
    scheduler = f"{small.parent}/rule.py:Sometimes"
    with pytest.raises(SimulationError, match="repeat it with: weft run"):
        weftway.compare(small, scheduler=scheduler, seeds=range(2))
    with pytest.raises(SimulationError, match="this seed is too much for me"):
        weftway.run(small, scheduler=scheduler, seed=1)
    with pytest.warns(UserWarning, match="failed in small, newreno, sim, seeds 0, 1: "):
        rows = weftway.compare(small, scheduler=scheduler, seeds=range(3))
    assert rows["seed"].to_list() == [2]


def test_a_sweep_goes_on(wrong: Wrong, weft: Weft, small: Path, tmp_path: Path) -> None:
    wrong([0])
    (tmp_path / "other.toml").write_text(small.read_text().replace("300 kB", "200 kB"))
    (tmp_path / "grid.toml").write_text(
        'title = "g"\nseeds = "0..2"\nscheduler = ["rule.py:Sometimes", "min-rtt"]\n'
        '[[run]]\nscenario = "small.toml"\n[[run]]\nscenario = "other.toml"\n'
    )
    done = weft("sweep", "grid.toml", "--out", "out")
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("failed in small,") == 1 and done.stderr.count("failed in other,") == 1
    assert kept(tmp_path / "out") == {("min-rtt", 0), ("min-rtt", 1), ("rule.py:Sometimes", 1)}
    assert pl.read_parquet(tmp_path / "out" / "rows.parquet").height == 6


def test_what_failed_on_a_cluster_is_not_run_here(small: Path, tmp_path: Path) -> None:
    grid = sweep.read(str(small), "0..2")
    request = sweep.Request(tmp_path / "out", 1, "local")
    first = grid.runs[0].plan.jobs[0]

    def cluster(*_: object) -> list[Failed[Job]]:
        return [Failed(first, "its node is lost")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weftway.sweep.runs.dispatch", cluster)
        (comparison,) = sweep.execute(grid, request)
    assert [failure.job for failure in comparison.failed] == [first]
    assert first.key not in {row["key"] for row in comparison.rows} and len(comparison.rows) == 3


def test_a_ranking_leaves_out_the_seeds_of_failed_runs(wrong: Wrong, small: Path, tmp_path: Path) -> None:
    wrong([3])
    mine = f"{small.parent}/rule.py:Sometimes"

    def ranked(seeds: str, out: Path | None = None) -> rank.Ranking:
        return rank.run(rank.Request([str(small)], seeds=seeds, schedulers=f"min-rtt,round-robin,{mine}"), 1, out)

    ranking = ranked("0..4", tmp_path / "out")
    assert [failure.job.seed for failure in ranking.failed] == [3]
    # As if nobody had asked for that seed.
    assert ranking.judged == ranked("0..3").judged
    # With a single seed left there is no half to judge on: it is out of the cell, the others are in it with all seeds.
    wrong([0, 2, 3])
    (judged,) = ranked("0..4").judged
    assert set(judged.ratios) == {"min-rtt", "round-robin"}
    plain = rank.run(rank.Request([str(small)], seeds="0..4", schedulers="min-rtt,round-robin"), 1)
    assert judged.ratios == plain.judged[0].ratios


def test_the_first_failure_is_the_same_in_whatever_order_they_end(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(todo: Sequence[Job], **_: object) -> Iterator[Outcome[Job]]:
        return (Outcome(job, Failed(job, f"seed {job.seed}")) for job in reversed(todo))

    monkeypatch.setattr(runner, "results", backwards)
    calls: list[Callable[[], object]] = [
        lambda: weftway.compare(small, seeds=range(3)),
        lambda: rank.run(rank.Request([str(small)], seeds="0..3", schedulers="min-rtt,round-robin"), 1),
        lambda: advise.advise(advise.Request(str(small), cells=1, seeds="0..3")),
    ]
    for call in calls:
        with pytest.raises(SimulationError, match=r"^seed 0; repeat"):
            call()


def test_failures_are_told_by_setting(small: Path) -> None:
    jobs = plan(load(small), "min-rtt", "newreno", range(7)).jobs
    (line,) = failures([Failed(job, f"seed {job.seed} was too much") for job in jobs])
    assert line.startswith("min-rtt failed in small, newreno, sim, seeds 0, 1, 2, 3, 4, …: seed 0 was too much; ")
    assert "repeat it with: weft run" in line and "--seed 0" in line
    many = [Failed(job, "no") for job in plan(load(small), "all", "newreno", range(2)).jobs[: 2 * (MOST_FAILURES + 3)]]
    lines = failures(many)
    assert len(lines) == MOST_FAILURES + 1 and lines[-1] == "6 more runs failed, in 3 other settings"
    assert Comparison(plan(load(small)), [], failed=many).warnings == lines
