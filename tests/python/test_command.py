"""The command: what it prints where, and its exit status."""

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

import machine
import weftway
from conftest import Weft
from weftway import cli
from weftway._native import Scenario, ScenarioError
from weftway.links import emulate
from weftway.runs import backends, plan
from weftway.runs.runner import Interrupted, threads
from weftway.terminal.table import numbers, plain, texts

PROMISED = {
    "scheduler",
    "cc",
    "seed",
    "backend",
    "fct_ms",
    "goodput_mbps",
    "aggregation_benefit",
    "efficiency",
    "ooo_packets",
    "retransmissions",
}


def test_json_is_one_array_with_a_row_per_scheduler_controller_and_seed(weft: Weft, small: Path) -> None:
    done = weft("compare", small, "--scheduler", "min-rtt,ecf", "--cc", "newreno,cubic", "--seeds", "3..6", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(done.stdout)
    runs = [(row["scheduler"], row["cc"], row["seed"]) for row in rows]
    assert runs == [(s, c, n) for c in ("newreno", "cubic") for s in ("min-rtt", "ecf") for n in (3, 4, 5)]
    assert all(row.keys() >= PROMISED for row in rows)


def test_the_number_of_threads_changes_no_byte(weft: Weft, small: Path) -> None:
    one, two = (weft("compare", small, "--scheduler", "all", "--json", "--jobs", jobs) for jobs in ("1", "2"))
    assert one.returncode == 0
    assert one.stdout == two.stdout


def test_a_row_tells_the_command_that_repeats_it(weft: Weft, small: Path) -> None:
    setting = "path.lte.loss=2 %"
    row = json.loads(weft("compare", small, "--seeds", "1..2", "--set", setting, "--json").stdout)[-1]
    weft_, *words = shlex.split(row["command"])
    again = json.loads(weft(*words, "--json").stdout)
    assert weft_ == "weft"
    assert again == [row]


def test_names_are_what_people_type(weft: Weft, small: Path) -> None:
    done = weft("compare", small, "--scheduler", "MinRTT,DEFAULT,rr", "--cc", "CUBIC", "--seeds", "0..1", "--json")
    rows = json.loads(done.stdout)
    assert [(row["scheduler"], row["cc"]) for row in rows] == [("min-rtt", "cubic"), ("round-robin", "cubic")]


def test_tables_go_to_standard_output_and_files_to_the_folder(weft: Weft, small: Path, tmp_path: Path) -> None:
    done = weft("compare", small, "--out", "out")
    assert done.returncode == 0
    assert all(word in done.stdout for word in ("min-rtt", "round-robin", "newreno", "±", "completion"))
    assert pl.read_parquet(tmp_path / "out/rows.parquet").height == 4
    page = (tmp_path / "out/report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert f"weft compare {small} --out out" in page, "the page says what made it"


def test_a_comparison_ends_with_its_finding_and_what_changed(weft: Weft, small: Path, tmp_path: Path) -> None:
    weft("compare", small, "--out", "before")
    done = weft("compare", small, "--out", "after", "--against", "before")
    assert done.returncode == 0, done.stderr
    finding, change = done.stdout.strip().split("\n")[-2:]
    assert finding.split(" ")[0] in ("min-rtt", "round-robin")
    assert change == "Against before, 2 cells paired by seed: 2 unchanged."
    assert change in (tmp_path / "after/report.html").read_text()
    (tmp_path / "before/rows.parquet").write_text("no table")
    for folder in ("nowhere", "before"):
        wrong = weft("compare", small, "--out", "other", "--against", folder)
        assert wrong.returncode == 2
        assert wrong.stderr.startswith(f"weft: --against {folder}: ")
        assert "Traceback" not in wrong.stderr
        assert not (tmp_path / "other").exists(), "nothing is run in vain"


def test_figures_on_request(weft: Weft, small: Path, tmp_path: Path) -> None:
    done = weft("compare", small, "--out", "out", "--figures", "svg,csv")
    assert done.returncode == 0, done.stderr
    names = {file.name for file in (tmp_path / "out/figures").iterdir()}
    assert names >= {"fct_ms.svg", "fct_ms.csv", "rate.svg", "rate.csv"}


def test_what_is_finished_is_not_run_again(weft: Weft, small: Path, tmp_path: Path) -> None:
    first = json.loads(weft("compare", small, "--seeds", "0..2", "--out", "out", "--json").stdout)
    table = tmp_path / "out/rows.parquet"
    frame = pl.read_parquet(table)
    # A number that no run gives shows whether it was taken from the table.
    frame.with_columns(pl.lit(1.25).alias("fct_ms")).write_parquet(table)
    second = json.loads(weft("compare", small, "--seeds", "0..3", "--out", "out", "--json").stdout)
    assert [row["fct_ms"] == 1.25 for row in second] == [True, True, False] * 2
    assert [row["seed"] for row in first] == [0, 1] * 2


def test_one_run(weft: Weft, small: Path) -> None:
    done = weft("run", small, "--scheduler", "ecf", "--seed", "5")
    assert done.returncode == 0
    assert "ecf@1" in done.stdout


def test_events_are_a_line_each_and_the_row_is_the_same(weft: Weft, small: Path, tmp_path: Path) -> None:
    plain = weft("run", small, "--json")
    noted = weft("run", small, "--events", "events.txt", "--qlog", "qlog", "--json")
    assert noted.returncode == 0
    assert noted.stdout == plain.stdout
    assert len((tmp_path / "events.txt").read_text().splitlines()) > 200
    assert list((tmp_path / "qlog").iterdir())


@pytest.mark.parametrize("backend", ["kernel", "quic"])
def test_events_are_not_those_of_another_backend(weft: Weft, small: Path, backend: str) -> None:
    done = weft("run", small, "--backend", backend, "--events", "events.txt", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "simulated runs only" in done.stderr


def test_the_list_has_every_kind(weft: Weft) -> None:
    entries = json.loads(weft("list", "--json").stdout)
    kinds = {entry["kind"] for entry in entries}
    assert kinds >= {"scheduler", "controller", "backend"}
    assert "min-rtt" in weft("list").stdout


BAD = {
    "an unknown scheduler": (["--scheduler", "min-rt"], "did you mean `min-rtt`?"),
    "an unknown controller": (["--cc", "cubik"], "did you mean `cubic`?"),
    "an unknown switch": (["--scheduler", "ecf:beat=1"], "did you mean `beta`?"),
    "an unknown backend": (
        ["--backend", "moon"],
        "unknown backend `moon`: there is sim, quic, picoquic, quic-to-picoquic, kernel",
    ),
    "a mistyped backend": (["--backend", "kernal"], "did you mean `kernel`?"),
    "seeds of nothing": (["--seeds", "3..3"], "no seed in it"),
    "no scheduler": (["--scheduler", ","], "no scheduler is named"),
    "no controller": (["--cc", ","], "no controller is named"),
    "an unknown key": (["--set", "path.lte.lozz=2%"], "loss"),
    "a wrong unit": (["--set", "path.lte.rate=5 apples"], "5 apples"),
    "figures of no kind": (["--figures", "bmp", "--out", "out"], "svg, pdf, csv"),
    "figures without a folder": (["--figures", "svg"], "--out"),
    "no threads": (["--jobs", "0"], "--jobs"),
}


@pytest.mark.parametrize(("words", "hint"), BAD.values(), ids=BAD)
def test_bad_input_is_one_message_and_status_2(weft_here: Weft, small: Path, words: list[str], hint: str) -> None:
    done = weft_here("compare", small, *words, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


BAD_LAB = {
    "a quote left open": (["--server", "'a"], "--server 'a: No closing quotation"),
    "a server of no words": (["--server", " "], "--server CMD: the value is empty."),
    "a server that is no program": (["--server", "nowhere"], "`nowhere` cannot be started: there is no such program"),
    "a client that is no program": (["--", "/etc/passwd"], "`/etc/passwd` cannot be started"),
    "a seed below 0": (["--seed", "-1"], "--seed"),
    "a seed of 65 bits": (["--seed", str(2**64)], "--seed"),
}


@pytest.mark.parametrize(("words", "hint"), BAD_LAB.values(), ids=BAD_LAB)
def test_bad_input_of_emulate_is_one_message_and_status_2(
    weft_here: Weft, small: Path, words: list[str], hint: str
) -> None:
    done = weft_here("emulate", small, *words, "--no-log", *([] if "--" in words else ["--", "true"]))
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_refuses_a_seed_below_0(weft: Weft, small: Path) -> None:
    done = weft("run", small, "--seed", "-1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a seed is a number from 0" in done.stderr


def test_the_head_of_the_packet_log_has_the_whole_command(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    def run(*_: object, provenance: list[str], **__: object) -> dict[str, int]:
        lines.extend(provenance)
        return {"client": 0}

    monkeypatch.setattr(emulate, "run", run)
    words = ["emulate", str(small), "--set", "path.lte.loss=2 %", "--server", "sh -c 'sleep 1'", "--seed", "7"]
    client = ["--", "echo", "a b"]
    with pytest.raises(SystemExit):
        cli.app([*words, "--json", *client])
    assert len(lines) == 3
    assert shlex.split(lines[2]) == ["weft", *words, *client]


def test_all_backends_are_those_of_a_file_that_says_all(small: Path) -> None:
    (small.parent / "all.toml").write_text(f'backend = "all"\n{small.read_text()}')
    in_file = Scenario.load(str(small.parent / "all.toml"), [])
    jobs = plan.plan(Scenario.load(str(small), []), backend="ALL").jobs
    assert list(dict.fromkeys(job.backend for job in jobs)) == in_file.backends == ["sim", "quic", "kernel"]


def test_all_backends_have_their_names() -> None:
    # `all` leaves out what needs another machine, or a library that is not ours.
    assert {*backends.ALL, "live", "picoquic", "quic-to-picoquic"} == set(backends.BACKENDS)
    assert all(name == backend.name for name, backend in backends.BACKENDS.items())


def test_without_linux_runs_of_the_kernel_are_skipped(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("weftway._native.KernelBatch", raising=False)
    jobs = plan.plan(Scenario.load(str(small)), cc="cubic,newreno", seed="0..2", backend="kernel").jobs
    results = [outcome.result for outcome in threads(1)(jobs)]
    assert [result.job for result in results if isinstance(result, backends.Skipped)] == jobs
    assert all("no Linux kernel here" in result.reason for result in results if isinstance(result, backends.Skipped))


HEAVY = ("polars", "altair", "jax", "numpy", "pydantic")
"""Each takes as long to load as all else that a list or a small comparison does."""


@pytest.mark.parametrize("words", [["list"], ["compare", "small.toml", "--seeds", "0..1"]])
def test_nothing_heavy_is_loaded_for_a_list_or_a_small_comparison(small: Path, words: list[str]) -> None:
    code = f"""
import sys
from weftway import cli
sys.argv = ["weft", *{words!r}]
try:
    cli.main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=small.parent, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_an_interrupted_command_is_not_told_of_an_option_it_lacks(tmp_path: Path) -> None:
    assert str(Interrupted(0, 1, None)) == "interrupted: 0 of 1 runs finished"
    assert str(Interrupted(3, 7, None, has_out=False)) == "interrupted: 3 of 7 runs finished; none is kept"
    assert "--out" in str(Interrupted(1, 2, None))
    assert "kept in" in str(Interrupted(1, 2, tmp_path))


@pytest.mark.parametrize("text", ["", "title = ", "[path.a]\nrate = '1 Mbit/s'\n", "\x00", "[workload]\nkind = 'bulk'"])
def test_a_file_that_is_no_scenario_is_refused_with_its_name(weft_here: Weft, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    done = weft_here("compare", "bad.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "bad.toml" in done.stderr


def test_a_missing_file_is_refused(weft: Weft) -> None:
    done = weft("compare", "nowhere.toml")
    assert done.returncode == 2
    assert "nowhere.toml" in done.stderr


def test_a_scenario_of_ours_is_guessed(weft: Weft) -> None:
    done = weft("run", "wifi-lt")
    assert done.returncode == 2
    assert "did you mean `wifi-lte`?" in done.stderr


EMPTY = {
    "run ''": "SCENARIO: the value is empty. A scenario file",
    "run small.toml --events ''": "--events FILE: the value is empty.",
    "run small.toml --qlog=": "--qlog DIR: the value is empty.",
    "run small.toml --perfetto ' '": "--perfetto FILE: the value is empty.",
    "run small.toml --scheduler ''": "--scheduler: the value is empty. A name",
    "run small.toml --set ''": "--set KEY=VALUE: the value is empty.",
    "compare small.toml --out ''": "--out DIR: the value is empty.",
    "compare small.toml --jobs ''": "--jobs N: the value is empty.",
    "compare small.toml --figures '' --out x": "--figures svg,pdf,csv,tex: the value is empty.",
    "compare small.toml --figures , --out x": "--figures ,: it names none; there is svg",
    "compare small.toml --seeds 0..1 --against ''": "--against DIR: the value is empty.",
    "emulate small.toml --log '' -- true": "--log FILE: the value is empty.",
    "service proxy --to ''": "--to HOST[:PORT]: the value is empty.",
    "train dqn --out ''": "--out: the value is empty",
}


@pytest.mark.parametrize("words", EMPTY)
def test_an_empty_value_is_refused_with_its_option(weft_here: Weft, small: Path, words: str) -> None:
    done = weft_here(*shlex.split(words))
    assert (done.returncode, done.stdout) == (2, "")
    assert EMPTY[words] in done.stderr


@pytest.mark.parametrize("option", ["--events", "--perfetto", "--qlog"])
def test_a_log_goes_into_a_folder_that_is_made(weft: Weft, small: Path, tmp_path: Path, option: str) -> None:
    assert weft("run", small, option, tmp_path / "made/here/log").returncode == 0
    assert (tmp_path / "made/here/log").exists()


@pytest.mark.parametrize("words", [("--events", "small.toml/x"), ("--qlog", "small.toml")])
def test_a_log_that_cannot_be_written_is_told(weft_here: Weft, small: Path, words: tuple[str, str]) -> None:
    done = weft_here("run", small, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert words[1] in done.stderr


@pytest.mark.parametrize("words", [("--events", "x"), ("--qlog", "x"), ("--perfetto", "x")])
def test_a_log_for_which_there_is_no_room_is_no_bad_input(small: Path, tmp_path: Path, words: tuple[str, str]) -> None:
    limited = ["sh", "-c", 'ulimit -f 1 && exec "$@"', "sh", sys.executable, "-m", "weftway", "run", str(small), *words]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("File too large\n")


def test_what_nothing_runs_is_told_once(weft: Weft, small: Path) -> None:
    compared = weft("compare", small, "--scheduler", "ecf", "--cc", "cubic,lia", "--backend", "quic", "--json")
    assert (compared.returncode, compared.stdout, len(machine.told(compared.stderr))) == (1, "[]\n", 1)
    assert 'only transport = "mpquic" runs' in compared.stderr
    ran = weft("run", small, "--backend", "quic", "--json")
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (1, "", 1)


def test_a_spoiled_folder_is_told(weft: Weft, small: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rows.parquet").write_text("no table")
    done = weft("compare", small, "--out", "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert str(Path("out/rows.parquet")) in done.stderr
    assert (tmp_path / "out" / "rows.parquet").read_text() == "no table"


def test_a_folder_that_cannot_be_written_is_told(weft: Weft, small: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    done = weft("compare", small, "--out", "out")
    assert done.returncode == 2
    assert "out" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_narrow_terminal_costs_columns_and_no_digits() -> None:
    columns = [*texts("scheduler"), *numbers(*(f"measure {n}" for n in range(5)))]
    whole = plain(None, columns, [["min-rtt", *(f"{n}.25 ± 0.125" for n in range(5))]])
    screen = Console(width=40, file=io.StringIO())
    cut = whole.fitted(screen)
    screen.print(cut)
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in shown
    assert "0.25 ± 0.125" in shown
    assert 2 <= len(cut.columns) < 6


def test_a_value_that_is_given_twice_is_run_once(weft: Weft, small: Path, tmp_path: Path) -> None:
    file = tmp_path / "twice.toml"
    file.write_text(small.read_text() + '[vary]\n"path.wifi.loss" = ["0 %", "0 %", "1 %"]\n')
    fresh = json.loads(weft("compare", file, "--seeds", "0..2", "--json").stdout)
    kept = json.loads(weft("compare", file, "--seeds", "0..2", "--json", "--out", "out").stdout)
    assert len({row["key"] for row in fresh}) == len(fresh)
    assert kept == fresh


@pytest.mark.parametrize("jobs", [0, -1, "2", 1.5])
def test_a_call_needs_a_number_of_threads(small: Path, jobs: Any) -> None:
    with pytest.raises(ScenarioError, match=r"jobs .*: expected a whole number from 1 on"):
        weftway.compare(small, jobs=jobs)
