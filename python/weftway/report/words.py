"""The findings in plain words: the sentence at the top, which says what the marks of the tables come to and no more;
and the remarks in the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weftway.stats.estimates import Estimate
from weftway.stats.units import unit_for

from .bonding import against_best_link, bonding
from .front import ALONE, FIRST, LEADS, LEVEL, NOBODY, NOTHING, OPEN, REMAINS, TIED, UNTOLD, Front, front
from .numbers import LEAST, listed, percent, relative
from .study import Cell, Study

PHRASES = {
    "fct_ms": ("finished first", "sooner", "later"),
    "goodput_mbps": ("carried the most", "more", "less"),
    "message_p95_ms": ("delivered messages soonest (95th percentile)", "sooner", "later"),
    "interactive_p95_ms": ("completed interactive flows soonest (95th percentile)", "sooner", "later"),
    "bulk_p95_ms": ("completed bulk flows soonest (95th percentile)", "sooner", "later"),
    "deadline_miss_rate": ("missed the fewest deadlines", "fewer", "more"),
}
"""Per primary measure: what the winner did, and the words for better and worse."""

ORDER = (FIRST, LEADS, REMAINS, TIED, OPEN, ALONE, NOBODY, NOTHING)
MOST_CASES = 4
"""Most findings that are told one by one."""
MOST_PLACES = 3
"""Most settings or controllers that are named."""
MOST_UNTOLD = 3
"""Lines not told apart from the best that are named, each with the seeds in which it is worse."""
ENOUGH = 30
"""Seeds that are proposed to a comparison with fewer; one with more needs four times as many to halve an interval."""

NO_RESULT = "No run came to a result: see the remarks in the table"


HEADLINE = 25
"""Words of a page's headline, and its figures: one to a part."""
HEADLINE_PARTS = 3


def verdict(study: Study) -> str:
    """Sentence that says who came first, where, and by how much; with a single table also what bonding gained."""
    return f"{'; '.join(parts(study))}."


def findings(study: Study) -> list[str]:
    """The sentence as a page has it: a headline that is read at a glance, then the rest."""
    first, *rest = parts(study)
    taken = 1
    while rest and taken < HEADLINE_PARTS and len(f"{first} {rest[0]}".split()) <= HEADLINE:
        first, taken = f"{first}; {rest.pop(0)}", taken + 1
    # A name keeps its letters.
    names = tuple(f"{name} " for name in study.schedulers)
    return [f"{part if part.startswith(names) else part[0].upper() + part[1:]}." for part in [first, *rest]]


def parts(study: Study) -> list[str]:
    """Parts of the sentence: the findings, and how far the seeds go."""
    fronts = [front(study, setting, cc) for setting, cc in study.groups]
    if all(at_front.kind == NOTHING for at_front in fronts):
        return [NO_RESULT]
    found = _single(study, fronts[0]) if len(fronts) == 1 else _several(study, fronts)
    more = more_seeds(study) if any(at_front.kind == OPEN for at_front in fronts) else ""
    return [part for part in [*found, more, caution(study)] if part]


def caution(study: Study) -> str:
    return "one seed only, so no spread is known" if len(study.seeds) == 1 else ""


def more_seeds(study: Study) -> str:
    """The option that would tell more of them apart, where the seeds are whole numbers in a row."""
    seeds = study.seeds
    if not all(type(seed) is int for seed in seeds):
        return ""
    first, count = min(seeds), len(seeds)
    if max(seeds) - first + 1 != count:
        return ""
    return f"more seeds tell more: --seeds {first}..{first + (ENOUGH if count < ENOUGH else 4 * count)}"


