"""The files of published experiments, and the command that runs them."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import machine
from conftest import Weft
from weftway import reproduce
from weftway._native import Scenario, ScenarioError
from weftway.reproduce import checks, experiments, results, traces, verdict
from weftway.reproduce.runs import Effort
from weftway.runs import runner
from weftway.runs.runner import Interrupted
from weftway.scenario import HOME

FILES = sorted((HOME / "experiments").rglob("*.toml"))
EVERY = reproduce.find()
INDEX = tomllib.loads((Path(__file__).parent / "published.toml").read_text())
DECIDING = ("path", "options", "workload", "decision", "vary", "redraw")
ALONE = ("transport", "stack", "direction", "cc", "seeds", "scheduler", "time_limit")


def test_every_published_number_stands_in_one_file_once() -> None:
    """The index was made from five papers' texts, and for Hu et al. from Figure 10, not from the files."""
    found: dict[str, dict[str, str]] = {}
    for experiment in EVERY:
        if not experiment.reading:
            places = [number["place"] for number in experiment.numbers]
            assert len(places) == len(set(places)), experiment.name
            if experiment.numbers:
                found[experiment.name] = {n["place"]: f"{n['value']} {n['unit']}" for n in experiment.numbers}
    assert found == INDEX
    # 167, and one that stands alone below a table whose column is lost.
    assert sum(map(len, INDEX.values())) == 168
    assert sum("stray" in place for places in INDEX.values() for place in places) == 1


def test_there_are_30_experiments_and_readings_repeat_no_number() -> None:
    assert len({(experiment.paper, experiment.figure) for experiment in EVERY}) == 30
    for experiment in EVERY:
        own = tomllib.loads(experiment.file.read_text())
        if experiment.reading:
            assert "values" not in own.get("published", {}), (
                f"{experiment.name} repeats the numbers of {experiment.figure}"
            )
        else:
            assert experiment.published.get("place"), experiment.name
            assert experiment.numbers or experiment.claims, f"{experiment.name} says nothing"


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_value_has_its_source_or_is_assumed(file: Path) -> None:
    assert unmarked(file.read_text()) == []


def unmarked(text: str) -> list[str]:
    """The lines that decide a run and do not say where their value comes from."""
    section, found = "", []
    for line in text.splitlines():
        if head := re.match(r"\[+([^\]]+)\]", line):
            section = head[1].split(".")[0]
        elif re.match(r'["\w]', line):
            key = line.split("=")[0].strip()
            decides = section in DECIDING if section else key in ALONE
            if decides and not re.search(r"#\s*(source|assumed): \S", line):
                found.append(line)
    return found


def test_an_unmarked_value_is_found() -> None:
    marked = 'cc = "lia"    # assumed: it is not said\n[path.a]\nrate = "1 Mbit/s"  # source: Table 1\n'
    assert unmarked(marked) == []
    assert unmarked(marked.replace("  # source: Table 1", "")) == ['rate = "1 Mbit/s"']
    assert unmarked(marked.replace("# assumed: it is not said", "# as usual")) == ['cc = "lia"    # as usual']


@pytest.mark.parametrize("experiment", EVERY, ids=lambda experiment: experiment.name)
def test_numbers_have_the_unit_of_their_column_and_open_values_can_be_set(experiment: experiments.Experiment) -> None:
    for number in experiment.numbers:
        if "metric" in number and "over" not in number:
            assert checks.factor(number["metric"], number["unit"]) > 0
        if "identity" in number:
            verdict.computed(number["identity"]["expression"])
    varied = {key.strip() for keys in experiment.text.get("vary", {}) for key in keys.split(",")}
    for keys, about in experiment.text.get("uncertain", {}).items():
        names = [key.strip() for key in keys.split(",")]
        assert not varied.intersection(names), f"{experiment.name}: {keys} is varied and cannot be open as well"
        for value in about["values"]:
            experiment.set(dict(zip(names, value if len(names) > 1 else [value], strict=True)))


@pytest.mark.parametrize("experiment", EVERY, ids=lambda experiment: experiment.name)
def test_claims_name_schedulers_that_run(experiment: experiments.Experiment) -> None:
    rows = checks.Rows([{"scheduler": name, "cc": "lia", "seed": 0} for name in experiment.scenario.schedulers], [])
    named = [number[key] for number in experiment.numbers for key in ("scheduler", "over") if key in number]
    for claim in experiment.claims.values():
        for key in ("of", "over", "better", "worse", "order"):
            value = claim.get(key, [])
            named += [value] if isinstance(value, str) else value
    if not experiment.published.get("cannot_run"):
        for name in named:
            rows.scheduler(name)


