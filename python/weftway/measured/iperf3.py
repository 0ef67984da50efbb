"""The output of `iperf3 --json`: rates, and round trips under load. The client is taken to be the user's side."""

import json
from pathlib import Path
from typing import Any

from weftway._native import ScenarioError

from .reading import Range, Reading, share, spread

HEADERS = {"TCP": 1500 / 1448, "UDP": 1500 / 1472}
"""A full packet over the payload that iperf3 counts: headers of IPv4 and TCP with timestamps, or UDP."""

WARM_UP_S = 1.0
"""Slow start: intervals that end before are left out where there are others."""

OVERLOAD = 0.05
"""UDP that loses more than this share was sent faster than the link is: its rate is known then, its loss is not."""


def reads(file: Path, text: str) -> Reading:
    """What the JSON tells."""
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ScenarioError(f"{file}: no JSON at {place}; save the whole output of `iperf3 --json`") from None
    if isinstance(told, dict) and told.get("error"):
        raise ScenarioError(f"{file}: iperf3 failed: {told['error']}; measure again")
    try:
        return _read(file, told)
    except ScenarioError:  # is a ValueError
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        missing = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else "a value is of another type"
        raise ScenarioError(f"{file}: {missing}; expected the output of `iperf3 --json`") from None


def _read(file: Path, told: dict[str, Any]) -> Reading:
    test, end = told["start"]["test_start"], told["end"]
    protocol = str(test["protocol"]).upper()
    if protocol not in HEADERS:
        raise ScenarioError(f"{file}: iperf3 over {protocol}; TCP and UDP are understood")
    first, other = ("down", "up") if test.get("reverse") else ("up", "down")
    rates = {first: _rate(told["intervals"], "sum", end, protocol)}
    if "sum_bidir_reverse" in told["intervals"][0]:
        rates[other] = _rate(told["intervals"], "sum_bidir_reverse", end, protocol)
    if any(rate.value <= 0 for rate in rates.values()):
        raise ScenarioError(f"{file}: nothing was transferred; measure again")
    if protocol == "UDP":
        lost, packets = int(end["sum"]["lost_packets"]), int(end["sum"]["packets"])
        is_known = packets > 0 and lost / packets <= OVERLOAD
        loss = share(lost, packets, f"{lost} of {packets} UDP packets lost") if is_known else None
        return Reading(file, "iperf3", loss=loss, rates=rates)
    least, load = _round_trips(end)
    rtt = None if least is None else Range(least, least, least, f"half the least round trip ({least:g} ms)")
    return Reading(file, "iperf3", rtt_ms=rtt, rates=rates, queue_ms=load)


def _rate(intervals: list[dict[str, Any]], name: str, end: dict[str, Any], protocol: str) -> Range:
    """The rate on the wire: the median over the intervals."""
    sums = [one[name] for one in intervals if not one[name].get("omitted")]
    steady = [one for one in sums if one["start"] >= WARM_UP_S] or sums
    factor = HEADERS[protocol] / 1e6
    if protocol == "UDP" and "lost_percent" in end["sum"]:
        # What intervals count is what the sender sent.
        factor *= 1 - float(end["sum"]["lost_percent"]) / 100
    mbps = [float(one["bits_per_second"]) * factor for one in steady]
    what = "at least: what was sent" if protocol == "UDP" else "with headers"
    return spread(mbps, f"median of {len(mbps)} intervals of iperf3 over {protocol}, {what}")


def _round_trips(end: dict[str, Any]) -> tuple[float | None, Range | None]:
    """The least round trip in ms, and by how much it grew; Linux tells them where the client sends."""
    senders = [stream.get("sender", {}) for stream in end.get("streams", [])]
    least = [float(one["min_rtt"]) / 1e3 for one in senders if one.get("min_rtt")]
    means = [float(one["mean_rtt"]) / 1e3 for one in senders if one.get("mean_rtt")]
    most = [float(one["max_rtt"]) / 1e3 for one in senders if one.get("max_rtt")]
    if not least:
        return None, None
    if not most or not means:
        return min(least), None
    grown = max(most) - min(least)
    return min(least), Range(
        grown, max(means) - min(least), grown, f"round trips grew by up to {grown:.0f} ms under load"
    )
