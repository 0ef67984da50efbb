"""What there is to run: the entries of `weft list`."""

from typing import Any

from weftway import _native
from weftway.plan import BACKENDS
from weftway.scenario import listed


def entries() -> list[dict[str, Any]]:
    """Schedulers, controllers, backends, scenarios and experiments, each with its `kind`."""
    return [
        *({"kind": "scheduler", **entry} for entry in _native.schedulers()),
        *({"kind": "controller", **entry} for entry in _native.controllers()),
        *({"kind": "backend", "name": name, "summary": summary} for name, summary in BACKENDS.items()),
        *listed("scenario", "scenarios/*.toml"),
        *listed("experiment", "experiments/*/*.toml"),
    ]
