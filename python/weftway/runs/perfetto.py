"""A run for a timeline viewer: Chrome's trace event format, which https://ui.perfetto.dev opens.

Made from the qlog of the run. Each path is a process with its packets, its losses and timers, and counters: congestion
window, bytes in flight, smoothed round-trip time, and queueing delay. The receiver is one more, and so is the scheduler
with its decisions. An arrow leads from a packet to the one that carries the same data again.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU describes the format.
"""

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weftway.runs.store import whole

SCHEDULER, RECEIVER, FIRST_PATH = 1, 2, 3
"""Process numbers."""

PACKETS, HAPPENINGS = 1, 2
"""Threads of a path: what it sent, and its losses, timers and congestion episodes."""

LEAST_US, MOST_US = 0.001, 50.0
"""Length of a drawn packet: until the next one of its path, within these. Packets of one instant lie a nanosecond
apart, so that each arrow has an end of its own."""

Event = dict[str, Any]


def write(log: Path, place: Path) -> None:
    """Writes the trace of a run whose qlog is in `log`, whole or not at all."""
    with whole(place) as half:
        text = json.dumps(trace(read(log)), separators=(",", ":"))
        half.write_text(text, encoding="utf-8")


def read(log: Path) -> Iterator[dict[str, Any]]:
    """The records of a qlog file (JSON text sequences)."""
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if text := line.strip("\x1e\n"):
                yield json.loads(text)


