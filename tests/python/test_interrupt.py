"""Ctrl-C in the middle of a comparison."""

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

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


SILENT = {
    "a scenario": ["run", "pipe"],
    "a scenario, with Polars": ["advise", "pipe"],
    "a log": ["run", "small.toml", "--events", "pipe"],
}


@pytest.mark.parametrize("words", SILENT.values(), ids=SILENT)
def test_a_wait_for_the_other_end_of_a_pipe_is_interrupted(small: Path, words: list[str]) -> None:
    os.mkfifo(small.parent / "pipe")
    command = [sys.executable, "-m", "weftway", *words]
    pipe, folder = subprocess.PIPE, small.parent
    with subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True) as process:
        wait_until(lambda: waits_to_open(process.pid))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


def waits_to_open(process: int) -> bool:
    """Tells if it is in the system's call openat."""
    return Path(f"/proc/{process}/syscall").read_text().split()[0] == OPENAT[platform.machine()]


OPENAT = {"x86_64": "257", "aarch64": "56"}


def test_ctrl_c_among_the_imports_says_nothing(tmp_path: Path) -> None:
    """In the import of the native module, which takes long, it comes as soon as anybody could press it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, os, signal\n"
        "class Presses:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'weftway._native': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Presses())\n"
    )
    words = [sys.executable, "-c", "import sitecustomize; from weftway.__main__ import main; main()", "list"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
