"""Programs that carry traffic go on whoever does not take their output, and lines are dropped whole and counted."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import machine
from ends import PATIENCE_S, port, wait_until
from test_proxy import BODY, get, website
from weftway import queued_output
from weftway.queued_output import QueuedOutput
from weftway.status.local_socket import Reader, folder
from weftway.status.watched import Lines

__all__ = ["website"]

PIPE = 4096
"""The least pipe that Linux makes."""
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def small_pipe() -> tuple[int, int]:
    read, written = os.pipe()
    fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, PIPE)
    return read, written


def read_all(file: int) -> Callable[[], str]:
    """Reads to the end in a thread: what came."""
    parts: list[bytes] = []

    def read() -> None:
        while part := os.read(file, 1 << 16):
            parts.append(part)

    thread = threading.Thread(target=read)
    thread.start()

    def came() -> str:
        thread.join(PATIENCE_S)
        return b"".join(parts).decode()

    return came


def test_beside_traffic_a_pipe_that_nobody_reads_takes_whole_lines_and_the_others_are_counted() -> None:
    read, written = small_pipe()
    stream = QueuedOutput(os.fdopen(written, "w"))
    with stream.beside_traffic():
        for number in range(10_000):
            stream.write(f"line {number:04}\n")
    # 100 kB were written. The queue holds 64 KiB, and so 6554 lines, the last of which only begins in it.
    assert 0 < stream.dropped <= 10_000 - 6554
    came = read_all(read)
    stream.finish(time.monotonic())
    stream.below.close()
    lines = came().splitlines()
    assert lines == [f"line {number:04}" for number in range(10_000 - stream.dropped)]


def test_after_traffic_a_reader_gets_a_result_that_is_longer_than_the_queue() -> None:
    read, written = small_pipe()
    stream = QueuedOutput(os.fdopen(written, "w"))
    came = read_all(read)
    result = [f"{number:09}" for number in range(50_000)]
    for line in result:
        stream.write(line + "\n")
    stream.finish(time.monotonic())
    stream.below.close()
    assert (came().splitlines(), stream.dropped) == (result, 0)


def test_the_end_waits_for_a_reader_that_takes_nothing_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued_output, "PATIENCE_S", 0.05)
    read, written = small_pipe()
    stream = QueuedOutput(os.fdopen(written, "w"))
    stream.write("x" * 100_000)
    stream.finish(time.monotonic())
    # Its patience is over once, and not again for each line.
    monkeypatch.setattr(queued_output, "PATIENCE_S", float("inf"))
    stream.write("y\n")
    assert stream.dropped == 1
    os.close(read)


def test_a_reader_that_went_away_is_no_error_before_the_end() -> None:
    read, written = os.pipe()
    os.close(read)
    stream = QueuedOutput(os.fdopen(written, "w"))
    stream.write("nobody reads this\n")
    wait_until(lambda: stream.error is not None)
    assert not stream.is_free and not stream.write_if_free("nor this\n")
    stream.write("nor this\n")
    assert stream.dropped == 3
    with pytest.raises(BrokenPipeError):
        stream.finish(time.monotonic())


@needs_full
def test_a_full_disk_is_an_error_at_the_end_only_where_the_last_line_is_missing() -> None:
    stream = QueuedOutput(FULL.open("w"))
    stream.write("no room\n")
    with pytest.raises(OSError, match="No space left"):
        stream.finish(time.monotonic())
    assert (stream.dropped, stream.is_free, stream.newly_dropped(), stream.newly_dropped()) == (1, True, 1, 0)
    kept = os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    assert kept == stream.fileno()
    stream.write("now there is\n")
    stream.finish(time.monotonic())
    assert stream.dropped == 1


def test_a_character_that_cannot_be_written_does_not_end_the_program() -> None:
    read, written = os.pipe()
    stream = QueuedOutput(os.fdopen(written, "w", encoding="ascii"))
    stream.write("ü\n")
    stream.finish(time.monotonic())
    assert os.read(read, 99) == b"\\xfc\n"


def test_of_json_that_nobody_reads_the_last_snapshot_is_kept_with_all_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    read, written = small_pipe()
    os.write(written, b"\n" * PIPE)
    stream = QueuedOutput(os.fdopen(written, "w"))
    monkeypatch.setattr(sys, "stdout", stream)
    lines = Lines()

    def snapshot(number: int) -> dict[str, Any]:
        return {"number": number, "notes": [f"note {number}"], "dropped_lines": queued_output.dropped_lines()}

    # The first waits for room in the pipe, and the next three for the first.
    for number in range(4):
        lines.tell(snapshot(number))
    assert stream.dropped == 3
    came = read_all(read)
    wait_until(lambda: stream.is_free)
    lines.tell(snapshot(4))
    stream.finish(time.monotonic())
    lines.close()
    stream.below.close()
    first, last = [json.loads(line) for line in came().splitlines() if line]
    assert (first["number"], first["notes"]) == (0, ["note 0"])
    assert last == {"number": 4, "notes": [f"note {number}" for number in (1, 2, 3, 4)], "dropped_lines": 3}


def test_programs_are_carried_whoever_does_not_take_the_output(line: str, website: int, tmp_path: Path) -> None:
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
        seen = Reader(folder() / f"relay-{relay.pid}.sock")
        while not ((snapshot := seen.read()) and snapshot["dropped_lines"]):
            pass
        seen.close()
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
