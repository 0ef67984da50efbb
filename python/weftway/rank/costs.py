"""Costs of runs: one number each, mostly in milliseconds, of which less is better."""

from typing import Any

Row = dict[str, Any]

COLUMN = {
    "bulk": "fct_ms",
    "limited": "fct_ms",
    "messages": "message_p99_ms",
    "stream": "message_p99_ms",
    "request-response": "message_p95_ms",
    "web": "fct_ms",
    "voip": "message_p99_ms",
    "call": "call_p99_ms",
    "flows": "message_p95_ms",
    "datagrams": "deadline_miss_rate",
}
"""Column that counts for a workload: when all has arrived; the delay that 99 of 100 messages or frames keep, of a call
in its worse direction; the time within which 95 of 100 requests are answered or flows complete; the share of datagrams
that are late or lost."""

WORDS = {
    "fct_ms": "completion time",
    "message_p99_ms": "99th-percentile delay",
    "message_p95_ms": "95th-percentile time of answers or flows",
    "call_p99_ms": "99th-percentile delay of the worse direction",
    "deadline_miss_rate": "datagrams late or lost",
    "": "time per megabyte",
}

BOUND = {
    "fct_ms": "bound_fct_ms",
    "message_p99_ms": "bound_p99_ms",
    "message_p95_ms": "bound_p95_ms",
    "call_p99_ms": "bound_p99_ms",
    "deadline_miss_rate": "bound_miss_rate",
}
"""Bound of each of them: of a call, what bounds the direction of the scenario."""

GREEDY = ("bulk", "web", "duration")
"""Workloads that take what the links give: the share that they took says nothing about a load."""

PER_THOUSAND = 1000.0
"""Cost of a run whose datagrams are all late or lost."""

LEAST_PER_THOUSAND = 1.0
"""Cost of a run that loses one datagram in a thousand, or fewer: ratios are taken of it."""

LEAST_MS = 1e-3
"""A cost is at least so much: ratios are taken of it."""

LEAST_BYTES = 1000
"""Bytes that count as delivered at least by a workload that runs for a time."""

USED = (
    "verdict",
    "fct_ms",
    "elapsed_ms",
    "delivered_bytes",
    "message_p95_ms",
    "message_p99_ms",
    "call_p99_ms",
    "deadline_miss_rate",
    "copies",
    "packets",
    "capacity_use",
)
"""Columns of a run's row that a ranking needs, `packets` being the sum over all paths."""


def needed(row: Row) -> Row:
    """A run's row without what a ranking has no use for."""
    whole = row.get("packets")
    if whole is None:
        whole = sum(value for name, value in row.items() if name.startswith("path.") and name.endswith(".packets"))
    return {**{name: row.get(name) for name in USED}, "packets": whole}


def cost(row: Row, workload: str) -> float:
    """Cost of a run of such a workload.

    A run that did not finish costs its time limit: more than any that did. Where the workload has no end, it is the
    time that a megabyte took.
    """
    if workload not in COLUMN:
        megabytes = max(int(row["delivered_bytes"]), LEAST_BYTES) / 1e6
        return max(float(row["elapsed_ms"]) / megabytes, LEAST_MS)
    if workload == "datagrams":
        missed = row[COLUMN[workload]] if row["verdict"] == "finished" else None
        return PER_THOUSAND if missed is None else max(PER_THOUSAND * float(missed), LEAST_PER_THOUSAND)
    value = row[COLUMN[workload]] if row["verdict"] == "finished" else row["elapsed_ms"]
    # A workload of no message at all is over with its handshake.
    return max(float(row["elapsed_ms"] if value is None else value), LEAST_MS)


def bound(row: Row, bounds: Row, workload: str) -> float | None:
    """Least cost of a run, from the row of one such run and its `bounds`; `None` where nothing is known."""
    if workload in COLUMN:
        column = BOUND.get(COLUMN[workload])
        value = bounds[column] if column else None
        if value is None:
            return None
        if workload == "datagrams":
            return max(PER_THOUSAND * float(value), LEAST_PER_THOUSAND)
        return max(float(value), LEAST_MS)
    if not bounds["bound_bytes"]:
        return None
    return max(float(row["elapsed_ms"]) / (max(int(bounds["bound_bytes"]), LEAST_BYTES) / 1e6), LEAST_MS)


def load(row: Row, workload: str) -> float | None:
    """Share of the capacity of the links that the data took; `None` for a workload without a rate of its own."""
    value = row.get("capacity_use")
    return None if value is None or workload in GREEDY else float(value)


def copies_share(row: Row) -> float:
    """Which share of the packets sent were copies of data in flight."""
    return float(row["copies"] or 0) / max(int(row["packets"] or 0), 1)
