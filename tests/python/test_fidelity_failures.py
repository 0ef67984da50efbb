"""The scenarios in which a path fails, and the judgement of their completion times. The kernel's rows are made up."""

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from conftest import Weft
from test_fidelity import Fake, made
from weftway import fidelity
from weftway._native import Scenario
from weftway.fidelity import completion, failures
from weftway.fidelity.held import Score
from weftway.fidelity.runs import FIRST_RUNS, SIM_RUNS, Runs
from weftway.runs.backends import Row
from weftway.runs.job import Job

CELLS = failures.cells(3)


def test_a_cell_is_the_same_among_few_and_many() -> None:
    assert failures.cells(3, 5) == CELLS[:5]
    assert failures.cells(4) != CELLS


def test_every_feature_occurs_as_often_as_it_should() -> None:
    assert len(CELLS) == 40
    assert Counter(len(failure.links) for failure in CELLS) == {2: 26, 3: 14}
    assert Counter(failure.fails for failure in CELLS) == {0: 20, 1: 20}
    assert sum("backup" in failure.roles for failure in CELLS) == 20
    assert Counter(failure.direction for failure in CELLS) == {"both": 22, "data": 9, "acks": 9}
    assert {failure.away_s for failure in CELLS} == {0.5, 1, 2, 5, 10, 30, failures.NEVER}
    assert {failure.cc for failure in CELLS} == {"newreno", "cubic", "bbr1"}
    assert {failure.how for failure in CELLS} == {"state", "loss"}


@pytest.mark.parametrize("failure", CELLS, ids=[str(failure.number) for failure in CELLS])
def test_a_cell_says_its_failure_and_is_not_over_before_it(failure: failures.Failure) -> None:
    assert Scenario.parse(failure.text, failure.file_name).title == failure.title
    read = tomllib.loads(failure.text)
    paths = read["path"]
    hit = [name for name, path in paths.items() if "schedule" in path]
    assert hit == [f"p{failure.fails + 1}"]
    assert paths[hit[0]]["role"] == "active"
    assert outage(paths[hit[0]]) == (failure.how, failure.direction, failure.at_s, failure.at_s + failure.away_s)
    # When the path fails, the active ones cannot have carried it all, even if they were full from the first moment on.
    active = sum(link.rate_mbps for link, role in zip(failure.links, failure.roles, strict=True) if role == "active")
    assert failure.bytes * 8 / 1e6 > active * failure.at_s
    assert all(5 <= link.rate_mbps <= 30 for link in failure.links)


def outage(path: dict[str, Any]) -> tuple[str, str, float, float]:
    """Failure of a path in a scenario file: its kind, direction, begin and end."""
    sides = path["schedule"]
    direction = {("up",): "data", ("down",): "acks", ("down", "up"): "both"}[tuple(sorted(sides))]
    (first, *later), *others = sides.values()
    assert all(other == [first, *later] for other in others)
    if "state" in first:
        how, broken, whole = "state", "down", "up"
    else:
        how, broken, whole = "loss", "100 %", "0 %"
    assert [change[how] for change in (first, *later)] == [broken, whole][: 1 + len(later)]
    return how, direction, number(first["at"]), number(later[0]["at"] if later else "inf s")


def number(text: str) -> Any:
    return pytest.approx(float(text.removesuffix(" s")))


def rows(*seconds: float) -> list[Row]:
    """Runs that took so long; one without end was cut off."""
    endless = float("inf")
    return [
        {"fct_ms": None if time == endless else time * 1e3, "verdict": "time limit" if time == endless else "finished"}
        for time in seconds
    ]


def judged(ours: list[Row], theirs: list[Row], note: str = "") -> completion.JudgedCell:
    return completion.judged(Runs(CELLS[0], Path("out/cells/000.toml"), ours, theirs, late=1, note=note))


NEVER = float("inf")


@pytest.mark.parametrize(
    ("ours", "theirs", "holds"),
    [
        ((10.9, 10.9, 10.9), (10, 10, 10), True),
        ((9.1, 9.1, 9.1), (10, 10, 10), True),
        ((11.1, 11.1, 11.1), (10, 10, 10), False),
        ((8.9, 8.9, 8.9), (10, 10, 10), False),
        # Within the range, though a half too slow.
        ((15, 15, 15), (10, 10, 16), True),
        ((17, 17, 17), (10, 10, 16), False),
        # The median counts: one run that never ends is not enough.
        ((10, 10, NEVER), (10, 10, 10), True),
        ((10, NEVER, NEVER), (10, 10, 10), False),
    ],
)
def test_a_cell_holds_near_the_median_or_within_the_range(
    ours: tuple[float, ...], theirs: tuple[float, ...], holds: bool
) -> None:
    judged_cell = judged(rows(*ours), rows(*theirs))
    assert judged_cell.held.holds is holds
    assert judged_cell.not_judged == ""
    assert judged_cell.record["holds"] is holds


