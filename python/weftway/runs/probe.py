"""Probes of this machine: the rights and parts of the kernel that emulated links and kernel runs need."""

import json
import sys
from collections.abc import Collection
from typing import Any

from weftway import _native

LINKS = ("a network namespace", "a TUN device")
"""Needs of emulated links, by the probe's names."""


def parts() -> list[dict[str, Any]]:
    """Each right and part of the kernel, whether it is there, and what is known of it."""
    if not hasattr(_native, "probe"):
        return [{"part": "Linux", "there": False, "note": f"this is {sys.platform}", "remedy": "use Linux"}]
    parts: list[dict[str, Any]] = json.loads(_native.probe())
    return parts


def missing(needs: Collection[str]) -> str | None:
    """The first of `needs` that this machine lacks, and what would help; `None` if all are there."""
    absent = (part for part in parts() if not part["there"] and (part["part"] in needs or part["part"] == "Linux"))
    return next((f"{part['part']}: {part['note']}; {part['remedy']}" for part in absent), None)
