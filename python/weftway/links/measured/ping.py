"""The output of `ping`: of Linux (iputils, busybox), macOS, the BSDs and Windows, in any language.

Words differ by language, so numbers are told by how they stand: replies as `…=20.1 ms`, counts as two numbers and the
percentage that follows from them, round trips as `= least/mean/most`. What does not add up is refused.
"""

import math
import re
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from weftway._native import ScenarioError
from weftway.stats.estimates import median, quantile

from .reading import Range, Reading, one_way, share, spread

UNITS = "ms|мсек|мс|毫秒|ミリ秒|밀리초"
REPLY = re.compile(rf"[=<](?=[\d.,])(\d*[.,]?\d+)\s?(?:{UNITS})(?![A-Za-z])", re.IGNORECASE)
SEQUENCE = re.compile(r"\b(?:icmp_|icmp6_)?(?:seq|req)=(\d+)")
NAMED = re.compile(r"\b(?:icmp_|icmp6_)?(?:seq|req)[= ](\d+)")
"""The number of a ping, answered or not."""
ANSWERED = re.compile(r"\b(?:ttl|hlim)=\d+", re.IGNORECASE)

PERCENT = re.compile(r"(?<![A-Za-z0-9:])(\d+(?:[.,]\d+)?)\s?%(?![A-Za-z0-9])|(?<![A-Za-z0-9:])%\s?(\d+(?:[.,]\d+)?)")
"""A share; not the zone of `fe80::1%eth0`."""

WHOLE = re.compile(r"(?<![A-Za-z\d+.:/%=-])\d+(?![A-Za-z\d]|[.:/]\d|\s?%)")
WINDOWS = re.compile(r"=\s*(\d+)[^\d=%]+=\s*(\d+)[^\d=%]+=\s*(\d+)\s*\([^\d()]*?(\d+)\s?%")
"""Sent, received and lost, and the percentage in brackets; some languages break the line between them."""
SUMMARY = re.compile(r"=\s*([\d.]+)/([\d.]+)/([\d.]+)(?:/([\d.]+))?(?=[/\s]|$)")
WINDOWS_SUMMARY = re.compile(rf"=\s+(\d+)\s?(?:{UNITS})(?![A-Za-z])")
"""Least, mean and most round trip; Windows says them each by itself, the mean last."""

FPING = re.compile(r"^\S+ +: (?:\[\d+\], |xmt/rcv/%loss = )", re.MULTILINE)
"""Beginnings of the lines of another program, whose counts stand otherwise."""

FROM = re.compile(r"^PING [^(]*\([^)]*\) (.*?) ?: \d+")
"""The interface that `ping -I` left from, or its address."""

PROGRESS = re.compile(r"\d+/\d+\s[^\d]*\d+(?:[.,]\d+)?\s?%")
"""Line that iputils prints on Ctrl-\\, in the midst of a run."""

TWICE_WITHIN = 1000
"""A sequence number that comes again within so many replies is a duplicate; later, the 16 bits of it began anew."""

ENOUGH = 5
"""Replies that show how much round trips differ."""

WAY_OUT = "run `LC_ALL=C ping -c 100 HOST` (Windows: `ping -n 100 HOST`) again, and keep the whole output"


@dataclass
class Run:
    """Figures that one `ping` printed."""

    replies: list[float] = field(default_factory=list)
    """Round trips in ms, duplicates left out."""
    sequences: list[int] = field(default_factory=list)
    timeless: int = 0
    """Replies without a time that is understood."""
    sent: int = -1
    """Pings sent, as the statistics say; less than 0 without any."""
    received: int = 0
    summary: tuple[float, float, float, float | None] | None = None
    """Least, mean and most round trip, and their deviation."""
    title: str = ""
    """The line above the counts, which names the host."""
    source: str = ""
    """The interface that it left from, if that is told."""
    numbers: list[int] = field(default_factory=list)
    """Numbers of all pings that a line names, answered or not."""


def is_ping(text: str) -> bool:
    """Returns whether a text is the output of `ping`."""
    if FPING.search(text):
        return True
    is_one = any(REPLY.search(line) and (SEQUENCE.search(line) or ANSWERED.search(line)) for line in text.splitlines())
    return is_one or any(_summary(line) or _counts(line) for line in text.splitlines()) or bool(_windows(text))


