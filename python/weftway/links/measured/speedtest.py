"""The output of `speedtest --format=json`, Ookla's program: rates, and the round trip without load."""

import json
import math
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError

from .reading import Range, Reading

OTHERS = {"bytes_sent", "server"}
"""Keys of the JSON of `speedtest-cli` and `librespeed-cli`, which count in other units."""


def is_report(text: str) -> bool:
    """Tells if a text is JSON of a speed test, this one or another."""
    return any(_is_result(entry) or _is_of_another(entry) for entry in _objects(text))


def reads(file: Path, text: str) -> Reading:
    """Rates and round trip. `bandwidth` is in bytes a second (Ookla, Speedtest CLI: JSON output)."""
    reports = [entry for entry in _objects(text) if _is_result(entry)]
    if not reports:
        raise ScenarioError(
            f"{file}: JSON of `speedtest-cli` or `librespeed-cli`, whose units differ by version; "
            "run `speedtest --format=json` of Ookla, or `iperf3 --json`"
        )
    if len(reports) > 1:
        raise ScenarioError(f"{file}: several speed tests in one file; save each into a file of its own")
    report = reports[0]
    if error := report.get("error"):
        raise ScenarioError(f"{file}: the speed test failed: {error}; measure again")
    try:
        rates = {way: _rate(report[key]) for way, key in (("down", "download"), ("up", "upload"))}
        ping = report["ping"]
        middle = float(ping["latency"])
        low, high = float(ping.get("low", middle)), float(ping.get("high", middle))
    except (KeyError, TypeError, ValueError) as error:
        missing = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else "a value is of another type"
        raise ScenarioError(f"{file}: {missing}; expected the output of `speedtest --format=json`") from None
    if not all(0 < rate.value < math.inf for rate in rates.values()) or not 0 <= low <= middle <= high < math.inf:
        raise ScenarioError(f"{file}: its numbers do not add up; measure again")
    rtt = Range(middle, low, high, f"half the round trip of the speed test ({middle:g} ms)")
    unknown = "`speedtest` does not say how many packets it counted; `ping` tells losses"
    return Reading(file, "speedtest", rtt_ms=rtt, rates=rates, loss_unknown=unknown)


def _rate(direction: dict[str, Any]) -> Range:
    value = float(direction["bandwidth"]) * 8 / 1e6
    return Range(value, value, value, "one speed test, as it counts, without headers")


def _is_result(entry: dict[str, Any]) -> bool:
    ways = (entry.get("download"), entry.get("upload"))
    return entry.get("type") in ("result", None) and any(isinstance(way, dict) and "bandwidth" in way for way in ways)


def _is_of_another(entry: dict[str, Any]) -> bool:
    return entry.keys() >= OTHERS and all(isinstance(entry.get(way), int | float) for way in ("download", "upload"))


def _objects(text: str) -> list[dict[str, Any]]:
    """The objects of the file: one, one a line (`--format=jsonl`), or those of a list."""
    try:
        values = [json.loads(text)]
    except ValueError:
        try:
            values = [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            return []
    every = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
    return [entry for entry in every if isinstance(entry, dict)]
