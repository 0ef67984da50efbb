"""Comparison by an earlier commit: built in a working tree of its own, and kept there."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from weftway import scenario
from weftway._native import ScenarioError

TREES = ".weft/at"
"""Folder of the earlier commits' working trees, below the source tree; git ignores it."""


def tree(name: str) -> Path:
    """The working tree of a commit, a branch or a tag. It is made when it is asked for the first time."""
    root = scenario.source_tree("weft compare --at")
    commit = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if commit is None:
        raise ScenarioError(f"--at {name}: git knows no such commit in {root}")
    place = root / TREES / commit[:12]
    if not (place / "weft").is_file():
        # Half a tree is left if git was killed, and locked. Of one that was deleted, git believes that it is there.
        shutil.rmtree(place, ignore_errors=True)
        force = ("--force", "--force")  # once for one that is away, twice for one that is locked, too
        if git(root, "worktree", "add", *force, "--detach", "--quiet", str(place), commit) is None:
            raise ScenarioError(f"--at {name}: git cannot check it out in {place}")
        if not (place / "weft").is_file():
            raise ScenarioError(f"--at {name}: that commit has no command `weft`")
    return place


def compared(place: Path, words: Sequence[str]) -> Path:
    """Runs `weft compare` with these words by that tree; the folder of its rows, which later comparisons go on from."""
    rows = place.with_name(f"{place.name}.rows")
    print(f"weft compare by {place.name}: it is built the first time, which takes minutes", file=sys.stderr)
    done = subprocess.run([str(place / "weft"), "compare", *words, "--out", str(rows)], stdout=subprocess.DEVNULL)
    if done.returncode:
        raise ScenarioError(f"--at: `{place / 'weft'} compare` ended with status {done.returncode}; see above")
    return rows


def git(root: Path, *words: str) -> str | None:
    """Output of git; nothing if it refuses."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    except FileNotFoundError:
        raise ScenarioError("weft compare --at needs git") from None
    return done.stdout.strip() if done.returncode == 0 else None
