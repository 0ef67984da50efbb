"""`weft record`: two processes on one machine, what comes of a recording, and scenarios of drives."""

import json
import re
import shlex
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from conftest import Weft
from ends import BOTH, Start
from weftway.links import new_drive_scenario
from weftway.scenario import HOME


def listening(start: Start, *words: str) -> str:
    """Address of a listening end."""
    process = start("record", "--listen", "127.0.0.1:0", *words)
    assert process.stderr
    return process.stderr.readline().removeprefix("listening at ").strip()


ENOUGH = ("--cap", "5GB")
"""Of load, for two seconds over the fastest loopback device."""


@pytest.mark.parametrize("load", [(), ("--load", *ENOUGH)], ids=["probes", "load"])
def test_two_links_of_one_machine_are_recorded_and_compared(weft: Weft, start: Start, load: tuple[str, ...]) -> None:
    peer = listening(start, *ENOUGH)
    done = weft("record", *BOTH, "--peer", peer, "--for", "2s", "--json", *load)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["link"], row["direction"]) for row in rows] == [
        ("127-0-0-1", "down"), ("127-0-0-1", "up"), ("127-0-0-2", "down"), ("127-0-0-2", "up")
    ]  # fmt: skip
    assert all(row["rate_mbps"] > 0 and row["rtt_ms"] < 1000 for row in rows)
    compared = weft("compare", "recorded.toml", "--scheduler", "min-rtt", "--seeds", "0..1", "--json")
    assert compared.returncode == 0, compared.stderr
    (row,) = json.loads(compared.stdout)
    assert row["fct_ms"] > 0
    # It never overwrites what it wrote.
    again = weft("record", *BOTH, "--peer", peer)
    assert (again.returncode, again.stderr.startswith("weft: recorded.toml exists already")) == (2, True)


