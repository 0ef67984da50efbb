"""Weftway: which path of a multipath connection carries the next packet.

>>> import weftway
>>> rows = weftway.compare("scenarios/wifi-lte.toml", scheduler=["min-rtt", "ecf"], seeds=range(3))
>>> rows.select("scheduler", "seed", "fct_ms")  # doctest: +SKIP
"""

from weftway._native import (
    Ahead,
    Context,
    Event,
    Recall,
    Repeat,
    Scenario,
    ScenarioError,
    SimulationError,
    TraceError,
    __version__,
    controllers,
    schedulers,
)
from weftway.calls import compare, export, run
from weftway.comparison import Comparison, Interrupted

__all__ = [
    "Ahead",
    "Comparison",
    "Context",
    "Event",
    "Interrupted",
    "Recall",
    "Repeat",
    "Scenario",
    "ScenarioError",
    "SimulationError",
    "TraceError",
    "Wait",
    "__version__",
    "compare",
    "controllers",
    "export",
    "run",
    "schedulers",
]

# What `select` answers to send nothing now: returning nothing means the same.
Wait = None
