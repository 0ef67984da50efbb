"""`weft fairness`: what controllers leave to others.

>>> found = fairness.run(fairness.Request(["cubic", "bbr3"]))  # doctest: +SKIP
>>> fairness.findings(found)  # doctest: +SKIP

`settings` says which runs are needed, `runs` runs them, `judging` makes figures and verdicts of their rows, and
`tables` shows these.
"""

from .judging import Goals, Share, Short, Start
from .runs import Fairness, Request, beside_cubic, beside_starts, run
from .settings import CUBIC
from .tables import findings, reading, records, share_words, start_words, terminal

__all__ = [
    "CUBIC",
    "Fairness",
    "Goals",
    "Request",
    "Share",
    "Short",
    "Start",
    "beside_cubic",
    "beside_starts",
    "findings",
    "reading",
    "records",
    "run",
    "share_words",
    "start_words",
    "terminal",
]
