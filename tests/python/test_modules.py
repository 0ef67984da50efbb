"""The modules of the engine's crates do not import each other in a circle."""

import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[2] / "crates"
USE = re.compile(r"^\s*(?:pub(?:\(crate\))? )?use crate::(?:(\w+)|\{([^}]*)\})", re.MULTILINE)


def imports(crate: str) -> dict[str, set[str]]:
    """By each top-level module, those that it and its submodules import. Tests beside the code do not count."""
    source = CRATES / crate / "src"
    modules = {file.stem for file in source.glob("*.rs")} - {"lib"}
    found: dict[str, set[str]] = defaultdict(set)
    for file in source.rglob("*.rs"):
        module = file.relative_to(source).parts[0].removesuffix(".rs")
        code = file.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
        for one, several in USE.findall(code):
            named = [one] if one else [part.split("::")[0].strip() for part in several.split(",")]
            found[module].update(set(named) & modules - {module})
    return found


@pytest.mark.parametrize("crate", ["path", "link", "host", "sim", "emu", "quic"])
def test_no_module_imports_what_imports_it(crate: str) -> None:
    TopologicalSorter(imports(crate)).prepare()
