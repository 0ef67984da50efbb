"""The headline says no more than the tables: whatever the rows are, each of its claims is held against their marks."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weftway import report
from weftway.report import printed as tables
from weftway.report.numbers import unbroken
from weftway.report.study import Cell, Study
from weftway.report.words import verdict
from weftway.stats import paired

Rows = list[dict[str, Any]]

LOSS = "path.wifi.loss"
SCENARIO: dict[str, Any] = {"vary": {LOSS: []}, "path": {"wifi": {}}}
SCHEDULERS = ("min-rtt", "ecf", "blest")
CONTROLLERS = ("cubic", "bbr1")
LEVELS = ("0 %", "4 %", "5 %")


def run(loss: str, cc: str, scheduler: str, seed: int, fct: float | None) -> dict[str, Any]:
    return {
        "scheduler": scheduler,
        "cc": cc,
        "seed": seed,
        LOSS: loss,
        "fct_ms": fct,
        "goodput_mbps": None if fct is None else 160e3 / fct,
        "verdict": "stalled" if fct is None else "finished",
    }


@st.composite
def comparisons(draw: st.DrawFn) -> Rows:
    """Few schedulers, settings, controllers and seeds; with ties, identical rows, runs that are missing and runs that
    came to nothing."""
    schedulers = draw(st.lists(st.sampled_from(SCHEDULERS), min_size=1, max_size=3, unique=True))
    controllers = CONTROLLERS[: draw(st.integers(1, 2))]
    losses = LEVELS[: draw(st.integers(1, 3))]
    seeds = draw(st.integers(1, 4))
    rows: Rows = []
    for loss in losses:
        for cc in controllers:
            before: list[float | None] = []
            for scheduler in schedulers:
                how = draw(st.sampled_from(("own", "steady", "same", "same", "absent")))
                times: list[float | None]
                if how == "absent":
                    continue
                if how == "same" and before:
                    times = before
                elif how == "steady":
                    start = draw(st.integers(4, 9))
                    times = [1000.0 * start + 7 * seed + draw(st.integers(0, 2)) for seed in range(seeds)]
                else:
                    some = st.one_of(st.integers(4, 9), st.integers(4, 9), st.integers(4, 9), st.none())
                    times = [None if one is None else 1000.0 * one for one in draw(st.tuples(*[some] * seeds))]
                before = times
                kept = seeds if draw(st.integers(0, 5)) else draw(st.integers(1, seeds))
                rows += [run(loss, cc, scheduler, seed, times[seed]) for seed in range(kept)]
    return rows or [run("0 %", "cubic", "min-rtt", 0, 5000.0)]


@dataclass
class Line:
    """A row of a printed table."""

    scheduler: str
    mark: str
    same: list[str]
    has_value: bool
    is_whole: bool


@dataclass
class Printed:
    """A table as it is printed."""

    setting: str
    cc: str
    lines: list[Line]

    def marked(self, mark: str) -> list[str]:
        return [name for line in self.lines if line.mark == mark for name in (line.scheduler, *line.same)]

    @property
    def label(self) -> str:
        return ", ".join(part for part in (self.setting, self.cc) if part)

    @property
    def front(self) -> set[str]:
        """Who may be the best."""
        return {*self.marked("best"), *self.marked("level with best"), *self.marked("too few runs to tell")}


def printed(rows: Rows) -> list[Printed]:
    """The tables, read from their text alone."""
    found = []
    for table in tables.of(Study(rows, SCENARIO), 0):
        parts = str(table.title).split(", ")
        same = dict(re.findall(r"^= ([\w-]+): (.*)$", str(table.caption or ""), re.MULTILINE))
        names = [str(text) for text in table.columns[0].cells]
        values = [str(text) for text in table.columns[1].cells]
        has_place = any(str(column.header) == "" for column in table.columns)
        marks = [str(text) for text in table.columns[3].cells] if has_place else [""] * len(names)
        lines = []
        for text, value, mark in zip(names, values, marks, strict=True):
            name = text.split(" ")[0]
            twins = same[name].split(", ") if name in same else []
            has_value = any(digit.isdigit() for digit in value)
            lines.append(Line(name, mark, twins, has_value, has_value and "unfinished" not in text))
        setting = parts.pop(0) if parts[0].startswith(LOSS) else ""
        found.append(Printed(setting, parts[0], lines))
    return found


PLACE = (
    r"(?P<word>in|under) (?:(?:all|both)(?: (?P<every>\d+))? (?:settings|controllers|combinations of setting and "
    r"controller)|(?P<count>\d+)(?: of (?P<of>\d+) (?:settings|controllers|combinations of setting and controller))?"
    r"(?: \((?P<labels>.*)\))?|(?P<cc>cubic|bbr1))"
)
VALUE = r"(?:: (?P<value>[^;]*))?"


def listed(text: str) -> set[str]:
    return set(re.split(r", | and ", text))


def first(table: Printed, who: set[str]) -> bool:
    """One line is the best, has its results for itself, and nobody is level with it or unknown."""
    best = [line for line in table.lines if line.mark == "best"]
    return len(best) == 1 and {best[0].scheduler} == who == table.front and not best[0].same


def identical(table: Printed, who: set[str]) -> bool:
    """The best line speaks for all of them, and nobody is level with it or unknown."""
    best = table.lines if len(table.lines) == 1 else [line for line in table.lines if line.mark == "best"]
    names = {best[0].scheduler, *best[0].same} if best and best[0].is_whole else set()
    return who == names and len(names) > 1 and table.front <= names


def tied(table: Printed, who: set[str]) -> bool:
    return who == table.front and bool(table.marked("level with best")) and not table.marked("too few runs to tell")


def alone(table: Printed) -> bool:
    return len(table.lines) == 1 and table.lines[0].is_whole and not table.lines[0].same


def unsure(table: Printed, who: set[str]) -> bool:
    return who == table.front and bool(table.marked("too few runs to tell"))


CLAIMS: list[tuple[str, Callable[[Printed, set[str]], bool]]] = [
    (r"(?P<who>.+?) (?:finished first|carried the most)", first),
    (r"(?P<who>.+?) (?:was|were) ahead", lambda table, who: set(table.marked("ahead in one run")) == who),
    (r"only (?P<who>.+?) came to a result in every run", lambda table, who: set(table.marked(ONLY)) == who),
    (r"(?P<who>.+?) are level at the front(?=.*, with identical results)", identical),
    (r"(?P<who>.+?) are level at the front(?!.*, with identical results)", tied),
    (r"the runs are too few to tell (?P<who>.+?) apart", unsure),
    (r"(?P<alone>one scheduler ran alone)", lambda table, _: alone(table)),
    (
        r"(?P<nobody>no scheduler came to a result in every run)",
        lambda table, _: any(line.has_value for line in table.lines) and not any(line.is_whole for line in table.lines),
    ),
    (r"(?P<none>no run came to a result)", lambda table, _: not any(line.has_value for line in table.lines)),
]
ONLY = "the only complete one"
LEAD = re.compile(r"(?:up to )?(?P<least>[\d.]+) %(?: to (?P<most>[\d.]+) %)? (?:sooner|more) than (?P<other>[\w-]+)")
ALONE = re.compile(r"(?P<who>[\w-]+(?:(?:, | and )[\w-]+)*)(?: under \w+)?: (?:completion time|goodput) .*")
CAUTION = "one seed only, so no spread is known"


def check(rows: Rows) -> None:
    """Holds every claim of the headline against the tables and the rows."""
    told = verdict(Study(rows, SCENARIO)).replace("\u00a0", " ").replace("\u202f", " ").rstrip(".")
    found = printed(rows)
    if told.startswith("No run came to a result"):
        assert all(row["fct_ms"] is None for row in rows)
        return
    seen: list[Printed] = []
    untold = 0
    whose: tuple[set[str], list[Printed]] = set(), []
    for part in re.split(r"; (?![^(]*\))", told):
        lead = LEAD.fullmatch(part)
        inline = re.search(r", (" + LEAD.pattern + ")$", part)
        if part == CAUTION:
            assert len({row["seed"] for row in rows}) == 1, told
        elif other := re.fullmatch(r"the tables tell of the other (\d+)", part):
            untold = int(other[1])
        elif lead:
            leads(rows, lead, *whose, told)
        elif ALONE.fullmatch(part) and " level " not in part and " first " not in part and claim_of(part) is None:
            assert all(map(alone, found)), told
            seen += found
        else:
            text = part[: inline.start()] if inline else part
            whose = claimed(text, found, told)
            seen += whose[1]
            if inline and (match := LEAD.fullmatch(inline[1])):
                best = {line.scheduler for table in whose[1] for line in table.lines if line.mark == "best"}
                leads(rows, match, best or whose[0], whose[1], told)
    assert len(seen) + untold == len(found), f"every table is told of once: {told}"
    assert len({table.label for table in seen}) == len(seen), told


def claim_of(part: str) -> tuple[re.Match[str], Callable[[Printed, set[str]], bool]] | None:
    for pattern, holds in CLAIMS:
        rest = r"(?:, with identical results| in one run each)?"
        if match := re.fullmatch(rf"{pattern} {PLACE}{rest}{VALUE}", part):
            return match, holds
    return None


def claimed(part: str, found: Sequence[Printed], told: str) -> tuple[set[str], list[Printed]]:
    """The tables of which a claim speaks: they are those of which it is true, and as many as it says."""
    claim = claim_of(part)
    assert claim, f"an unknown claim `{part}` in: {told}"
    match, holds = claim
    who = listed(match["who"]) if "who" in match.re.groupindex else set()
    true = [table for table in found if holds(table, who)]
    if match["cc"]:
        assert len(found) == 1, f"one controller of several is spoken of: {told}"
    count = 1 if match["cc"] else int(match["count"] or match["every"] or len(found))
    assert len(true) == count, f"`{part}`: the tables say so {len(true)} times of {len(found)}: {told}"
    assert match["count"] or len(true) == len(found), told
    if match["labels"]:
        labels = set(match["labels"].split("; "))
        several = {table.setting for table in found}, {table.cc for table in found}
        assert labels == {
            ", ".join(p for p, some in zip((t.setting, t.cc), several, strict=True) if len(some) > 1) for t in true
        }, told
    return who, true


def leads(rows: Rows, lead: re.Match[str], who: set[str], where: Sequence[Printed], told: str) -> None:
    """A percentage is said only where its interval excludes zero in each table that it speaks of."""
    assert len(who) == 1 and where, f"nobody is spoken of: {told}"
    study = Study(rows, SCENARIO)
    (name,) = who
    for table in where:
        cells = [Cell(table.setting, table.cc, one) for one in (name, lead["other"])]
        gap = paired(*(study.values(cell, "fct_ms") for cell in cells))
        assert gap is not None and gap.excludes_zero and gap.mean < 0, f"{lead[0]}: {gap} in {told}"


@settings(max_examples=400)
@given(comparisons())
def test_every_claim_of_the_headline_stands_in_the_tables(rows: Rows) -> None:
    check(rows)


def of(loss: str, cc: str, **schedulers: Sequence[float]) -> Rows:
    return [
        run(loss, cc, name.replace("_", "-"), seed, fct)
        for name, times in schedulers.items()
        for seed, fct in enumerate(times)
    ]


SAME = {"min_rtt": [5000.0, 5100.0, 5300.0], "ecf": [5000.0, 5100.0, 5300.0]}
LEVEL = {"min_rtt": [5000.0, 5100.0, 5300.0], "ecf": [5010.0, 5090.0, 5300.0]}
AHEAD = {"min_rtt": [5000.0, 5100.0, 5300.0], "ecf": [4000.0, 4110.0, 4290.0]}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (
            of("4 %", "cubic", **SAME) + of("5 %", "cubic", **SAME),
            "level at the front in both settings, with identical",
        ),
        (of("4 %", "cubic", **LEVEL) + of("5 %", "cubic", **LEVEL), "min-rtt and ecf are level at the front in both"),
        (of("4 %", "cubic", **AHEAD) + of("5 %", "cubic", **SAME), "ecf finished first in 1 of 2 settings (path.wifi"),
        (
            of("4 %", "cubic", **AHEAD) + of("4 %", "bbr1", **LEVEL),
            "ecf finished first under 1 of 2 controllers (cubic)",
        ),
        (of("4 %", "cubic", **SAME), "min-rtt and ecf are level at the front under cubic, with identical results"),
        (of("4 %", "cubic", min_rtt=[5000.0], ecf=[4000.0]), "ecf was ahead under cubic in one run each"),
    ],
)
def test_what_is_said_of(rows: Rows, told: str) -> None:
    assert told in verdict(Study(rows, SCENARIO))
    check(rows)


def test_the_page_has_the_sentence_of_the_screen() -> None:
    rows = of("4 %", "cubic", **AHEAD) + of("5 %", "cubic", **SAME)
    import polars as pl

    page = report.render(pl.DataFrame(rows), {}, SCENARIO)
    assert unbroken(tables.told(Study(rows, SCENARIO))[0]) in page
