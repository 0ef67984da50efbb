"""Transfers that end early: the data that is kept, and a file that has its name."""

import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import machine
from conftest import Weft
from ends import BOTH, PARTIAL, Narrow, Start, ended, partial, port, same, wait_until


@pytest.mark.parametrize("victim", ["sender", "receiver"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_was_ended_goes_on_where_it_was(
    start: Start, narrow: Narrow, line: str, tmp_path: Path, victim: str, how: signal.Signals
) -> None:
    size, file, inbox = 60_000_000, tmp_path / "big", tmp_path / "inbox"
    file.write_bytes(random.Random(2).randbytes(size))
    at = f"127.0.0.1:{port()}"
    receive = ("recv", "inbox", "--once", "--listen", at, "--identity", "me", "--json")
    send = ("send", file, "--pair", line, *BOTH, "--json", "--to")
    receiver, sender = start(*receive), start(*send, narrow(at).address)
    wait_until(lambda: partial(inbox) > 10_000_000)
    (sender if victim == "sender" else receiver).send_signal(how)
    if victim == "receiver":
        status, _, complaints = ended(receiver)
        assert status == (130 if how == signal.SIGINT else -how), complaints
        # What the sender finds out by silence takes as long as a connection may be idle: the user ends it.
        sender.kill()
        sender.wait()
        receiver = start(*receive)
    else:
        assert ended(sender)[0] == (130 if how == signal.SIGINT else -how)
    assert not (inbox / "big").exists()
    kept = partial(inbox)
    status, output, complaints = ended(start(*send, at))
    assert (status, ended(receiver)[0]) == (0, 0), complaints
    assert file.read_bytes() == (inbox / "big").read_bytes()
    assert json.loads(output)[0]["sent_bytes"] <= size - kept + 1
    assert not (inbox / PARTIAL).exists()


@pytest.mark.parametrize("who", ["receiver", "sender"])
def test_a_listening_end_that_is_killed_and_started_again_is_found_again(
    start: Start, narrow: Narrow, line: str, tmp_path: Path, who: str
) -> None:
    """Nobody runs the command of the other end again."""
    size, file, inbox = 60_000_000, tmp_path / "big", tmp_path / "inbox"
    file.write_bytes(random.Random(9).randbytes(size))
    at = f"127.0.0.1:{port()}"
    way = narrow(at)
    listen, connect = ("--listen", at, "--identity", "me"), (way.address, "--pair", line, *BOTH)
    if who == "receiver":
        listens: tuple[str | Path, ...] = ("recv", inbox, "--once", *listen)
        connects: tuple[str | Path, ...] = ("send", file, "--to", *connect)
    else:
        listens, connects = ("send", file, *listen), ("recv", inbox, "--from", *connect)
    first = start(*listens, "--json")
    other = start(*connects, "--json")
    wait_until(lambda: partial(inbox) > 10_000_000)
    first.kill()
    first.wait()
    way.open()
    again = start(*listens, "--json")
    status, output, complaints = ended(other)
    assert (status, ended(again)[0]) == (0, 0), complaints
    # By a reset, mostly; on a busy machine by silence.
    assert "the connection was lost (" in complaints and "); connecting again" in complaints
    assert file.read_bytes() == (inbox / "big").read_bytes()
    assert json.loads(output.strip("[]\n"))["sent_bytes"] < size - 10_000_000


def test_what_arrives_is_private_until_it_is_complete(start: Start, narrow: Narrow, line: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    (secret / "key").write_bytes(random.Random(7).randbytes(60_000_000))
    (secret / "key").chmod(0o600)
    inbox, at = tmp_path / "inbox", f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    sender = start("send", "secret", "--to", narrow(at).address, "--pair", line)
    wait_until(lambda: partial(inbox) > 1_000_000)
    sender.kill()
    receiver.kill()
    receiver.wait()
    (part,) = (inbox / PARTIAL).glob("*.part")
    modes = [path.stat().st_mode & 0o777 for path in (inbox / PARTIAL, part, inbox / "secret")]
    assert modes == [0o700, 0o600, 0o700]


def test_contents_are_compared_if_the_user_says_so(weft: Weft, start: Start, line: str, folder: Path) -> None:
    at = f"127.0.0.1:{port()}"
    there = folder.parent / "inbox" / "photos" / "2024" / "a"

    def send(*options: str) -> int:
        receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
        sent = weft("send", folder, "--to", at, "--pair", line, "--json", *options)
        assert (sent.returncode, ended(receiver)[0]) == (0, 0), sent.stderr
        travelled: int = json.loads(sent.stdout)[0]["sent_bytes"]
        return travelled

    assert send() == 3_000_005
    # A byte changes, and neither size nor time.
    times = there.stat()
    with there.open("r+b") as file:
        file.seek(1_500_000)
        file.write(b"\0\0")
    os.utime(there, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert send() == 0 and not same(folder, folder.parent / "inbox" / "photos")
    assert send("--checksum") == 3_000_000 and same(folder, folder.parent / "inbox" / "photos")
    # The time changes, and no byte.
    os.utime(there, (0, 0))
    assert send("--checksum") == 0
    assert there.stat().st_mtime_ns == (folder / "2024" / "a").stat().st_mtime_ns


@pytest.mark.parametrize("syncs", [True, False])
def test_a_file_is_on_the_disk_before_it_has_its_name(
    weft: Weft, start: Start, line: str, folder: Path, syncs: bool
) -> None:
    calls = folder.parent / "calls"
    trace = ["strace", "-f", "-e", "trace=/fdatasync|fsync|syncfs|rename", "-o", str(calls)]
    if shutil.which("strace") is None or subprocess.run([*trace, "true"], capture_output=True).returncode:
        pytest.skip("strace cannot be used here")
    at = f"127.0.0.1:{port()}"
    words = ["recv", "inbox", "--once", "--listen", at, "--identity", "me", *([] if syncs else ["--no-sync"])]
    receiver = subprocess.Popen([*trace, *machine.WEFT, *words], cwd=folder.parent, stderr=subprocess.PIPE, text=True)
    try:
        sent = weft("send", folder, "--to", at, "--pair", line)
        assert (sent.returncode, ended(receiver)[0]) == (0, 0), sent.stderr
    finally:
        receiver.kill()
    lines = [line for line in calls.read_text().splitlines() if "(" in line]
    # Python gives names, too: to what it compiles.
    made = [line.split("(")[0].split()[-1] for line in lines if ".part" in line or "rename" not in line]
    names = [at for at, call in enumerate(made) if call.startswith("rename")]
    assert len(names) == 3
    if syncs:
        # Two files have bytes, and three folders have names.
        assert made.count("fdatasync") == 2 and made.index("fdatasync") < names[-1]
        assert made[names[-1] :].count("fsync") == 3
    else:
        assert len(made) == 3


def test_old_partial_files_are_removed_and_told(weft: Weft, start: Start, line: str, folder: Path) -> None:
    old = folder.parent / "inbox" / PARTIAL / "0123.part"
    old.parent.mkdir(parents=True)
    old.write_text("12345")
    os.utime(old, (0, 0))
    at = f"127.0.0.1:{port()}"
    receiver = start("recv", "inbox", "--once", "--listen", at, "--identity", "me")
    assert weft("send", folder, "--to", at, "--pair", line).returncode == 0
    status, _, complaints = ended(receiver)
    assert (status, old.exists()) == (0, False)
    assert "removed 1 partial file of earlier transfers, 5 bytes" in complaints
