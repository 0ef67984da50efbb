"""Backend `kernel`: rows of the running Linux kernel beside the simulator's."""

import json
import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import machine
from conftest import Weft
from test_report import check
from weftway.scenario import HOME

BYTES = 2_000_000
TWO = f"""\
title = "Two paths without loss"
transport = "mptcp"
stack = "linux-v1"
scheduler = ["linux-v1", "ecf"]
seeds = "0..2"
[path.wifi]
rate = "12 Mbit/s"
delay = "10 ms"
[path.lte]
rate = "6 Mbit/s"
delay = "25 ms"
[workload]
kind = "bulk"
bytes = "{BYTES} B"
"""
"""A transfer of a second."""

OF_THE_KERNEL = {"late", "late_mean_us", "late_over_1ms"}
"""Columns that only its rows have."""

CONTROLLERS = ("newreno", "cubic", "lia")


@dataclass(frozen=True)
class Compared:
    """A comparison on both backends, and its folder."""

    folder: Path
    rows: list[dict[str, Any]]
    told: str

    def of(self, backend: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["backend"] == backend]


def compare(folder: Path, *words: str) -> Compared:
    command = [*machine.WEFT, "compare", "two.toml", "--backend", "sim,kernel", "--cc", ",".join(CONTROLLERS)]
    command += ["--out", "out", "--json", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return Compared(folder, json.loads(done.stdout), done.stderr)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "two.toml").write_text(TWO)
    return compare(folder)


@machine.kernel
def test_the_kernel_has_a_row_per_controller_and_seed(compared: Compared) -> None:
    runs = [(row["backend"], row["scheduler"], row["cc"], row["seed"]) for row in compared.rows]
    simulated = [("sim", s, c, n) for c in CONTROLLERS for s in ("linux-v1", "ecf") for n in (0, 1)]
    assert runs == [*simulated, *(("kernel", "linux-v1", c, n) for c in ("newreno", "cubic") for n in (0, 1))]
    assert machine.told(compared.told)[0] == (
        "skipped: linux-v1: the kernel has no controller lia; of ours it has newreno, cubic, bbr1"
    )
    assert compared.told.count("skipped:") == 1


@machine.kernel
def test_its_rows_have_the_columns_of_all_rows(compared: Compared) -> None:
    simulated, measured = compared.of("sim")[0], compared.of("kernel")[0]
    assert list(measured) == [*simulated, *(name for name in measured if name in OF_THE_KERNEL)]
    assert measured.keys() - simulated.keys() == OF_THE_KERNEL
    frame = pl.read_parquet(compared.folder / "out/rows.parquet")
    assert [name for name in frame.columns if name in measured] == list(measured)
    assert frame.filter(pl.col("backend") == "sim")["late"].null_count() == len(compared.of("sim"))