def trace(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The whole document."""
    written = _Trace()
    for record in records:
        written.tell(record)
    return {"displayTimeUnit": "ms", "otherData": written.about, "traceEvents": written.finished()}


@dataclass
class _Sent:
    """A packet on its track."""

    path: str
    number: int
    slice: Event
    is_lost: bool = False


@dataclass
class _Track:
    """Packets one after the other, none of which overlaps the next."""

    process: int
    thread: int
    slices: list[Event] = field(default_factory=list)

    def add(self, us: float, name: str, args: dict[str, Any]) -> Event:
        """Adds a packet."""
        begin = us
        if self.slices:
            last = self.slices[-1]
            begin = max(us, round(last["ts"] + LEAST_US, 3))
            last["dur"] = round(min(begin - last["ts"], MOST_US), 3)
        where = {"pid": self.process, "tid": self.thread}
        self.slices.append({"ph": "X", "name": name, "ts": begin, "dur": LEAST_US, **where, "args": args})
        return self.slices[-1]


class _Trace:
    def __init__(self) -> None:
        self.about: dict[str, str] = {}
        self._events: list[Event] = []
        self._processes: dict[str, int] = {}
        self._sent: dict[str, _Track] = {}
        self._arrived: dict[str, _Track] = {}
        self._by_number: dict[tuple[str, int], _Sent] = {}
        self._by_offset: dict[int, _Sent] = {}
        self._under_way: dict[tuple[str, int], deque[float]] = defaultdict(deque)
        self._delays: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._answer: dict[str, dict[str, Any]] = {}
        self._arrows = 0
        self._name(SCHEDULER, "scheduler")
        self._name(RECEIVER, "receiver")

    def tell(self, record: dict[str, Any]) -> None:
        """Takes a record of the log."""
        if "name" not in record:
            return
        us, data, path = round(record["time"] * 1e3, 3), record["data"], record.get("tuple", "")
        match record["name"]:
            case "simulation:scenario":
                self.about = {"name": data["name"], **data["details"]}
            case "weftway:decision":
                self._decided(us, path, data)
            case "quic:packet_sent":
                self._put(us, path, data)
            case "weftway:packet_arrived":
                self._came(us, path, data)
            case "quic:recovery_metrics_updated":
                self._measured(us, path, data)
            case "quic:packet_lost":
                number = data["header"]["packet_number"]
                if sent := self._by_number.get((path, number)):
                    sent.is_lost = True
                self._happened(us, path, f"packet {number} lost", data)
            case "quic:congestion_state_updated":
                self._happened(us, path, f"congestion: {data.get('trigger', data['new'])}", data)
            case "quic:timer_updated":
                self._happened(us, path, f"timer: {data['timer_type']}", data)
            case "quic:tuple_assigned":
                self._happened(us, path, "up" if "tuple_remote" in data else "down", data)

    def finished(self) -> list[Event]:
        """All events, in the order of their times; first those that name the tracks."""
        for path, delays in self._delays.items():
            least = min(delay for _, delay in delays)
            for us, delay in delays:
                self._count(us, path, "queueing delay", "ms", (delay - least) / 1e3)
        tracks = [*self._sent.values(), *self._arrived.values()]
        every = [*self._events, *(event for track in tracks for event in track.slices)]
        return sorted(every, key=lambda event: event.get("ts", -1.0))

    def _decided(self, us: float, path: str, data: dict[str, Any]) -> None:
        if path:
            self._answer[path] = data
        name = f"{data['answer']} {path}".strip()
        self._instant(us, SCHEDULER, PACKETS, name, data)

    def _put(self, us: float, path: str, data: dict[str, Any]) -> None:
        number, frame = data["header"]["packet_number"], data["frames"][0]
        offset, fate = frame.get("offset"), data.get("weftway_fate")
        args = {"number": number, "offset": offset, "bytes": frame.get("raw", {}).get("payload_length")}
        if fate:
            args["fate"] = fate
        else:
            self._under_way[path, number].append(us)
        before = self._by_offset.get(offset) if offset is not None else None
        kind = "data" if before is None else self._kind(before, path)
        track = self._sent.setdefault(path, _Track(self._process(path), PACKETS))
        sent = _Sent(path, number, track.add(us, kind, args))
        self._by_number[path, number] = sent
        if offset is not None:
            self._by_offset[offset] = sent
        if before is not None:
            self._arrow(before.slice, sent.slice, kind)

    def _kind(self, before: _Sent, path: str) -> str:
        """Name of sending data a second time: on the path that carried them, or on another one."""
        if before.path == path:
            return "retransmission"
        is_copy = self._answer.get(path, {}).get("answer") == "repeat"
        return "duplicate" if is_copy and not before.is_lost else "reinjection"

    def _came(self, us: float, path: str, data: dict[str, Any]) -> None:
        sent_at = self._under_way[path, data["packet_number"]]
        if sent_at:
            self._delays[path].append((us, us - sent_at.popleft()))
        if path not in self._arrived:
            self._process(path)  # paths have numbers in the order in which they appear
            self._arrived[path] = _Track(RECEIVER, self._processes[path])
            self._name_thread(RECEIVER, self._processes[path], f"from {path}")
        args = {"number": data["packet_number"], "offset": data["offset"], "bytes": data["length"]}
        self._arrived[path].add(us, "data", args)
        self._counter(us, RECEIVER, "held out of order", "kB", data["held"] / 1e3)
        self._counter(us, RECEIVER, "arrived in order", "kB", data["in_order_to"] / 1e3)

    def _measured(self, us: float, path: str, data: dict[str, Any]) -> None:
        for key, name, unit, scale in (
            ("congestion_window", "congestion window", "kB", 1e3),
            ("bytes_in_flight", "in flight", "kB", 1e3),
            ("smoothed_rtt", "smoothed round trip", "ms", 1.0),
        ):
            if key in data:
                self._count(us, path, name, unit, data[key] / scale)

    def _happened(self, us: float, path: str, name: str, data: dict[str, Any]) -> None:
        self._instant(us, self._process(path), HAPPENINGS, name, data)

    def _count(self, us: float, path: str, name: str, unit: str, value: float) -> None:
        self._counter(us, self._process(path), name, unit, value)

    def _counter(self, us: float, process: int, name: str, unit: str, value: float) -> None:
        args = {unit: round(value, 6)}
        self._events.append({"ph": "C", "name": f"{name} ({unit})", "ts": us, "pid": process, "args": args})

    def _instant(self, us: float, process: int, thread: int, name: str, args: dict[str, Any]) -> None:
        where = {"ts": us, "pid": process, "tid": thread}
        self._events.append({"ph": "i", "s": "t", "name": name, **where, "args": args})

    def _arrow(self, tail: Event, head: Event, kind: str) -> None:
        self._arrows += 1
        shared = {"cat": kind, "name": kind, "id": self._arrows}
        for event, ends in ((tail, {"ph": "s"}), (head, {"ph": "f", "bp": "e"})):
            self._events.append({**ends, **shared, "ts": event["ts"], "pid": event["pid"], "tid": event["tid"]})

    def _process(self, path: str) -> int:
        if path not in self._processes:
            number = self._processes[path] = FIRST_PATH + len(self._processes)
            self._name(number, f"path {path}")
            self._name_thread(number, PACKETS, "packets sent")
            self._name_thread(number, HAPPENINGS, "losses and timers")
        return self._processes[path]

    def _name(self, process: int, name: str) -> None:
        for kind, args in (("process_name", {"name": name}), ("process_sort_index", {"sort_index": process})):
            self._events.append({"ph": "M", "name": kind, "pid": process, "args": args})

    def _name_thread(self, process: int, thread: int, name: str) -> None:
        self._events.append({"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}})
