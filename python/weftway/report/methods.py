"""Paragraph for a paper to quote, on how its numbers were made."""

from __future__ import annotations

from collections import Counter

from weftway.stats.estimates import LEVEL_WITHIN

from .numbers import listed
from .provenance import seeds
from .study import Study

WHERE = {
    "sim": "in the simulator of Weftway",
    "quic": "on Multipath QUIC (noq) in virtual time by Weftway",
    "picoquic": "on picoquic in virtual time by Weftway",
    "quic-to-picoquic": "on Multipath QUIC (noq), received by picoquic, in virtual time by Weftway",
    "kernel": "on the MPTCP of the Linux kernel, over links that Weftway emulates in real time",
    "live": "on links of this machine by Weftway",
}


def methods(study: Study) -> str:
    """Paragraph on who ran where with which seeds, what the intervals are, and which test says that two differ."""
    parts = [_what(study), _draws(study), *_numbers(study), _unfinished(study), _test(study), _code(study)]
    return " ".join(part for part in parts if part) + "\n"


def _what(study: Study) -> str:
    title = str(study.scenario.get("title") or study.scenario.get("name") or "the scenario")
    count = len(study.schedulers)
    who = f"{count} packet schedulers" if count > 1 else f"The packet scheduler {study.schedulers[0]}"
    under = "" if study.controllers == ["default"] else f" under {listed(study.controllers)}"
    where = listed([WHERE.get(str(place), str(place)) for place in study.first("backend")] or [WHERE["sim"]])
    settings = f" and {len(study.settings)} settings" if len(study.settings) > 1 else ""
    return f"{who} ran {where}{under}, in the scenario “{title}”{settings}."


def _draws(study: Study) -> str:
    if len(study.seeds) == 1:
        return f"There is one run of each, with seed {seeds(study.seeds)}, and so no interval."
    many = f"{len(study.seeds)} runs of each, with the seeds {seeds(study.seeds)} (half-open)"
    if any(not study.is_repeatable(cell) for cell in study.cells()):
        return f"There are {many}."
    return f"There are {many}; runs with the same seed have the same random losses and link rates."


def _numbers(study: Study) -> list[str]:
    if len(study.seeds) == 1:
        return []
    cells = study.cells()
    repeatable = [study.is_repeatable(cell) for cell in cells]
    sentences = []
    if any(repeatable):
        sentences.append("Numbers are means ± half of a 95 % confidence interval (Student's t over the runs).")
    if not all(repeatable):
        sentences.append(
            f"Numbers of the kernel and of live links are medians ± {study.interval_of_medians()}, between order "
            "statistics."
        )
    return sentences


def _unfinished(study: Study) -> str:
    """A mean over the runs that were fast enough flatters a scheduler."""
    lacking: Counter[str] = Counter()
    for cell in study.cells():
        lacking[cell.scheduler] += len(study.unfinished(cell))
    if not lacking.total():
        return ""
    each = listed([f"{count} of {name}" for name, count in lacking.items() if count])
    return (
        f"Of {study.count} runs {lacking.total()} did not finish ({each}): a number that they lack, such as a "
        "completion time, is that of the others."
    )


def _test(study: Study) -> str:
    if len(study.schedulers) < 2 or len(study.seeds) == 1:
        return ""
    return (
        f"Differences from {study.reference} are paired by seed. A difference is called significant where the 95 % "
        "interval of its mean (Student's t) excludes zero: a two-sided paired t-test at the 5 % level, without "
        "correction for the number of comparisons. Two schedulers are called level where the 95 % interval of their "
        f"ratio (paired by seed, of the logarithms) lies within {100 * LEVEL_WITHIN:.0f} % of 1, and not told apart "
        "where it is wider and includes 1."
    )


def _code(study: Study) -> str:
    code = ", ".join(str(version) for version in study.first("code"))
    hashes = ", ".join(str(digest)[:12] for digest in study.first("scenario_hash"))
    scenario = f"; scenario hash {hashes}" if hashes and len(study.first("scenario_hash")) <= 3 else ""
    again = study.scenario.get("command")
    return f"Code {code}{scenario}." + (f" Command: {again}" if again else "")
