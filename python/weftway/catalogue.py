"""What there is to run: the entries of `weft list`."""

from typing import Any

from weftway import _native
from weftway.emulate import probe
from weftway.plan import BACKENDS
from weftway.scenario import listed

LINKS = ("a network namespace", "a TUN device")
NEEDS = {"emulate": LINKS, "kernel": (*LINKS, "MPTCP", "MPTCP_FULL_INFO", "MPTCP path manager")}
"""What has to be there, by the probe's names. The rest makes a run more punctual or tidier."""


def entries() -> list[dict[str, Any]]:
    """Schedulers, controllers, backends, scenarios and experiments, each with its `kind`."""
    return [
        *({"kind": "scheduler", **entry} for entry in _native.schedulers()),
        *({"kind": "controller", **entry} for entry in _native.controllers()),
        *(_backend(name, summary) for name, summary in BACKENDS.items()),
        *listed("scenario", "scenarios/*.toml"),
        *listed("experiment", "experiments/*/*.toml"),
    ]


def lacking(name: str) -> str | None:
    """The first thing that this machine lacks for `emulate` or a backend, and what would help."""
    needs = NEEDS.get(name, ())
    absent = (part for part in probe() if not part["there"] and (part["part"] in needs or part["part"] == "Linux"))
    return next((f"{part['part']}: {part['note']}; {part['remedy']}" for part in absent), None) if needs else None


def _backend(name: str, summary: str) -> dict[str, Any]:
    missing = lacking(name)
    told = f"{summary}. Not on this machine: {missing}" if missing else summary
    return {"kind": "backend", "name": name, "summary": told, "lacking": missing}
