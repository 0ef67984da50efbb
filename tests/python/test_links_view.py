"""The view of the links that `weft emulate` shows in the lowest rows of a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import machine
from weftway.links.links_view import Minute, table
from weftway.terminal.fixed_rows import FixedRows

ROWS, COLUMNS = 20, 90


def moment(at_s: float, *links: tuple[int, int, int]) -> dict[str, Any]:
    """Links `a`, `b`, … of each of which so many bytes were delivered, packets wait, and packets were dropped."""
    named = zip("abc", links, strict=False)
    return {
        "at_s": at_s,
        "links": [
            {"link": name, "delivered_bytes": bytes_, "waiting": waiting, "dropped": dropped, "lost": 0}
            for name, (bytes_, waiting, dropped) in named
        ],
    }


def test_rates_are_of_a_second_and_queues_the_most_in_it() -> None:
    minute = Minute()
    assert not minute.add(moment(0.0)), "no answer yet"
    assert not minute.add(moment(0.1, (1000, 3, 0)))
    assert not minute.add(moment(0.6, (1000, 40, 2)))
    assert minute.add(moment(1.6, (751_000, 7, 5)))
    (link,) = minute.links
    # 750 kB in a second and a half.
    assert (link["mbps"], link["most_waiting"], link["dropped"]) == (pytest.approx(4.0), 40, 5)
    assert minute.add(moment(2.6, (751_000, 1, 5)))
    assert (minute.links[0]["mbps"], minute.links[0]["most_waiting"]) == (0.0, 1)
    assert minute.links[0]["minute"] == [pytest.approx(4.0), 0.0]
    for second in range(100):
        minute.add(moment(3.6 + second, (751_000, 0, 5)))
    assert minute.links[0]["minute"] == [0.0] * 60


def test_the_table_has_a_line_for_each_link_and_bars_of_one_scale() -> None:
    minute = Minute()
    for second in range(3):
        minute.add(moment(second, (second * 1_000_000, 0, 0), (second * 500_000, 0, 0), (0, 12, 3)))
    console = Console(width=COLUMNS)
    with console.capture() as text:
        console.print(table(minute.links, 2))
    head, *rows = [line.split() for line in text.get().splitlines()]
    assert head == ["link", "Mbit/s", "waiting", "packets", "dropped", "lost", "last", "minute"]
    assert rows == [["a", "8.0", "0", "0", "0", "█"], ["b", "4.0", "0", "0", "0", "▅"]], "two of the three have room"


class Terminal:
    """A terminal with a program in it, or without one."""

    def __init__(self, *words: str | Path, folder: Path) -> None:
        self.end, inner = pty.openpty()
        self.resize(ROWS)
        self.process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", "COLUMNS": str(COLUMNS)},
        )
        os.close(inner)
        self.text = ""

    def resize(self, rows: int) -> None:
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))

    def read_until(self, wanted: str) -> str:
        """Text that was written up to `wanted`, a regular expression, or to the end."""
        deadline = time.monotonic() + 60
        while not re.search(wanted, self.text):
            assert time.monotonic() < deadline, self.text
            if select.select([self.end], [], [], 1)[0]:
                try:
                    self.text += os.read(self.end, 65536).decode(errors="replace")
                except OSError:  # it has ended
                    break
        return self.text

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.end)


def test_rows_are_set_apart_written_and_given_back() -> None:
    end, inner = pty.openpty()

    def resize(rows: int) -> None:
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))

    def written() -> str:
        return os.read(end, 4096).decode()

    with os.fdopen(inner, "w") as stream:
        resize(ROWS)
        fixed = FixedRows(stream)
        assert fixed.room() == ROWS // 2
        fixed.show(["one", "two"])
        # The cursor moves up by as many rows as are not free below it; what scrolls ends above them.
        apart = "\x1bD\x1bD\x1b[2A\x1b7\x1b[1;18r\x1b8"
        assert written() == f"{apart}\x1b7\x1b[19;1H\x1b[2Kone\x1b[20;1H\x1b[2Ktwo\x1b8"
        fixed.show(["1", "2"])
        assert written() == "\x1b7\x1b[19;1H\x1b[2K1\x1b[20;1H\x1b[2K2\x1b8"
        # In a terminal that has grown they are given back where they were.
        resize(30)
        fixed.show(["3", "4"])
        apart = "\x1b7\x1b[r\x1b[19;1H\x1b[J\x1b8\x1bD\x1bD\x1b[2A\x1b7\x1b[1;28r\x1b8"
        assert written().startswith(apart)
        fixed.close()
        assert written() == "\x1b7\x1b[r\x1b[29;1H\x1b[J\x1b8"
        resize(8)
        assert fixed.room() == 2
        fixed.close()
    os.close(end)


SHOWS = """\
import sys, time
from weftway.terminal.fixed_rows import FixedRows
with FixedRows(sys.stderr) as rows:
    rows.show(["shown"])
    time.sleep(60)
"""


def test_a_program_that_is_asked_to_end_gives_the_rows_back(tmp_path: Path) -> None:
    terminal = Terminal(sys.executable, "-c", SHOWS, folder=tmp_path)
    terminal.read_until("shown")
    terminal.process.send_signal(signal.SIGTERM)
    screen = terminal.read_until("\x1b\\[r")
    assert "\x1b[r" in screen
    assert terminal.process.wait(timeout=60) == -signal.SIGTERM
    terminal.close()


LINKS = """\
title = "Two links"
[path.wifi]
rate = "20 Mbit/s"
delay = "5 ms"
[path.lte]
rate = "5 Mbit/s"
delay = "5 ms"
[workload]
kind = "bulk"
bytes = "1 MB"
"""

ANSWERS = "echo begin; sleep 60"


@machine.emulation
def test_the_links_are_shown_on_a_terminal_and_an_interrupt_ends_as_before(tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    words = [*machine.WEFT, "emulate", "links.toml", "--no-log", "--", "sh", "-c", ANSWERS]
    terminal = Terminal(*words, folder=tmp_path)
    terminal.read_until("begin")
    screen = terminal.read_until("lte.down")
    assert f"\x1b[1;{ROWS - 6}r" in screen, "a rule, a head and four links"
    assert all(name in screen for name in ("begin", "last minute", "wifi.up", "wifi.down", "lte.up"))
    terminal.process.send_signal(signal.SIGINT)
    screen = terminal.read_until("nothing is left behind")
    assert screen.index("\x1b[r") < screen.index("weft: interrupted; nothing is left behind")
    assert terminal.process.wait(timeout=60) == 130
    terminal.close()


@machine.emulation
@pytest.mark.parametrize("words", [[], ["--no-view"]])
def test_nothing_is_shown_elsewhere(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    command = [*machine.WEFT, "emulate", "links.toml", "--no-log", *words, "--", "sh", "-c", "sleep 3; echo end"]
    if words:
        terminal = Terminal(*command, folder=tmp_path)
        screen = terminal.read_until("what went over each link")
        terminal.close()
    else:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        screen = done.stdout + done.stderr
    assert "end" in screen and "last minute" not in screen and "\x1b7" not in screen
