"""`weft bench`: what its tables say of what the benchmark crate measured, and what is noted of it by commit."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from weftway._native import ScenarioError
from weftway.runs import bench

FIGURES: dict[str, Any] = {
    "packets_per_cpu_second": {"A": 2_500_000.0, "B": 2_600_000.0},
    "events_per_packet": {"A": 2.1, "B": 2.2},
    "events_per_packet_budget": 2.5,
    "instructions_per_packet": {"A": 1600.0, "loss": None},
    "cases": {
        "A": {"what": "two slow paths", "budget": 1603.0, "aim": 1200.0},
        "loss": {"what": "one packet in a hundred is lost", "budget": 1960.0, "aim": None},
    },
    "peak_memory_mb": 4.1,
}


def printed(*tables: Any) -> str:
    console = Console(width=200)
    with console.capture() as text:
        console.print(*tables)
    return text.get()


def test_each_figure_has_its_budget_its_aim_and_what_it_is() -> None:
    lines = {
        line.split("  ")[0].strip(): " ".join(line.split()) for line in printed(*bench.tables(FIGURES)).splitlines()
    }
    assert lines["A"] == "A 1,600 1,603 1,200 two slow paths"
    assert lines["loss"] == "loss – 1,960 – one packet in a hundred is lost"
    assert lines["events per packet"] == "events per packet 2.1 2.2 2.5 calendar events a delivered packet"
    assert lines["peak memory mb"].startswith("peak memory mb 4.1 – – ")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree with one commit, for `weft bench` to take for its own."""
    monkeypatch.setattr(bench, "source_tree", lambda what: tmp_path)
    (tmp_path / "file").write_text("first")
    who = ["-c", "user.name=N", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
    date = {"GIT_COMMITTER_DATE": "2026-11-02T12:00:00Z", "GIT_AUTHOR_DATE": "2026-11-02T12:00:00Z"}
    for name, value in date.items():
        monkeypatch.setenv(name, value)
    for words in (["init", "-q"], ["add", "file"], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    return tmp_path


def test_measurements_are_noted_by_commit(tree: Path) -> None:
    bench.note(tree, FIGURES)
    (tree / "file").write_text("changed")
    bench.note(tree, {**FIGURES, "instructions_per_packet": {"A": 1700.0}})
    first, second = bench.history()
    assert (first["day"], first["changed"], second["changed"]) == ("2026-11-02", False, True)
    assert first["commit"] == second["commit"]
    text = printed(bench.history_table([first, second]))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert f"{first['commit']} {first['commit']}+" in lines
    assert "A 1,600 1,700" in lines
    assert "loss – –" in lines
    assert "A: million packets a CPU-second 2.5 2.5" in lines


def test_without_git_there_is_no_commit(tmp_path: Path) -> None:
    bench.note(tmp_path, FIGURES)
    notes = json.loads((tmp_path / bench.NOTES).read_text())
    assert (notes["commit"], notes["day"]) == (None, None)


def test_a_tree_without_measurements_says_so(tree: Path) -> None:
    with pytest.raises(ScenarioError, match="nothing was measured here"):
        bench.history()
