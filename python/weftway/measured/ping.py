"""The output of `ping`: of Linux (iputils, busybox), macOS, the BSDs and Windows."""

import re
from pathlib import Path

from weftway._native import ScenarioError
from weftway.stats import median, quantile

from .reading import Range, Reading, one_way, share, spread

REPLY = re.compile(r"time[=<]\s*([\d.]+)\s*ms", re.IGNORECASE)
COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) (?:packets )?received|Sent = (\d+), Received = (\d+)")
SUMMARY = re.compile(r"min/avg/max(?:/(?:mdev|stddev))? = ([\d.]+)/([\d.]+)/([\d.]+)(?:/([\d.]+))?")

ENOUGH = 5
"""So many replies show how much round trips differ."""


def is_ping(text: str) -> bool:
    """Whether it says what `ping` says."""
    return any(pattern.search(text) for pattern in (REPLY, COUNTS, SUMMARY))


def reads(file: Path, text: str) -> Reading:
    """Round trips and losses. Without load: a transfer beside it would make round trips longer."""
    replies = [float(time) for time in REPLY.findall(text)]
    counts = next(([int(part) for part in found if part] for found in COUNTS.findall(text)), None)
    rtt, jitter = _rtt(file, text, replies)
    loss = None
    if counts and counts[0] > 0 and counts[1] <= counts[0]:
        sent, received = counts
        told = share(sent - received, sent, "")
        loss = one_way(told, f"{sent - received} of {sent} pings lost, half of them in each direction")
    return Reading(file, "ping", rtt_ms=rtt, jitter_ms=jitter, loss=loss)


def _rtt(file: Path, text: str, replies: list[float]) -> tuple[Range, float | None]:
    if len(replies) >= ENOUGH:
        # Half the width of the middle 68 % is the deviation of a normal distribution, and strays do not count.
        deviation = (quantile(replies, 0.84) - quantile(replies, 0.16)) / 2
        why = f"half the median of {len(replies)} round trips ({median(replies):g} ms)"
        return spread(replies, why), deviation
    if found := SUMMARY.search(text):
        least, mean, most = (float(found[n]) for n in (1, 2, 3))
        known = float(found[4]) if found[4] else None
        width = known or (most - least) / 2
        low, high = max(least, mean - width), min(most, mean + width)
        return Range(mean, low, high, f"half the mean round trip ({mean:g} ms)"), known
    if replies:
        return spread(replies, f"half the median of {len(replies)} round trips ({median(replies):g} ms)"), None
    raise ScenarioError(f"{file}: no ping was answered, so nothing is known of the link; ping a host that answers")
