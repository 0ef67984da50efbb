"""The scenarios of small messages, and the judgement of their delays. The kernel's rows are made up."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from conftest import Weft
from test_fidelity import Fake, made
from weftway import fidelity
from weftway._native import Scenario
from weftway.fidelity import messages
from weftway.fidelity.delays import JUDGED, Delays, of_cell, score
from weftway.fidelity.runs import FIRST_RUNS, SIM_RUNS, Runs
from weftway.runs.backends import Row
from weftway.runs.job import Job

CELLS = messages.cells(3, 40)


def test_a_cell_is_the_same_among_few_and_many() -> None:
    assert messages.cells(3, 5) == CELLS[:5]
    assert messages.cells(4, 5) != CELLS[:5]


def test_cells_differ_in_everything() -> None:
    assert {cell.cc for cell in CELLS} == {"newreno", "cubic", "bbr1"}
    assert {len(cell.links) for cell in CELLS} == {1, 2, 3}
    assert {cell.nodelay for cell in CELLS} == {False, True}
    assert min(cell.bytes for cell in CELLS) < 1000 < 10_000 < max(cell.bytes for cell in CELLS)


@pytest.mark.parametrize("cell", CELLS, ids=[str(cell.number) for cell in CELLS])
def test_a_cell_sends_for_ten_seconds_what_the_links_carry(cell: messages.MessageCell) -> None:
    assert Scenario.parse(cell.text, cell.file_name).title == cell.title
    read = tomllib.loads(cell.text)
    work = read["workload"]
    assert (work["kind"], read["options"]["nodelay"]) == ("messages", cell.nodelay)
    assert work["count"] * float(work["period"].removesuffix(" ms")) == pytest.approx(10_000, rel=0.05)
    load = cell.bytes * 8 / cell.period_ms / 1e3
    assert load <= 0.55 * sum(link.rate_mbps for link in cell.links)


def rows(*p50: float, p95: float = 50.0) -> list[Row]:
    """Runs with such delays; one without end was cut off."""
    endless = float("inf")
    return [
        {
            "message_p50_ms": None if time == endless else time,
            "message_p95_ms": None if time == endless else p95,
            "message_p99_ms": None if time == endless else 100.0,
            "verdict": "time limit" if time == endless else "finished",
        }
        for time in p50
    ]


def judged(ours: list[Row], theirs: list[Row], note: str = "") -> Delays:
    return of_cell(Runs(CELLS[0], Path("out/cells/000.toml"), ours, theirs, late=1, note=note))


@pytest.mark.parametrize(
    ("ours", "theirs", "holds"),
    [
        ((43.9, 43.9, 43.9), (40, 40, 40), True),
        ((44.1, 44.1, 44.1), (40, 40, 40), False),
        # Within a millisecond, though a third too slow.
        ((2.9, 2.9, 2.9), (2, 2, 2), True),
        ((3.1, 3.1, 3.1), (2, 2, 2), False),
        # Within the range.
        ((55, 55, 55), (40, 40, 60), True),
    ],
)
def test_a_delay_holds_by_its_share_or_by_a_hosts_own_time_or_in_the_range(
    ours: tuple[float, ...], theirs: tuple[float, ...], holds: bool
) -> None:
    judged_cell = judged(rows(*ours), rows(*theirs))
    assert (judged_cell.holds("p50"), judged_cell.holds("p95")) == (holds, True)
    assert judged_cell.record["p50_holds"] is holds
    assert (score([judged_cell], "p50").held, score([judged_cell], "p95").held) == (int(holds), 1)


def test_the_tail_is_judged_apart_from_the_median() -> None:
    judged_cell = judged(rows(40, 40, 40, p95=60), rows(40, 40, 40, p95=50))
    assert (judged_cell.holds("p50"), judged_cell.holds("p95")) == (True, False)
    assert judged_cell.record["p95_error"] == pytest.approx(0.2)


def test_what_did_not_finish_is_not_judged() -> None:
    endless = float("inf")
    judged_cell = judged(rows(10, 10), rows(10, endless, endless))
    assert judged_cell.not_judged == "the kernel did not finish 2 of 3 runs"
    assert judged(rows(endless), rows(10, 10, 10)).not_judged == "the simulator did not finish"
    assert judged([], [], "no TUN").not_judged == "no TUN"
    assert not any(judged_cell.holds(name) for name in JUDGED)


def test_the_tables_name_what_does_not_hold(tmp_path: Path) -> None:
    def delayed(job: Job) -> dict[str, Any]:
        p50 = 30.0 if job.backend == "sim" and job.variant.scenario.title.startswith("messages 1 ") else 20.0
        return {**made(job), "message_p50_ms": p50, "message_p95_ms": 40.0, "message_p99_ms": 90.0}

    fake = Fake(delayed)
    measured = fidelity.measure(fidelity.Request(3, 3, tmp_path / "out", kind=fidelity.MESSAGES), fake)
    assert (fake.count("kernel"), fake.count("sim")) == (3 * FIRST_RUNS, 3 * SIM_RUNS)
    console = Console(width=140)
    with console.capture() as captured:
        for part in fidelity.delay_tables(measured, fidelity.delays(measured.runs)):
            console.print(part)
    text = captured.get()
    assert "p50 of the delays: 2 of 3 cells hold" in text
    assert "p95 of the delays: 3 of 3 cells hold" in text
    assert "+50.0" in text
    assert f"{CELLS[1].cc} {CELLS[1].bytes} B" in text
    assert CELLS[0].line not in text


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (["--messages", "--failures"], "name one of them"),
        (["--messages", "--backend", "sim,quic"], "--messages compares with the kernel: leave out --backend sim,quic"),
    ],
)
def test_what_messages_does_not_take(weft_here: Weft, asked: list[str], why: str) -> None:
    done = weft_here("fidelity", *asked)
    assert done.returncode == 2
    assert why in " ".join(done.stderr.split())
