"""Rows, timelines and scenarios shaped like a comparison's, for the tests of the report."""

import math
import random
from typing import Any

import polars as pl

REGISTRY = [
    "round-robin",
    "min-rtt",
    "average-rtt",
    "redundant",
    "ecf",
    "blest",
    "otias",
    "stms",
    "lamps",
    "musher",
    "llhd",
    "prs",
    "linux-v1",
]
CONTROLLERS = ["cubic", "bbr1", "lia", "olia"]
PATHS = ["wifi", "lte", "dsl", "satellite", "cable", "5g", "starlink", "ethernet"]


def rows(
    schedulers: int = 4, controllers: int = 2, seeds: int = 10, paths: int = 2, **variants: list[str]
) -> pl.DataFrame:
    """Rows, one per scheduler, controller, variant and seed; keyword `loss` varies `path.lte.loss`."""
    return pl.DataFrame(
        [
            row(scheduler, cc, seed, PATHS[:paths], loss)
            for loss in variants.get("loss", [None])
            for cc in CONTROLLERS[:controllers]
            for scheduler in (["min-rtt"] + [n for n in REGISTRY[::-1] if n != "min-rtt"])[:schedulers]
            for seed in range(seeds)
        ],
        infer_schema_length=None,
    )


def row(scheduler: str, cc: str, seed: int, paths: list[str], loss: str | None) -> dict[str, Any]:
    """A run whose luck depends on its seed alone, so that pairing by seed has something to cancel."""
    draw = random.Random(f"{scheduler} {cc} {seed} {loss}")
    luck = random.Random(seed).gauss(0, 0.25)
    skill = 0.35 * math.sin(REGISTRY.index(scheduler) * 1.7) + (1.3 if scheduler == "redundant" else 0)
    fct_s = 5.9 + skill + luck + 0.4 * CONTROLLERS.index(cc) + draw.gauss(0, 0.08) + (1.5 if loss else 0)
    weights = [draw.uniform(0.8, 1.2) / (i + 1) for i in range(len(paths))]
    shares = [weight / sum(weights) for weight in weights]
    benefit = 0.85 - 0.55 * (skill + 0.35) + draw.gauss(0, 0.03)
    row: dict[str, Any] = {
        "scenario_hash": "b3d8c41f09e2",
        "backend": "sim",
        "transport": "mpquic",
        "scheduler": scheduler,
        "scheduler_version": 1,
        "cc": cc,
        "seed": seed,
        "fct_ms": 1000 * fct_s,
        "goodput_mbps": 160 / fct_s,
        "aggregation_benefit": benefit,
        "efficiency": min(0.62 + 0.3 * benefit, 0.99),
        "ooo_packets": draw.randint(800, 2500),
        "ooo_share": draw.uniform(0.04, 0.21),
        "reorder_delay_ms": draw.uniform(8, 45),
        "receive_buffer_max_kb": draw.uniform(300, 1900),
        "receive_buffer_mean_kb": draw.uniform(60, 300),
        "retransmissions": draw.randint(30, 160),
        "retransmission_rate": draw.uniform(0.002, 0.011),
        "reinjections": draw.randint(0, 9),
        "duplicates": 0,
        "waits": draw.randint(0, 400),
        "faults": 0,
        "jain": draw.uniform(0.7, 1),
        "message_p50_ms": None,
        "message_p95_ms": None,
        "message_p99_ms": None,
        "deadline_miss_rate": None,
        "verdict": "finished",
        "code_version": "0.1.0+4c1f2ab",
        "replay": f"weft run scenarios/wifi-lte.toml --scheduler {scheduler} --cc {cc} --seed {seed}",
    }
    if loss is not None:
        row["path.lte.loss"] = loss
    for name, share in zip(paths, shares, strict=True):
        row |= {
            f"path.{name}.bytes": round(20e6 * share),
            f"path.{name}.share": share,
            f"path.{name}.mean_rate_mbps": share * 160 / fct_s,
            f"path.{name}.retransmissions": draw.randint(5, 80),
            f"path.{name}.srtt_ms": draw.uniform(25, 90),
        }
    return row


