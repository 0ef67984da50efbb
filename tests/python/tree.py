"""A copy of the source tree, whose crates are compiled as `./test` compiles them."""

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
    return subprocess.run(
        ["cargo", "test", "--offline", "--quiet", "--workspace", *words],
        cwd=tree,
        env={**os.environ, "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(HOME / "target"))},
        capture_output=True,
        text=True,
        timeout=540,
    )
