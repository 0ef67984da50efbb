"""The tables of the command: each controller by itself, digits that fit, equal rows in one line."""

import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from weftway.report import printed as tables
from weftway.report.earlier import Earlier, changes, summary
from weftway.report.earlier import table as changes_table
from weftway.report.study import Cell, Study
from weftway.stats.estimates import Estimate
from weftway.stats.units import unit_for
from weftway.terminal.table import Table

Rows = list[dict[str, Any]]


def runs(cc: str, **schedulers: Sequence[float | None]) -> Rows:
    """Rows with a completion time in ms per scheduler and seed."""
    return [
        {
            "scheduler": name.replace("_", "-"),
            "cc": cc,
            "seed": seed,
            "fct_ms": fct,
            "goodput_mbps": None if fct is None else 160e3 / fct,
            "verdict": "stalled" if fct is None else "finished",
        }
        for name, times in schedulers.items()
        for seed, fct in enumerate(times)
    ]


def column(table: Table, place: int = 0) -> list[str]:
    return [str(text).replace("\u00a0", " ") for text in table.column(place)]


def printed(rows: Rows, width: int = 120, top: int = 10) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    for table in tables.of(Study(rows, {}), top):
        console.print(table.fitted(console))
    return console.export_text().replace("\u00a0", " ").replace("\u202f", " ")


def test_each_controller_has_its_own_order() -> None:
    # Under cubic a is first; under bbr1 it is last, and the means over both would put it last everywhere.
    rows = runs("cubic", a=[5000.0, 5100.0], b=[6000.0, 6100.0], min_rtt=[7000.0, 7100.0])
    rows += runs("bbr1", a=[90e3, 91e3], b=[60e3, 61e3], min_rtt=[50e3, 51e3])
    cubic, bbr1 = tables.of(Study(rows, {}))
    assert column(cubic) == ["a", "b", "min-rtt"]
    assert column(bbr1) == ["min-rtt", "b", "a"]
    assert column(cubic, 3) == ["best", "", ""]


def test_an_outlier_takes_no_digits_from_the_others() -> None:
    # Means 10.1 and 10.2 s: differences ±0.1 over two seeds, so half an interval is t(1) · 0.1 = 1.27 s.
    rows = runs("cubic", a=[10e3, 10.2e3], b=[10.1e3, 10.3e3], c=[10.2e3, 10.4e3], stuck=[152e3, 152e3])
    (table,) = tables.of(Study(rows, {}))
    assert column(table, 1) == ["10.1 ± 1.3", "10.2 ± 1.3", "10.3 ± 1.3", "152.0 ± 0"]


def test_digits_fit_the_group_the_number_and_its_interval() -> None:
    seconds = unit_for("time", [9800.0, 10_100.0, 10_300.0, 152_000.0])
    assert (seconds.symbol, seconds.digits) == ("s", 1)
    plain = [
        seconds.estimate(Estimate(mean, half, 5)).replace("\u00a0", " ").replace("\u202f", " ")
        for mean, half in (
            (10_100.0, 400.0),
            (850.0, 30.0),
            (850.0, 400.0),
            (10_100.0, 40.0),
            (10_100.0, 4.0),
            (10e3, 0.0),
        )
    ]
    # A smaller number shows three digits, if its interval bears them out; a small interval shows a digit of its own;
    # none is said to be 0 that is not.
    assert plain == [
        "10.1 ± 0.4 s",
        "0.850 ± 0.030 s",
        "0.85 ± 0.40 s",
        "10.10 ± 0.04 s",
        "10.1 ± < 0.1 s",
        "10.0 ± 0 s",
    ]


def test_equal_rows_share_a_line_under_the_reference() -> None:
    rows = runs("cubic", copy=[7000.0, 7100.0], min_rtt=[7000.0, 7100.0], near=[7000.0, 7100.1], a=[6e3, 6e3])
    (table,) = tables.of(Study(rows, {}))
    assert column(table) == ["a", "min-rtt (= 1 more)", "near"]
    assert "= min-rtt: copy" in str(table.caption)
    # Under another controller they may differ: the group is the controller's.
    rows += runs("bbr1", copy=[9000.0, 7100.0], min_rtt=[7000.0, 7100.0])
    assert sorted(column(tables.of(Study(rows, {}))[1])) == ["copy", "min-rtt"]


