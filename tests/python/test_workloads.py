"""Pages, speech and calls: the scenarios that show them, in the simulator and on the kernel."""

from typing import Any

import pytest

import machine
import weftway
from weftway import SimulationError
from weftway.scenario import HOME

PAGE_BYTES = 60_000 + 40_000 + 150_000 + 12 * 60_000 + 2 * 45_000 + 4 * 20_000 + 30_000 + 250_000
"""Of `scenarios/web-page.toml`."""


def row(name: str, **choice: Any) -> dict[str, Any]:
    return weftway.run(HOME / "scenarios" / f"{name}.toml", scheduler="linux-v1", cc="cubic", seed=0, **choice)


def test_a_page_takes_a_round_trip_for_each_level_of_it() -> None:
    """Over Wi-Fi alone: a handshake of three trips of 10 ms, the document, and three times 10 ms of thought, a request
    and an answer, for the script, the film and its first piece."""
    fast = ["path.wifi.loss=0 %", "path.wifi.rate=10 Gbit/s", "path.wifi.queue=unlimited"]
    result = row("web-page", set=["path.lte.role=backup", *fast])
    assert result["delivered_bytes"] == PAGE_BYTES
    least = 3 * 10 + 10 + 3 * (10 + 10 + 10)
    # Slow start takes more round trips of 20 ms: 10 packets of 1428 B, then twice as many; 1023 packets, more than the
    # page has, take seven.
    assert least < result["fct_ms"] < least + 7 * 20


def test_speech_is_rated_by_what_comes_in_time() -> None:
    good = row("voip", set=["path.wifi.loss=0 %", "path.lte.loss=0 %"])
    poor = row("voip", set=["path.wifi.loss=20 %"])
    # 170 ms from mouth to ear and nothing lost: 93.2 − 0.024 · 170.
    assert (good["deadline_miss_rate"], good["r_factor"]) == (0.0, pytest.approx(89.12))
    assert poor["mos"] < good["mos"] < 4.5


def test_datagrams_are_late_or_lost_and_a_copy_of_each_is_overhead() -> None:
    rows = {
        scheduler: weftway.run(HOME / "scenarios" / "live-datagrams.toml", scheduler=scheduler, cc="bbr3", seed=0)
        for scheduler in ("min-rtt", "redundant", "deadline")
    }
    for result in rows.values():
        assert result["deadline_miss_rate"] == pytest.approx(result["late_share"] + result["lost_share"], abs=2e-6)
        assert (result["verdict"], result["faults"]) == ("finished", 0)
    assert rows["redundant"]["overhead"] > 0.7 > 0.3 > rows["deadline"]["overhead"]
    assert rows["deadline"]["deadline_miss_rate"] < rows["min-rtt"]["deadline_miss_rate"]


def test_a_call_is_measured_both_ways() -> None:
    result = row("video-call", set=["workload.duration=4 s"])
    # 100 frames of 1.5 Mbit/s · 40 ms = 7500 B forth; those back are in columns of their own.
    assert result["delivered_bytes"] == 750_000
    names = ("message_p99_ms", "back_p99_ms", "call_p99_ms")
    forth, back, call = (result[name] for name in names)
    assert call == max(forth, back)


@machine.kernel
def test_the_kernel_loads_the_same_page() -> None:
    result = row("web-page", backend="kernel")
    assert (result["verdict"], result["delivered_bytes"]) == ("finished", PAGE_BYTES)


@machine.kernel
def test_the_kernel_leaves_calls_out() -> None:
    with pytest.raises(SimulationError, match="a call goes both ways"):
        row("video-call", backend="kernel")