def test_what_the_kernel_did_not_finish_is_not_judged() -> None:
    judged_cell = judged(rows(10, 10), rows(10, NEVER, NEVER))
    assert not judged_cell.held.holds
    assert judged_cell.not_judged == "the kernel did not finish 2 of 3 runs"
    assert judged(rows(10), rows(10, 10)).not_judged == "2 runs of the kernel in time"
    assert judged([], [], "no TUN").not_judged == "no TUN"


def test_a_run_that_the_kernel_did_not_finish_widens_no_range() -> None:
    theirs = rows(10, 10, 12, 12, NEVER)
    assert judged(rows(13.1), theirs).held.holds  # within a tenth of 12, the median of all five
    far = judged(rows(13.3), theirs)
    assert not far.held.holds
    assert (far.kernel_s, far.kernel_high_s, far.kernel_cut_off) == (12, 12, 1)
    assert not judged(rows(NEVER), theirs).held.holds


@pytest.mark.parametrize(
    ("cells", "held", "verdict"),
    [(40, 36, "met"), (40, 35, "missed"), (4, 4, "too few cells"), (10, 9, "met"), (10, 8, "missed")],
)
def test_nine_tenths_of_the_cells_have_to_hold(cells: int, held: int, verdict: str) -> None:
    assert Score(cells, held).verdict == verdict


def request(folder: Path, count: int) -> fidelity.Request:
    return fidelity.Request(count, 3, folder / "out", kind=fidelity.FAILURES)


def test_the_kernel_runs_each_cell_equally_often(tmp_path: Path) -> None:
    """Its range would grow with the number of runs."""

    def unsteady(job: Job) -> dict[str, Any]:
        return {**made(job), "goodput_mbps": 5.0 if job.seed % 2 else 10.0, "fct_ms": 5_000.0}

    fake = Fake(unsteady)
    measured = fidelity.measure(request(tmp_path, 3), fake)
    assert (fake.count("kernel"), fake.count("sim")) == (3 * FIRST_RUNS, 3 * SIM_RUNS)
    assert [judged_cell.held.holds for judged_cell in fidelity.judge(measured.runs)] == [True] * 3


def test_the_tables_name_what_does_not_hold(tmp_path: Path) -> None:
    def slow(job: Job) -> dict[str, Any]:
        row = {**made(job), "fct_ms": 4_600.0}
        match job.variant.scenario.title, job.backend, job.seed:
            case ("failure 2 of seed 3", "sim", _):
                row["fct_ms"] = 23_600.0
            case ("failure 4 of seed 3", "sim", _):
                row["fct_ms"] = 6_000.0
            case ("failure 4 of seed 3", "kernel", 1):
                row["fct_ms"] = 9_000.0
            case ("failure 5 of seed 3", "kernel", 0):
                row["verdict"] = "time limit"
        return row

    measured = fidelity.measure(request(tmp_path, 6), Fake(slow))
    console = Console(width=120)
    with console.capture() as captured:
        for part in fidelity.completion_tables(measured, fidelity.judge(measured.runs)):
            console.print(part)
    text = captured.get()
    assert text.startswith("5 of 6 cells hold, at least 6 are asked for: missed")
    assert "30 runs of the kernel" in text
    assert "1 of those that hold are in the kernel's range only" in text
    assert "did not finish every run within 60 s of the cells 5 (1 of 5)" in text
    assert "+413.0" in text
    assert "out/cells/002.toml" in text.replace("\n", "")
    assert "out/cells/003.toml" not in text.replace("\n", "")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["--backend", "sim,quic"], "--failures compares with the kernel: leave out --backend sim,quic"),
        (["--cells", "41"], "--cells 41: there are 40 cells with a failure; another --seed has others"),
    ],
)
def test_what_failures_does_not_take(weft_here: Weft, asked: list[str], why: str) -> None:
    done = weft_here("fidelity", "--failures", *asked)
    assert done.returncode == 2
    assert why in done.stderr
