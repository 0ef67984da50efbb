"""`weft compare --at REV`. The earlier commit is one whose `weft` is that of today, or one that fails."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weftway import scenario
from weftway.cli import main
from weftway.runs import revision

WEFT = '#!/bin/sh\necho "$@" >> "{log}"\nexec "{python}" -m weftway "$@"\n'


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree: a commit without a command, one whose command `works`, and one whose command fails."""
    root = tmp_path / "tree"
    root.mkdir()
    git(root, "init", "--quiet")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "before")
    git(root, "tag", "before")
    for tag, text in (
        ("works", WEFT.format(log=tmp_path / "log", python=sys.executable)),
        ("fails", "#!/bin/sh\nexit 3\n"),
    ):
        (root / "weft").write_text(text)
        (root / "weft").chmod(0o755)
        git(root, "add", "weft")
        git(root, "commit", "--quiet", "-m", tag)
        git(root, "tag", tag)
    monkeypatch.setattr(scenario, "HOME", root)
    monkeypatch.setattr(sys, "argv", sys.argv)
    return root


def called(*words: str) -> int:
    """The command's status, within this process."""
    sys.argv = ["weft", *words]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_the_same_comparison_runs_by_the_earlier_commit(
    home: Path, small: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("compare", str(small), "--scheduler", "min-rtt", "--seeds", "0..3", "--set", "path.lte.loss=1 %")
    assert called(*words, "--at", "works") == 0
    output = capfd.readouterr()
    assert "Against works, 1 cell paired by seed: 1 unchanged." in " ".join(output.out.split())
    asked = (tmp_path / "log").read_text()
    assert "--scheduler min-rtt --seeds 0..3 --set path.lte.loss=1 % --out " in asked
    assert called(*words, "--at", "works") == 0, "its tree and its rows are kept"
    assert len(list((home / revision.TREES).glob("*.rows"))) == 1


def test_a_tree_that_was_deleted_or_is_half_there_is_made_again(home: Path) -> None:
    place = revision.tree("works")
    shutil.rmtree(place)
    assert (revision.tree("works") / "weft").is_file()
    (place / "weft").rename(place / "half")
    git(home, "worktree", "lock", str(place))
    assert (revision.tree("works") / "weft").is_file()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--at", "nowhere"), "--at nowhere: git knows no such commit"),
        (("--at", "--help"), "git knows no such commit"),
        (("--at", "fails"), "ended with status 3"),
        (("--at", "before"), "--at before: that commit has no command `weft`"),
        (("--at", "works", "--against", "."), "leave out --against"),
    ],
)
def test_what_cannot_be_compared_is_told(
    home: Path, small: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert called("compare", str(small), *words) == 2
    assert why in " ".join(capfd.readouterr().err.split())
