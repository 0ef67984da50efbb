"""Numbers as sentences have them: shares, percentages and lists of names."""

from __future__ import annotations

from collections.abc import Sequence

from weftway.stats.estimates import Estimate, ratio

from .study import Cell, Study

LEAST = 0.0005
"""A smaller share would read as 0.0 %."""


def relative(study: Study, cell: Cell, other: Cell) -> Estimate | None:
    """The primary measure over the other's, less one, paired by seed."""
    return ratio(*(study.values(c, study.primary.column) for c in (cell, other)))


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"


def whole_percent(share: float) -> str:
    """A share in whole percent."""
    return f"{100 * share:.0f} %"


def counted(count: int, what: str) -> str:
    """Number and noun.

    >>> counted(1, "cell"), counted(0, "cell"), counted(2, "held-out instance")
    ('1 cell', '0 cells', '2 held-out instances')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def unbroken(text: str) -> str:
    """Text with numbers and their percent signs on one line."""
    return text.replace(" %", "\u00a0%")


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; beyond four, the first three and how many more."""
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
