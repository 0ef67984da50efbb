"""Colour and shape of a scheduler or path: by place, so the same in every figure and every report.

Eight hues that stay apart under the common colour-vision deficiencies (after Okabe and Ito), each
with a twin for dark pages. Colour never stands alone: schedulers also have a marker and their name,
paths a texture, a dash and their name.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEDULER_LIGHT = (
    "#0072b2",
    "#c94f00",
    "#008a62",
    "#b0438b",
    "#3b93d0",
    "#a87900",
    "#5a54b8",
    "#7d6b5d",
)
SCHEDULER_DARK = (
    "#4ea9ea",
    "#f58a4b",
    "#35c79d",
    "#e583c0",
    "#9bd3fb",
    "#e3b945",
    "#aaa5fb",
    "#c2b09f",
)
PATH_LIGHT = (
    "#1f7a8c",
    "#e09a2b",
    "#7a55a8",
    "#6b9a2f",
    "#c4476a",
    "#3f5fb0",
    "#93714a",
    "#6a7580",
)
PATH_DARK = (
    "#4fb3c6",
    "#f0b558",
    "#b295de",
    "#a1cc66",
    "#ee8aa5",
    "#8ea6ee",
    "#cbab85",
    "#a7b2bd",
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
    """Place in the palette; `hue`, `shape` and `dash` index the tuples above."""

    place: int

    @property
    def hue(self) -> int:
        return self.place % len(SCHEDULER_LIGHT)

    @property
    def shape(self) -> int:
        return self.place % len(SHAPES)

    @property
    def dash(self) -> str:
        return DASHES[self.place % len(DASHES)]


def look(name: str, registry: list[str]) -> Look:
    """By place in the registry; a name from outside (a user's own) gets one from its letters."""
    plain = name.split("@")[0]
    place = registry.index(plain) if plain in registry else len(registry) + sum(plain.encode()) % 24
    return Look(place)


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
