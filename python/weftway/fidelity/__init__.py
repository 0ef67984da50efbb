"""Comparison of the simulator with this machine's kernel: random cells, run on both.

>>> measured = fidelity.measure(fidelity.Request(cells=20, seed=7, folder=Path("fidelity-7")))
>>> found = fidelity.differences(measured.runs)
>>> fidelity.write_report(measured, found)

`cells` draws the scenarios, `runs` runs and keeps them, `errors` compares, `tables` and `page` show. `failures` has the
scenarios in which a path fails; `completion` compares the times that they take, and shows them. `messages` has those of
small messages; `delays` compares how long these take.
"""

from .completion import completion_tables, judge
from .delays import delay_tables, delays
from .errors import Difference, differences
from .page import write_report
from .runs import EQUAL_SHARES, FAILURES, GOODPUT, MESSAGES, Kind, Measured, Request, measure, of_paths
from .tables import left_out, tables

__all__ = [
    "EQUAL_SHARES",
    "FAILURES",
    "GOODPUT",
    "MESSAGES",
    "Difference",
    "Kind",
    "Measured",
    "Request",
    "completion_tables",
    "delay_tables",
    "delays",
    "differences",
    "judge",
    "left_out",
    "measure",
    "of_paths",
    "tables",
    "write_report",
]