def timelines(frame: pl.DataFrame, paths: int = 2, steps: int = 400) -> dict[str, dict[str, Any]]:
    """Timelines, one per scheduler and controller."""
    cells = frame.select("scheduler", "cc").unique(maintain_order=True).rows()
    return {f"{scheduler}/{cc}": timeline(scheduler, cc, PATHS[:paths], steps) for scheduler, cc in cells}


def timeline(scheduler: str, cc: str, paths: list[str], steps: int) -> dict[str, Any]:
    """Saw-toothed windows with a loss at every tooth; the second path goes away for a while."""
    draw = random.Random(f"{scheduler} {cc}")
    step_ms = 6000 / steps
    series: dict[str, dict[str, list[float]]] = {key: {} for key in ("mbps", "srtt_ms", "cwnd_kb", "inflight_kb")}
    events: list[dict[str, Any]] = []
    for place, name in enumerate(paths):
        window, base = 14.0, 22 + 45 * place
        lines: dict[str, list[float]] = {key: [] for key in series}
        for i in range(steps):
            down = place == 1 and 0.55 < i / steps < 0.65
            window = min(window * (1.06 if i < steps / 10 else 1.006), 260 / (place + 1))
            if draw.random() < 0.02 and not down:
                window *= 0.7
                events.append({"t_ms": i * step_ms, "path": name, "kind": "rto" if draw.random() < 0.06 else "loss"})
            srtt = base + window * 0.08 + draw.gauss(0, 1.2)
            rate = 0.0 if down else min(window * 8 / srtt, 30 / (place + 1)) * draw.uniform(0.9, 1.05)
            values = {"mbps": rate, "srtt_ms": srtt, "cwnd_kb": window, "inflight_kb": 0.0 if down else window * 0.9}
            for key, value in values.items():
                lines[key].append(value)
        for key, values_of in lines.items():
            series[key][name] = values_of
    if len(paths) > 1:
        events += [{"t_ms": 3300, "path": paths[1], "kind": "down"}, {"t_ms": 3900, "path": paths[1], "kind": "up"}]
    held = [abs(180 * math.sin(i / 31) + draw.gauss(60, 25)) for i in range(steps)]
    return {
        "scheduler": scheduler,
        "cc": cc,
        "seed": 0,
        "step_ms": step_ms,
        "paths": paths,
        **series,
        "receive_buffer_kb": held,
        "ooo_kb": [0.6 * value for value in held],
        "events": events,
        "decisions": decisions(paths, steps),
    }


def decisions(paths: list[str], steps: int) -> dict[str, Any]:
    """Ten packets a step on the first path and one on each other; every fourth step a wait, with its reason."""
    return {
        "send": [[1 if place else 10 for _ in range(steps)] for place, _ in enumerate(paths)],
        "copy": [[0] * steps for _ in paths],
        "wait": [int(step % 4 == 0) for step in range(steps)],
        "reasons": [
            *([step, "send", 0, "p0 has the smallest srtt, 20.511168 ms"] for step in range(steps)),
            *([step, "wait", None, "p0 is blocked and faster"] for step in range(0, steps, 4)),
        ],
    }


def scenario(paths: int = 2, **more: Any) -> dict[str, Any]:
    """A scenario file as the report gets it."""
    links = {
        name: {"rate": f"{30 // (i + 1)} Mbit/s", "delay": f"{10 + 25 * i} ms", "loss": "0.5 %", "queue": "100 packets"}
        for i, name in enumerate(PATHS[:paths])
    }
    return {
        "title": "Phone with Wi-Fi and LTE: 20 MB download",
        "transport": "mpquic",
        "seeds": "0..10",
        "path": links,
        "workload": {"kind": "bulk", "bytes": "20 MB"},
        "registry": REGISTRY,
        "command": "weft compare scenarios/wifi-lte.toml --cc cubic,bbr1 --seeds 0..10 --out out",
        **more,
    }
