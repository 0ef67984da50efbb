"""`weft new scheduler`: what it writes compiles, passes its vectors, and is in the registry."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from weftway import ScenarioError, new
from weftway.scenario import HOME


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a scheduler is built from."""
    for name in ("Cargo.toml", "Cargo.lock", "crates", "policies", "vectors"):
        source = HOME / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    return tmp_path


def test_the_result_compiles_and_passes(tree: Path) -> None:
    lines = new.scheduler("two-thirds", tree)
    assert len(lines) == 4
    target = os.environ.get("CARGO_TARGET_DIR", str(HOME / "target"))
    # Of all crates, as `./test` does it: what they depend on is compiled for them together. What is new is compiled
    # without optimisation, which takes a quarter of the time.
    words = ["--offline", "--quiet", "--workspace", "--test", "schedulers"]
    plain = [f"--config=profile.dev.package.weftway-{crate}.opt-level=0" for crate in ("path", "sched")]
    done = subprocess.run(
        ["cargo", "test", *words, *plain, "--", "vectors::"],
        cwd=tree,
        env={**os.environ, "CARGO_TARGET_DIR": target},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "two-thirds         1 cases" in done.stdout


@pytest.mark.parametrize(
    "name", ["", "Two", "two_thirds", "2-thirds", "-two", "two--thirds", "../two", "min-rtt", "rr"]
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioError):
        new.scheduler(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_keyword_of_rust_is_refused(tmp_path: Path) -> None:
    for name in ["match", "mod", "box", "self", "gen", "try", "yield"]:
        with pytest.raises(ScenarioError, match="keyword of Rust"):
            new.scheduler(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_type_that_the_template_uses_is_refused(tmp_path: Path) -> None:
    imports = re.findall(r"^use .*;$", new.RULE.template, re.MULTILINE)
    imported = {word for line in imports for word in re.findall(r"\b[A-Z]\w+", line)}
    assert {"Context", "Decision", "Scheduler", "Entry", "Input", "Provenance"} <= imported
    for kind in imported | {"Clone", "Ok"}:
        with pytest.raises(ScenarioError, match=f"its type would be `{kind}`"):
            new.scheduler(kind.lower(), tmp_path)
    assert not list(tmp_path.iterdir())
