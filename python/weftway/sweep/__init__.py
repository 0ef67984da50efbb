"""Many scenarios at once, on this machine or on a Ray cluster.

>>> wanted = sweep.read("sweeps/lossy-wifi.toml")
>>> found = sweep.execute(wanted, sweep.Request(Path("out"), ray="auto"))

`grid` reads what is to be run, `parcel` is what a node of the cluster is sent and what it does with it, `runs` runs
what is missing and keeps it. The rows are those of `weft compare`, byte for byte, wherever they come from.
"""

from .grid import Grid, Run, read
from .runs import Request, execute, rows, warnings

__all__ = ["Grid", "Request", "Run", "execute", "read", "rows", "warnings"]
