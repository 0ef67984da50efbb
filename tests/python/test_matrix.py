"""The matrix: who wins where, and which cells are worse than one path alone."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import matrix
from browser import Browser, needs_browser
from matrix import Cell, Place
from weftway import _native
from weftway.stats.estimates import Estimate

BULK = Place("bulk", "scenarios/wifi-lte.toml", ("workload.bytes=300 kB",))
TIMELY = Place("timely", "scenarios/gaming.toml", ("workload.count=60",))


def cell(place: str, scheduler: str, value: float | None, single: float | None = 0.0, cc: str = "cubic") -> Cell:
    return Cell(place, scheduler, cc, value, 0.1, single, 0)


def test_every_scenario_of_the_matrix_can_be_read() -> None:
    for place in matrix.PLACES:
        assert len(place.scenario().variants()) == 1, place.name
        for path in place.paths if place.is_timely else ():
            assert len(place.scenario(path).variants()) == 1, (place.name, path)


def test_worse_is_what_one_path_does_better() -> None:
    assert not cell("bulk", "a", -0.01).is_worse(is_timely=False)
    assert cell("bulk", "a", -0.02).is_worse(is_timely=False)
    assert cell("timely", "a", 51.0, 50.0).is_worse(is_timely=True)
    assert not cell("timely", "a", 50.5, 50.0).is_worse(is_timely=True)
    # No path alone carries the messages: then several are never worse.
    assert not cell("timely", "a", 500.0, None).is_worse(is_timely=True)


def test_the_best_is_named_with_those_level_and_min_rtt() -> None:
    assert matrix.leader({"a": 0.5, "b": 0.495, "min-rtt": 0.3}, False) == "`a` 0.50, 1 level (`min-rtt` 0.30)"
    assert matrix.leader({"a": 90.0, "min-rtt": 80.0}, True) == "`min-rtt` 80 ms"
    assert matrix.leader({}, True) == "–"


def test_worse_cells_are_counted_and_the_controllers_under_which_most_are_worse_named() -> None:
    cells = [cell("bulk", "a", 0.2), cell("bulk", "b", -0.3), cell("bulk", "a", -0.1, cc="lia")]
    lines = matrix.behind([BULK], [*cells, cell("bulk", "b", -0.1, cc="lia")])
    assert lines == [["`bulk`", "3 of 4", "`lia`"]]


def test_the_numbers_of_the_bulk_cells_by_hand() -> None:
    # Under cubic a is best and b worse than one path; under lia both are level, and above 1.
    cells = [cell("bulk", "a", 0.5), cell("bulk", "b", -0.3)]
    cells += [cell("bulk", "a", 1.2, cc="lia"), cell("bulk", "b", 1.195, cc="lia")]
    level, worse, above = matrix.counts([BULK, TIMELY], [*cells, cell("timely", "b", 50.0)])
    assert "of 2 cells: `a` 2 (100 %), `b` 1 (50 %), `min-rtt` 0 (0 %)" in level
    assert "of 2 cells: `b` 1 (50 %), `min-rtt` 0 (0 %)" in worse
    assert above == "- 2 of 4 cells have a benefit above 1.01."


def test_what_counts_for_more_is_a_range_with_the_other_held_fixed() -> None:
    # Eleven controllers move both schedulers by 0 to 1, deciles 0.1 and 0.9; the schedulers are 0.25 apart, of
    # which the deciles of two values leave 0.8.
    cells = [
        cell("bulk", name, at / 10 + more, cc=f"c{at}") for name, more in (("a", 0.0), ("b", 0.25)) for at in range(11)
    ]
    assert matrix.ranges([BULK, TIMELY], cells) == [["`bulk`", "0.8", "0.2"]]


def test_who_does_all_that_another_does_is_no_rule_of_its_own() -> None:
    places = [("bulk", "cubic"), ("bulk", "lia")]
    values = {"a": (0.5, 0.4), "copy": (0.3, 0.2), "min-rtt": (0.3, 0.2), "b": (0.3, 0.1), "a-too": (0.5, 0.4)}
    cells = [
        cell(place, name, at, cc=cc)
        for name, row in values.items()
        for (place, cc), at in zip(places, row, strict=True)
    ]
    assert matrix.twins(cells) == {"min-rtt": ["copy"], "a": ["a-too"]}
    page = matrix.page([BULK], cells, 1, "code")
    assert "- = `min-rtt`: `copy`" in page
    assert "- = `a`: `a-too`" in page
    ranked = page.split("## Who wins where")[1]
    assert "copy" not in ranked
    assert "a-too" not in ranked
    # The two that are like another are not counted as level either.
    assert "| `bulk` | `a` 0.50 (`min-rtt` 0.30) | `a` 0.40 (`min-rtt` 0.20) |" in ranked
    data = json.loads(re.search(r"const data=(.*);\n", matrix.picture([BULK], cells, 1))[1])  # type: ignore[index]
    assert data["same"] == {"min-rtt": ["copy"], "a": ["a-too"]}
    assert {cell[1] for cell in data["cells"]} == {"a", "min-rtt", "b"}
    # One cell that differs makes a rule.
    assert matrix.twins([*cells, cell("bulk", "copy", 0.2, cc="olia"), cell("bulk", "min-rtt", 0.3, cc="olia")]) == {
        "a": ["a-too"],
    }


def test_a_small_matrix_is_made_and_goes_on_from_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "PLACES", (BULK, TIMELY))
    monkeypatch.setattr(matrix, "DATA", tmp_path / "matrix.json.gz")
    wanted = ["--out", str(tmp_path / "rows"), "--seeds", "1", "--scheduler", "min-rtt,ecf", "--cc", "cubic,lia"]
    wanted += ["--data", str(matrix.DATA)]
    matrix.main(wanted)
    page, picture = matrix.pages()
    assert "2 schedulers × 2 controllers × 2 scenarios × 1 seeds" in page
    data = json.loads(re.search(r"const data=(.*);", picture)[1])  # type: ignore[index]
    assert len(data["cells"]) == 8
    assert all(cell[5] is not None for cell in data["cells"]), "each has its path alone to be measured by"
    kept = matrix.DATA.read_bytes()
    matrix.main(wanted)
    assert matrix.DATA.read_bytes() == kept


@pytest.mark.parametrize("part", [("--scheduler", "min-rtt"), ("--cc", "cubic")])
def test_a_part_of_the_matrix_does_not_replace_the_whole(
    tmp_path: Path, part: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = matrix.DATA.read_bytes()
    with pytest.raises(SystemExit):
        matrix.main(["--out", str(tmp_path / "rows"), "--seeds", "1", *part])
    assert "name another file for a part with --data FILE" in capsys.readouterr().err
    assert matrix.DATA.read_bytes() == before


def test_the_cells_in_git_are_of_every_scenario_scheduler_and_controller() -> None:
    cells, _, _ = matrix.recalled(matrix.DATA.read_bytes())
    assert {cell.place for cell in cells} == {place.name for place in matrix.PLACES}
    assert {cell.scheduler for cell in cells} == {entry["name"] for entry in _native.schedulers()}
    assert {cell.cc for cell in cells} == {entry["name"] for entry in _native.controllers()}


def test_every_cell_has_a_command_that_repeats_it() -> None:
    (job,) = matrix.jobs([BULK], "min-rtt", [_native.controller("cubic")], range(1))
    assert job.command.startswith("weft run scenarios/wifi-lte.toml --scheduler min-rtt --cc cubic --seed 0")
    assert "--set 'workload.bytes=300 kB'" in job.command


@needs_browser
@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_shows_benefit_and_completion_time_with_intervals(tmp_path: Path, width: int) -> None:
    some = [
        replace(
            cell("bulk", name, value, cc=cc),
            spread=Estimate(value, 0.05, 3),
            completion=Estimate(6000.0 - 1000 * value, 250.0, 3),
            goodput=Estimate(10.0, 0.5, 3),
        )
        for cc in ("cubic", "lia")
        for name, value in (("a", 0.5), ("min-rtt", 0.25), ("even", -0.001), ("worse", -0.5))
    ]
    file = tmp_path / "matrix.html"
    file.write_text(matrix.picture([BULK], some, 3))
    with Browser(width, 800) as tab:
        tab.open(file, "#cc=lia")
        heads = "[...document.querySelectorAll('thead th')].map((one) => one.textContent)"
        assert tab.run(heads)[1:3] == ["aggregation benefit", "completion time, s"]
        first = tab.run("document.querySelector('tbody tr').textContent")
        # 6 s less half of 1 s.
        assert first.startswith("a0.50 ± 0.055.50 ± 0.25")
        even = tab.run("document.querySelectorAll('tbody tr')[2].textContent")
        assert even.startswith("even0.00"), "no minus before zero"
        assert tab.run("document.querySelectorAll('td.worse').length") == 1
        assert tab.run("document.documentElement.scrollWidth") <= width
        tab.run("document.querySelectorAll('thead th')[2].click()")
        tab.run("document.querySelectorAll('thead th')[2].click()")
        asked = tab.run("location.hash")
        tab.open(file, asked)
        rows = tab.run("[...document.querySelectorAll('tbody th')].map((one) => one.textContent)")
        assert rows == ["worse", "even", "min-rtt", "a"], "the address keeps the order"
        assert not tab.errors
