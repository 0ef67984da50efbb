"""Comparison of the simulator's Multipath QUIC with a real stack: equal scenarios and seeds on `sim` and `quic`.

>>> measured = quic.measure(quic.Request(cells=20, seed=7, folder=Path("fidelity-quic-7")))
>>> found = quic.agreement(measured.settings, measured.rows)
>>> quic.write_report(measured, found)

`settings` says what is run, `runs` runs and keeps it, `cases` compares, `tables` and `page` show.
"""

from .cases import Agreement, agreement
from .page import write_report
from .runs import Measured, Request, measure
from .tables import tables

__all__ = ["Agreement", "Measured", "Request", "agreement", "measure", "tables", "write_report"]
