"""The sweep against the kernel: its cells, its runs, its figures and its page. The kernel is made up."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

import weftway
from browser import Browser, needs_browser
from test_report import check
from weftway import fidelity
from weftway._native import Scenario, ScenarioError, SimulationError
from weftway.fidelity import cells, errors, lanes
from weftway.fidelity.cells import Link
from weftway.fidelity.errors import Difference
from weftway.fidelity.runs import FIRST_RUNS, MORE_RUNS, MOST_RUNS, SIM_RUNS, TRIES
from weftway.fidelity.tables import facts
from weftway.report.curves import Curve, cumulative
from weftway.report.palette import Look
from weftway.runs.backends import SIM, Row, Skipped
from weftway.runs.job import Job
from weftway.runs.runner import Interrupted, Outcome, threads
from weftway.stats import estimates as stats

STEADY = (9.0, 10.0, 10.0, 10.0, 11.0)
"""The interval of its median is all of it: a tenth of 10 to each side."""
KNOWN = (9.6, 10.0, 10.0, 10.0, 10.4)
"""The same, 4 % to each side: known well enough."""

Make = Callable[[Job], dict[str, Any]]


def made(job: Job) -> dict[str, Any]:
    """Columns of a run that went well; the kernel's goodput walks through `KNOWN`."""
    mbps = KNOWN[job.seed % len(KNOWN)] if job.backend == "kernel" else 10.0
    shares = {f"path.p{k}.share": 0.25 for k in range(1, 5)}
    return {"verdict": "finished", "goodput_mbps": mbps, "retransmission_rate": 0.01, **shares}


@dataclass
class Fake:
    """Runs nothing, and remembers what it was asked for."""

    make: Make = made
    asked: list[tuple[str, int]] = field(default_factory=list)
    skips: str = ""

    def __call__(self, jobs: Sequence[Job]) -> Iterator[Outcome[Job]]:
        self.asked += [(job.backend, job.seed) for job in jobs]
        for job in jobs:
            if self.skips and job.backend == "kernel":
                yield Outcome(job, Skipped(job, self.skips))
            else:
                yield Outcome(job, {**job.identity, **self.make(job)})

    def count(self, backend: str) -> int:
        return sum(name == backend for name, _ in self.asked)


def request(folder: Path, count: int = 1, seed: int = 7) -> fidelity.Request:
    return fidelity.Request(count, seed, folder / "out")


def test_a_cell_is_the_same_among_few_and_many() -> None:
    assert cells.cells(7, 3) == cells.cells(7, 50)[:3]
    assert cells.cells(7, 20) != cells.cells(8, 20)


def test_cells_are_scenarios_within_the_bounds() -> None:
    drawn = cells.cells(1, 300)
    for cell in drawn:
        scenario = Scenario.parse(cell.text, cell.file_name)
        assert scenario.title == f"cell {cell.number} of seed 1"
        assert [variant.transport for variant in scenario.variants()] == ["tcp" if len(cell.links) == 1 else "mptcp"]
        assert cell.bytes >= 100_000
        for link in cell.links:
            assert 1 <= link.rate_mbps <= 100
            assert 1 <= link.delay_ms <= 75
            assert link.loss_percent == 0 or 0.01 <= link.loss_percent <= 5
            assert link.jitter_ms <= 0.2 * link.delay_ms * 1.05  # both are rounded to two digits
            bdp = link.rate_mbps * 1e6 / 8 * 2 * link.delay_ms / 1e3 / 1500
            # Two digits, and whole packets.
            least, most = 0.475 * bdp - 0.5, max(4.2 * bdp + 0.5, 5)
            assert max(least, 5) <= link.queue_packets <= most
    assert {cell.cc for cell in drawn} == {"newreno", "cubic", "bbr1"}
    assert {len(cell.links) for cell in drawn} == {1, 2, 3, 4}


