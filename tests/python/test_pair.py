"""Identities and pairing lines: who may connect."""

import os
import subprocess
from pathlib import Path

import pytest

import machine
from conftest import Weft
from ends import PARTIAL, Start, ended, port, same, wait_until
from weftway import transfer


def test_an_identity_is_private_and_a_new_one_ends_the_old_lines(weft: Weft, line: str, tmp_path: Path) -> None:
    assert (tmp_path / "me").stat().st_mode & 0o777 == 0o600
    assert weft("pair", "--identity", "me").stdout.strip() == line
    new = weft("pair", "--identity", "me", "--new").stdout.strip()
    assert new.startswith("weft1-") and new != line


def test_an_identity_that_others_can_read_is_refused(weft_here: Weft, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        transfer.pair(tmp_path / "config" / "me")
    finally:
        os.umask(before)
    assert (tmp_path / "config").stat().st_mode & 0o777 == 0o700
    (tmp_path / "config" / "me").chmod(0o644)
    for words in ("pair --identity config/me", "recv inbox --listen 1 --identity config/me"):
        found = weft_here(*words.split())
        assert (found.returncode, found.stdout) == (2, ""), words
        assert "other users of this machine may read or change this identity (mode 0644)" in found.stderr
        assert found.stderr.count("\n") == 1
    assert weft_here("pair", "--identity", "config/me", "--new").returncode == 0
    assert (tmp_path / "config" / "me").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("where", ["environment", "standard input"])
def test_the_pairing_line_need_not_be_on_the_command_line(
    start: Start, line: str, folder: Path, tmp_path: Path, where: str
) -> None:
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--listen", at, "--identity", "me")
    words = ["send", "photos", "--to", at]
    if where == "environment":
        given, environment = "", os.environ | {"WEFT_PAIR": line}
    else:
        words += ["--pair", "-", "--switch"]
        given, environment = f"{line}\nround-robin\n", dict(os.environ)
    sent = subprocess.run(
        [*machine.WEFT, *words], cwd=tmp_path, env=environment, input=given, capture_output=True, text=True
    )
    assert (sent.returncode, ended(receiver)[0]) == (0, 0), sent.stderr
    assert same(folder, tmp_path / "inbox" / "photos")


def test_a_line_in_the_environment_is_of_no_use_to_an_end_that_listens(
    weft: Weft, start: Start, line: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_PAIR", line)
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--listen", at, "--identity", "me")
    assert weft("send", folder, "--to", at).returncode == ended(receiver)[0] == 0


def test_a_stranger_gets_one_line(weft: Weft, start: Start, line: str, folder: Path) -> None:
    at = f"127.0.0.1:{port()}"
    start("recv", "inbox", "--listen", at, "--identity", "me")
    other = weft("pair", "--identity", "other").stdout.strip()
    wait_until((folder.parent / "inbox").exists)
    strange = weft("send", folder, "--to", at, "--pair", other)
    assert (strange.returncode, strange.stdout) == (1, "")
    assert strange.stderr.startswith(f"weft: {at} is not the machine that made this pairing line")
    assert strange.stderr.count("\n") == 1
    assert list((folder.parent / "inbox").iterdir()) == [folder.parent / "inbox" / PARTIAL]