def reads(file: Path, text: str) -> Reading:
    """Round trips and losses, over all runs in the file. Without load: a transfer would make round trips longer."""
    if FPING.search(text):
        raise ScenarioError(f"{file}: the output of `fping`; {WAY_OUT}")
    runs = _runs(file, text)
    if not runs:
        raise ScenarioError(f"{file}: `ping` has no statistics here; {WAY_OUT}")
    titles = {run.title for run in runs if run.title}
    if len(titles) > 1:
        raise ScenarioError(f"{file}: pings of several hosts ({'; '.join(sorted(titles))}); write a file for each")
    sources = {run.source for run in runs if run.source}
    if len(sources) > 1:
        raise ScenarioError(f"{file}: pings from {' and '.join(sorted(sources))}; write a file for each link")
    for run in runs:
        _check(file, run)
    sent, received = (sum(counts) for counts in zip(*((run.sent, run.received) for run in runs), strict=True))
    if received == 0:
        raise ScenarioError(f"{file}: no ping was answered, so nothing is known of the link; ping a host that answers")
    rtt, jitter = _rtt(file, [run for run in runs if run.received])
    of_both_ways = share(sent - received, sent, "")
    of_runs = f" in {len(runs)} runs" if len(runs) > 1 else ""
    loss = one_way(of_both_ways, f"{sent - received} of {sent} pings lost{of_runs}, half of them in each direction")
    return Reading(file, "ping", rtt_ms=rtt, jitter_ms=jitter, loss=loss)


def _runs(file: Path, text: str) -> list[Run]:
    """Each run that the file holds. Statistics end a run, and round trips follow them."""
    runs: list[Run] = []
    now, above, recent = Run(), "", deque[int](maxlen=TWICE_WITHIN)
    for number, line in enumerate(_joined(text).splitlines(), 1):
        if PROGRESS.search(line):
            continue
        if line.startswith("PING "):
            if now.numbers:
                # The one before was killed.
                now.sent, now.received = _by_sequence(file, now)
                runs.append(now)
                now, recent = Run(), deque[int](maxlen=TWICE_WITHIN)
            via = FROM.match(line)
            now.source = via[1].split()[-1] if via else ""
        if counts := _windows(line) or _counts(line):
            now.sent, now.received = counts
            now.title = above.strip(" -:\t")
            runs.append(now)
            now, recent = Run(), deque[int](maxlen=TWICE_WITHIN)
        elif summary := _summary(line):
            if not runs or now.replies or runs[-1].summary:
                raise ScenarioError(f"{file}: line {number}: round trips without the counts of `ping`; {WAY_OUT}")
            runs[-1].summary = summary
        else:
            _add_reply(now, line, recent)
        above = line if line.strip() else above
    if now.replies or now.timeless or now.numbers:
        now.sent, now.received = _by_sequence(file, now)
        runs.append(now)
    return runs


def _add_reply(run: Run, line: str, recent: "deque[int]") -> None:
    times, sequence = REPLY.findall(line), SEQUENCE.search(line)
    if named := NAMED.search(line):
        run.numbers.append(int(named[1]))
    if sequence and ANSWERED.search(line):
        if (number := int(sequence[1])) in recent:
            return
        recent.append(number)
        run.sequences.append(number)
    if len(times) == 1:
        run.replies.append(_number(times[0]))
    elif not times and ANSWERED.search(line):
        run.timeless += 1


def _by_sequence(file: Path, run: Run) -> tuple[int, int]:
    """Sent and received of a run without statistics: the numbers between the first and the last one that it names,
    answered or not."""
    whole = run.sequences
    if len(whole) != len(run.replies) + run.timeless or len(whole) < 2 or sorted(whole) != whole:
        raise ScenarioError(f"{file}: the statistics at the end are missing, and they tell of losses; {WAY_OUT}")
    return max(run.numbers) - min(run.numbers) + 1, len(whole)


def _joined(text: str) -> str:
    """Statistics of Windows on one line, whatever the language."""
    return WINDOWS.sub(lambda match: " ".join(match[0].split()), text)


