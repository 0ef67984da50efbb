"""Programs that carry traffic go on whoever does not take their output, and lines are dropped whole and counted."""

import fcntl
import json
import os
import pty
import signal
import socket
import subprocess
import termios
from pathlib import Path

import pytest

import machine
from ends import PATIENCE_S, port
from test_proxy import BODY, get, website
from test_status import runtime

__all__ = ["runtime", "website"]

PIPE = 4096
"""The least pipe that Linux makes."""
FULL = Path("/dev/full")


def small_pipe() -> tuple[int, int]:
    read, written = os.pipe()
    fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, PIPE)
    return read, written


def until_lines_are_dropped(socket_of_program: Path) -> None:
    """Waits until a program tells whoever asks that nobody takes what it prints."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as reader:
        reader.settimeout(PATIENCE_S)
        reader.connect(str(socket_of_program))
        lines = reader.makefile()
        while not json.loads(lines.readline())["dropped_lines"]:
            pass


def test_programs_are_carried_whoever_does_not_take_the_output(
    line: str, website: int, tmp_path: Path, runtime: Path
) -> None:
    """A relay has a terminal after Ctrl-S, and JSON that nobody reads; the log of its proxy is on a full disk."""
    at, local = f"127.0.0.1:{port()}", port()
    read, written = small_pipe()
    os.write(written, b"\n" * PIPE)
    master, terminal = pty.openpty()
    termios.tcflow(terminal, termios.TCOOFF)
    words = ["relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8", "--json"]
    relay = subprocess.Popen([*machine.WEFT, *words], cwd=tmp_path, stdout=written, stderr=terminal)
    words = ["proxy", "--to", at, "--pair", line, "--listen", str(local), "--json"]
    with (FULL if FULL.exists() else Path(os.devnull)).open("w") as full:
        proxy = subprocess.Popen([*machine.WEFT, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=full, text=True)
    os.close(written)
    try:
        assert proxy.stdout
        while json.loads(proxy.stdout.readline())["state"] != "relaying":
            pass
        proxy.stdout.close()
        until_lines_are_dropped(runtime / "weftway" / f"relay-{relay.pid}.sock")
        assert get(local, "127.0.0.1", website) == (200, BODY)
        for process in (relay, proxy):
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
        assert [process.wait(PATIENCE_S) for process in (relay, proxy)] == [130, 130]
    finally:
        for process in (relay, proxy):
            process.kill()
            process.wait()
        for file in (read, master, terminal):
            os.close(file)


def test_a_result_on_a_full_disk_is_told(tmp_path: Path) -> None:
    if not FULL.exists():
        pytest.skip("this system has no /dev/full")
    with FULL.open("w") as full:
        words = [*machine.WEFT, "pair", "--identity", "me"]
        run = subprocess.run(words, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (run.returncode, run.stderr.splitlines()[-1]) == (1, "weft: standard output: No space left on device")


def test_results_that_nobody_reads_end_the_command_as_a_closed_pipe(tmp_path: Path) -> None:
    read, written = os.pipe()
    os.close(read)
    words = [*machine.WEFT, "pair", "--identity", "me"]
    run = subprocess.run(words, cwd=tmp_path, stdout=written, stderr=subprocess.PIPE, text=True, check=False)
    os.close(written)
    assert run.returncode == 141
