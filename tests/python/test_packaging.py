"""Needs of a package besides its code. `.ci/package` builds and installs one."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from conftest import Weft
from weftway import scenario
from weftway.scenario import HOME


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if the package were installed: its data lie in a folder of its own."""
    monkeypatch.setattr(scenario, "_INSTALLED", tmp_path / "data")
    monkeypatch.setattr(scenario, "HOME", tmp_path / "data")


@pytest.mark.parametrize("words", [["new", "scheduler", "my-rule"], ["bench"]])
@pytest.mark.usefixtures("installed")
def test_what_needs_the_source_tree_says_where_to_get_it(weft_here: Weft, words: list[str]) -> None:
    done = weft_here(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "git clone https://github.com/weftway/weftway" in done.stderr
    assert words[0] != "new" or "--scheduler my_rules.py:MyRule" in done.stderr


def test_every_data_folder_is_packed() -> None:
    packed = (HOME / "crates/py/build.rs").read_text()
    project = tomllib.loads((HOME / "pyproject.toml").read_text())
    in_source = {entry["path"] for entry in project["tool"]["maturin"]["include"] if entry.get("format") == "sdist"}
    folders = ("board", "experiments", "scenarios", "sweeps", "traces")
    assert all(f'"{folder}"' in packed for folder in folders)
    assert in_source == {f"{folder}/**/*" for folder in folders}


def test_a_crate_packs_what_it_compiles_in() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    command = ["cargo", "package", "--list", "--offline", "--allow-dirty", "--package", "weftway-sched"]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    packed = set(done.stdout.splitlines())
    assert packed >= {f"policies/{file.name}" for file in (HOME / "policies").glob("*.safetensors")}


def test_no_crate_needs_a_newer_rust_than_we_say() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    host = re.search("host: (.*)", subprocess.run(["rustc", "-vV"], capture_output=True, text=True, timeout=60).stdout)
    assert host is not None
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host[1]]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    metadata = json.loads(done.stdout)
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    needs = {
        package["name"]: package["rust_version"]
        for package in metadata["packages"]
        if package["id"] in used and package["rust_version"]
    }
    promised = tomllib.loads((HOME / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]

    def number(version: str) -> list[int]:
        return [int(part) for part in version.split(".")]

    assert {name: need for name, need in needs.items() if number(need) > number(promised)} == {}
    for page in (".ci/setup.sh", "README.md", "docs/how-to/install.md"):
        assert f"Rust {promised} or newer" in (HOME / page).read_text(), page
    assert f"cargo {promised} and" in (HOME / "docs/how-to/troubleshooting.md").read_text()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that is set up already, with programs that say what they are given."""
    for name in ("weft", ".ci/setup.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(HOME / name, tmp_path / name)
    for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml", "uv.lock", "python/weftway/_native.abi3.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("crates", "policies"):
        (tmp_path / name).mkdir()
    for name in ("weft", "python", "jupyter-lab"):
        program = tmp_path / ".venv/bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        program.chmod(0o755)
    (tmp_path / ".weft").mkdir()
    for name in ("user", "python", "train"):
        (tmp_path / ".weft" / name).write_text(f"{tmp_path}\n")
    return tmp_path


CALLS = {
    "compare wifi-lte": ("lab", "weft compare wifi-lte"),
    "python rule.py --fast": ("lab", "python rule.py --fast"),
    "jupyter book.ipynb": ("lab", "jupyter-lab book.ipynb"),
    "dev compare wifi-lte": ("dev", "weft compare wifi-lte"),
    "train dqn": ("lab", "weft train dqn"),
}


@pytest.mark.parametrize(("words", "profile", "called"), [(words, *what) for words, what in CALLS.items()])
def test_the_script_starts_what_is_asked_for(checkout: Path, words: str, profile: str, called: str) -> None:
    (checkout / ".weft/profile").write_text(f"{profile}\n")
    command = ["sh", str(checkout / "weft"), *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{called}\n"), done.stderr


def test_a_shell_that_completes_waits_for_no_build(checkout: Path) -> None:
    (checkout / ".weft/user").unlink()
    done = subprocess.run(
        ["sh", str(checkout / "weft")],
        env={"PATH": os.environ["PATH"], "_WEFT_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("weft\n", "")