def test_cells_may_all_have_so_many_paths() -> None:
    drawn = cells.cells(1, 20, 8)
    assert {len(cell.links) for cell in drawn} == {8}
    assert drawn == cells.cells(1, 30, 8)[:20]
    assert drawn[0].text.count("[path.") == 8 and Scenario.parse(drawn[0].text, "0.toml").title == drawn[0].title


def test_cells_may_have_each_number_of_paths_as_often() -> None:
    drawn = cells.equal_shares(1, 10)
    assert [len(cell.links) for cell in drawn] == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert drawn == cells.equal_shares(1, 20)[:10]
    # What a number of paths does not decide is drawn as ever.
    assert [cell.cc for cell in drawn] == [cell.cc for cell in cells.cells(1, 10)]


def test_shares_of_links_without_loss_and_jitter() -> None:
    links = [link for cell in cells.cells(2, 800) for link in cell.links]
    # About 2000 links: three standard deviations are 0.032 around a third and 0.034 around a half.
    assert len(links) > 1700
    assert sum(link.loss_percent == 0 for link in links) / len(links) == pytest.approx(1 / 3, abs=0.035)
    assert sum(link.jitter_ms == 0 for link in links) / len(links) == pytest.approx(1 / 2, abs=0.037)


def test_what_a_path_is_expected_to_bring() -> None:
    link = Link(10, 10, 1, 17, 2)
    # 1448 B · 8 / 20 ms = 0.5792 Mbit/s, times √(1.5 / 0.01) = 12.2474.
    assert cells.expected_mbps(link, "cubic", 1448) == pytest.approx(7.0937, abs=1e-4)
    # 10 Mbit/s · 1448 / 1500 · 0.99.
    assert cells.expected_mbps(link, "bbr1", 1448) == pytest.approx(9.5568)
    # Without loss the link's rate is all there is: 10 Mbit/s · 1428 / 1500.
    assert cells.expected_mbps(Link(10, 10, 0, 17, 2), "newreno", 1428) == pytest.approx(9.52)


def test_a_cell_in_a_line() -> None:
    cell = cells.Cell(7, 17, "cubic", (Link(10, 10, 1, 17, 2), Link(5, 5, 0, 5, 0)), 12_000_000)
    assert cell.line == "cubic 12 MB 10/10/1 q17 j2 + 5/5/0 q5 writes 256 KiB"
    assert cell.file_name == "017.toml"
    assert 'jitter = "correlated 2 ms over 20 ms"' in cell.text


def test_quantiles_lie_between_the_nearest_two() -> None:
    # 0.9 · 4 = 3.6: six tenths of the way from the fourth value to the fifth.
    assert stats.quantile([5, 1, 4, 2, 3], 0.9) == pytest.approx(4.6)
    assert stats.median([4, 1, 3, 2]) == 2.5
    assert stats.quantile([7], 0.95) == 7


def test_bootstrap_interval_of_the_median() -> None:
    assert stats.bootstrap([5, 5, 5], "a") == (5, 5)
    # Of five, a resample's median is the least with P(B(5, 1/5) ≥ 3) = 0.058 > 0.025: from end to end.
    assert stats.bootstrap(STEADY, "a") == (9, 11)
    # Of 1 to 11, it is at most 2 with P(B(11, 2/11) ≥ 6) = 0.007, at most 3 with P(B(11, 3/11) ≥ 6) = 0.05.
    assert stats.bootstrap(range(1, 12), "a") == (3, 9)
    assert stats.bootstrap([1, 2, 4, 8], "b") == stats.bootstrap([1, 2, 4, 8], "b")


def test_how_far_outside() -> None:
    interval = stats.Interval(8, 12)
    assert [stats.beyond(value, interval) for value in (15, 10, 7)] == [3, 0, -1]


def rows(mbps: tuple[float, ...], shares: tuple[float, float], resent: float, verdict: str = "finished") -> list[Row]:
    first, second = shares
    columns = {"path.p1.share": first, "path.p2.share": second, "retransmission_rate": resent, "verdict": verdict}
    return [{"goodput_mbps": value, **columns} for value in mbps]


