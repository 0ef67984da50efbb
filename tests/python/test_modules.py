"""No modules use each other in a circle, in no crate and nowhere in the package; and each file of tests is run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from crate_modules import circles

ROOT = Path(__file__).parents[2]
CRATES = ROOT / "crates"


@pytest.mark.parametrize("crate", sorted(path.parent.name for path in CRATES.glob("*/src")))
def test_no_modules_of_a_crate_use_each_other_in_a_circle(crate: str) -> None:
    loops = circles(CRATES / crate / "src")
    assert not loops, "\n".join(loops)


def test_no_modules_of_the_package_import_each_other_in_a_circle() -> None:
    # What is forbidden is in pyproject.toml.
    lint = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"]
    done = subprocess.run(lint, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("use crate::other::Thing;", "use crate::one::Three;"),
        ("use super::other::Thing;", "use super::{one::{self}};"),
        ("use super::{third::Thing, other};", "fn two() { crate::one::three(); }"),
        ("use super::Thing;", "pub struct Thing(super::one::Three);"),
        ("fn two() -> crate::Thing {}", "mod inner { use super::super::one; }"),
        ("fn two() { super::third::four(super::other::Thing); }", "use super::one as three;"),
        ("#[cfg(test)] mod tests; use super::other::Thing;", "macro_rules! two { () => { $crate::one::three() } }"),
    ],
)
@pytest.mark.parametrize("below", [(), ("net",), ("net", "local")], ids="/".join)
def test_a_circle_is_seen_however_it_is_written(tmp_path: Path, below: tuple[str, ...], one: str, other: str) -> None:
    folder = tmp_path
    for name in below:
        (folder / ("lib.rs" if folder == tmp_path else "mod.rs")).write_text(f"mod {name};")
        folder = folder / name
        folder.mkdir()
    (folder / ("mod.rs" if below else "lib.rs")).write_text("mod one; mod other; mod third; pub use other::Thing;")
    within = "::".join(["crate", *below])
    for name, code in [("one", one), ("other", other), ("third", "pub struct Thing;")]:
        code = code.replace("crate::", f"{within}::")
        (folder / f"{name}.rs").write_text(code)
    assert len(circles(tmp_path)) == 1


@pytest.mark.parametrize(
    "other",
    [
        "pub struct Thing;",
        "// use super::one;",
        'const TEXT: &str = "super::one::Three";',
        "#[cfg(test)] mod tests { use super::super::one; }",
        "#[cfg(test)] #[allow(unused)] use super::one;",
        "use super::third::one;",
        "use std::one::Three;",
    ],
)
def test_what_is_no_circle_is_not_taken_for_one(tmp_path: Path, other: str) -> None:
    (tmp_path / "lib.rs").write_text("mod one; mod other; mod third;")
    (tmp_path / "one.rs").write_text("use crate::other::Thing;")
    (tmp_path / "other.rs").write_text(other)
    (tmp_path / "third.rs").write_text("pub fn one() {}")
    assert circles(tmp_path) == []


@pytest.mark.parametrize("main", sorted(CRATES.glob("*/tests/**/main.rs")), ids=lambda main: main.parts[-3])
def test_every_file_of_a_test_program_is_run(main: Path) -> None:
    named = set(re.findall(r"^mod (\w+);$", main.read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    manifest = (CRATES / main.relative_to(CRATES).parts[0] / "Cargo.toml").read_text(encoding="utf-8")
    # Some files are programs of their own.
    named.update(re.findall(r'^\[\[test\]\]\nname = "(\w+)"$', manifest, re.MULTILINE))
    assert {file.stem for file in main.parent.glob("*.rs")} - {"main"} <= named


def test_what_is_named_is_loaded() -> None:
    """The package loads nothing by itself, so that the command begins at once."""
    code = """
import sys
import weftway
assert "weftway.calls" not in sys.modules
weftway.metrics.summary, weftway.report.figures, weftway.Scenario, weftway.Wait
assert not hasattr(weftway, "nonesuch")
from weftway import *
assert compare is weftway.compare
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
