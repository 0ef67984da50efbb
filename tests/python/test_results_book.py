"""The results book: who gains and where none can, on rows that are made up; its pages, in a browser too."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from browser import Browser, needs_browser
from weftway import reproduce
from weftway.reproduce import book, checks, gains, results, stacks, verdict, web
from weftway.reproduce.results import Result
from weftway.reproduce.runs import Effort, Run

FAST = Effort("0..6", 0, "0..1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """An experiment and two readings, one of which changes nothing."""
    folder = tmp_path_factory.mktemp("experiments") / "doe-2020"
    folder.mkdir()
    (folder / "table1.toml").write_text(TABLE)
    (folder / "table1-slow.toml").write_text('base = "table1.toml"\n[path.b]\ndelay = "80 ms"\n')
    (folder / "table2.toml").write_text(TABLE.replace("A small table", "The same runs once more"))
    runs = reproduce.planned(reproduce.find(folder=folder.parent), FAST, "sim", (book.BESIDE,))
    reproduce.execute(runs, 1, None, lambda done, total: None)
    return runs


TABLE = """
title = "A small table"
transport = "mptcp"
seeds = "0..4"
cc = "newreno"
[path.a]
rate = "4 Mbit/s"
delay = "10 ms"
loss = "1 %"
[path.b]
rate = "4 Mbit/s"
delay = "40 ms"
loss = "1 %"
[workload]
kind = "bulk"
bytes = "200 kB"
[vary]
scheduler = ["min-rtt", "round-robin"]
"path.a.loss" = ["0 %", "1 %"]
[figure.rate]
x = "path.a.loss"
y = "goodput_mbps"
by = "scheduler"
[published]
place = "Table 1"
paper = "10.1000/1"
values = [
    { metric = "goodput_mbps", scheduler = "min-rtt", value = 4321, unit = "Mbit/s", place = "Table 1" },
]
[expect.better]
kind = "rank"
claim = "round robin is better | faster"
metric = "goodput_mbps"
better = ["round-robin"]
worse = ["min-rtt"]
"""


def noise(name: str, mean: float, deviation: float) -> Callable[[int], float]:
    return lambda seed: Random(f"{name}:{seed}").gauss(mean, deviation)


def made_up(run: Run, of: dict[str, Callable[[int], float]]) -> Run:
    """The run with other goodputs; as many seeds as it has."""
    rows = [{**row, "goodput_mbps": of[row["scheduler"]](row["seed"])} for row in run.rows]
    others = [{**row, "goodput_mbps": of[row["scheduler"]](row["seed"])} for row in run.others]
    return Run(run.experiment, None, run.jobs, rows, [], run.beside, others)


def test_a_gain_is_told_from_noise_and_from_what_is_too_small_to_matter(runs: list[Run]) -> None:
    load = noise("load", 10, 2)
    planted = {"min-rtt": load, "round-robin": lambda seed: 1.05 * load(seed), "earliest-delivery": load}
    measured = gains.of_run(made_up(runs[0], planted))
    assert {(gain.scheduler, gain.is_faster, gain.is_slower) for gain in measured} == {
        ("round-robin", True, False),
        ("earliest-delivery", False, False),
    }
    slower = gains.of_run(made_up(runs[0], {**planted, "round-robin": lambda seed: 0.95 * load(seed)}))
    assert any(gain.is_slower for gain in slower)
    # Sure, but half a percent is nothing to anybody; and what noise makes of nothing.
    for other in (lambda seed: 1.005 * load(seed), noise("other", 10.2, 2)):
        measured = gains.of_run(made_up(runs[0], {**planted, "round-robin": other}))
        assert not any(gain.is_faster or gain.is_slower for gain in measured)


def test_less_time_is_faster(runs: list[Run]) -> None:
    run = runs[0]
    times = [{**row, "fct_ms": 100 if row["scheduler"] == "min-rtt" else 50} for row in run.rows]
    text = run.experiment.file.read_text().replace('y = "goodput_mbps"', 'y = "fct_ms"')
    file = run.experiment.file.with_name("table9.toml")
    file.write_text(text)
    timed = Run(reproduce.Experiment(file, "table9"), None, run.jobs, times)
    assert {round(gain.share, 9) for gain in gains.of_run(timed)} == {1.0}
    file.unlink()


def test_the_same_runs_in_two_figures_count_once(runs: list[Run]) -> None:
    every = [gain for run in runs for gain in gains.of_run(run)]
    names = [run.experiment.name for run in runs]
    assert names == ["doe-2020/table1", "doe-2020/table1-slow", "doe-2020/table2"]
    # Two settings and two schedulers beside min-RTT, as stated and in the slow reading.
    assert len(every) == 12 and len(gains.distinct(every)) == 8
    assert [[run.experiment.name for run in place.runs] for place in gains.places(every)] == [
        ["doe-2020/table1", "doe-2020/table2"],
        ["doe-2020/table1-slow"],
    ]
    assert gains.hopeless(every)[1] == 4


def test_where_one_scheduler_gains_is_not_where_none_does(runs: list[Run]) -> None:
    load = noise("load", 10, 2)
    level = {"min-rtt": load, "round-robin": load, "earliest-delivery": load}
    none = gains.of_run(made_up(runs[0], level))
    assert gains.hopeless(none) == (2, 2) and gains.places(none)[0].hopeless == 2
    several = gains.of_run(made_up(runs[1], {**level, "earliest-delivery": lambda seed: 1.2 * load(seed)}))
    assert gains.hopeless([*none, *several]) == (2, 4)
    assert gains.records(several)[0].scheduler == "earliest-delivery"


@pytest.fixture(scope="module")
def pages(runs: list[Run]) -> dict[str, str]:
    results = reproduce.evaluate([run.experiment for run in runs], runs)
    return book.pages(results, runs, book.options(FAST, False, "sim"))


def test_the_book_has_a_summary_a_page_per_paper_and_one_per_figure(pages: dict[str, str]) -> None:
    stems = ("table1", "table2")
    assert set(pages) == {
        "README.md",
        "doe-2020/README.md",
        *(f"doe-2020/{stem}.{kind}" for stem in stems for kind in ("md", "svg")),
    }
    figure = pages["doe-2020/table1.md"]
    for needed in ("4321 Mbit/s", "## As stated", "## slow", "earliest-delivery", "https://doi.org/10.1000/1"):
        assert needed in figure
    assert "./weft reproduce doe-2020/table1-slow --seeds 0..6 --sensitivity 0" in figure
    assert "round robin is better \\| faster" in figure
    for name, text in pages.items():
        for link in re.findall(r"\]\(([^):]+)\)", text):
            target = (Path(name).parent / link).as_posix()
            assert re.sub(r"[^/]+/\.\./", "", target) in pages, f"{name} links to {link}"


def test_no_verdict_looks_at_the_scheduler_that_the_paper_does_not_have(runs: list[Run]) -> None:
    experiments = [run.experiment for run in runs]
    without = [Run(run.experiment, None, run.jobs, run.rows) for run in runs]
    assert [result.record for result in reproduce.evaluate(experiments, runs)] == [
        result.record for result in reproduce.evaluate(experiments, without)
    ]


def test_a_drawing_has_the_printed_and_our_values_and_a_dark_colour_for_each_light_one(pages: dict[str, str]) -> None:
    drawing = pages["doe-2020/table1.svg"]
    ElementTree.fromstring(drawing)
    for needed in ("paper, as printed", ">ours<", ">ours, slow<", ">earliest-delivery<", "prefers-color-scheme:dark"):
        assert needed in drawing
    style, rest = drawing.split("</style>")
    for colour in set(re.findall(r'(?:fill|stroke)="(#\w+)"', rest)):
        assert f'="{colour}"]' in style, f"{colour} stays on dark pages"
    assert len(drawing) < 40_000


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)])
def test_the_pages_fit_the_window_and_show_their_drawings(
    pages: dict[str, str], tmp_path: Path, width: int, dark: bool
) -> None:
    first = web.write(pages, tmp_path)
    assert first.name == "index.html"
    with Browser(width, 1000, dark) as browser:
        for page in sorted(tmp_path.rglob("*.html")):
            browser.open(page)
            assert browser.run("document.documentElement.scrollWidth") <= width, page.name
            assert browser.run("[...document.images].every((one) => one.complete && one.naturalWidth > 0)")
            links = browser.run("[...document.links].map((one) => one.href).filter((one) => one.startsWith('file:'))")
            assert all(Path(link.removeprefix("file://")).exists() for link in links), page.name
            paper = browser.run("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", paper))) < 384) == dark
        assert browser.errors == []


def test_the_networks_that_a_real_stack_runs(runs: list[Run]) -> None:
    every = {experiment.name: stacks.real(experiment) for experiment in reproduce.find()}
    assert {name for name, where in every.items() if where == stacks.QUIC} == {
        f"popov-2025/scenario{n}" for n in (1, 2, 3)
    }
    kernel = {name for name, where in every.items() if where == stacks.KERNEL}
    # Its scenarios 1 to 3, and the two tables of the PRS paper; no reading, and nothing that chooses a path for 100 ms.
    assert {"lubna-2022/table1", "lubna-2022/fig3", "lubna-2022/fig4"} <= kernel
    assert {"khajekini-2024/table4", "khajekini-2024/table5"} <= kernel
    assert not any(name.startswith(("liang", "xue")) or name.endswith("thin") for name in kernel)
    planned = stacks.planned(reproduce.find(["lubna-2022/table1"]), "0..2")
    sides = {(job.backend, job.scheduler.name, job.cc[0]) for run in planned for job in run.jobs}
    assert sides == {(where, "linux-v1", cc) for where in ("sim", "kernel") for cc in stacks.CONTROLLERS}


def test_a_stack_agrees_within_a_tenth(runs: list[Run]) -> None:
    for real, agrees in ((9.2, True), (8.0, False), (11.5, False)):
        rows = [
            {**row, "backend": where, "scheduler": "linux-v1", "goodput_mbps": value}
            for row in runs[0].rows
            if row["scheduler"] == "min-rtt"
            for where, value in (("sim", 10.0), ("kernel", real))
        ]
        levels = stacks.levels([Run(runs[0].experiment, None, runs[0].jobs, rows)])
        assert [(level.agrees, level.runs) for level in levels] == [(agrees, 6)] * 2
        assert levels[0].ratio == pytest.approx(real / 10)


def test_a_level_that_only_one_of_simulator_and_stack_meets_has_no_verdict(runs: list[Run]) -> None:
    run = runs[0]
    keys = tuple((key, str(value)) for key, value in run.jobs[0].variant.values.items())
    number = {"metric": "goodput_mbps", "scheduler": "min-rtt", "at": dict(keys), "value": 10.0, "unit": "Mbit/s"}
    level = verdict.Part("", verdict.Sample(10.0, 0.1, 10), verdict.Region(9, 11))
    held = Result(run.experiment, "level", "", number, verdict.Verdict(verdict.HOLDS, "", level), None)
    missed = replace(
        held,
        verdict=replace(held.verdict, verdict=verdict.NOT, part=replace(level, sample=verdict.Sample(20.0, 0.1, 10))),
    )

    def stack(sim: float, real: float) -> stacks.Level:
        scope = checks.Scope("newreno", keys)
        return stacks.Level(run.experiment, "quic", "min-rtt", scope, "goodput_mbps", 10.0, sim, real, 5)

    def after(result: Result, level: stacks.Level) -> str:
        return results._beside(result, [level]).verdict.verdict

    assert after(held, stack(10, 7)) == verdict.OPEN
    assert after(held, stack(10, 10.5)) == verdict.HOLDS
    assert after(missed, stack(20, 10)) == verdict.OPEN
    assert after(missed, stack(20, 15)) == verdict.NOT
    # Another controller's line says nothing about it.
    other = replace(stack(10, 7), scope=checks.Scope("cubic", keys))
    assert after(replace(held, printed={**number, "cc": "newreno"}), other) == verdict.HOLDS
