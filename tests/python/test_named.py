"""Schedulers that the user named stay in sight, first and marked: on screen, in report and ranking, in every fold."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weftway import _native, rank, report
from weftway.rank import page, ranking
from weftway.report import latex, printed
from weftway.report.study import Study
from weftway.runs import comparison, plan, specs
from weftway.scenario import HOME, load, locate

MINE = "rules.py:Mine"
RULE = """
class Mine:
    def select(self, cx):
        return max(cx.sendable(), key=lambda path: path.id, default=None)
"""
EVERY = [f"s{at:02}" for at in range(30)]


def runs(names: Sequence[str], slowest: str = "", like: str = "") -> list[dict[str, Any]]:
    """Runs of which `slowest` is last and `like` has the results of min-rtt."""
    rows = []
    for at, name in enumerate(names):
        for seed in range(3):
            fct = 1000.0 + 50 * at + 3 * seed
            fct = 9000.0 + seed if name == slowest else 5000.0 + seed if name in ("min-rtt", like) else fct
            source = "8" * 64 if name.startswith("rules.py") else None
            same = {"cc": "cubic", "verdict": "finished", "scheduler_source": source}
            rows.append({"scheduler": name, "seed": seed, "fct_ms": fct, "goodput_mbps": 1e5 / fct, **same})
    return rows


def lines(rows: list[dict[str, Any]], top: int = 10, **about: Any) -> tuple[list[str], str]:
    """The names in the table, and what stands under it."""
    (table,) = printed.of(Study(rows, about), top)
    return [str(text) for text in table.column(0)], str(table.caption or "")


def test_a_class_of_ones_own_is_first_and_marked_below_the_top_ten() -> None:
    names, below = lines(runs([*EVERY, "min-rtt", MINE], slowest=MINE))
    assert names[0] == f"{MINE} (yours)"
    assert names[1:11] == EVERY[:10]
    assert "min-rtt" in names and "20 more schedulers" in below


def test_a_class_of_ones_own_speaks_for_those_that_equal_it() -> None:
    names, below = lines(runs([*EVERY, "min-rtt", MINE], like=MINE))
    assert names[0] == f"{MINE} (yours) (= 1 more)"
    assert f"= {MINE}: min-rtt" in below
    page = report.render(pl.DataFrame(runs(["a", "min-rtt", MINE], like=MINE), infer_schema_length=None), {}, {})
    assert f'data-name="{MINE} min-rtt" data-keep' in page


def test_what_is_named_beside_all_is_kept_and_explained() -> None:
    names, below = lines(runs([*EVERY, "min-rtt"], slowest="s29"), named=["s29"])
    assert names[0] == "s29 *"
    assert "* you named it" in below
    names, below = lines(runs([*EVERY, "min-rtt"], like="s04"), named=["s04"])
    assert names[0] == "s04 * (= 1 more)" and "= s04: min-rtt" in below


def test_where_all_are_named_only_ones_own_is_marked() -> None:
    wanted = plan.plan(load("wifi-lte"), "ecf,min-rtt,blest")
    assert wanted.named == []
    names, below = lines(runs(["ecf", "min-rtt", MINE]))
    assert sorted(names) == ["ecf", "min-rtt", f"{MINE} (yours)"] and "you named" not in below


@pytest.mark.parametrize("text", ["all,ecf", "ecf,all", ["ecf", "all"]])
def test_all_names_nobody(text: Any) -> None:
    schedulers = specs.parse(text)
    assert [scheduler.name for scheduler in schedulers if scheduler.is_named] == ["ecf"]
    assert len(schedulers) == len(_native.schedulers())
    assert plan.plan(load("wifi-lte"), text).named == ["ecf"]
    assert plan.plan(load("wifi-lte"), "all").document["named"] == []


def test_a_scenario_names_all_of_its_own() -> None:
    """`[vary]` lists schedulers one by one: all of them are named, and none is marked."""
    loaded = load("wifi-lte", ['vary.scheduler=["ecf", "blest", "min-rtt"]'])
    assert plan.plan(loaded).named == []


def test_every_figure_of_the_report_keeps_it_in_sight() -> None:
    rows = [
        {**row, "path.wifi.share": 0.5, "path.lte.share": 0.5, "receive_buffer_max_kb": 1.0 + row["seed"]}
        for row in runs([*EVERY, "min-rtt", MINE], slowest=MINE)
    ]
    about = {"path": {"wifi": {}, "lte": {}}, "named": ["s20"]}
    text = report.render(pl.DataFrame(rows, infer_schema_length=None), {}, about)
    mine = re.findall(rf'<(?:tr|div)[^>]*data-name="{MINE}[^>]*>', text)
    named = re.findall(r'<(?:tr|div)[^>]*data-name="s20[^>]*>', text)
    assert len(mine) >= 4 and len(mine) == len(named)
    assert all("data-keep" in one for one in [*mine, *named])
    assert text.count(">yours</small>") == len(mine)
    groups = re.findall(
        r'<(?:tbody data-cc="cubic"|div class="chart[^"]*")>(.*?)(?:</tbody>|class="row foot")', text, re.S
    )
    firsts = [re.search(r'data-name="([^" ]+)', group) for group in groups]
    assert {first[1] for first in firsts if first} == {MINE}


def test_the_runs_over_time_begin_with_it() -> None:
    study = Study(runs([*EVERY, "min-rtt", MINE], slowest=MINE), {})
    cells = [cell.scheduler for cell, _ in study.watched()]
    assert cells[0] == MINE and cells.count(MINE) == 3


def test_a_ranking_lists_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.py").write_text(RULE)
    small = ["workload.bytes=200 kB"]
    ranked = rank.run(rank.Request(["wifi-lte"], seeds="0..2", schedulers=f"min-rtt,ecf,{MINE}", set=small))
    shown = page.ranked(ranked)
    assert shown.lines[0].scheduler == MINE
    (table, *_) = ranking.terminal(shown)
    assert str(table.column(0)[0]) == f"{MINE} (yours)"
    assert any(line.startswith(MINE) for line in ranking.findings(shown))
    assert ">yours</small>" in ranking.render(shown, page.costs(ranked))


def test_a_report_tells_nobody_where_its_author_keeps_his_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = plan.plan(load("wifi-lte", ["workload.bytes=200 kB"]), "min-rtt,ecf", seed=[0])
    compared = comparison.execute(wanted, 1)
    text = report.write(compared, tmp_path, command="weft compare wifi-lte").read_text(encoding="utf-8")
    assert str(HOME) not in text and str(tmp_path) not in text
    assert "weft run scenarios/wifi-lte.toml --scheduler" in text
    assert Path(locate("scenarios/wifi-lte.toml")).is_file(), "and the command works from here"


def test_a_scheduler_has_the_name_that_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.py").write_text(RULE)
    scenario = load(locate("wifi-lte"), ["workload.bytes=100 kB"])
    wanted = plan.plan(scenario, "Mine=rules.py:Mine,Slow=ecf:beta=0.5,ecf:beta=0.5", "cubic", [3])
    assert [job.scheduler.title for job in wanted.jobs] == ["Mine", "Slow", "ecf:beta=0.5"]
    assert "--scheduler Mine=rules.py:Mine " in wanted.jobs[0].command
    rows = comparison.execute(wanted, 1, None).rows
    assert [row["scheduler"] for row in rows] == ["Mine", "Slow", "ecf:beta=0.5"]
    assert len({row["fct_ms"] for row in rows[1:]}) == 1
    assert specs.parse({"Mine": "rules.py:Mine"})[0].title == "Mine"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("ecf=min-rtt", "a scheduler of the registry has this name"),
        ("All=ecf", "a name has letters"),
        ("a$b=ecf", "a name has letters"),
        ("A=all", "one scheduler has a name"),
        ("A=ecf,A=min-rtt", "two have this name"),
    ],
)
def test_a_name_that_would_mislead_is_refused(given: str, why: str) -> None:
    with pytest.raises(_native.ScenarioError, match=why):
        specs.parse(given)


def test_policy_files_are_called_by_their_stems_and_are_ones_own(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "crates/sched/policies/dqn-all.safetensors"
    mine, same = tmp_path / "mine.safetensors", tmp_path / "dqn.safetensors"
    for file in (mine, same):
        file.write_bytes(shipped.read_bytes())
    one, other = specs.parse(f"{mine}:fallback=off,{same}")
    assert (one.title, one.text, one.is_own) == ("mine:fallback=off", f"{mine}:fallback=off", True)
    assert other.title == str(same)  # `dqn` is one of ours
    (table,) = printed.of(Study([{**row, "scheduler_source": "8"} for row in runs(["mine"])], {}))
    assert str(table.column(0)[0]) == "mine (yours)"


def test_papers_have_names_without_marks() -> None:
    study = Study(runs(["min-rtt", MINE]), {})
    assert "yours" not in latex.tables(study) and MINE.replace("_", r"\_") in latex.tables(study)
    assert "yours" in str(printed.of(study)[0].column(0)[0])
