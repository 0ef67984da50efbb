"""Backend `quic`: the rows of a scenario on real Multipath QUIC packets in virtual time."""

import json
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import weftway
from conftest import Weft

QUIC = ("--set", "transport=mpquic")


def test_rows_are_the_same_whatever_the_threads(weft: Weft, small: Path) -> None:
    words = ("compare", small, *QUIC, "--backend", "sim,quic", "--scheduler", "min-rtt,ecf,redundant", "--json")
    one, two = weft(*words, "--jobs", "1"), weft(*words, "--jobs", "3")
    assert (one.returncode, one.stderr) == (0, "")
    assert one.stdout == two.stdout
    rows = json.loads(one.stdout)
    assert [row["backend"] for row in rows] == 6 * ["sim"] + 6 * ["quic"]
    assert len({tuple(row) for row in rows}) == 1, "the same columns"
    for row in rows:
        assert (row["verdict"], row["faults"], row["delivered_bytes"]) == ("finished", 0, 300_000)
        assert row["aggregation_benefit"] is not None


def test_messages_are_timed(weft: Weft, small: Path) -> None:
    text = small.read_text().replace('bytes = "300 kB"', 'size = "20 kB"\nperiod = "50 ms"\ncount = 20')
    small.write_text(text.replace('kind = "bulk"', 'kind = "messages"'))
    done = weft("compare", small, *QUIC, "--backend", "quic", "--json")
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout):
        # 20 kB take 10.7 ms of both paths, and 10 ms of way.
        assert 20 < row["message_p50_ms"] < 200


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("transport=mptcp", "only transport"),
        ("options.packet=1000 B", "needs at least"),
        ("options.path_manager=primary-first", "opened at once"),
        ("decision.interval=50 ms", "for each packet"),
    ],
)
def test_what_it_cannot_run_is_skipped_with_the_reason(weft: Weft, small: Path, change: str, reason: str) -> None:
    sets = ("--set", change) if change.startswith("transport") else (*QUIC, "--set", change)
    if "packet" in change:
        sets = (*sets, "--set", "options.mss=900 B")
    done = weft("compare", small, *sets, "--backend", "quic", "--scheduler", "min-rtt", "--json")
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert done.stderr.startswith("skipped: min-rtt: ")
    assert reason in done.stderr


def test_a_path_that_had_a_queue_once_is_used_again() -> None:
    """After one burst on LTE `earliest-delivery` left it for good, and took half as long again as min-RTT."""
    rows = weftway.compare(
        "wifi-lte", scheduler="min-rtt,earliest-delivery", cc="cubic", seeds="0..3", backend=["sim", "quic"]
    )
    times = rows.group_by("backend", "scheduler").agg(pl.col("fct_ms").mean())
    for backend in ("sim", "quic"):
        mean = dict(times.filter(pl.col("backend") == backend).select("scheduler", "fct_ms").iter_rows())
        assert mean["earliest-delivery"] < mean["min-rtt"]


WINDOWS = """\
title = "A start"
transport = "tcp"
scheduler = "min-rtt"
seeds = "0..1"
[path.a]
rate = "100 Mbit/s"
delay = "50 ms"
[workload]
kind = "bulk"
bytes = "32 kB"
[options]
mss = "800 B"
[vary]
"options.initial_window" = ["10 packets", "16 packets", "40 packets"]
"""


@pytest.mark.parametrize(
    ("transport", "stack", "backend"),
    [
        ("tcp", "", "sim"),
        ("mptcp", 'stack = "v0.9x"', "sim"),
        ("mptcp", 'stack = "linux-v1"', "sim"),
        ("mpquic", "", "sim"),
        ("mpquic", "", "quic"),
    ],
)
def test_the_initial_window_counts_on_every_transport(transport: str, stack: str, backend: str, tmp_path: Path) -> None:
    """40 packets leave in flights of 10, 20 and 10, of 16 and 24, or at once: a round trip of 100 ms less each."""
    file = tmp_path / "start.toml"
    file.write_text(WINDOWS.replace('transport = "tcp"', f'transport = "{transport}"\n{stack}'))
    rows = weftway.compare(file, cc="cubic,newreno,bbr1,bbr3", backend=backend)
    assert len(rows) == 3 * 4
    for cc in ("cubic", "newreno", "bbr1", "bbr3"):
        times = rows.filter(pl.col("cc") == cc).sort("options.initial_window")["fct_ms"].to_list()
        assert all(60 < long - short < 150 for long, short in pairwise(times)), (cc, times)
