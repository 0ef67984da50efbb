"""`weft top` on a terminal: what is shown, and what keys do."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from pathlib import Path
from typing import Any

import machine
from conftest import Weft
from ends import BOTH, Start, port, wait_until
from test_proxy import BODY, get, until_told, website
from test_status import PATH, PROGRESS, Program, runtime, seen

__all__ = ["runtime", "website"]

NOTHING_RUNS = "no weft proxy, relay, tunnel or send of this user runs on this machine"
LINK = {**PATH, "mbps": 1.5, "minute": [0.0, 1.5]}
HEAD: dict[str, Any] = {"program": "proxy", "pid": 7, "notes": [], "dropped_lines": 0, "scheduler": "min-rtt"}
SNAPSHOT: dict[str, Any] = {**PROGRESS, **HEAD, "paths": [LINK]}


class Terminal:
    """`weft top` on a terminal of its own."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self._before = termios.tcgetattr(self._slave)
        self._process = subprocess.Popen(
            [*machine.WEFT, "top"],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            preexec_fn=self._control,
            env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", "COLUMNS": "120", "LINES": "40"},
        )

    def _control(self) -> None:
        """Keys as Ctrl-C are for the process that has the terminal."""
        os.setsid()
        fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)

    def until_shown(self, *words: str) -> None:
        """Waits until all `words` are drawn anew."""
        shown = ""

        def is_shown() -> bool:
            nonlocal shown
            if select.select([self._master], [], [], 0.05)[0]:
                shown += os.read(self._master, 1 << 16).decode(errors="replace")
            return all(word in shown for word in words)

        wait_until(is_shown)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def ends(self, status: int = 0) -> None:
        """It ends by itself, and leaves the terminal as it was."""
        wait_until(lambda: self._process.poll() is not None)
        assert self._process.returncode == status and termios.tcgetattr(self._slave) == self._before

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        os.close(self._slave)


def test_it_is_shown_until_q_is_pressed(runtime: Path) -> None:
    """A program that starts meanwhile is shown, and one that ends is not any more."""
    with contextlib.closing(Terminal()) as terminal:
        terminal.until_shown(NOTHING_RUNS)
        with contextlib.closing(Program(runtime, SNAPSHOT)):
            terminal.until_shown("wlan0")
        terminal.until_shown(NOTHING_RUNS)
        terminal.press("s")
        terminal.until_shown("no program is here that has a scheduler")
        terminal.press("\x1b")
        terminal.until_shown("q: end")
        terminal.press("q")
        terminal.ends()


def test_a_scheduler_is_switched_by_keys(weft: Weft, start: Start, runtime: object, line: str, website: int) -> None:
    """Of a proxy and of its relay, each for what it sends; a name that nobody has is told in one line."""
    at, local = f"127.0.0.1:{port()}", port()
    relay = start("relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8")
    proxy = start("proxy", "--to", at, "--pair", line, *BOTH, "--listen", str(local))
    until_told(proxy, "connected to the relay")
    with contextlib.closing(Terminal()) as terminal:
        terminal.until_shown("weft proxy at", "weft relay at", "scheduler min-rtt")
        terminal.press("s")
        terminal.until_shown("scheduler of weft proxy")
        terminal.press("nobody\n")
        terminal.until_shown("min-rtt goes on")
        terminal.press("sround-r\t\n")
        terminal.until_shown("round-robin schedules from now on")
        terminal.press("s\x1b[B")
        terminal.until_shown("scheduler of weft relay")
        terminal.press("blest\n")
        terminal.until_shown("blest schedules from now on")
        terminal.press("q")
        terminal.ends()
    assert "round-robin schedules from now on" in until_told(proxy, "round-robin")
    shown = seen(weft, proxy, relay)
    assert {name: program["scheduler"] for name, program in shown.items()} == {"proxy": "round-robin", "relay": "blest"}
    assert get(local, "127.0.0.1", website) == (200, BODY)
    sent = [path["packets"] for program in seen(weft, proxy, relay).values() for path in program["paths"]]
    assert len(sent) == 2 and all(sent), "round-robin sends on both"


def test_it_ends_with_an_interrupt_and_leaves_the_terminal_as_it_was(runtime: Path) -> None:
    with contextlib.closing(Terminal()) as terminal:
        terminal.until_shown("q: end")
        terminal.press("\x03")
        terminal.ends(130)


def test_what_is_typed_is_asked_of_the_program_that_is_meant(runtime: Path) -> None:
    second = {**SNAPSHOT, "program": "relay", "pid": 8}
    with (
        contextlib.closing(Program(runtime, SNAPSHOT)) as proxy,
        contextlib.closing(Program(runtime, second)) as relay,
        contextlib.closing(Terminal()) as terminal,
    ):
        terminal.until_shown("weft proxy", "weft relay")
        terminal.press("sround-r\t")
        terminal.until_shown("scheduler of weft proxy (7): round-robin")
        terminal.press("\x1b[B")
        terminal.until_shown("scheduler of weft relay (8): round-robin")
        terminal.press("\n")
        wait_until(lambda: relay.asked == [{"scheduler": "round-robin"}])
        assert proxy.asked == []


def test_a_page_is_no_json_and_needs_a_program(weft: Weft, runtime: Path, tmp_path: Path) -> None:
    both = weft("top", "--json", "--page", "hour.html")
    assert (both.returncode, both.stderr) == (2, "weft: either --json or --page FILE: a page is no JSON\n")
    nothing = weft("top", "--page", "hour.html")
    assert nothing.returncode == 1 and "no weft proxy" in nothing.stderr
    assert not (tmp_path / "hour.html").exists()