def test_who_did_not_finish_every_run_is_not_first() -> None:
    rows = runs("cubic", quick=[1000.0, None], a=[6000.0, 6100.0], min_rtt=[7000.0, 7100.0])
    (table,) = tables.of(Study(rows, {}))
    assert column(table) == ["a", "min-rtt", "quick (1 unfinished)"]
    assert tables.told(Study(rows, {}))[0].startswith("a finished first under cubic")


def test_the_first_ten_are_listed_and_the_reference() -> None:
    names = {f"s{at:02}": [1000.0 + at, 1001.0 + at] for at in range(20)}
    rows = runs("cubic", **names, min_rtt=[9000.0, 9001.0])
    (table,) = tables.of(Study(rows, {}))
    assert column(table) == [*(f"s{at:02}" for at in range(10)), "min-rtt"]
    assert "10 more schedulers: --top 0 shows all" in str(table.caption)
    assert len(column(tables.of(Study(rows, {}), 0)[0])) == 21
    # Two more than ten are listed: the line that says so would take their place.
    few = runs("cubic", **dict(list(names.items())[:11]), min_rtt=[9000.0, 9001.0])
    assert len(column(tables.of(Study(few, {}))[0])) == 12


def test_columns_that_do_not_fit_are_announced() -> None:
    rows = runs("cubic", a=[5000.0, 5100.0], min_rtt=[7000.0, 7100.0])
    assert "not shown" not in printed(rows, 120)
    narrow = printed(rows, 52)
    assert "1 column not shown, the terminal is too narrow: goodput" in " ".join(narrow.split())
    assert "best" in narrow


def test_a_difference_is_paired_by_seed() -> None:
    # 5 of 10 s and 10 of 20 s: −7.5 s of a mean of 15 s, whatever the seeds have in common.
    rows = runs("cubic", a=[5000.0, 10e3], min_rtt=[10e3, 20e3])
    (table,) = tables.of(Study(rows, {}))
    assert column(table, 2)[0].startswith("−50.0 ± ")


def test_what_changed_since_an_earlier_comparison() -> None:
    before = runs("cubic", a=[5000.0, 7000.0], b=[6000.0, 6100.0], gone=[1e3, 1e3])
    now = runs("cubic", a=[5500.0, 7700.0], b=[6000.0, 6100.0], new=[1e3, 1e3])
    study = Study(now, {})
    changed = changes(study, Earlier("old", before))
    # a: +500 and +700 ms of a mean of 6000 ms are +10 %; half an interval of two runs is t(1) · 100 ms > 600 ms.
    assert [(change.cell, change.remark) for change in changed] == [
        (Cell("", "cubic", "a"), "not significant"),
        (Cell("", "cubic", "b"), "unchanged"),
    ]
    share = changed[0].share
    assert share is not None and abs(share.mean - 0.1) < 1e-12
    steady = runs("cubic", a=[5600.0, 7600.0], b=[6000.0, 6100.0])
    sentence = summary(Study(steady, {}), Earlier("old", before)).replace("\u202f", " ")
    assert sentence == "Against old, 2 cells paired by seed: 1 worse (a under cubic +10.0 %), 1 unchanged."
    assert "nothing in common" in summary(study, Earlier("old", runs("lia", z=[1.0])))


def setting(file: str, name: str, rate: str | None, ms: float, **others: str) -> Rows:
    """Rows of one setting of a scenario file."""
    varied = {} if rate is None else {"path.b.rate": rate}
    shared = {"scenario": file, "scenario_hash": name, "backend": "sim", **varied, **others}
    return [{**shared, **row} for row in runs("cubic", a=[ms, ms + 100])]


