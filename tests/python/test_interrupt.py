"""Ctrl-C in the middle of a comparison."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl

from conftest import Weft
from ends import PATIENCE_S, wait_until

SEEDS = 4000


def test_what_was_finished_is_kept_and_the_same_command_goes_on(weft: Weft, small: Path, tmp_path: Path) -> None:
    words = ["compare", str(small), "--seeds", f"0..{SEEDS}", "--set", "workload.bytes=100 MB", "--jobs", "2"]
    words += ["--out", "out", "--json"]
    first = interrupted_once_rows_are_kept(words, tmp_path)
    kept = sum(pl.read_parquet(part).height for part in (tmp_path / "out/parts").glob("*.parquet"))
    assert first.returncode == 130
    assert first.stdout == ""
    assert f"{kept} of {2 * SEEDS} runs finished and kept in out; the same command goes on" in first.stderr
    assert 0 < kept < 2 * SEEDS
    assert {file.suffix for file in (tmp_path / "out").rglob("*.*")} == {".parquet"}
    assert not (tmp_path / "out/rows.parquet").exists()
    words[words.index(f"0..{SEEDS}")] = "0..3"
    resumed = weft(*words)
    assert resumed.returncode == 0
    fresh = weft(*(word for word in words if word not in ("--out", "out")))
    assert json.loads(resumed.stdout) == json.loads(fresh.stdout)


def interrupted_once_rows_are_kept(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weftway", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: bool(list(folder.glob("out/parts/*.parquet"))))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    return subprocess.CompletedProcess(command, process.returncode, out, err)
