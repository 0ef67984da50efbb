"""The examples run as their comments say."""

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weftway
from conftest import Weft
from weftway.scenario import HOME

CARGO = shutil.which("cargo")

CRATES = ("path", "sched", "cc", "link", "host", "scenario", "sim")


def _keys(table: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={json.dumps(value)}"


PROFILE = (
    *_keys(tomllib.loads((HOME / "Cargo.toml").read_text())["profile"]["dev"]),
    "package.my-scheduler.opt-level=0",
    *(f"package.weftway-{crate}.opt-level=0" for crate in CRATES),
)
"""The workspace's profile, with the crates themselves not optimised."""


@pytest.mark.skipif(CARGO is None, reason="cargo is not installed")
def test_a_crate_outside_the_tree_is_a_scheduler(weft: Weft) -> None:
    # The crates are compiled without optimisation, unlike the package: the same numbers all the same, and sooner. What
    # they depend on is compiled as for the tests of the crates, and most of it is there.
    crate = "examples/my-scheduler/Cargo.toml"
    words = ["run", "--quiet", "--locked", "--manifest-path", crate, "--target-dir", "target"]
    words += [f"--config=profile.dev.{key}" for key in PROFILE]
    done = subprocess.run([str(CARGO), *words], cwd=HOME, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    times = {name: float(ms) for name, ms, *_ in map(str.split, done.stdout.splitlines())}
    assert times.keys() == {"calm", "min-rtt"}
    # It holds back where min-RTT sends: its completion time cannot be the same.
    assert times["calm"] != times["min-rtt"]
    told = weft("run", "wifi-lte", "--scheduler", "min-rtt", "--cc", "cubic", "--seed", "0", "--json").stdout
    assert json.loads(told)[0]["fct_ms"] == times["min-rtt"]


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
    assert "dqn:policy=mine.safetensors" in done.stdout
    card = weftway._native.Policy(tmp_path / "mine.safetensors").card
    assert (card["seed"], card["task"]) == ("1", "wait-or-send:state=controller")
    points = [json.loads(line) for line in (tmp_path / "mine.jsonl").read_text().splitlines()]
    assert points[-1]["steps"] == 12000
