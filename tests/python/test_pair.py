"""Identities and pairing lines: who may connect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import machine
from conftest import Weft
from ends import PARTIAL, Start, ended, port, same, wait_until
from weftway.runs import link_program


def test_an_identity_is_private_and_a_new_one_ends_the_old_lines(weft: Weft, line: str, tmp_path: Path) -> None:
    assert (tmp_path / "me").stat().st_mode & 0o777 == 0o600
    assert weft("pair", "--identity", "me").stdout.strip() == line
    new = weft("pair", "--identity", "me", "--new").stdout.strip()
    assert new.startswith("weft1-") and new != line


def test_an_identity_that_others_can_read_is_refused(weft_here: Weft, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        weft_here("pair", "--identity", "config/me")
    finally:
        os.umask(before)
    assert (tmp_path / "config").stat().st_mode & 0o777 == 0o700
    (tmp_path / "config" / "me").chmod(0o644)
    for words in ("pair --identity config/me", "recv inbox --listen 1 --identity config/me"):
        run = weft_here(*words.split())
        assert (run.returncode, run.stdout) == (2, ""), words
        assert "other users of this machine may read or change this identity (mode 0644)" in run.stderr
        assert run.stderr.count("\n") == 1
    (tmp_path / "config" / "me").rename(tmp_path / "config" / "it's me")
    assert """run `chmod 600 'config/it'"'"'s me'`""" in weft_here("pair", "--identity", "config/it's me").stderr
    (tmp_path / "config" / "it's me").rename(tmp_path / "config" / "me")
    assert weft_here("pair", "--identity", "config/me", "--new").returncode == 0
    assert (tmp_path / "config" / "me").stat().st_mode & 0o777 == 0o600


def test_a_folder_is_no_identity(weft_here: Weft) -> None:
    run = weft_here("pair", "--identity", ".")
    assert (run.returncode, run.stderr) == (2, "weft: .: an identity is a file, and this is a directory\n")


def test_an_identity_for_which_there_is_no_room_leaves_nothing(tmp_path: Path) -> None:
    """No file may have more than 0 bytes: what a full disk is, without one."""
    command = (str(link_program.program()), "pair", "--identity", "me")
    words = ["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", *command]
    run = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", "weft: me: File too large\n")
    assert not list(tmp_path.glob("me*"))


def test_a_client_has_a_line_of_its_own(weft_here: Weft, tmp_path: Path) -> None:
    def pair(*words: str) -> str:
        done = weft_here("pair", "--identity", "me", *words)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout.strip()

    laptop = pair("--name", "laptop")
    assert laptop.startswith("weft1-")
    assert (tmp_path / "me").stat().st_mode & 0o777 == 0o600
    plain, phone = pair(), pair("--name", "phone")
    assert len({laptop, plain, phone}) == 3
    assert pair("--name", "laptop") == laptop
    assert pair() == plain
    shown = json.loads(pair("--name", "phone", "--json"))
    assert shown == [{"pairing": phone, "name": "phone", "identity": "me"}]


def test_the_names_are_listed_without_their_lines(weft_here: Weft) -> None:
    listed = weft_here("pair", "--identity", "me", "--list")
    assert (listed.returncode, listed.stdout) == (0, "")
    assert "there are no names" in listed.stderr
    assert json.loads(weft_here("pair", "--identity", "me", "--list", "--json").stdout) == []
    for name in ("phone", "laptop"):
        weft_here("pair", "--identity", "me", "--name", name)
    listed = weft_here("pair", "--identity", "me", "--list")
    assert [line.strip() for line in listed.stdout.splitlines()] == ["name", "laptop", "phone"]
    named = weft_here("pair", "--identity", "me", "--list", "--json").stdout
    assert json.loads(named) == [{"name": "laptop"}, {"name": "phone"}]


def test_a_line_that_was_revoked_never_comes_back(weft_here: Weft) -> None:
    before = [weft_here("pair", "--identity", "me", "--name", name).stdout for name in ("laptop", "phone")]
    revoked = weft_here("pair", "--identity", "me", "--revoke", "laptop")
    assert (revoked.returncode, revoked.stdout) == (0, "")
    assert revoked.stderr == "the line of laptop is no longer valid\n"
    again = [weft_here("pair", "--identity", "me", "--name", name).stdout for name in ("laptop", "phone")]
    assert again[0] != before[0] and again[1] == before[1]


def test_a_new_identity_ends_the_lines_with_names_too(weft_here: Weft) -> None:
    before = weft_here("pair", "--identity", "me", "--name", "laptop").stdout
    new = weft_here("pair", "--identity", "me", "--new")
    assert new.stdout.startswith("weft1-")
    assert new.stderr == "the lines with names are no longer valid either: laptop\n"
    assert weft_here("pair", "--identity", "me", "--list").stdout == ""
    assert weft_here("pair", "--identity", "me", "--name", "laptop").stdout != before
    quiet = weft_here("pair", "--identity", "other", "--new")
    assert quiet.stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--name", "lap top"), '"lap top" cannot be a name: a name has 1 to 64 characters'),
        (("--name", ""), "--name NAME: the value is empty."),
        (("--name", "x" * 65), "cannot be a name"),
        (("--revoke", "tv"), "no pairing line has the name tv: the names are laptop, phone"),
        (("--revoke", "tv", "--identity", "none"), "this machine has no identity yet, and so no names (none)"),
        (("--name", "tv", "--new"), "--name and --new do not go together"),
        (("--name", "tv", "--revoke", "tv"), "--name and --revoke do not go together"),
        (("--list", "--new"), "--list and --new do not go together"),
    ],
)
def test_a_mistake_is_told_and_changes_nothing(
    weft_here: Weft, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    for name in ("laptop", "phone"):
        weft_here("pair", "--identity", "me", "--name", name)
    before = (tmp_path / "me").read_text()
    refused = weft_here("pair", *(words if "--identity" in words else ("--identity", "me", *words)))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert message in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
    assert (tmp_path / "me").read_text() == before
    assert [file.name for file in tmp_path.iterdir()] == ["me"]


def test_an_identity_without_names_is_read(weft_here: Weft, tmp_path: Path) -> None:
    line = weft_here("pair", "--identity", "me").stdout
    file = tmp_path / "me"
    assert sorted(json.loads(file.read_text())) == ["certificate", "key", "token"], "as it was before there were names"
    named = weft_here("pair", "--identity", "me", "--name", "laptop")
    assert named.returncode == 0
    assert weft_here("pair", "--identity", "me").stdout == line


def test_commands_at_the_same_time_lose_no_name(weft_here: Weft, tmp_path: Path) -> None:
    given = [f"client-{at}" for at in range(8)]
    script = 'read -r _; for at in 0 1 2 3 4 5 6 7 8 9; do "$1" pair --identity me --name "$2-$at"; done'
    words = ("sh", "-c", script, "sh", str(link_program.program()))
    started = [
        subprocess.Popen([*words, name], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for name in given
    ]
    for process in started:
        assert process.stdin
        process.stdin.close()
    assert [process.wait(timeout=60) for process in started] == [0] * len(given)
    listed = json.loads(weft_here("pair", "--identity", "me", "--list", "--json").stdout)
    assert [entry["name"] for entry in listed] == sorted(f"{name}-{at}" for name in given for at in range(10))


@pytest.mark.parametrize("where", ["environment", "standard input"])
def test_the_pairing_line_need_not_be_on_the_command_line(
    start: Start, line: str, folder: Path, tmp_path: Path, where: str
) -> None:
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
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
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    assert weft("send", folder, "--to", at).returncode == ended(receiver)[0] == 0


def test_a_stranger_gets_one_line(weft: Weft, start: Start, line: str, folder: Path) -> None:
    at = f"127.0.0.1:{port()}"
    start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    other = weft("pair", "--identity", "other").stdout.strip()
    wait_until((folder.parent / "inbox").exists)
    strange = weft("send", folder, "--to", at, "--pair", other)
    assert (strange.returncode, strange.stdout) == (1, "")
    assert strange.stderr.startswith(f"weft: {at} is not the machine that made this pairing line")
    assert strange.stderr.count("\n") == 1
    assert list((folder.parent / "inbox").iterdir()) == [folder.parent / "inbox" / PARTIAL]


@pytest.mark.parametrize("empty", ["<&-", "</dev/null"])
def test_a_line_that_does_not_come_on_standard_input_is_missed(tmp_path: Path, empty: str) -> None:
    command = f'"{sys.executable}" -m weftway send . --to 127.0.0.1:1 --pair - --switch {empty}'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("weft: --pair -: nothing came on standard input; give it the line that `weft pair`")
    assert done.stderr.count("\n") == 1


def test_an_identity_that_was_cut_off_is_named_with_what_to_do(weft_here: Weft, line: str, tmp_path: Path) -> None:
    whole = (tmp_path / "me").read_text()
    for text in ("", whole[: len(whole) // 2]):
        (tmp_path / "me").write_text(text)
        for words in ("pair --identity me", "pair --identity me --name phone", "relay --listen 0 --identity me"):
            run = weft_here(*words.split())
            assert (run.returncode, run.stdout) == (2, ""), words
            errors = run.stderr
            assert errors.startswith("weft: me: this file holds no identity") or f"{tmp_path}/me: " in errors, errors
            assert (
                "put a copy of it back, or make a new one with `weft pair --new`" in errors and errors.count("\n") == 1
            )
    assert weft_here("pair", "--identity", "me", "--new").returncode == 0
