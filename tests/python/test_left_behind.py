"""However a run over emulated links ends: no process, no namespace and no device is left of it."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import machine

LINKS = """\
title = "Two links"
[path.wifi]
rate = "10 Mbit/s"
[path.lte]
rate = "10 Mbit/s"
[workload]
kind = "bulk"
bytes = "1 MB"
"""

TREE = "sleep MARK & setsid sh -c 'sleep MARK & sleep MARK; true' & "
"""A child, a daemon, and a daemon's child."""

LISTENS = """\
import signal, socket, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
server = socket.create_server(("", 9))
time.sleep(1000)
"""

BEFORE_THE_END = "while ! test -e go; do sleep 0.02; done; "

pytestmark = machine.emulation


@contextmanager
def emulation(folder: Path, ending: str) -> Iterator[tuple[subprocess.Popen[str], str, list[int]]]:
    """A session with a tree of processes at either end: the command, their mark, and their namespaces, held open so
    that no other can have their numbers."""
    (folder / "links.toml").write_text(LINKS)
    mark = machine.marker()
    tree = TREE.replace("MARK", mark)
    # The client starts when the server listens.
    listens = shlex.join([sys.executable, "-c", LISTENS])
    server = shlex.join(["sh", "-c", tree + listens])
    words = ["links.toml", "--server", server, "--", "sh", "-c", tree + BEFORE_THE_END + ending]
    command = [*machine.WEFT, "emulate", *words]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)
    held: list[int] = []
    try:
        # Three sleep at either end.
        assert machine.soon(lambda: len(machine.processes(mark)) == 6), "the trees start"
        by_inode = {namespace(process): process for process in machine.processes(mark)}
        held += [os.open(process / "ns/net", os.O_RDONLY) for process in by_inode.values()]
        assert len(held) == 2
        assert namespace(Path("/proc/self")) not in by_inode
        for end in held:
            assert sorted(machine.devices(end)) == ["lo", "lte", "wifi"]
        yield process, mark, held
    finally:
        for end in held:
            os.close(end)
        process.kill()
        process.wait()


def namespace(process: Path) -> int:
    return (process / "ns/net").stat().st_ino


def nothing_is_left(mark: str, held: list[int]) -> None:
    assert machine.soon(lambda: not machine.processes(mark)), machine.processes(mark)
    for end in held:
        assert machine.soon(lambda end=end: not machine.members(end)), machine.members(end)  # type: ignore[misc]
        # Only our descriptor keeps it, and its devices went with those of the command.
        assert machine.devices(end) == ["lo"]


@pytest.mark.parametrize(("ending", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 128 + 9)])
def test_when_the_command_ends(tmp_path: Path, ending: str, status: int) -> None:
    with emulation(tmp_path, ending) as (process, mark, held):
        (tmp_path / "go").touch()
        assert process.wait(machine.SOON_S) == status
        nothing_is_left(mark, held)


def test_on_an_interrupt_of_the_terminal(tmp_path: Path) -> None:
    with emulation(tmp_path, "exit 0") as (process, mark, held):
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=machine.SOON_S)
        assert process.returncode == 130
        assert "weft: interrupted; nothing is left behind" in errors
        assert "Traceback" not in errors
        nothing_is_left(mark, held)


@pytest.mark.parametrize("deadly", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_when_the_emulator_is_killed(tmp_path: Path, deadly: signal.Signals) -> None:
    with emulation(tmp_path, "exit 0") as (process, mark, held):
        process.send_signal(deadly)
        assert process.wait(machine.SOON_S) == -deadly
        nothing_is_left(mark, held)


def test_when_the_second_command_cannot_be_started(tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    mark = machine.marker()
    server = shlex.join(["sh", "-c", TREE.replace("MARK", mark) + shlex.join([sys.executable, "-c", LISTENS])])
    command = [*machine.WEFT, "emulate", "links.toml", "--server", server, "--", "no-such-program"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "`no-such-program` cannot be started" in done.stderr
    assert not machine.processes(mark)