def test_every_number_and_claim_of_the_papers_gets_its_verdict() -> None:
    """As `weft reproduce --quick --json` does: at night with as many runs, otherwise with a quarter of them."""
    effort = reproduce.QUICK if machine.NIGHTLY else Effort("0..2", 1, "0..1")
    planned = reproduce.planned(EVERY, effort, "sim")
    reproduce.execute(planned, None, None, lambda done, total: None)
    judged = reproduce.evaluate(EVERY, planned, mechanism=machine.NIGHTLY)
    stated = [result for result in judged if not result.experiment.reading and result.printed]
    assert {(result.experiment.name, result.record["place"]) for result in stated} == {
        (name, place) for name, places in INDEX.items() for place in places
    }
    assert len(stated) == 168
    asked = [(experiment.name, item.words) for experiment in EVERY for item in results.items(experiment)]
    assert [(result.experiment.name, result.words) for result in judged] == asked
    assert {result.verdict.verdict for result in judged} <= set(verdict.VERDICTS)
    assert all(result.verdict.reason for result in judged)
    # What was run has rows: a verdict is withheld for a reason of the paper or of the numbers, never for want of a run.
    lost = ("there are no rows", "was not run", "the rows have no")
    assert [result.record for result in judged if any(why in result.verdict.reason for why in lost)] == []


def test_settings_are_drawn_the_same_and_cover_what_is_open() -> None:
    uncertain = {"a": {"values": ["1", "2"]}, "b, c": {"values": [["1", "1"], ["2", "2"], ["3", "3"]]}}
    drawn = list(experiments.draws(uncertain, 40, "paper"))
    assert drawn == list(experiments.draws(uncertain, 40, "paper"))
    assert drawn[:7] == list(experiments.draws(uncertain, 7, "paper")), "more settings keep the first ones"
    assert {setting["a"] for setting in drawn} == {"1", "2"}
    assert {(setting["b"], setting["c"]) for setting in drawn} == {("1", "1"), ("2", "2"), ("3", "3")}
    assert list(experiments.draws({}, 5, "paper")) == []


def test_a_name_that_is_none_is_refused_with_the_nearest() -> None:
    assert [experiment.name for experiment in reproduce.find(["lubna-2022/table1"])] == [
        "lubna-2022/table1",
        "lubna-2022/table1-alg1",
        "lubna-2022/table1-code",
    ]
    assert [experiment.reading for experiment in reproduce.find(["khajekini-2024/table4-thin"])] == ["thin"]
    with pytest.raises(ScenarioError, match="did you mean `lubna-2022/table1`"):
        reproduce.find(["lubna-2022/tabel1"])


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder of one experiment with a reading, as fast as can be."""
    folder = tmp_path / "experiments" / "doe-2020"
    folder.mkdir(parents=True)
    (folder / "table1.toml").write_text(SMALL)
    (folder / "table1-slow.toml").write_text('base = "table1.toml"\n[path.b]\ndelay = "80 ms"\n')
    yield folder.parent


SMALL = """
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
scheduler = ["min-rtt", "round-robin", "redundant"]
[published]
place = "Table 1"
values = [
    { metric = "goodput_mbps", scheduler = "min-rtt", value = 1000, unit = "Mbit/s", place = "Table 1" },
    { quantity = "cost", value = 3, unit = "ms", place = "Table 2" },
]
[expect.copy]
kind = "rank"
claim = "min-RTT beats itself"
metric = "fct_ms"
better = ["min-rtt"]
worse = ["min-rtt"]
less_is_better = true
[expect.level]
kind = "bound"
claim = "nobody is faster than both paths"
metric = "goodput_mbps"
max = 8
[uncertain."path.a.queue"]
values = ["20 packets", "100 packets"]
why = "not given"
"""

QUICK = Effort("0..4", 3, "0..2")


def evaluated(folder: Path, out: Path | None = None, threads: int = 1, back: bool = False) -> list[dict[str, Any]]:
    experiments = reproduce.find(folder=folder)
    planned = reproduce.planned(experiments[::-1] if back else experiments, QUICK, "sim")
    reproduce.execute(planned, threads, out, lambda done, total: None)
    return [result.record for result in reproduce.evaluate(experiments, planned)]


def jobs(folder: Path) -> set[str]:
    planned = reproduce.planned(reproduce.find(folder=folder), QUICK, "sim")
    return {job.key for run in planned for job in run.jobs}


def test_every_number_and_claim_of_every_reading_has_a_verdict(small: Path) -> None:
    by_claim = {(record["reading"], record["claim"]): record for record in evaluated(small)}
    assert len(by_claim) == 8
    for reading in ("", "slow"):
        level = by_claim[reading, "goodput_mbps: min-rtt"]
        assert level["verdict"] == verdict.NOT and level["settings"] == 3
        assert level["low"] <= level["ours"] <= level["high"] < 8
        assert by_claim[reading, "cost"]["verdict"] == verdict.OPEN
        assert by_claim[reading, "nobody is faster than both paths"]["verdict"] == verdict.HOLDS
        assert by_claim[reading, "min-RTT beats itself"]["verdict"] == verdict.NOT
    assert by_claim["slow", "goodput_mbps: min-rtt"]["ours"] < by_claim["", "goodput_mbps: min-rtt"]["ours"]


def test_files_threads_and_resuming_change_nothing(small: Path, tmp_path: Path) -> None:
    plain = evaluated(small)
    assert evaluated(small, threads=2, back=True) == plain
    out = tmp_path / "out"
    assert evaluated(small, out) == plain
    kept = pl.read_parquet(out / "rows.parquet")
    # Two settings may be drawn alike: their runs are the same.
    assert kept.height == len(jobs(small))
    # Half of the rows are gone, as after an interrupt.
    kept.head(kept.height // 2).write_parquet(out / "rows.parquet")
    assert evaluated(small, out) == plain
    assert pl.read_parquet(out / "rows.parquet").equals(kept)


def test_an_interrupt_keeps_what_is_finished(small: Path, tmp_path: Path) -> None:
    plain, out = evaluated(small), tmp_path / "out"

    def stop(done: int, total: int) -> None:
        if done == total // 2:
            raise KeyboardInterrupt

    planned = reproduce.planned(reproduce.find(folder=small), QUICK, "sim")
    with pytest.raises(Interrupted, match=r"kept in .*; the same command goes on"):
        reproduce.execute(planned, 1, out, stop)
    kept = sum(pl.read_parquet(part).height for part in (out / "parts").glob("*.parquet"))
    assert kept == len(jobs(small)) // 2
    assert evaluated(small, out) == plain


def test_what_is_kept_is_not_run_again(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = evaluated(small, tmp_path / "out")
    asked: list[Any] = []

    def results(todo: list[Any], **_: Any) -> Iterator[Any]:
        asked.extend(todo)
        return iter(())

    monkeypatch.setattr(runner, "results", results)
    assert evaluated(small, tmp_path / "out") == plain
    assert asked == []


def test_what_cannot_run_is_listed_with_its_reason(small: Path) -> None:
    experiments = reproduce.find(folder=small)
    planned = reproduce.planned(experiments, QUICK, "quic")
    reproduce.execute(planned, 1, None, lambda done, total: None)
    records = [result.record for result in reproduce.evaluate(experiments, planned)]
    assert len(records) == 8 and all(record["verdict"] == verdict.OPEN and record["reason"] for record in records)


TRACE = """
    1 ?  0    send          0          .  because
    1 +  0       0          0   1400
    1 ?  1    send       1400          .  because
    1 ~  1       0       1400   1400
    2 -  0       0          0   1400       1400         0
    3 ?  0    wait       2800          .  because
    4 +  0       1       2800   1400
    5 +  1       0       1400   1400
    6 -  0       1       2800   1400       1400      1400
    7 -  1       0       1400   1400       4200         0
