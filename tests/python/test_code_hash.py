"""The name of the code that makes rows: every crate that can change one is in it."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from weftway.scenario import HOME


def below(crate: str) -> set[str]:
    """The crate and all of ours that it is built with, as the manifests say."""
    manifest = tomllib.loads((HOME / "crates" / crate / "Cargo.toml").read_text())
    tables = [
        manifest["dependencies"],
        *(target.get("dependencies", {}) for target in manifest.get("target", {}).values()),
    ]
    own = {name.removeprefix("weftway-") for table in tables for name in table if name.startswith("weftway-")}
    return {crate}.union(*map(below, own))


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the crates' sources, with the build script of the package compiled beside it."""
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not installed")
    folder = tmp_path_factory.mktemp("tree")
    for crate in (HOME / "crates").iterdir():
        shutil.copytree(crate / "src", folder / "crates" / crate.name / "src")
        shutil.copy(crate / "Cargo.toml", folder / "crates" / crate.name)
    shutil.copytree(HOME / "policies", folder / "policies")
    shutil.copytree(HOME / "crates/sched/policies", folder / "crates/sched/policies", symlinks=False)
    for data in ("board", "experiments", "scenarios", "sweeps", "traces"):
        (folder / data).mkdir()
    program = folder / "build-script"
    command: list[str | Path] = ["rustc", "--edition", "2024", "-o", program, HOME / "crates/py/build.rs"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return program


def hashes(script: Path) -> dict[str, str]:
    """Code names that the build script tells, by kind of run."""
    tree = script.parent
    environment = {**os.environ, "CARGO_PKG_VERSION": "1", "OUT_DIR": str(tree / "out")}
    done = subprocess.run([script], cwd=tree / "crates/py", env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^cargo::rustc-env=(\w+)=(.*)$", done.stdout, re.MULTILINE))


def test_each_crate_that_can_change_a_row_is_in_the_hash(script: Path) -> None:
    before = hashes(script)
    assert len({*before.values()}) == len(before) == 4
    changes: dict[str, set[str]] = {name: set() for name in before}
    for crate in sorted(path.name for path in (script.parent / "crates").iterdir()):
        file = script.parent / "crates" / crate / "src/lib.rs"
        file = file if file.exists() else file.with_name("main.rs")
        text = file.read_bytes()
        file.write_bytes(text + b"\n// changed\n")
        for name, value in hashes(script).items():
            if value != before[name]:
                changes[name].add(crate)
        file.write_bytes(text)
    assert hashes(script) == before, "the same sources have the same name"
    assert changes["WEFTWAY_CODE"] == below("oracle")
    assert changes["WEFTWAY_QUIC_CODE"] == below("quic")
    assert changes["WEFTWAY_PICOQUIC_CODE"] == below("picoquic")
    # A run of the kernel needs no scheduler of ours: of `scenario` some files count, and lib.rs is none of them.
    assert changes["WEFTWAY_KERNEL_CODE"] == {"path", "link", "emu"}
    assert {"mux", "host", "net"} <= below("oracle") & below("quic")
