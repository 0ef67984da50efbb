"""What there is to run: the entries of `weft list`."""

from typing import Any

from weftway import _native, probe
from weftway.backends import BACKENDS, Backend
from weftway.scenario import listed


def entries() -> list[dict[str, Any]]:
    """Schedulers, controllers, backends, scenarios and experiments, each with its `kind`."""
    return [
        *({"kind": "scheduler", **entry} for entry in _native.schedulers()),
        *({"kind": "controller", **entry} for entry in _native.controllers()),
        *map(_backend, BACKENDS.values()),
        *listed("scenario", "scenarios/*.toml"),
        *listed("experiment", "experiments/*/*.toml"),
    ]


def lacking(name: str) -> str | None:
    """What this machine lacks for `emulate` or a backend, and what would help; `None` if nothing."""
    return probe.missing(probe.LINKS) if name == "emulate" else BACKENDS[name].obstacle()


def _backend(backend: Backend) -> dict[str, Any]:
    missing = backend.obstacle()
    told = f"{backend.summary}. Not on this machine: {missing}" if missing else backend.summary
    return {"kind": "backend", "name": backend.name, "summary": told, "lacking": missing}
