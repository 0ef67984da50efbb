"""The files of a recording: a drive for each direction (`[drive]` in docs/reference/scenario.md)."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from weftway._native import ScenarioError

from .estimate import Step
from .probes import STEP_NS

SIDES = ("down", "up")

COLUMNS: tuple[tuple[str, Callable[[Step], float | None], str], ...] = (
    ("mbps", lambda step: step.mbps, ".3f"),
    ("delay_ms", lambda step: step.delay_ms, ".2f"),
    ("loss_percent", lambda step: step.loss_percent, ".2f"),
)


def link_names(paths: Sequence[str]) -> list[str]:
    """What the links are called that are measured over these interfaces and addresses: as a scenario may call a path.

    >>> link_names(["wlan0", "192.0.2.7"])
    ['wlan0', '192-0-2-7']
    """
    names = [re.sub(r"[^A-Za-z0-9_-]", "-", path) for path in paths]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ScenarioError(f"--path {paths[at]}: two paths are the link `{name}`; a link is measured once")
    return names


def files(name: str) -> dict[str, Path]:
    """Where the drive of each direction goes."""
    return {side: Path(f"{name}.{side}.csv") for side in SIDES}


def text(links: Sequence[str], steps: Sequence[Sequence[Step]]) -> str:
    """The drive of links with these steps, as many as are known of each."""
    count = min(map(len, steps))
    columns = [
        (f"{link}_{name}", [of(step) for step in own[:count]], form)
        for link, own in zip(links, steps, strict=True)
        for name, of, form in COLUMNS
        if any(of(step) is not None for step in own[:count])
    ]
    lines = [",".join(["at_s", *(name for name, _, _ in columns)])]
    for at in range(count):
        values = ("" if column[at] is None else format(column[at], form) for _, column, form in columns)
        lines.append(",".join([f"{at * STEP_NS / 1e9:.1f}", *values]))
    return "\n".join([*lines, ""])
