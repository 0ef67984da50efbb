"""A copy of the source tree, whose crates are compiled as `./test` compiles those of the unit tests."""

import os
import shutil
import subprocess
from pathlib import Path

from weftway.scenario import HOME

PARTS = ("Cargo.toml", "Cargo.lock", "crates", "policies", "vectors")


def copy(folder: Path) -> Path:
    """Copies into `folder` what the crates are built from. Files keep their times, so cargo finds them compiled."""
    for name in PARTS:
        source = HOME / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, folder / name)
    return folder


def test(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`cargo test` in a copy. Of all crates, for what they depend on is compiled for all of them together."""
    plain = [f"--config=profile.dev.package.{_name(crate)}.opt-level=0" for crate in (tree / "crates").iterdir()]
    return subprocess.run(
        ["cargo", "test", "--offline", "--quiet", "--workspace", *plain, *words],
        cwd=tree,
        env={**os.environ, "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(HOME / "target"))},
        capture_output=True,
        text=True,
        timeout=540,
    )


def _name(crate: Path) -> str:
    lines = (crate / "Cargo.toml").read_text().splitlines()
    return next(line for line in lines if line.startswith("name = ")).split('"')[1]
