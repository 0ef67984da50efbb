"""What a program did in the last hour: one sample every ten seconds, in memory."""

from collections import deque
from collections.abc import Iterable
from typing import Any

from weftway.status.snapshot import Snapshot

Series = dict[str, deque[float | None]]
Values = dict[str, dict[str, float | None]]

EVERY = 10
"""So many snapshots make a sample; one comes every second."""
SAMPLES = 360
MOST_NAMES = 16
"""Of so many links, and of so many clients, the hour is kept: those that came first."""
MOST_NOTES = 50


class Hour:
    """The samples of links, of a relay's clients, and of connections, with what the user was told."""

    def __init__(self) -> None:
        self._length = 0
        self._snapshots: list[Snapshot] = []
        self._before: Snapshot | None = None
        """The last snapshot of the sample before."""
        self._links: dict[str, Series] = {}
        self._clients: dict[str, Series] = {}
        self._flows: dict[str, Series] = {}
        self._notes: deque[tuple[float, str]] = deque(maxlen=MOST_NOTES)
        self._at = 0.0

    def tell(self, snapshot: Snapshot) -> None:
        """Takes a snapshot in."""
        self._notes += [(snapshot["at"], note) for note in snapshot["notes"]]
        self._snapshots.append(snapshot)
        if len(self._snapshots) == EVERY:
            self._sample(self._snapshots, self._before or self._snapshots[0])
            self._at, self._before = snapshot["at"], snapshot
            self._snapshots = []

    def close(self) -> None:
        pass

    def told(self) -> dict[str, Any]:
        """All of it, as whoever asks gets it: columns of equal length, the latest last."""
        kept = {"links": self._links, "clients": self._clients, "flows": self._flows}
        columns = {
            kind: {name: {key: list(values) for key, values in series.items()} for name, series in names.items()}
            for kind, names in kept.items()
        }
        return {"every_s": EVERY, "at": self._at, **columns, "notes": list(self._notes)}

    def _sample(self, snapshots: list[Snapshot], before: Snapshot) -> None:
        last = snapshots[-1]
        seconds = max(last["at"] - before["at"], 1e-3)
        earlier = {path["path"]: path for path in before["paths"]}
        links: Values = {}
        for path in last["paths"]:
            name = path["path"]
            all_of_it = [one for snapshot in snapshots for one in snapshot["paths"] if one["path"] == name]
            links[name] = {
                "mbps": _mean(one["mbps"] for one in all_of_it),
                "srtt_ms": _mean(one["srtt_ms"] for one in all_of_it),
                "queue_ms": _mean(map(queue_ms, all_of_it)),
                "loss": _loss(earlier.get(name, path), path),
                "up": 1.0 if path["up"] else 0.0,
            }
        clients: Values = {}
        known = {client["name"]: client for client in before["by_client"]}
        for client in last["by_client"]:
            old = known.get(client["name"], client)
            rates = {f"{way}_mbps": 8e-6 * max(0, client[way] - old[way]) / seconds for way in ("up", "down")}
            clients[client["name"] or "without a name"] = rates
        flows: Values = {name: {"open": float(count)} for name, count in last["by_class"].items()}
        for kept, found in ((self._links, links), (self._clients, clients), (self._flows, flows)):
            self._append(kept, found)
        self._length = min(self._length + 1, SAMPLES)

    def _append(self, kept: dict[str, Series], found: Values) -> None:
        """One more value of each; none of what is not there now, and of what was not there before."""
        for name, values in found.items():
            if name not in kept and len(kept) < MOST_NAMES:
                kept[name] = {key: deque([None] * self._length, maxlen=SAMPLES) for key in values}
        for name, series in kept.items():
            for key, past in series.items():
                value = found.get(name, {}).get(key)
                past.append(None if value is None else round(value, 4 if key == "loss" else 2))


def queue_ms(path: dict[str, Any]) -> float | None:
    """By how much the round trip of a path is above its least one: time in queues."""
    srtt, least = path["srtt_ms"], path.get("min_rtt_ms")
    return None if srtt is None or least is None else max(0.0, srtt - least)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _loss(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """The share of the packets between two snapshots that were lost. A new connection counts anew."""
    packets, lost = after["packets"] - before["packets"], after["lost"] - before["lost"]
    return min(lost / packets, 1.0) if packets > 0 and lost >= 0 else None
