"""A comparison whose folder has all that it asks for, and the timelines that come with a run."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from conftest import Weft
from weftway import _native, report
from weftway.report import compared
from weftway.report.study import study_of
from weftway.runs import comparison, plan
from weftway.runs.plan import Plan
from weftway.runs.rows import FrameRows
from weftway.scenario import load

SCHEDULERS = "min-rtt,ecf,round-robin"


@pytest.fixture
def wanted(small: Path) -> Plan:
    return plan.plan(load(small, ["path.lte.loss=1 %"]), SCHEDULERS, "cubic,olia", "0..3")


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file of a folder, and which one it is: what is written anew is another."""
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in folder.iterdir() if file.is_file()}


def test_the_key_of_a_job_is_the_hash_of_all_that_its_row_says_but_the_command(wanted: Plan) -> None:
    for job in wanted.jobs:
        deciding = {name: value for name, value in job.head.items() if name != "command"}
        assert job.key == hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:32]
    assert len({job.key for job in wanted.jobs}) == len(wanted.jobs)


def test_rows_that_are_kept_are_those_of_the_run(wanted: Plan, tmp_path: Path) -> None:
    fresh = comparison.execute(wanted, 1, tmp_path)
    again = comparison.execute(wanted, 1, tmp_path)
    assert isinstance(again.rows, FrameRows), "as columns, however many there are"
    assert list(again.rows) == fresh.rows
    assert (again.rows[3], again.rows[-1], again.rows[1:3]) == (fresh.rows[3], fresh.rows[-1], fresh.rows[1:3])
    assert again.frame.equals(fresh.frame)


def test_what_is_there_is_written_once(weft_here: Weft, small: Path, tmp_path: Path) -> None:
    command = ("compare", small, "--scheduler", SCHEDULERS, "--out", "out")
    first = weft_here(*command)
    before, page = files(tmp_path / "out"), (tmp_path / "out/report.html").read_text()
    again = weft_here(*command)
    assert (again.stdout, again.stderr) == (first.stdout, first.stderr)
    assert files(tmp_path / "out") == before
    assert json.loads(weft_here(*command, "--json").stdout) == json.loads(weft_here(*command[:-2], "--json").stdout)
    # Another command makes another page of the same rows; so does a page that is gone, the same again.
    weft_here(*command, "--top", "1")
    assert (tmp_path / "out/report.html").read_text() != page
    (tmp_path / "out/report.html").unlink()
    weft_here(*command)
    assert (tmp_path / "out/report.html").read_text() == page


def test_more_rows_make_another_page(weft_here: Weft, small: Path, tmp_path: Path) -> None:
    weft_here("compare", small, "--scheduler", "min-rtt", "--out", "out")
    weft_here("compare", small, "--scheduler", SCHEDULERS, "--out", "out")
    output = weft_here("compare", small, "--scheduler", "min-rtt", "--out", "out").stdout
    assert "the folder holds 4 more" in output
    assert "the folder holds 4 more" in (tmp_path / "out/report.html").read_text()
    assert weft_here("compare", small, "--scheduler", "min-rtt", "--out", "out").stdout == output


def test_the_same_runs_by_another_path_get_the_other_command(weft_here: Weft, small: Path, tmp_path: Path) -> None:
    weft_here("compare", small, "--out", "out")
    (tmp_path / "elsewhere").mkdir()
    os.link(small, tmp_path / "elsewhere" / small.name)
    rows = json.loads(weft_here("compare", f"elsewhere/{small.name}", "--out", "out", "--json").stdout)
    assert all("elsewhere/" in row["command"] for row in rows)


def test_timelines_come_with_the_runs(wanted: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = comparison.execute(wanted, 2)
    watched = comparison.execute(wanted, 2, tmp_path / "out", watched_runs=report.MOST_TIMELINES)
    assert watched.rows == plain.rows, "whoever is watched does the same"
    again = compared.timelines(plain, study_of(plain))
    with monkeypatch.context() as no_second_run:
        no_second_run.delattr(_native, "timeline")
        assert compared.timelines(watched, study_of(watched)) == again
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["rows.parquet"], "what can be had again is not kept"


def test_of_many_runs_the_first_of_each_line_are_watched(wanted: Plan) -> None:
    first = [job.key for job in wanted.jobs if job.seed == 0]
    assert comparison.worth_watching(wanted.jobs, 100) == {job.key for job in wanted.jobs}
    assert comparison.worth_watching(wanted.jobs, 10) == set(first)
    assert comparison.worth_watching(wanted.jobs, 4) == set(first[:4])
    assert comparison.worth_watching(wanted.jobs, 0) == set()


def test_a_class_in_python_is_watched_too(small: Path) -> None:
    class First:
        def select(self, cx: object) -> object:
            return next(iter(cx.sendable()), None)  # type: ignore[attr-defined]

    compared = comparison.execute(plan.plan(load(small), [First, "min-rtt"], None, "0..1"), 1, watched_runs=10)
    assert set(compared.watched) == {row["key"] for row in compared.rows}
