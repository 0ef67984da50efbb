"""Weftway: which path of a multipath connection carries the next packet.

>>> import weftway
>>> rows = weftway.compare("scenarios/wifi-lte.toml", scheduler=["min-rtt", "ecf"], seeds=range(3))
>>> rows.select("scheduler", "seed", "fct_ms")  # doctest: +SKIP
"""

TYPE_CHECKING = False
"""As in `typing`, which takes longer than all else here."""

if TYPE_CHECKING:
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


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Loads what is named at its first use: the command, which is in this package, begins at once."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from weftway import _native, calls, comparison

        value = next(vars(module)[name] for module in (_native, calls, comparison) if name in vars(module))
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