@pytest.mark.parametrize("impatient", [False, True])
def test_an_interrupted_recording_keeps_what_was_measured(start: Start, tmp_path: Path, *, impatient: bool) -> None:
    process = start("record", *BOTH, "--peer", listening(start), "--for", "60s")
    assert process.stderr
    # Two steps are there when a second is.
    while (line := process.stderr.readline()) and not re.match(r"[1-9]\d* of 60 seconds recorded", line):
        pass
    if impatient:
        # The last records are not waited for: those of the seconds before are there.
        time.sleep(2)
    process.send_signal(signal.SIGINT)
    if impatient:
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    output, complaints = process.communicate(timeout=60)
    assert process.returncode == 130, complaints
    assert "were measured and are written" in complaints
    assert "weft compare recorded.toml" in output
    assert len((tmp_path / "recorded.up.csv").read_text().splitlines()) >= 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "needs either --peer HOST"),
        (("--peer", "127.0.0.1"), "needs --path for each link"),
        (("--peer", "127.0.0.1", "--path", "nowhere0"), "--path nowhere0: there is no such interface; there is lo"),
        (("--peer", "127.0.0.1", "--path", "192.0.2.77"), "--path 192.0.2.77: no address of this machine"),
        (("--peer", "127.0.0.1", "--path", "::1"), "has no address of that family (IPv6)"),
        (("--peer", "127.0.0.1", *BOTH, "--path", "127.0.0.1"), "two paths are the link `127-0-0-1`"),
        (("--peer", "127.0.0.1", *BOTH, "--for", "0.5 s"), "whole seconds from 1 to 3600"),
        (("--peer", "127.0.0.1", *BOTH, "--for", "soon"), "`soon` is not a time"),
        (("--peer", "127.0.0.1", *BOTH, "--cap", "1 MB"), "it goes with --load"),
        (("--peer", "127.0.0.1", *BOTH, "--load", "--cap", "1 MB"), "are not enough for 60 s"),
        (("--peer", "127.0.0.1", *BOTH, "--workload", "none"), "--workload none: there is bulk"),
        (("--listen", "4434", "--load"), "takes --cap alone"),
        (("--listen", "4434", "--json"), "takes --cap alone"),
        (("--listen", "99999"), "a port is a number up to 65535"),
    ],
)
def test_what_makes_no_sense_is_refused(weft_here: Weft, words: tuple[str, ...], message: str) -> None:
    done = weft_here("record", *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_the_path_without_an_answer_is_named(weft: Weft, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        done = weft("record", *BOTH, "--peer", f"127.0.0.1:{mute.getsockname()[1]}")
    assert done.returncode == 1
    assert "no answer from 127.0.0.1" in done.stderr
    assert "over any path within 5 s" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_peer_of_another_version_is_told(weft: Weft, start: Start) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        process = start("record", *BOTH, "--peer", f"127.0.0.1:{other.getsockname()[1]}")
        data, address = other.recvfrom(2000)
        other.sendto(b"weft\x09" + data[5:], address)
        _, complaints = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "speaks version 9 of its packets, this one 1" in complaints


def test_a_scenario_of_a_run_of_a_drive(weft: Weft, tmp_path: Path) -> None:
    shutil.copy(HOME / "traces/drives/us-2023.down.csv", tmp_path)
    done = weft("new", "scenario", "my", "--drive", "us-2023.down.csv", "--run", "12", "att.delay=30 ms")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "wrote    my.toml: att, verizon"
    written = (tmp_path / "my.toml").read_text()
    assert 'file = { down = "us-2023.down.csv" }\nrun  = 12\n' in written
    assert 'delay      = "30 ms"           # given on the command line' in written
    ran = weft("run", "my.toml", "--scheduler", "min-rtt", "--json")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("name", "content", "words", "message"),
    [
        ("a.csv", "at_s,lte_mbps\n0,1\n", ("lte.speed=3",), "the keys are rate"),
        ("a.csv", "at_s,lte_mbps\n0,1\n", ("dsl.delay=3 ms",), "the drive has no link `dsl`; it has lte"),
        ("a.csv", "at_s,lte_mbps\n0,1\n", ("lte.rate=3 Mbit/s",), "`lte.rate=3 Mbit/s`: the drive has measured it"),
        ("a.csv", "at_s,lte_mbps\n0,1\n", ("--run", "3"), "a.csv: no run 3; it has one run alone"),
        ("a.csv", "run,at_s,lte_mbps\n1,0,1\n2,0,1\n", (), "it has 2 runs, from 1 to 2; --run says which"),
        ("a.csv", "at_s,lte\n0,1\n", (), "a.csv: line 1: `lte` is no column of a drive"),
        ("a.csv", "at_s,wi fi_mbps\n0,1\n", (), "a.csv: the column `wi fi_mbps`: `wi fi` is not a name for a link"),
        ("a.down.csv", "at_s,lte_mbps\n0,1\n", ("--drive", "a.down.csv"), "has the direction down already"),
    ],
)
def test_a_drive_that_makes_no_scenario(
    weft_here: Weft, tmp_path: Path, name: str, content: str, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / name).write_text(content)
    done = weft_here("new", "scenario", "my", "--drive", name, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "my.toml").exists()


def test_what_a_drive_did_not_measure_is_assumed_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.down.csv").write_text("at_s,lte_mbps,lte_delay_ms\n0,8,20\n")
    made = new_drive_scenario.from_drive("my", [Path("a.down.csv")], None, "web")
    assert made.assumed == ["lte.rate.up", "lte.delay.up", "lte.loss", "lte.queue", "transport, direction"]
    text = Path("my.toml").read_text()
    assert 'rate.up    = "2 Mbit/s"        # assumed: a quarter of the mean rate down' in text


def test_the_next_command_is_one_that_a_shell_takes(weft_here: Weft, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at_s,lte_mbps,dsl_mbps\n0,8,2\n")
    # It is longer than a line of output that goes to no terminal.
    name = 'it\'s "re c" and more ' * 8
    done = weft_here("new", "scenario", name, "--drive", "a.csv")
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert shlex.split(last) == ["next", "weft", "compare", f"{name}.toml"]
