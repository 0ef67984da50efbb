"""The examples run as their comments say."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import machine
import tree
import weftway
from conftest import Weft
from weftway.scenario import HOME

CARGO = shutil.which("cargo")

OUTSIDE = HOME / "examples/my-scheduler"
"""A crate that is a workspace of its own."""


def check_times(text: str, weft: Weft) -> None:
    """Checks the completion times that the crate prints; that of min-RTT is the package's."""
    times = {name: float(ms) for name, ms, *_ in map(str.split, text.splitlines())}
    assert times.keys() == {"calm", "min-rtt"}
    # It holds back where min-RTT sends: its completion time cannot be the same.
    assert times["calm"] != times["min-rtt"]
    row = weft("run", "wifi-lte", "--scheduler", "min-rtt", "--cc", "cubic", "--seed", "0", "--json").stdout
    assert json.loads(row)[0]["fct_ms"] == times["min-rtt"]


@pytest.mark.skipif(CARGO is None, reason="cargo is not installed")
def test_a_crate_of_ones_own_is_a_scheduler(weft: Weft, tmp_path: Path) -> None:
    # As a member of this workspace, and as a test, which is how all that it depends on has been compiled.
    crate = tree.copy(tmp_path) / "crates/my-scheduler"
    shutil.copytree(OUTSIDE, crate)
    manifest = (crate / "Cargo.toml").read_text().replace("[workspace]\n", "")
    manifest += '\n[[test]]\nname = "its-main"\npath = "src/main.rs"\nharness = false\n'
    (crate / "Cargo.toml").write_text(manifest)
    done = tree.test(tmp_path, "--test", "its-main", "--", str(HOME / "scenarios/wifi-lte.toml"))
    assert done.returncode == 0, done.stderr
    check_times(done.stdout, weft)


@pytest.mark.skipif(CARGO is None, reason="cargo is not installed")
def test_that_crate_stands_outside_the_tree(weft: Weft) -> None:
    manifest = f"--manifest-path={OUTSIDE / 'Cargo.toml'}"
    if machine.NIGHTLY:
        words = ["run", "--quiet", "--locked", "--target-dir=target/outside", manifest]
        done = subprocess.run([str(CARGO), *words], cwd=HOME, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        check_times(done.stdout, weft)
    else:
        # Its lock file still fits, and names what the tree's own does.
        done = subprocess.run([str(CARGO), "tree", "--locked", manifest], cwd=HOME, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    locks = [tomllib.loads((folder / "Cargo.lock").read_text())["package"] for folder in (OUTSIDE, HOME)]
    theirs, ours = ({(package["name"], package["version"]) for package in lock} for lock in locks)
    assert theirs - ours == {("my-scheduler", "0.1.0")}


def test_ten_lines_of_python_take_part(weft: Weft) -> None:
    rule = f"{HOME / 'examples/my_rules.py'}:Patient"
    done = weft("compare", "wifi-lte", "--scheduler", f"{rule},min-rtt", "--seeds", "0..2", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["scheduler"], row["verdict"], row["faults"]) for row in rows] == [
        (name, "finished", 0) for name in (rule, rule, "min-rtt", "min-rtt")
    ]
    # LTE's round trip is more than twice Wi-Fi's, so the patient rule leaves most of it alone.
    shares = {row["scheduler"]: row["path.lte.share"] for row in rows}
    assert shares[rule] < shares["min-rtt"]


def test_ppo_in_one_file_ends_with_a_scheduler_and_a_curve(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason="Gymnasium is not installed: pip install 'weftway[gym]'")
    settings = ["--steps", "12000", "--envs", "8", "--rollout", "150", "--set", "workload.count=2", "--seeds", "0..1"]
    words = [str(HOME / "examples/ppo.py"), *settings, "--out", "mine.safetensors"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert {file.name for file in tmp_path.iterdir()} == {f"mine.{end}" for end in ("safetensors", "jsonl", "svg")}
    assert "mine.safetensors" in done.stdout and "dqn:policy" not in done.stdout
    card = weftway._native.Policy(tmp_path / "mine.safetensors").card
    assert (card["seed"], card["task"]) == ("1", "wait-or-send:state=controller")
    points = [json.loads(line) for line in (tmp_path / "mine.jsonl").read_text().splitlines()]
    assert points[-1]["steps"] == 12000
