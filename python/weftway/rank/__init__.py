"""Ranking schedulers over a world of cells.

>>> found = rank.run(rank.Request(on=["world"], cells=20, candidate="ecf"))  # doctest: +SKIP
>>> rank.standings(found)  # doctest: +SKIP

A *cell* is one scenario under one congestion controller. `cells` draws or reads them, `runs` runs every scheduler in
each over the same seeds, `costs` makes one number of a run, and `standing` compares those numbers.
"""

from .cells import Cell
from .runs import Ranking, Request, groups, run, single_path, standings, worst
from .standing import Group, SinglePath, Standing, Worst

__all__ = [
    "Cell",
    "Group",
    "Ranking",
    "Request",
    "SinglePath",
    "Standing",
    "Worst",
    "groups",
    "run",
    "single_path",
    "standings",
    "worst",
]
