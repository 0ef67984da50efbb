"""Backend `live`: transfers to a peer that runs `weft recv --measure`, here on the same machine."""

import json
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import machine
from conftest import Weft

LINKS = ("--path", "127.0.0.1", "--path", "127.0.0.2")
SETS = ("--set", "workload.bytes=300 kB")


@pytest.fixture
def peer(tmp_path: Path, weft: Weft) -> Iterator[tuple[str, ...]]:
    """The options that name a peer, which listens while a test runs."""
    line = weft("pair", "--identity", "me").stdout.strip()
    listens = [*machine.WEFT, "recv", "--measure", "--listen", "127.0.0.1:0", "--identity", "me"]
    process = subprocess.Popen(listens, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    address = process.stderr.readline().removeprefix("listening at ").strip()
    yield ("--backend", "live", "--peer", address, "--pair", line)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=machine.SOON_S)[1]
    # Ctrl-C is no error after a transfer.
    last = errors.splitlines()[-1]
    assert re.fullmatch(r"weft: stopped listening|stopped listening after \d+ transfers?", last), errors
    assert process.returncode == (130 if last.startswith("weft: ") else 0)


def test_runs_are_rows_like_all_others(peer: tuple[str, ...], weft: Weft, tmp_path: Path) -> None:
    wanted = ("compare", "wifi-lte", *SETS, "--scheduler", "min-rtt,round-robin", "--cc", "cubic", "--seeds", "0..2")
    done = weft(*wanted, *peer, *LINKS, "--out", "measured", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["scheduler"], row["seed"]) for row in rows] == [
        (name, seed) for name in ("min-rtt", "round-robin") for seed in (0, 1)
    ]
    for row in rows:
        assert (row["backend"], row["verdict"], row["delivered_bytes"]) == ("live", "finished", 300_000)
        assert row["goodput_mbps"] == pytest.approx(300_000 * 8e-3 / row["elapsed_ms"], rel=1e-3)
        # What was lost on one path and sent again on the other counts on both.
        assert row["path.wifi.bytes"] + row["path.lte.bytes"] >= 300_000
        assert row["best_single_mbps"] > 0
        assert row["decisions"] is row["message_p99_ms"] is None
    simulated = json.loads(weft(*wanted, "--json").stdout)
    assert list(rows[0]) == list(simulated[0])
    # Rows are kept, and a complete comparison runs nothing again.
    kept = pl.read_parquet(tmp_path / "measured" / "rows.parquet")
    assert kept["elapsed_ms"].to_list() == [row["elapsed_ms"] for row in rows]
    again = weft(*wanted, *peer, *LINKS, "--out", "measured", "--json")
    assert json.loads(again.stdout) == rows


def test_what_cannot_run_is_skipped_with_its_reason(peer: tuple[str, ...], weft: Weft) -> None:
    done = weft("compare", "wifi-lte", *SETS, "--scheduler", "qaware", *peer, *LINKS)
    assert done.returncode == 1
    assert "skipped: qaware: it needs a view of what the sender's device holds" in done.stderr
    done = weft("compare", "wifi-lte", "--scheduler", "ecf", *peer, *LINKS[:2])
    assert "skipped: ecf: the scenario has 2 paths: give --path once for each, in its order" in done.stderr
    done = weft("compare", "gaming", "--scheduler", "ecf", *peer, *LINKS)
    assert 'between two machines only workload.kind = "bulk" runs' in done.stderr


def test_the_order_is_random_and_whole() -> None:
    """Every scheduler comes first now and then, and each path alone is measured once a repetition and controller."""
    from weftway.runs import plan
    from weftway.runs.backends.live import order
    from weftway.scenario import load

    jobs = plan.plan(load("wifi-lte"), "min-rtt,ecf,blest", "cubic,bbr1", range(40), "live").jobs
    firsts: Counter[str] = Counter()
    for seed in range(40):
        round = [job for job in jobs if job.seed == seed]
        runs = order(round, ["a", "b"], {job.key: 1000 for job in round})
        alone = [run for run in runs if isinstance(run, tuple)]
        assert sorted(alone) == [(1000, cc, link) for cc in ("bbr1", "cubic") for link in "ab"]
        assert len(runs) == 10
        whole = [run for run in runs if not isinstance(run, tuple)]
        firsts[whole[0].scheduler.name] += 1
    assert min(firsts[name] for name in ("min-rtt", "ecf", "blest")) >= 4


def test_a_peer_is_needed(weft_here: Weft) -> None:
    assert "no other machine is named: --peer HOST" in weft_here("run", "wifi-lte", "--backend", "live").stderr
    done = weft_here("compare", "wifi-lte", "--backend", "live", "--peer", "127.0.0.1")
    assert "--peer needs --pair LINE" in done.stderr
    assert "--pair and --path go with --peer HOST" in weft_here("run", "wifi-lte", "--path", "wlan0").stderr
    assert "leave out DIR and --from" in weft_here("recv", "inbox", "--measure").stderr
    assert "weft recv needs DIR" in weft_here("recv", "--listen", "4433").stderr