def two_paths(ours: list[Row], theirs: list[Row], number: int = 0) -> Difference:
    links = (Link(10, 10, 1, 17, 2), Link(5, 5, 0, 5, 0))
    cell = cells.Cell(7, number, "cubic", links, 1_000_000)
    return errors.difference(fidelity.runs.Runs(cell, Path("out/cells/000.toml"), ours, theirs, late=1))


def test_the_difference_of_a_cell() -> None:
    ours = rows((13.0, 13.2, 14.0), (0.6, 0.4), 0.03)
    difference = two_paths(ours, rows(STEADY, (0.5, 0.5), 0.02))
    assert difference.error == pytest.approx(0.32)
    assert difference.spread == pytest.approx(0.1)
    # 13.2 is 2.2 above 11, the upper end.
    assert difference.beyond == pytest.approx(0.22)
    assert not difference.inside
    assert difference.share_error_points == pytest.approx(10)
    assert difference.retransmission_error_points == pytest.approx(1)
    assert difference.retransmission_ratio == pytest.approx(1.5)
    assert (difference.sim_runs, difference.kernel_runs, difference.late_runs) == (3, 5, 1)
    assert difference.command == "weft compare out/cells/000.toml --backend sim,kernel --seeds 0..24"
    assert json.loads(json.dumps(difference.record))["beyond"] == 0.22


def test_the_error_is_taken_seed_by_seed() -> None:
    """Half of the kernel's seeds lose a SYN, on both sides: medians of different seeds would be off by a half."""
    theirs = [{**row, "seed": seed} for seed, row in enumerate(rows((5.0, 10.0, 5.0, 10.0, 5.0), (0.5, 0.5), 0.02))]
    ours = [
        {**row, "seed": seed}
        for seed, row in enumerate(rows((5.1, 10.2, 5.1, 10.2, 5.1, *7 * (10.2,)), (0.5, 0.5), 0.02))
    ]
    difference = two_paths(ours, theirs)
    assert difference.error == pytest.approx(0.02)
    assert difference.sim_goodput_mbps == pytest.approx(5.1)
    # Ratios of 2, 1.5 and 0.5 have a median of 1.5; the medians of these seeds are 20 on both sides.
    ours, theirs = (
        [{**row, "seed": seed} for seed, row in enumerate(rows(mbps, (0.5, 0.5), 0.02))]
        for mbps in ((20.0, 30.0, 15.0), (10.0, 20.0, 30.0))
    )
    both = two_paths(ours, theirs)
    assert [both.error, both.plain_error] == pytest.approx([0.5, 0.0])


def test_an_error_stands_beside_the_goodputs_that_it_is_of() -> None:
    """Half of the kernel's seeds are none of ours: they belong to its interval only."""
    ours, theirs = (
        [{**row, "seed": seed} for seed, row in enumerate(rows(mbps, (0.5, 0.5), 0.02))]
        for mbps in ((20.0, 30.0, 15.0), (10.0, 20.0, 30.0, 60.0, 70.0, 80.0))
    )
    both = two_paths(ours, theirs)
    assert (both.pairs, both.sim_goodput_mbps, both.kernel_goodput_mbps, both.kernel_median_mbps) == (3, 20, 20, 45)
    assert lanes.numbers(both).startswith("seed by seed +50.0 %; medians of 3 seeds: 0.0 %, ours 20, kernel 20 [")
    # Too few seeds match: one error, of the medians that are shown.
    apart = two_paths([{**row, "seed": row["seed"] + 100} for row in ours], theirs)
    assert apart.error == apart.plain_error == pytest.approx(20 / 45 - 1)
    assert lanes.numbers(apart).startswith("medians: −55.6 %, ours 20, kernel 45 [")


def test_a_fixed_buffer_bounds_what_a_cell_is_sized_for() -> None:
    links = [Link(10, 10, 0, 25, 0), Link(20, 5, 0, 5, 0)]
    # The longest round trip with a full queue: 20 ms + 25 · 12 000 bit / 10 Mbit/s = 50 ms, in which 100 KiB go:
    # 16.384 Mbit/s. Together with 10 Mbit/s: 1 / (1/10 + 1/16.384).
    assert cells.within_window(10, 100, links) == pytest.approx(6.2098, abs=1e-4)