def test_a_setting_is_held_against_itself_whatever_else_the_earlier_folder_varies() -> None:
    fast, slow = "10 Mbit/s", "1 Mbit/s"
    both = [*setting("net", "h1", fast, 1e3), *setting("net", "h2", slow, 9e3)]
    alone = setting("net", "h1", None, 1e3)
    varies = {"vary": {"path.b.rate": [fast, slow]}}
    unchanged = "Against old, {} paired by seed: {} unchanged."
    for now, about, then, count in (
        (alone, {}, both, 1),
        (alone, varies, both, 1),  # as with --set path.b.rate=…
        (both, varies, both, 2),
        (both, varies, alone, 1),
    ):
        sentence = summary(Study(now, about), Earlier("old", then))
        assert sentence == unchanged.format("1 cell" if count == 1 else "2 cells", count)
    # Of an edited scenario, settings are told by what varies. Which one this was cannot be known.
    edited = [*setting("net", "h3", fast, 1e3), *setting("net", "h4", slow, 9e3)]
    sentence = summary(Study(edited, varies), Earlier("old", both))
    assert sentence == unchanged.format("2 cells", 2) + " The scenario has changed since."
    assert "nothing in common" in summary(Study(setting("net", "h3", None, 1e3), {}), Earlier("old", both))


def test_another_scenario_is_told() -> None:
    study = Study(setting("home", "h1", None, 1e3), {})
    sentence = summary(study, Earlier("old", setting("net", "h2", None, 1e3)))
    assert sentence.endswith("1 unchanged. These are two scenarios: net then, home now.")


def test_each_backend_is_held_against_itself_and_alone_against_another() -> None:
    sim, kernel = (setting("net", "h1", None, ms, backend=name) for name, ms in (("sim", 1e3), ("kernel", 2e3)))
    assert "1 unchanged" in summary(Study(sim, {}), Earlier("old", [*sim, *kernel]))
    assert "2 unchanged" in summary(Study([*sim, *kernel], {}), Earlier("old", [*kernel, *sim]))
    (change,) = changes(Study(kernel, {}), Earlier("old", sim))
    assert change.share is not None and change.share.mean > 0.9


def test_runs_that_have_no_result_any_more_are_worse_whatever_the_others_say() -> None:
    before = runs("cubic", a=[5000.0, 7000.0], b=[6000.0, 6100.0], c=[None, 4000.0], d=[5000.0, 5000.0])
    now = runs("cubic", a=[5000.0, None], b=[None, None], c=[4000.0, 4000.0], d=[5000.0, 5000.0])
    study = Study(now, {})
    by_scheduler = {change.cell.scheduler: change for change in changes(study, Earlier("old", before))}
    assert {name: change.remark for name, change in by_scheduler.items()} == {
        "a": "worse",
        "b": "worse",
        "c": "better",
        "d": "unchanged",
    }
    sentence = summary(study, Earlier("old", before))
    assert "1 better (c under cubic 1 run more with a result)" in sentence
    assert "b under cubic 2 runs without a result" in sentence and "2 worse" in sentence
    page = changes_table(study, Earlier("old", before))
    assert page.count("without a result") == 2


def test_one_run_of_a_kernel_tells_no_change() -> None:
    """A run of the simulator gives the same row again."""
    before, now = runs("cubic", a=[5000.0]), runs("cubic", a=[5010.0])
    for backend, word in (("sim", "worse"), ("kernel", "not significant")):
        rows = [[{**row, "backend": backend} for row in some] for some in (before, now)]
        (change,) = changes(Study(rows[1], {}), Earlier("old", rows[0]))
        assert change.remark == word


def test_results_of_a_path_are_no_settings_where_two_backends_ran() -> None:
    """With few runs of two backends, a path's lost packets have as many values as there are backends."""
    rows = [
        {**row, "backend": backend, "path.lte.delay": delay, "path.lte.packets": 500 + at, "path.lte.lost": at}
        for at, backend in enumerate(("sim", "kernel"))
        for delay in ("10 ms", "20 ms")
        for row in runs("cubic", a=[5000.0])
    ]
    settings = ("path.lte.delay = 10 ms", "path.lte.delay = 20 ms")
    assert Study(rows, {}).settings == [
        f"{key}, backend = {backend}" for backend in ("sim", "kernel") for key in settings
    ]
    assert Study([row for row in rows if row["path.lte.delay"] == "10 ms"], {}).settings == [
        "backend = sim",
        "backend = kernel",
    ]
