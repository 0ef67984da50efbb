"""The modules of the engine's crates do not import each other in a circle, and each file of tests is run."""

import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[2] / "crates"


def imports(crate: str, *within: str) -> dict[str, set[str]]:
    """By each module of a crate, or `within` one, those that it and its submodules import. Unit tests do not count."""
    source = CRATES.joinpath(crate, "src", *within)
    prefix = "::".join(["crate", *within])
    use = re.compile(rf"^\s*(?:pub(?:\(\w+\))? )?use {prefix}::(?:(\w+)|\{{([^}}]*)\}})", re.MULTILINE)
    modules = {path.stem for path in source.iterdir()} - {"lib", "mod"}
    found: dict[str, set[str]] = defaultdict(set)
    for file in source.rglob("*.rs"):
        module = file.relative_to(source).parts[0].removesuffix(".rs")
        code = file.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
        for one, several in use.findall(code):
            named = [one] if one else [part.split("::")[0].strip() for part in several.split(",")]
            found[module].update(set(named) & modules - {module})
    return found


@pytest.mark.parametrize(
    "place", [("path",), ("link",), ("host",), ("sim",), ("emu",), ("emu", "kernel"), ("quic",)], ids="/".join
)
def test_no_module_imports_what_imports_it(place: tuple[str, ...]) -> None:
    TopologicalSorter(imports(*place)).prepare()


@pytest.mark.parametrize("main", sorted(CRATES.glob("*/tests/**/main.rs")), ids=lambda main: main.parts[-3])
def test_every_file_of_a_test_program_is_run(main: Path) -> None:
    named = set(re.findall(r"^mod (\w+);$", main.read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert {file.stem for file in main.parent.glob("*.rs")} - {"main"} <= named