def test_transfers_with_a_small_buffer_are_short() -> None:
    """Virtual time: 60 s of it, the limit, when the size came from the links alone."""
    small = [cell for cell in cells.cells(40404, 14) if cell.buffer_kib]
    taken = {
        cell.number: weftway.compare(Scenario.parse(cell.text, cell.file_name), seeds=[0])["elapsed_ms"].item()
        for cell in small
    }
    assert len(taken) > 5
    assert {number: ms for number, ms in taken.items() if not 1_000 < ms < 15_000} == {}


def test_buffers_and_writes_are_drawn_last() -> None:
    drawn = cells.cells(3, 400)
    sizes = [cell.buffer_kib for cell in drawn if cell.buffer_kib]
    # A half of 400: three standard deviations are 30.
    assert 170 <= len(sizes) <= 230
    assert min(sizes) >= 60 and max(sizes) <= 4200
    assert {cell.write_kib for cell in drawn} == {2**k for k in range(2, 13)}
    cell = next(cell for cell in drawn if cell.buffer_kib)
    assert f'receive_buffer = "{cell.buffer_kib} KiB"' in cell.text
    assert f'write = "{cell.write_kib} KiB"' in cell.text


def test_a_kernel_that_repeats_nothing_has_no_ratio() -> None:
    difference = two_paths(rows((10.0,), (0.6, 0.4), 0.01), rows(STEADY, (0.6, 0.4), 0.0))
    assert difference.inside
    assert difference.retransmission_ratio is None
    assert difference.retransmission_error_points == pytest.approx(1)


def test_groups_targets_and_the_worst() -> None:
    theirs = rows(STEADY, (0.5, 0.5), 0.02)
    mbps = (10.0, 9.5, 13.2, 6.0)
    differences = [two_paths(rows((value,), (0.5, 0.5), 0.02), theirs, number) for number, value in enumerate(mbps)]
    whole, cubic, pairs = errors.groups(differences)
    assert [cubic.name, pairs.name] == ["cubic", "2 paths"]
    # |error|: 0, 0.05, 0.32, 0.4; beyond: 0, 0, 0.22, 0.3.
    assert whole.error == pytest.approx(0.185)
    # Of four cells only all are 90 or 95 %.
    assert [whole.beyond_p90, whole.beyond_p95] == pytest.approx([0.3, 0.3])
    assert (whole.cells, whole.inside) == (4, 2)
    # The signed median of 0, −0.05, 0.32 and −0.4 is −0.025.
    assert whole.signed == pytest.approx(-0.025)
    assert [difference.cell for difference in errors.worst(differences, 3)] == [3, 2, 1]
    assert [target.verdict for target in errors.targets([whole, cubic])] == ["too few cells"] * 3
    enough = errors.groups([*differences, two_paths(rows((9.5,), (0.5, 0.5), 0.02), theirs, 4)])
    assert [target.verdict for target in errors.targets(enough)] == ["missed", "missed", "missed"]
    level = errors.group("level", differences[:1] * 5)
    assert [target.verdict for target in errors.targets([level])] == ["met", "met"]


def test_a_steady_kernel_runs_as_often_as_at_least(tmp_path: Path) -> None:
    fake, steps = Fake(), list[tuple[int, int]]()
    measured = fidelity.measure(request(tmp_path, 2), fake, lambda done, total: steps.append((done, total)))
    assert fake.count("kernel") == 2 * FIRST_RUNS
    assert fake.count("sim") == 2 * SIM_RUNS
    assert steps[-1] == (58, 58)
    assert [len(runs.kernel) for runs in measured.runs] == [FIRST_RUNS, FIRST_RUNS]
    assert not (tmp_path / "out/under-way").exists()
    assert pl.read_parquet(tmp_path / "out/rows.parquet").height == 58