def _windows(text: str) -> tuple[int, int] | None:
    """Sent and received, as Windows says them."""
    for match in WINDOWS.finditer(text):
        sent, received, lost, percent = (int(match[n]) for n in (1, 2, 3, 4))
        if sent > 0 and sent - received == lost and abs(percent - 100 * lost / sent) <= 1:
            return sent, received
    return None


def _counts(line: str) -> tuple[int, int] | None:
    """Sent and received, as the others say them: two whole numbers, then the percentage that follows from them."""
    shares = list(PERCENT.finditer(line))
    if len(shares) != 1 or PROGRESS.search(line):
        return None
    whole = [int(number) for number in WHOLE.findall(line[: shares[0].start()])]
    if len(whole) < 2 or whole[0] <= 0 or whole[1] > whole[0]:
        return None
    stated, lost = _number(shares[0][1] or shares[0][2]), 100 * (whole[0] - whole[1]) / whole[0]
    return (whole[0], whole[1]) if abs(stated - lost) <= 1 else None


def _summary(line: str) -> tuple[float, float, float, float | None] | None:
    """Least, mean and most round trip, and their deviation, where the line tells them."""
    if match := SUMMARY.search(line):
        least, mean, most = (_number(match[n]) for n in (1, 2, 3))
        deviation = _number(match[4]) if match[4] else None
    elif len(each := WINDOWS_SUMMARY.findall(line)) == 3:
        least, most, mean = (_number(number) for number in each)
        deviation = None
    else:
        return None
    return (least, mean, most, deviation) if least <= mean <= most < math.inf else None


def _check(file: Path, run: Run) -> None:
    """Refuses a run whose replies are not those that its statistics count."""
    if run.timeless and not run.replies:
        raise ScenarioError(f"{file}: its replies have no times in ms; {WAY_OUT}")
    shown = len(run.replies) + run.timeless
    if shown and shown != run.received:
        raise ScenarioError(
            f"{file}: the statistics count {run.received} replies, and {shown} lines have a round trip: the file is "
            f"not whole, or hosts that say `unreachable` were counted; {WAY_OUT}"
        )
    if run.received and not run.replies and not run.summary:
        raise ScenarioError(f"{file}: {run.received} pings were answered, but no round trip is understood; {WAY_OUT}")


def _rtt(file: Path, runs: list[Run]) -> tuple[Range, float | None]:
    replies = [time for run in runs for time in run.replies]
    if all(run.replies for run in runs) and len(replies) >= ENOUGH:
        # Half the width of the middle 68 % is the deviation of a normal distribution, and strays do not count.
        deviation = (quantile(replies, 0.84) - quantile(replies, 0.16)) / 2
        why = f"half the median of {len(replies)} round trips ({median(replies):g} ms)"
        return spread(replies, why), deviation
    if all(run.summary for run in runs):
        return _of_summaries(runs)
    if all(run.replies for run in runs):
        return spread(replies, f"half the median of {len(replies)} round trips ({median(replies):g} ms)"), None
    raise ScenarioError(f"{file}: the round trips of one run are missing; {WAY_OUT}")


def _of_summaries(runs: list[Run]) -> tuple[Range, float | None]:
    """Mean and deviation over all replies, from those of each run."""
    known = [(run.received, *run.summary) for run in runs if run.summary]
    whole = sum(count for count, *_ in known)
    mean = math.fsum(count * middle for count, _, middle, _, _ in known) / whole
    least, most = min(low for _, low, *_ in known), max(high for *_, high, _ in known)
    squares = [count * (deviation**2 + (middle - mean) ** 2) for count, _, middle, _, deviation in known if deviation]
    deviation = math.sqrt(math.fsum(squares) / whole) if len(squares) == len(known) else None
    width = deviation or (most - least) / 2
    low, high = max(least, mean - width), min(most, mean + width)
    return Range(mean, low, high, f"half the mean round trip ({mean:g} ms)"), deviation


def _number(text: str) -> float:
    """A number with a decimal point or comma; `1.234.5`, which is none, is too large for anything."""
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return math.inf
