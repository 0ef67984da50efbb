"""Figures beside what they must be."""

import sys
from typing import NoReturn


class Targets:
    """What was missed of them."""

    def __init__(self) -> None:
        self.missed = 0

    def tell(self, what: str, value: float, unit: str, least: float | None = None, most: float | None = None) -> None:
        """Prints a figure that must be `least` or more, and `most` or less."""
        is_met = (least is None or value >= least) and (most is None or value <= most)
        self.missed += not is_met
        bounds = [f"≥ {least:g}" if least is not None else "", f"≤ {most:g}" if most is not None else ""]
        wanted = " and ".join(filter(None, bounds))
        print(f"{what:68} {value:8.2f} {unit:7} target {wanted:20} {'met' if is_met else 'MISSED'}", flush=True)

    def exit(self) -> NoReturn:
        sys.exit(1 if self.missed else 0)