def test_an_unsteady_kernel_runs_more_often(tmp_path: Path) -> None:
    def unsteady(job: Job) -> dict[str, Any]:
        # Every other run at half the goodput: the interval of any number of runs reaches from 5 to 10.
        return {**made(job), "goodput_mbps": 5.0 if job.seed % 2 else 10.0}

    fake, steps = Fake(unsteady), list[tuple[int, int]]()
    fidelity.measure(request(tmp_path), fake, lambda done, total: steps.append((done, total)))
    assert [seed for name, seed in fake.asked if name == "kernel"] == list(range(MOST_RUNS))
    assert (MOST_RUNS - FIRST_RUNS) % MORE_RUNS == 0
    assert steps[-1] == (MOST_RUNS + SIM_RUNS, MOST_RUNS + SIM_RUNS)


def test_a_cell_with_a_run_that_was_cut_off_is_named_and_not_compared(tmp_path: Path) -> None:
    def cut(job: Job) -> dict[str, Any]:
        # The first cell, in the kernel only; so unsteady that more runs would be asked for.
        first = job.variant.scenario.title == "cell 0 of seed 7"
        if not first or job.backend == "sim":
            return made(job)
        return {**made(job), "verdict": "time limit", "goodput_mbps": 1.0 + job.seed}

    fake = Fake(cut)
    measured = fidelity.measure(request(tmp_path, 2), fake)
    assert fake.count("kernel") == 2 * FIRST_RUNS
    compared = fidelity.differences(measured.runs)
    assert [difference.cell for difference in compared] == [1]
    assert "cell 0 not compared: runs cut off at 60 s: kernel 5 of 5" in facts(measured, compared)


def test_late_runs_are_left_out_and_repeated(tmp_path: Path) -> None:
    def late(job: Job) -> dict[str, Any]:
        slow = job.backend == "kernel" and job.seed in (0, 3, 5)
        return {**made(job), "goodput_mbps": 0.1 if slow else 10.0, "late": slow}

    fake = Fake(late)
    (runs,) = fidelity.measure(request(tmp_path), fake).runs
    # 0 to 4 without 0 and 3, then 5 (late) and 6, then 7.
    assert [row["seed"] for row in runs.kernel] == [1, 2, 4, 6, 7]
    assert runs.late == 3
    (difference,) = fidelity.differences([runs])
    assert (difference.late_runs, difference.error) == (3, 0)


def test_a_kernel_that_is_always_late_is_tried_so_often_and_no_more(tmp_path: Path) -> None:
    fake = Fake(lambda job: {**made(job), "late": job.backend == "kernel"})
    with pytest.raises(SimulationError, match="the kernel ran no cell: 0 of 5 runs in time"):
        fidelity.measure(request(tmp_path), fake)
    assert fake.count("kernel") == TRIES * FIRST_RUNS
    assert fake.count("sim") == 0


def test_a_kernel_that_cannot_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="no TUN"):
        fidelity.measure(request(tmp_path, 2), Fake(skips="no TUN"))


def test_an_interrupted_sweep_goes_on(tmp_path: Path) -> None:
    whole = Fake()
    wanted = fidelity.measure(request(tmp_path / "whole", 3), whole)
    part = Fake()

    def interrupted(jobs: Sequence[Job]) -> Iterator[Outcome[Job]]:
        if part.asked:
            raise KeyboardInterrupt
        return part(jobs)

    # The kernel's runs of all three cells are one round; the simulator's come after it: 3 · 5 of 3 · (5 + 24).
    with pytest.raises(Interrupted, match=r"15 of 87 runs finished and kept in .*; the same command goes on"):
        fidelity.measure(request(tmp_path, 3), interrupted)
    rest = Fake()
    measured = fidelity.measure(request(tmp_path, 3), rest)
    assert part.asked + rest.asked == whole.asked
    assert [difference.error for difference in fidelity.differences(measured.runs)] == [
        difference.error for difference in fidelity.differences(wanted.runs)
    ]


