"""Weftway: which path of a multipath connection carries the next packet.

>>> import weftway
>>> rows = weftway.compare("scenarios/wifi-lte.toml", scheduler=["min-rtt", "ecf"], seeds=range(3))
>>> rows.select("scheduler", "seed", "fct_ms")  # doctest: +SKIP
"""

TYPE_CHECKING = False
"""Constant of `typing`, whose import takes longer than all else here."""

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
    from weftway.runs.comparison import Comparison
    from weftway.runs.runner import Interrupted

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

# Answer of `select` to send nothing now: returning nothing means the same.
Wait = None


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Loads what is named, be it a module, at its first use: the command, which is in here, begins at once."""
        from importlib import import_module

        if name not in __all__:
            module = f"{__name__}.{name}"
            try:
                return import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        modules = (
            import_module(f"{__name__}.{module}") for module in ("_native", "calls", "runs.comparison", "runs.runner")
        )
        globals()[name] = next(vars(module)[name] for module in modules if name in vars(module))
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
