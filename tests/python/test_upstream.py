"""Patches for others' sources: each applies to the release that this repository is built with."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from weftway.scenario import HOME

FOLDER = HOME / "docs/upstream"
MAIN = FOLDER / "noq-proto-1.4.0-scheduler.patch"
TESTS = FOLDER / "noq-proto-1.4.0-scheduler-tests.patch"


def test_the_hook_for_noq_applies_to_the_release_in_use(tmp_path: Path) -> None:
    lock = tomllib.loads((HOME / "Cargo.lock").read_text())
    (version,) = (package["version"] for package in lock["package"] if package["name"] == "noq-proto")
    assert MAIN.name.startswith(f"noq-proto-{version}-"), "a new release of noq: make the patches anew"
    added = [line for line in MAIN.read_text().splitlines() if re.match(r"\+(?!\+\+ )", line)]
    assert len(added) <= 150
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    source = next(home.glob(f"registry/src/*/noq-proto-{version}"), None)
    if source is None or shutil.which("patch") is None:
        pytest.skip("the source of noq-proto in cargo's registry, or `patch`, is missing")
    copy = shutil.copytree(source, tmp_path / "noq-proto")
    for file in (MAIN, TESTS):
        done = subprocess.run(["patch", "-p1", "--fuzz=0", "-i", file], cwd=copy, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "pub mod scheduler;" in (copy / "src/lib.rs").read_text()