def _single(study: Study, at_front: Front) -> list[str]:
    """Findings of one setting and controller."""
    if at_front.best is None:
        return [f"no scheduler came to a result in every run under {at_front.cc}"]
    value = study.estimate(at_front.best, study.primary.column)
    assert value is not None, "the best cell has a value"
    shown = unit_for(study.primary.kind, [value.mean]).estimate(value)
    measured = f"{study.primary.title.lower()} {shown}"
    ahead = lead(study, at_front)
    if at_front.kind == ALONE:
        parts = [f"{at_front.best.scheduler} under {at_front.cc}: {measured}"]
    elif at_front.kind in (FIRST, LEADS, REMAINS):
        parts = [f"{_told(study, at_front.kind, at_front.names(study), f'under {at_front.cc}')}: {shown}", ahead]
    else:
        of = f"{measured} for {at_front.best.scheduler}" if at_front.level else measured
        parts = [
            f"{_told(study, at_front.kind, at_front.names(study), f'under {at_front.cc}', _is_same(at_front))}: {of}"
        ]
        parts = [f"{parts[0]}, {ahead}" if ahead else parts[0], untold(study, at_front)]
    gained = bonding(study, at_front.best)
    return [
        *parts,
        f"with {at_front.best.scheduler}, {gained}" if gained and (at_front.level or at_front.untold) else gained,
    ]


def _is_same(at_front: Front) -> bool:
    """Says whether all at the front have the very same results."""
    return not at_front.level


def untold(study: Study, at_front: Front) -> str:
    """Lines that the seeds do not tell apart from the best one, nearest first."""
    if at_front.kind != OPEN or at_front.best is None:
        return ""
    each = [f"{line.cell.scheduler} ({line.count})" for line in at_front.untold[:MOST_UNTOLD]]
    rest = len(at_front.untold) - len(each)
    names = listed([*each, *([f"{rest} more"] if rest else [])])
    runs = len(study.values(at_front.best, study.primary.column))
    return f"{UNTOLD} from {at_front.best.scheduler} with {runs} seeds: {names}"


def _told(study: Study, kind: str, names: Sequence[str], where: str, is_same: bool = False) -> str:
    """A finding: who did what, and where."""
    who = listed(names)
    if kind == FIRST:
        return f"{who} {PHRASES[study.primary.column][0]} {where}"
    if kind == LEADS:
        return f"{who} {'was' if len(names) == 1 else 'were'} ahead {where} in one run each"
    if kind == OPEN:
        have = "has" if len(names) == 1 else "have" if is_same else f"are {LEVEL} and have"
        same = ", with identical results" if is_same and len(names) > 1 else ""
        return f"{who} {have} the best {study.summary} {where}{same}"
    if kind == REMAINS:
        return f"only {who} came to a result in every run {where}"
    if kind == TIED:
        level, same = ("level", ", with identical results") if is_same else (LEVEL, "")
        return f"{who} are {level} at the front {where}{same}"
    if kind == ALONE:
        return f"one scheduler ran alone {where}"
    return f"no {'scheduler came to a result in every run' if kind == NOBODY else 'run came to a result'} {where}"


def lead(study: Study, at_front: Front) -> str:
    """The distance to the reference, or from the reference to the next: as far as the seeds are sure of it."""
    if at_front.best is None or not at_front.behind:
        return ""
    front_names = at_front.names(study)
    others = [cell for cell in at_front.behind if study.reference in (cell.scheduler, *study.alike(cell))]
    if not others and study.reference in front_names:
        others = at_front.behind[:1]
    share = relative(study, at_front.best, others[0]) if others else None
    if share is None or not share.excludes_zero or abs(share.mean) < LEAST:
        return ""
    name = study.reference if study.reference not in front_names else others[0].scheduler
    return f"{percent(abs(share.mean))} {PHRASES[study.primary.column][1]} than {name}"


def _several(study: Study, fronts: Sequence[Front]) -> list[str]:
    """Findings of several settings, controllers or both: each finding with how often it was made, and where."""
    if all(at_front.kind == ALONE for at_front in fronts):
        return [spread(study, fronts)]
    cases: dict[tuple[str, tuple[str, ...], bool], list[Front]] = {}
    for at_front in fronts:
        names = tuple(at_front.names(study)) if at_front.kind in (FIRST, LEADS, REMAINS, TIED, OPEN) else ()
        ordered = names if at_front.kind in (FIRST, REMAINS) else tuple(sorted(names, key=study.schedulers.index))
        cases.setdefault((at_front.kind, ordered, at_front.kind in (TIED, OPEN) and _is_same(at_front)), []).append(
            at_front
        )
    ranked = sorted(cases.items(), key=lambda case: (ORDER.index(case[0][0]), -len(case[1])))
    parts: list[str] = []
    for at, ((kind, names, is_same), alike) in enumerate(ranked[:MOST_CASES]):
        where = _where(study, alike, len(fronts), is_first=at == 0)
        finding = _told(study, kind, names, where, is_same)
        parts += [
            f"{finding}, others {UNTOLD}" if kind == OPEN else finding,
            _ahead(study, alike) if kind == FIRST else "",
        ]
    rest = [at_front for _, alike in ranked[MOST_CASES:] for at_front in alike]
    return [*parts, f"the tables tell of the other {len(rest)}" if rest else ""]


