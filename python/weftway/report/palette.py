"""Colour and shape of a scheduler or path: by place, so the same in every figure.

Ten hues for schedulers (after Okabe and Ito) and eight for paths, each with a twin for dark pages. Colour never
stands alone: schedulers also have a marker and their name, paths a texture, a dash and their name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weftway.stats.baselines import REFERENCE

SCHEDULER_LIGHT = (
    *("#0072b2", "#d55e00", "#00875a", "#b0439b", "#00a3b4"),
    *("#9a8200", "#5a44c8", "#7d5b4d", "#d0213f", "#30363d"),
)
SCHEDULER_DARK = (
    *("#4ea9ea", "#ff9152", "#35c78d", "#ee7fd0", "#6fe0e8"),
    *("#e3b945", "#a79bff", "#c9a590", "#ff7285", "#eef1f3"),
)
PATH_LIGHT = (
    *("#1f7a8c", "#e09a2b", "#7a55a8", "#6b9a2f", "#c4476a"),
    *("#3f5fb0", "#93714a", "#6a7580"),
)
PATH_DARK = (
    *("#4fb3c6", "#f0b558", "#b295de", "#a1cc66", "#ee8aa5"),
    *("#8ea6ee", "#cbab85", "#a7b2bd"),
)
SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
STRIPE = "var(--stripe)"
TEXTURES = (
    "",
    f"repeating-linear-gradient(45deg,{STRIPE} 0 2px,transparent 2px 6px),",
    f"radial-gradient({STRIPE} 28%,transparent 32%) 0 0/6px 6px,",
    f"repeating-linear-gradient(90deg,{STRIPE} 0 1.5px,transparent 1.5px 5px),",
    f"repeating-linear-gradient(-45deg,{STRIPE} 0 2px,transparent 2px 6px),",
    f"repeating-linear-gradient(0deg,{STRIPE} 0 1.5px,transparent 1.5px 5px),",
    f"radial-gradient({STRIPE} 45%,transparent 50%) 0 0/9px 9px,",
    f"repeating-linear-gradient(45deg,{STRIPE} 0 4px,transparent 4px 9px),",
)
DASHES = ("", "6 3", "2 2", "8 3 2 3", "10 4", "4 2 1 2", "1 3", "12 3 3 3")


@dataclass(frozen=True)
class Look:
    """Places in the palette: of the colour, and of the marker or dash."""

    place: int
    form: int | None = None

    @property
    def hue(self) -> int:
        return self.place % len(SCHEDULER_LIGHT)

    @property
    def shape(self) -> int:
        return (self.place if self.form is None else self.form) % len(SHAPES)

    @property
    def path(self) -> int:
        """The colour of a path: there are fewer of them."""
        return self.place % len(PATH_LIGHT)

    @property
    def dash(self) -> str:
        return DASHES[self.place % len(DASHES)]


def look(name: str, registry: Sequence[str]) -> Look:
    """By place in the registry; a name from outside (a user's own) gets one from its letters."""
    plain = name.split("@")[0]
    place = registry.index(plain) if plain in registry else len(registry) + sum(plain.encode()) % 24
    return Look(place)


def looks(ranked: Sequence[str], registry: Sequence[str]) -> dict[str, Look]:
    """The look of each scheduler of one comparison, `ranked` best first.

    Each keeps the colour and marker of its own place where it can. As long as there are colours left, no two
    share one: the later in the registry takes the next that is free. With more schedulers than colours, those
    that follow one another in rank take turns.
    """
    own = {name: look(name, registry) for name in ranked}
    count = len(SCHEDULER_LIGHT)
    if len(ranked) > count:
        return {name: Look(rank % count, rank // count + rank) for rank, name in enumerate(ranked)}
    taken: dict[str, int] = {}
    for name in sorted(ranked, key=lambda name: (name != REFERENCE, own[name].place, name)):
        steps = (own[name].place + step for step in range(count))
        taken[name] = next(place for place in steps if place % count not in {p % count for p in taken.values()})
    return {name: Look(taken[name], own[name].place) for name in ranked}


def css_variables(dark: bool) -> str:
    """The palette as custom properties: `--s0`… for schedulers, `--p0`… for paths."""
    schedulers, paths = (SCHEDULER_DARK, PATH_DARK) if dark else (SCHEDULER_LIGHT, PATH_LIGHT)
    pairs = [(f"--s{i}", c) for i, c in enumerate(schedulers)]
    pairs += [(f"--p{i}", c) for i, c in enumerate(paths)]
    return "".join(f"{name}:{colour};" for name, colour in pairs)


def css_classes() -> str:
    """`.s0`… and `.p0`… set the current colour; a path's also lays a texture over a filled bar or key."""
    rules = [f".s{i}{{color:var(--s{i})}}" for i in range(len(SCHEDULER_LIGHT))]
    rules += [f".p{i}{{color:var(--p{i})}}" for i in range(len(PATH_LIGHT))]
    rules += [f".bar .p{i},.swatch.p{i}{{background:{texture}var(--p{i})}}" for i, texture in enumerate(TEXTURES)]
    return "".join(rules)