def test_more_cells_later_keep_the_first(tmp_path: Path) -> None:
    fidelity.measure(request(tmp_path, 3), Fake())
    fewer, more = Fake(), Fake()
    fidelity.measure(request(tmp_path, 1), fewer)
    fidelity.measure(request(tmp_path, 4), more)
    assert fewer.asked == []
    assert len(more.asked) == FIRST_RUNS + SIM_RUNS


def test_a_folder_holds_one_seed(tmp_path: Path) -> None:
    fidelity.measure(request(tmp_path), Fake())
    with pytest.raises(ScenarioError, match="is not cell 0 of seed 8: name another folder"):
        fidelity.measure(request(tmp_path, seed=8), Fake())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> fidelity.Measured:
    """A few cells in the real simulator, and a kernel that is the simulator with other seeds."""
    fake = Fake()

    def twins(jobs: Sequence[Job]) -> Iterator[Outcome[Job]]:
        return threads(2)(jobs) if jobs[0].backend == "sim" else fake(jobs)

    return fidelity.measure(request(tmp_path_factory.mktemp("fidelity"), 4), twins)


def shown(job: Job) -> dict[str, Any] | None:
    """A timeline for every other run of the kernel."""
    timeline: dict[str, Any] = json.loads(SIM.timeline(job, None) or "")
    return timeline if job.variant.transport == "mptcp" else None


def test_the_tables_say_it_first_and_fit(measured: fidelity.Measured) -> None:
    console = Console(width=80)
    differences = fidelity.differences(measured.runs)
    with console.capture() as captured:
        for part in fidelity.tables(measured, differences):
            console.print(part)
    text = captured.get()
    assert text.startswith("targets")
    assert "too few cells" in text
    assert " met" not in text
    assert "all cells" in text
    assert "4 cells of seed 7; 20 runs of the kernel, 96 of ours; 0 late runs left out" in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_page_holds_together(measured: fidelity.Measured) -> None:
    differences = fidelity.differences(measured.runs)
    page = fidelity.write_report(measured, differences, shown).read_text()
    check(page)
    assert page.count("<details") == 4
    assert page.count("Its timeline was not kept.") == sum(difference.paths == 1 for difference in differences)
    assert page.count('class="lanes"') == 4 + sum(difference.paths > 1 for difference in differences)
    assert "Half of the cells are within" in page
    assert "lie inside the kernel&#39;s interval or at most" in page
    assert 'class="badge plain">too few cells<' in page
    assert ">met<" not in page
    for difference in differences:
        assert f'id="cell-{difference.cell}"' in page
        assert difference.command in page


LABELS = """(() => {
  const box = (one) => one.getBoundingClientRect();
  const labels = [...document.querySelectorAll(".plot.cumulative .at")];
  const plot = box(labels[0].closest(".plot"));
  return {
    inside: labels.every((one) => box(one).left >= plot.left && box(one).right <= plot.right),
    apart: box(labels[0]).top >= box(labels[1]).bottom || box(labels[1]).top >= box(labels[0]).bottom,
  };
})()"""
"""Whether what is written at the two lines stays in its chart, and neither covers the other."""


@needs_browser
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_is_as_wide_as_its_window(measured: fidelity.Measured, width: int) -> None:
    file = fidelity.write_report(measured, fidelity.differences(measured.runs), shown)
    with Browser(width) as tab:
        tab.open(file)
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.run(LABELS) == {"inside": True, "apart": True}
        assert not tab.errors


def test_the_axis_reaches_what_is_asked() -> None:
    curve = Curve("error", Look(0), [0.01, 0.02])
    drawn = cumulative([curve], [(0.04, "half"), (0.2, "most")])
    # 0.04 is a fifth of 0.2, at which the axis ends.
    assert 'd="M200 0V100"' in drawn and 'd="M1000 0V100"' in drawn
    assert 'points="0,100 50,100 50,50 100,50 100,0 1000,0"' in drawn


def test_nothing_to_show_is_no_page(measured: fidelity.Measured) -> None:
    with pytest.raises(ValueError, match="at least one cell"):
        fidelity.write_report(measured, [])
    assert not list(measured.request.folder.glob(".report*"))
