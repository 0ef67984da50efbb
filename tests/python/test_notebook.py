"""Weftway from Python: by name, with a mapping of keys, and what a notebook shows."""

from pathlib import Path

import polars as pl
import pytest

import weftway
from weftway import scenario
from weftway.results import Results

SHORT = {"workload.bytes": "200 kB"}


def test_a_scenario_of_ours_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = weftway.compare("wifi-lte", scheduler="min-rtt", seeds=range(2), set=SHORT)
    assert rows["delivered_bytes"].to_list() == [200_000, 200_000]


def test_a_mapping_of_keys_is_that_of_the_command(small: Path) -> None:
    by_mapping = weftway.run(small, set={"path.lte.loss": "2 %", "workload.bytes": "200 kB"})
    by_text = weftway.run(small, set=["path.lte.loss=2 %", "workload.bytes=200 kB"])
    assert by_mapping == by_text


def test_numbers_truth_and_lists_are_written_as_a_scenario_has_them(small: Path) -> None:
    assert scenario.settings({"a": 2, "b": 0.5, "c": True, "d": ["x", 1], "e": "2 %"}) == [
        "a=2", "b=0.5", "c=true", 'd=["x", 1]', "e=2 %"
    ]  # fmt: skip
    rows = weftway.compare(small, scheduler="min-rtt", seeds=[0], set={'vary."path.wifi.loss"': ["0 %", "2 %"]})
    assert rows.height == 2


def test_a_text_of_keys_is_refused(small: Path) -> None:
    with pytest.raises(weftway.ScenarioError, match="got the text"):
        weftway.run(small, set="path.lte.loss=2 %")


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


def test_the_report_is_shown_inline(small: Path, tmp_path: Path) -> None:
    report = weftway.compare(small).report(height=300)
    report.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    shown = report._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "height:300px" in shown
    assert '"' not in shown.split('srcdoc="')[1].split('" style=')[0]