"""


def test_a_trace_becomes_a_schedule() -> None:
    trace = traces.read(TRACE.strip().splitlines())
    assert traces.schedule(trace, ["a", "b"], 0) == {"a": [1, 3], "b": [2]}
    assert traces.arrivals(trace, 0) == [1, 3, 2]
    assert traces.schedule(trace, ["a", "b"], 1) == {"a": [2], "b": [1]}
    other = traces.read(TRACE.replace("?  1    send       1400", "?  0    send       1400").strip().splitlines())
    assert traces.differing(trace.chosen, other.chosen) == (1, 2, 2)
    assert traces.differing(trace.chosen, trace.chosen) == (0, 2, None)
    assert trace.waits == 1


def test_the_worked_examples_come_out_packet_by_packet(weft: Weft) -> None:
    done = weft("reproduce", *(f"khajekini-2024/fig{n}" for n in (6, 8)), "--json")
    assert [record["verdict"] for record in json.loads(done.stdout)] == [verdict.HOLDS] * 2, done.stderr


def test_packets_leave_in_the_order_of_the_data(weft: Weft) -> None:
    """Figure 5 has packets 11 to 15 leave before 6 to 10, which no scheduler does that is asked packet by packet."""
    done = weft("reproduce", "khajekini-2024/fig5", "--json")
    assert [record["verdict"] for record in json.loads(done.stdout)] == [verdict.NOT], done.stderr


def test_the_command_prints_results_first_and_writes_pages(weft: Weft, tmp_path: Path) -> None:
    args = ("reproduce", "khajekini-2024/fig8", "--quick")
    book = ("--book", "book")
    table = weft(*args, *book).stdout
    assert table.index("published numbers and claims") < table.index("khajekini-2024/fig8")
    assert weft("reproduce", "lubna-2202").returncode == 2
    first = (tmp_path / "book/README.md").read_text()
    assert "khajekini-2024" in first
    assert "\n./weft reproduce khajekini-2024/fig8 --quick --book book\n" in first, "the command that made it"
    assert "1 figure or table of 1 paper," in first
    assert "fig8" in (tmp_path / "book/khajekini-2024/README.md").read_text()
    assert "the paths take turns" in (tmp_path / "book/khajekini-2024/fig8.md").read_text()
    assert results.KINDS["rank"] == "ranking"
    assert isinstance(EVERY[0].scenario, Scenario)