@machine.kernel
def test_what_it_does_not_tell_is_null_as_the_page_says(compared: Compared) -> None:
    page = (HOME / "docs/explanation/kernel.md").read_text()
    table = page.split("## Null columns")[1].split("\n## ")[0]
    named = set(re.findall(r"`([\w.]+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))
    simulated, measured = compared.of("sim")[0], compared.of("kernel")[0]
    null = {name for name, value in measured.items() if value is None and simulated[name] is not None}
    assert {re.sub(r"^path\.\w+\.", "path.NAME.", name) for name in null} == named


@machine.kernel
def test_its_numbers_fit_together(compared: Compared) -> None:
    for row in compared.of("kernel"):
        assert (row["verdict"], row["delivered_bytes"], row["fallback"]) == ("finished", BYTES, False)
        assert row["goodput_mbps"] == pytest.approx(BYTES * 8 / 1e3 / row["fct_ms"], rel=1e-5)
        # Every byte is acknowledged once by one subflow or the other; what was reinjected, by both.
        brought = row["path.wifi.bytes"] + row["path.lte.bytes"]
        assert BYTES <= brought <= 1.05 * BYTES
        assert row["path.wifi.share"] + row["path.lte.share"] == pytest.approx(1)
        # 18 Mbit/s on the wire, 1428 of 1500 B are payload.
        assert 9 < row["goodput_mbps"] < 18 * 1428 / 1500
        assert row["path.wifi.srtt_ms"] > 20
        assert row["path.lte.srtt_ms"] > 50
        assert row["path.wifi.lost"] == row["path.lte.lost"] == 0
        assert row["retransmissions"] == row["path.wifi.retransmissions"] + row["path.lte.retransmissions"]
        assert 0 < row["ooo_share"] < 1


@machine.kernel
def test_a_row_names_the_release_and_the_command(compared: Compared) -> None:
    row = compared.of("kernel")[0]
    assert row["code"].endswith(f", Linux {os.uname().release}")
    assert row["command"] == "weft run two.toml --scheduler linux-v1 --cc newreno --backend kernel --seed 0"
    assert row["code"] != compared.of("sim")[0]["code"]


@machine.kernel
def test_kept_rows_are_not_run_again(compared: Compared, tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TWO)
    (tmp_path / "out").symlink_to(compared.folder / "out")
    again = compare(tmp_path)
    # No two runs of the kernel take the same time to a nanosecond.
    assert [row["fct_ms"] for row in again.rows] == [row["fct_ms"] for row in compared.rows]
    more = compare(tmp_path, "--seeds", "0..3")
    assert [row["seed"] for row in more.of("kernel")] == [0, 1, 2, 0, 1, 2]
    kept = [row["fct_ms"] for row in more.of("kernel") if row["seed"] < 2]
    assert kept == [row["fct_ms"] for row in compared.of("kernel")]


@machine.kernel
def test_the_report_shows_both(compared: Compared) -> None:
    page = (compared.folder / "out/report.html").read_text()
    check(page)
    assert "backend = kernel" in page
    assert "backend = sim" in page
    for row in compared.of("kernel"):
        assert (compared.folder / f"out/timelines/{row['key']}.json.gz").exists()


RIVAL = """\
[path.neighbour]
rate = "6 Mbit/s"
connection = "rival"
[rival]
cc = "newreno"
"""

CROSS = """\
[cross.noise]
on = "wifi"
rate = "1 Mbit/s"
"""

OBSTACLES = {
    "Multipath QUIC": (["--set", "transport=mpquic"], "", "the kernel has no Multipath QUIC"),
    "coupled control": (["--cc", "olia"], "", "the kernel has no controller olia"),
    "a switch": (["--cc", "cubic:c=0.8"], "", "the kernel has no controller cubic:c=0.8"),
    "nine paths": ([], "".join(f'[path.p{k}]\nrate = "1 Mbit/s"\n' for k in range(7)), "9 paths; the kernel opens at"),
    "a rival": ([], RIVAL, "a second connection is not run beside"),
    "cross traffic": ([], CROSS, "cross traffic is not emulated"),
    "an interval": ([], '[decision]\ninterval = "50 ms"\n', "the kernel decides for each packet"),
    "one path, then others": (
        ["--set", "options.path_manager=primary-first"],
        "",
        "the kernel's path manager opens all paths",
    ),
}


@pytest.mark.parametrize(("words", "more", "reason"), OBSTACLES.values(), ids=OBSTACLES)
def test_what_the_kernel_cannot_run_is_said_in_one_line(
    weft: Weft, tmp_path: Path, words: list[str], more: str, reason: str
) -> None:
    text = TWO.replace('stack = "linux-v1"\n', "") if "transport=mpquic" in words else TWO
    (tmp_path / "two.toml").write_text(text + more)
    done = weft("compare", "two.toml", "--backend", "kernel", "--seeds", "0..1", "--json", *words)
    # Nothing else was asked for: a comparison of nothing is a failure.
    assert (done.returncode, done.stdout) == (1, "[]\n")
    (line,) = machine.told(done.stderr)
    assert line.startswith(f"skipped: linux-v1: {reason}")


def test_without_rights_the_simulator_goes_on(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TWO)
    command = [*machine.powerless(), *machine.WEFT, "compare", "two.toml", "--backend", "sim,kernel", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert {row["backend"] for row in json.loads(done.stdout)} == {"sim"}
    (line,) = machine.told(done.stderr)
    assert line.startswith("skipped: linux-v1: a network namespace cannot be had: ")
    assert line.endswith("root, or CAP_SYS_ADMIN")


def test_the_list_says_what_is_missing(tmp_path: Path) -> None:
    command = [*machine.powerless(), *machine.WEFT, "list", "--json"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60).stdout)
    backends = {entry["name"]: entry for entry in listed if entry["kind"] == "backend"}
    assert list(backends) == ["sim", "quic", "picoquic", "quic-to-picoquic", "kernel", "live"]
    assert backends["sim"]["lacking"] is backends["quic"]["lacking"] is None
    measured = backends["kernel"]
    assert measured["lacking"].startswith("a network namespace: ")
    assert f"Not on this machine: {measured['lacking']}" in measured["summary"]


@machine.kernel
def test_an_interrupt_keeps_what_was_finished(weft: Weft, tmp_path: Path) -> None:
    # Six labs per thread: of forty runs of a second most are still to come when the first are kept.
    (tmp_path / "two.toml").write_text(TWO)
    words = ["compare", "two.toml", "--backend", "kernel", "--out", "out", "--jobs", "1", "--json"]
    command = [*machine.WEFT, *words, "--seeds", "0..40"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert machine.soon(lambda: bool(list(tmp_path.glob("out/parts/*.parquet"))))
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=machine.SOON_S)
    assert (process.returncode, out) == (130, "")
    kept = sum(pl.read_parquet(part).height for part in (tmp_path / "out/parts").glob("*.parquet"))
    assert 0 < kept < 40
    assert f"{kept} of 40 runs finished and kept in out; the same command goes on from there" in errors
    rows = json.loads(weft(*words, "--seeds", "0..1").stdout)
    assert [row["seed"] for row in rows] == [0]


@machine.kernel
def test_the_page_can_be_followed(tmp_path: Path) -> None:
    (tables,) = machine.follow(HOME / "docs/how-to/run-beside-the-kernel.md", tmp_path)
    assert "backend = kernel, cubic, median ± 93 % interval of 5 runs each" in tables


def test_the_reference_has_the_kernels_columns() -> None:
    page = (HOME / "docs/reference/columns-messages.md").read_text().split("## Kernel rows only")[1]
    assert set(re.findall(r"^- `(\w+)`", page, re.MULTILINE)) == OF_THE_KERNEL
