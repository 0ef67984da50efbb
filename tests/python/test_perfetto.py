"""`weft run --perfetto`: the trace event format, packets on tracks, arrows between those that carry the same data."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import Weft
from weftway.runs import perfetto

NEEDED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "M": {"name": str, "pid": int, "args": dict},
    "X": {"name": str, "ts": (int, float), "dur": (int, float), "pid": int, "tid": int, "args": dict},
    "C": {"name": str, "ts": (int, float), "pid": int, "args": dict},
    "i": {"name": str, "ts": (int, float), "pid": int, "tid": int, "s": str},
    "s": {"name": str, "cat": str, "id": int, "ts": (int, float), "pid": int, "tid": int},
    "f": {"name": str, "cat": str, "id": int, "ts": (int, float), "pid": int, "tid": int, "bp": str},
}
"""Of each phase of the format, the keys that a viewer needs."""


@pytest.fixture
def traced(weft: Weft, small: Path, tmp_path: Path) -> dict[str, Any]:
    done = weft("run", small, "--scheduler", "min-rtt", "--seed", "0", "--perfetto", "trace.json", "--json")
    assert done.returncode == 0, done.stderr
    # The row is the same with and without the trace, and nothing else is left behind.
    assert done.stdout == weft("run", small, "--scheduler", "min-rtt", "--seed", "0", "--json").stdout
    assert {file.name for file in tmp_path.iterdir()} == {"small.toml", "trace.json"}
    trace: dict[str, Any] = json.loads((tmp_path / "trace.json").read_text())
    return {**trace, "row": json.loads(done.stdout)[0]}


def of(trace: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def processes(trace: dict[str, Any]) -> dict[str, int]:
    return {event["args"]["name"]: event["pid"] for event in of(trace, "M") if event["name"] == "process_name"}


def test_every_event_has_what_its_phase_needs(traced: dict[str, Any]) -> None:
    assert {event["ph"] for event in traced["traceEvents"]} == NEEDED.keys()
    for event in traced["traceEvents"]:
        for key, kind in NEEDED[event["ph"]].items():
            assert isinstance(event[key], kind), event
        assert event.get("ts", 0) >= 0
    for event in of(traced, "C"):
        assert all(isinstance(value, (int, float)) for value in event["args"].values())
    assert traced["displayTimeUnit"] == "ms"
    assert traced["otherData"]["scheduler"] == "min-rtt"


def test_each_path_has_a_track_with_its_counters(traced: dict[str, Any]) -> None:
    numbers = processes(traced)
    assert numbers.keys() == {"scheduler", "receiver", "path wifi", "path lte"}
    for path in ("wifi", "lte"):
        names = {event["name"] for event in of(traced, "C") if event["pid"] == numbers[f"path {path}"]}
        assert {"congestion window (kB)", "in flight (kB)", "queueing delay (ms)"} <= names
        sent = [event for event in of(traced, "X") if event["pid"] == numbers[f"path {path}"]]
        assert len(sent) == traced["row"][f"path.{path}.packets"]
    arrived = [event["args"]["kB"] for event in of(traced, "C") if event["name"] == "arrived in order (kB)"]
    assert arrived[-1] == 300


def test_packets_of_a_track_never_overlap(traced: dict[str, Any]) -> None:
    tracks = defaultdict(list)
    for event in of(traced, "X"):
        tracks[event["pid"], event["tid"]].append(event)
    for packets in tracks.values():
        for before, after in pairwise(packets):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-9


def test_arrows_lead_from_packet_to_packet(traced: dict[str, Any]) -> None:
    """One per cent is lost: something was sent again, and both ends of its arrow are packets with the same offset."""
    at = {(event["pid"], event["tid"], event["ts"]): event for event in of(traced, "X")}
    tails, heads = ({event["id"]: event for event in of(traced, phase)} for phase in "sf")
    assert tails.keys() == heads.keys() != set()
    again = [event for event in of(traced, "X") if event["name"] != "data"]
    assert len(again) == len(heads)
    for number, tail in tails.items():
        first, second = (at[end["pid"], end["tid"], end["ts"]] for end in (tail, heads[number]))
        assert first["args"]["offset"] == second["args"]["offset"]
        assert first["ts"] < second["ts"]
        assert second["name"] == heads[number]["cat"] in ("retransmission", "reinjection")
        assert (first["pid"] == second["pid"]) == (second["name"] == "retransmission")


def record(ms: float, name: str, path: str, **data: Any) -> dict[str, Any]:
    return {"time": ms, "name": name, "tuple": path, "data": data}


def packet(ms: float, path: str, number: int, offset: int = 0, **more: Any) -> dict[str, Any]:
    frame = {"frame_type": "stream", "offset": offset, "raw": {"payload_length": 1000}}
    return record(ms, "quic:packet_sent", path, header={"packet_number": number}, frames=[frame], **more)


def arrival(ms: float, path: str, number: int) -> dict[str, Any]:
    return record(
        ms, "weftway:packet_arrived", path, packet_number=number, offset=0, length=1000, in_order_to=0, held=0
    )


def names(records: list[dict[str, Any]]) -> list[str]:
    return [event["name"] for event in perfetto.trace(records)["traceEvents"] if event["ph"] == "X"]


def test_data_that_are_sent_again_are_called_by_why() -> None:
    lost = record(2, "quic:packet_lost", "a", header={"packet_number": 0})
    repeat = record(3, "weftway:decision", "b", answer="repeat", offset=0)
    assert names([packet(1, "a", 0), lost, packet(3, "a", 1)]) == ["data", "retransmission"]
    assert names([packet(1, "a", 0), lost, packet(3, "b", 0)]) == ["data", "reinjection"]
    assert names([packet(1, "a", 0), repeat, packet(3, "b", 0)]) == ["data", "duplicate"]
    assert names([packet(1, "a", 0), packet(3, "b", 0, 1000)]) == ["data", "data"]


def test_the_queue_is_what_a_packet_took_longer_than_the_quickest() -> None:
    """Packets take 10, 14 and 11 ms; the one that is lost on the way takes none."""
    sent = [packet(0, "a", 0), packet(1, "a", 1, 1000), packet(2, "a", 2, 2000, weftway_fate="lost")]
    sent += [packet(3, "a", 3, 3000)]
    trace = perfetto.trace([*sent, arrival(10, "a", 0), arrival(15, "a", 1), arrival(14, "a", 3)])
    delays = [event["args"]["ms"] for event in trace["traceEvents"] if event["name"] == "queueing delay (ms)"]
    assert sorted(delays) == [0, 1, 4]


def test_packets_of_one_instant_lie_a_nanosecond_apart() -> None:
    trace = perfetto.trace([packet(1, "a", 0), packet(1, "a", 1, 1000), packet(2, "a", 2, 2000)])
    packets = [(event["ts"], event["dur"]) for event in trace["traceEvents"] if event["ph"] == "X"]
    assert packets == [(1000, 0.001), (1000.001, 50), (2000, 0.001)]


def test_another_backend_has_no_trace(weft: Weft, small: Path) -> None:
    done = weft("run", small, "--backend", "quic", "--set", "transport=mpquic", "--perfetto", "trace.json")
    assert done.returncode == 1
    assert "logs are written of simulated runs only" in done.stderr
