"""Backends `picoquic` and `quic-to-picoquic`: another author's stack at both ends, or as the receiver of our driver.

Both run over the same links as the others, in virtual time."""

import json
from pathlib import Path
from typing import Any

import pytest

import weftway
from conftest import Weft
from test_agreement import setting
from weftway.fidelity import quic
from weftway.fidelity.quic import runs, settings
from weftway.runs.backends import picoquic

QUIC = ("--set", "transport=mpquic")
RECEIVER = "quic-to-picoquic"
FAR = """
[path.near]
rate = "20 Mbit/s"
delay = "10 ms"

[path.far]
rate = "20 Mbit/s"
delay = "100 ms"

[workload]
kind = "bulk"
bytes = "2 MB"
"""
LACKS = picoquic.lacking()
there = pytest.mark.skipif(LACKS is not None, reason=f"no picoquic here: {LACKS}")


def rows(weft: Weft, *words: Any, backend: str = "picoquic") -> list[dict[str, Any]]:
    done = weft("compare", *words, "--backend", backend, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@there
def test_rows_are_the_same_each_time_whatever_the_threads(weft: Weft, small: Path) -> None:
    words = (small, *QUIC, "--cc", "cubic,newreno,bbr1,bbr3", "--seeds", "0..3")
    one, two = rows(weft, *words, "--jobs", "1"), rows(weft, *words, "--jobs", "3")
    assert one == two
    assert len(one) == 12 and {row["scheduler"] for row in one} == {"picoquic"}
    for row in one:
        assert (row["verdict"], row["delivered_bytes"]) == ("finished", 300_000)
        assert row["aggregation_benefit"] is not None


@there
def test_columns_are_those_of_the_other_backends() -> None:
    compared = weftway.compare("wifi-lte", scheduler="picoquic", cc="cubic", seeds="0..2", backend=["sim", "picoquic"])
    by_backend = {name: compared.filter(compared["backend"] == name) for name in ("sim", "picoquic")}
    assert all(len(some) == 2 for some in by_backend.values())
    for row in by_backend["picoquic"].iter_rows(named=True):
        assert row["verdict"] == "finished"
        assert row["path.wifi.packets"] > 1000 and row["path.lte.packets"] > 1000, "data went over both paths"


@there
def test_both_directions_carry_the_same(weft: Weft, small: Path) -> None:
    for direction in ("upload", "download"):
        for row in rows(weft, small, *QUIC, "--set", f"direction={direction}", "--cc", "cubic"):
            assert (row["verdict"], row["delivered_bytes"]) == ("finished", 300_000)


@there
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--set", "transport=mptcp"), "only transport"),
        ((*QUIC, "--cc", "olia"), "picoquic has no controller olia; there is newreno, cubic, bbr1, bbr3"),
        ((*QUIC, "--set", "options.ecn=true"), "without ECN"),
    ],
)
def test_what_it_cannot_run_is_skipped_with_the_reason(
    weft: Weft, small: Path, words: tuple[str, ...], reason: str
) -> None:
    done = weft("compare", small, *words, "--backend", "picoquic", "--json")
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert "skipped: picoquic: " in done.stderr and reason in done.stderr


@there
def test_fidelity_holds_picoquic_against_the_rule_that_follows_it(tmp_path: Path) -> None:
    request = runs.Request(cells=1, seed=0, folder=tmp_path / "out", other="picoquic")
    measured = runs.run(request, [setting()])
    agreement = quic.agreement(measured.settings, measured.rows, request.other)
    [case] = agreement.cases
    assert (case.scheduler, case.seeds) == ("picoquic", runs.SEEDS)
    # 100 kB over 25 Mbit/s take 32 ms, and round trips go before.
    assert 32 < min(case.sim_ms, case.quic_ms) < max(case.sim_ms, case.quic_ms) < 320
    assert [half.name for half in agreement.halves] == ["sim", "picoquic"]
    assert "--backend sim,picoquic --cells 1" in quic.write_report(measured, agreement).read_text()


@there
def test_picoquic_receives_what_our_schedulers_and_controllers_send(weft: Weft, small: Path) -> None:
    words = (small, *QUIC, "--scheduler", "min-rtt,ecf,earliest-delivery", "--cc", "cubic,bbr1,bbr3", "--seeds", "0..2")
    one, two = (rows(weft, *words, "--jobs", jobs, backend=RECEIVER) for jobs in ("1", "3"))
    assert one == two, "keys of TLS are others, sizes and times are not"
    assert len({(row["scheduler"], row["cc"], row["seed"]) for row in one}) == 18
    for row in one:
        assert (row["verdict"], row["delivered_bytes"]) == ("finished", 300_000)
        assert row["aggregation_benefit"] is not None and row["decisions"] > 200


@there
@pytest.mark.parametrize("direction", ["upload", "download"])
def test_picoquic_acknowledges_on_the_fastest_path_whichever_end_opened_it(
    weft: Weft, tmp_path: Path, direction: str
) -> None:
    (tmp_path / "far.toml").write_text(FAR)
    words = ("far.toml", *QUIC, "--set", f"direction={direction}", "--scheduler", "round-robin", "--seeds", "0..1")
    [received] = rows(weft, *words, backend=RECEIVER)
    [own] = rows(weft, *words, backend="quic")
    [ours] = rows(weft, *words, "--set", "options.ack_path=picoquic", backend="sim")
    for row in (received, own, ours):
        assert (row["verdict"], row["delivered_bytes"]) == ("finished", 2_000_000)
        assert row["path.near.packets"] > 50 and row["path.far.packets"] > 50, "data went over both paths"
    # 100 ms there, and back 100 ms or 10 ms, and up to 25 ms until picoquic or noq acknowledges.
    assert 110 <= received["path.far.srtt_ms"] < 150 < 200 <= own["path.far.srtt_ms"]
    assert received["path.far.srtt_ms"] == pytest.approx(ours["path.far.srtt_ms"], rel=0.05)
    assert received["elapsed_ms"] == pytest.approx(ours["elapsed_ms"], rel=0.05)


@there
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--set", "options.ecn=true"), "without ECN"),
        (("--set", "options.open=race"), "handshakes do not race"),
        (("--set", 'path.lte.present=["0 s..1 s"]'), "added and removed"),
    ],
)
def test_what_picoquic_cannot_receive_is_skipped_with_the_reason(
    weft: Weft, small: Path, words: tuple[str, ...], reason: str
) -> None:
    done = weft("compare", small, *QUIC, *words, "--backend", RECEIVER, "--json")
    assert (done.returncode, done.stdout) == (1, "[]\n"), done.stderr
    assert "skipped: " in done.stderr and reason in done.stderr


@there
def test_fidelity_has_the_simulator_acknowledge_as_picoquic_does(tmp_path: Path) -> None:
    request = runs.Request(cells=1, seed=0, folder=tmp_path / "out", other=RECEIVER)
    [drawn] = settings.drawn(0, 1, tmp_path / "cells", request.sets)
    assert drawn.variant.hash != settings.drawn(0, 1, tmp_path / "cells")[0].variant.hash
    measured = runs.run(request, [setting()])
    agreement = quic.agreement(measured.settings, measured.rows, request.other)
    assert {case.scheduler for case in agreement.cases} == set(settings.SCHEDULERS)
    assert [half.name for half in agreement.halves] == ["sim", RECEIVER]


def test_without_the_library_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picoquic, "library", lambda: None)
    picoquic.lacking.cache_clear()
    try:
        reason = picoquic.lacking()
    finally:
        picoquic.lacking.cache_clear()
    assert reason is not None and "pip install aiopquic" in reason
