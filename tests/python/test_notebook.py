"""Weftway from Python: by name, with a mapping of keys, and what a notebook shows."""

import ast
import copy
import pickle
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

import weftway
from weftway import ScenarioError, scenario
from weftway.results import Results

SHORT = {"workload.bytes": "200 kB"}


UNITS = {"_ms": "Milliseconds", "_mbps": "Mbit/s"}


def described() -> dict[str, dict[str, str]]:
    """The docstring of every field of what a rule sees, by class, as an editor shows it."""
    fields: dict[str, dict[str, str]] = {}
    for node in ast.parse((Path(weftway.__file__).parent / "_native.pyi").read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name in ("Path", "Packet", "Flow", "Context", "Event"):
            fields[node.name] = {
                statement.target.id: after.value.value
                for statement, after in pairwise(node.body)
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
                if isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            }
    return fields


class Looking:
    """Keeps what it sees."""

    seen: ClassVar[dict[str, Any]] = {}

    def select(self, cx: Any) -> Any:
        self.seen.update(Context=cx, Path=cx.paths[0], Packet=cx.packet or self.seen.get("Packet"), Flow=cx.flow)
        return min(cx.sendable(), key=lambda path: path.srtt_ms, default=None)

    def observe(self, cx: Any, event: Any) -> None:
        self.seen.update(Event=event)


def test_every_field_that_a_rule_sees_is_described_with_its_unit(small: Path) -> None:
    weftway.run(small, scheduler=Looking)
    for name, fields in described().items():
        there = {field for field in dir(Looking.seen[name]) if not field.startswith("_")}
        assert there - {"sendable"} == fields.keys()
        for field, text in fields.items():
            unit = next((unit for end, unit in UNITS.items() if field.endswith(end)), "")
            assert text.startswith(unit), f"{name}.{field}"


def test_a_scenario_of_ours_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = weftway.compare("wifi-lte", scheduler="min-rtt", seeds=range(2), set=SHORT)
    assert rows["delivered_bytes"].to_list() == [200_000, 200_000]


def test_keys_are_set_in_a_scenario_that_is_read_already(small: Path) -> None:
    loaded = weftway.Scenario.load(str(small), ["path.wifi.loss=0 %"])
    (row,) = weftway.compare(loaded, scheduler="min-rtt", seeds=[0], set=SHORT).to_dicts()
    assert row["delivered_bytes"] == 200_000
    named = weftway.compare(small, scheduler="min-rtt", seeds=[0], set={**SHORT, "path.wifi.loss": "0 %"})
    assert row["fct_ms"] == named["fct_ms"][0]
    with pytest.raises(ScenarioError, match="unknown key"):
        weftway.compare(loaded, set={"path.wifi.los": "1 %"})


def test_a_mapping_of_keys_is_that_of_the_command(small: Path) -> None:
    by_mapping = weftway.run(small, set={"path.lte.loss": "2 %", "workload.bytes": "200 kB"})
    by_text = weftway.run(small, set=["path.lte.loss=2 %", "workload.bytes=200 kB"])
    assert by_mapping == by_text


def test_numbers_truth_lists_and_tables_are_written_as_a_scenario_has_them() -> None:
    values = {"a": 2, "b": 0.5, "c": True, "d": ["x", 1], "e": "2 %", "f": {"down": "1 %", "a b": ["📶\x7f"]}}
    assert scenario.settings(values) == [
        "a=2", "b=0.5", "c=true", 'd=["x", 1]', "e=2 %", 'f={ down = "1 %", "a b" = ["📶\\u007f"] }'
    ]  # fmt: skip
    assert [tomllib.loads(text)["f"] for text in scenario.settings(values)[-1:]] == [values["f"]]


def test_a_table_is_a_value_like_any_other(small: Path) -> None:
    by_mapping = weftway.run(small, set={"path.lte.loss": {"down": "2 %", "up": "0 %"}})
    by_text = weftway.run(small, set=['path.lte.loss={ down = "2 %", up = "0 %" }'])
    assert by_mapping == by_text


@pytest.mark.parametrize("keys", ["path.lte.loss=2 %", 3, [3]])
def test_what_is_no_mapping_or_list_of_keys_is_refused(small: Path, keys: Any) -> None:
    with pytest.raises(weftway.ScenarioError, match=re.escape(f'a list of "KEY=VALUE", and got {keys!r}')):
        weftway.run(small, set=keys)


def test_what_names_nothing_is_refused_as_what_it_is(small: Path) -> None:
    for settings in ({"cc": 3}, {"cc": ["cubic", 3]}, {"backend": 3}):
        with pytest.raises(weftway.ScenarioError, match=r"^3: expected a name, or a list of names"):
            weftway.compare(small, **settings)
    with pytest.raises(weftway.ScenarioError, match="scenario 3: expected a file"):
        weftway.compare(3)  # type: ignore[arg-type]


def test_a_notebook_shows_the_table_of_the_command(small: Path) -> None:
    rows = weftway.compare(small)
    assert isinstance(rows, Results)
    shown = rows._repr_html_()
    assert "completion" in shown
    assert "round-robin" in shown
    assert "scheduler_version" not in shown


def test_what_is_computed_from_it_is_an_ordinary_frame(small: Path) -> None:
    rows = weftway.compare(small)
    chosen = rows.filter(pl.col("scheduler") == "min-rtt").select("seed", "fct_ms")
    assert chosen.height == 2
    assert "seed" in chosen._repr_html_()
    assert pl.concat([rows, rows]).height == 2 * rows.height
    assert "fct_ms" in rows.head(1)._repr_html_()
    for other in (rows[:1], rows.clone(), copy.copy(rows), copy.deepcopy(rows), pickle.loads(pickle.dumps(rows))):
        assert type(other) is pl.DataFrame
        assert other.columns == rows.columns


def test_what_is_printed_in_a_notebook_is_text(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gymnasium = pytest.importorskip("gymnasium", reason="Gymnasium is not installed: pip install 'weftway[gym]'")
    rows = weftway.compare(small)
    env = gymnasium.make("weftway.env:weftway/Packet-v0", scenario=str(small), render_mode="ansi")
    env.reset(seed=1)
    plain = str(rows), env.render()
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert (str(rows), env.render()) == plain
    assert "\x1b" not in "".join(plain)


def test_the_report_is_shown_inline(small: Path, tmp_path: Path) -> None:
    report = weftway.compare(small).report(height=300)
    report.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "height:300px" in shown
    assert '"' not in shown.split('srcdoc="')[1].split('" style=')[0]