def _noun(study: Study) -> str:
    """Noun for what there are several of."""
    if len(study.settings) > 1 and len(study.controllers) > 1:
        return "combinations of setting and controller"
    return "settings" if len(study.settings) > 1 else "controllers"


def _where(study: Study, fronts: Sequence[Front], total: int, is_first: bool) -> str:
    """In how many of all settings or controllers, and in which, if these are few."""
    several, noun = (len(study.settings) > 1, len(study.controllers) > 1), _noun(study)
    word = "under" if noun == "controllers" else "in"
    if len(fronts) == total:
        return f"{word} both {noun}" if total == 2 else f"{word} all {total} {noun}"
    count = f"{len(fronts)} of {total} {noun}" if is_first else str(len(fronts))
    labels = [
        ", ".join(part for part, varies in zip((at_front.setting, at_front.cc), several, strict=True) if varies)
        for at_front in fronts
    ]
    return f"{word} {count}" + (f" ({'; '.join(labels)})" if len(labels) <= MOST_PLACES else "")


def _ahead(study: Study, fronts: Sequence[Front]) -> str:
    """The range of a winner's lead over the reference, where the seeds are sure of every one."""
    shares: list[Estimate] = []
    for at_front in fronts:
        others = [cell for cell in at_front.behind if study.reference in (cell.scheduler, *study.alike(cell))]
        share = relative(study, at_front.best, others[0]) if at_front.best and others else None
        if share is None or not share.excludes_zero:
            return ""
        shares.append(share)
    sizes = sorted(abs(share.mean) for share in shares)
    least, most = percent(sizes[0]), percent(sizes[-1])
    if sizes[-1] < LEAST:
        return ""
    span = most if least == most else f"up to {most}" if sizes[0] < LEAST else f"{least} to {most}"
    return f"{span} {PHRASES[study.primary.column][1]} than {study.reference}"


def spread(study: Study, fronts: Sequence[Front]) -> str:
    """Results of one scheduler to a table, from the best to the worst."""
    cells = [at_front.best for at_front in fronts if at_front.best]
    means = sorted(value.mean for value in _values(study, cells))
    unit = unit_for(study.primary.kind, means)
    low, high = unit.number(means[0]), unit.value(means[-1])
    who = listed(list(dict.fromkeys(cell.scheduler for cell in cells)))
    return f"{who}: {study.primary.title.lower()} {low} to {high} over {len(fronts)} {_noun(study)}"


def _values(study: Study, cells: Iterable[Cell]) -> list[Estimate]:
    return [value for cell in cells if (value := study.estimate(cell, study.primary.column))]


def remarks(study: Study, cell: Cell) -> list[str]:
    """Remarks on a row that its numbers do not make by themselves."""
    at_front = front(study, cell.setting, cell.cc)
    place, unsure = at_front.mark(cell), at_front.untold_of(cell)
    place = f"{place} from the best ({unsure.count})" if place == UNTOLD and unsure else place
    remarks = [place] if place else []
    if link := against_best_link(study, cell):
        remarks.append(link)
    failed = study.unfinished(cell)
    if failed:
        reasons = ", ".join(dict.fromkeys(failed))
        remarks.append(f"{len(failed)} of {study.size(cell)} runs: {reasons}")
    faults = sum(study.values(cell, "faults").values())
    if faults:
        remarks.append(f"{faults:.0f} faults")
    return remarks
