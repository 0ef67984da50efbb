"""`weft top` on a terminal: what is shown, and what keys do."""

import contextlib
import fcntl
import io
import os
import pty
import select
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import rich.screen
from rich.console import Console

import machine
from conftest import Weft
from ends import BOTH, Start, port, wait_until
from test_proxy import BODY, get, until_told, website
from test_status import PATH, clock, progress, runtime, seen
from weftway import transfer
from weftway.status import top
from weftway.status.local_socket import LocalSocket
from weftway.status.prompt import KEY, Prompt
from weftway.status.snapshot import Snapshots

__all__ = ["clock", "runtime", "website"]


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
            env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", "COLUMNS": "120", "LINES": "40"},
        )

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

    def ends(self) -> None:
        """It ends by itself, and leaves the terminal as it was."""
        wait_until(lambda: self._process.poll() is not None)
        assert self._process.returncode == 0 and termios.tcgetattr(self._slave) == self._before

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        os.close(self._slave)


@contextlib.contextmanager
def telling(program: str, **changes: Any) -> Iterator[LocalSocket]:
    """A program that tells the same again and again."""
    snapshot = Snapshots(program)(progress(**changes))
    assert snapshot
    with contextlib.closing(LocalSocket(program)) as told:
        is_over = threading.Event()

        def tell() -> None:
            while not is_over.wait(0.1):
                told.tell(snapshot)

        thread = threading.Thread(target=tell)
        thread.start()
        try:
            yield told
        finally:
            is_over.set()
            thread.join()


def test_it_is_shown_until_q_is_pressed(runtime: object) -> None:
    """A program that starts meanwhile is shown, and one that ends is not any more."""
    with contextlib.closing(Terminal()) as terminal:
        terminal.until_shown(top.NOTHING_RUNS)
        with telling("proxy"):
            terminal.until_shown("wlan0")
        terminal.until_shown(top.NOTHING_RUNS)
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
    assert {name: one["scheduler"] for name, one in shown.items()} == {"proxy": "round-robin", "relay": "blest"}
    assert get(local, "127.0.0.1", website) == (200, BODY)
    sent = [path["packets"] for one in seen(weft, proxy, relay).values() for path in one["paths"]]
    assert len(sent) == 2 and all(sent), "round-robin sends on both"


def typed(prompt: Prompt, keys: str) -> list[str]:
    """What is there after each key; what is complete has a dot."""
    return [prompt.text + "." if prompt.press(key) else prompt.text for key in KEY.findall(keys)]


def test_what_is_typed_is_completed_and_taken_back() -> None:
    prompt = Prompt(["ecf", "blest", "round-robin", "random"])
    assert typed(prompt, "\n") == [""]
    assert typed(prompt, "r\t\t\t") == ["r", "round-robin", "random", "round-robin"]
    assert typed(prompt, "\x7f\x7f") == ["round-robi", "round-rob"]
    assert typed(prompt, "\t\x1b[C\x1b[3~\x00\n") == ["round-robin"] * 4 + ["round-robin."]


def test_arrows_choose_a_program_that_has_a_scheduler() -> None:
    prompt = Prompt([])
    programs: list[dict[str, Any]] = [
        {"pid": 1, "scheduler": "ecf"},
        {"pid": 2, "scheduler": None},
        {"pid": 3, "scheduler": "late"},
    ]

    def chosen(keys: str) -> int | None:
        typed(prompt, keys)
        program = prompt.program(programs)
        return program["pid"] if program else None

    assert [chosen(keys) for keys in ("", "\x1b[B", "\x1b[B", "\x1b[A")] == [1, 3, 1, 3]
    assert prompt.program([programs[1]]) is None


def test_on_a_narrow_terminal_the_last_minute_gives_way() -> None:
    """What is told of a link is legible in 80 columns; of the minute the latest part is shown, which is its highest."""
    policy = {"tier": "secondary", "open": False, "left": 8_200_000_000}
    path = {**PATH, "path": "10.0.2.1", "mbps": 57.3, "minute": [1.0] * 58 + [57.0] * 2, "policy": policy}
    snapshot = Snapshots("proxy")(progress(paths=[path]))
    assert snapshot
    for width in (80, 120):
        console = Console(width=width, file=io.StringIO(), color_system=None)
        with console.capture() as shown:
            console.print(top.view({**snapshot, "paths": [path]}))
        words = next(line for line in shown.get().splitlines() if "10.0.2.1" in line)
        assert all(word in words for word in ("57.3", "█", "secondary", "8.2 GB", "closed")), words
        assert ("▁" * 20 in words) == (width == 120), words


@pytest.mark.parametrize(("height", "shown"), [(40, [8, 1]), (18, [4, 1]), (12, [0, 0]), (6, [0, 0])])
def test_what_keys_do_is_in_sight_however_low_the_terminal(height: int, shown: list[int]) -> None:
    """Fewer connections of each program are shown where not all fit."""
    flow = {"target": "example.org:443", "class": "bulk", "up": 9, "down": 20_000, "paths": []}
    snapshot = Snapshots("proxy")(progress())
    assert snapshot
    links = [{**PATH, "path": name, "mbps": 1.0, "minute": []} for name in ("wlan0", "wwan0")]
    some = {**snapshot, "paths": links, "notes": [], "drops": {}, "refusals": {}, "by_client": [], "last_packet": None}
    programs = [{**some, "busiest": [{**flow, "class": name}] * count} for name, count in (("bulk", 8), ("slow", 1))]
    console = Console(width=100, height=height, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(rich.screen.Screen(top.Screen(programs, None)))
    lines = captured.get().splitlines()
    assert len(lines) == height
    assert [sum(f" {name} " in line for line in lines) for name in ("bulk", "slow")] == shown
    assert any(line.startswith("q: end") for line in lines)


def test_one_of_them_has_no_s() -> None:
    assert [transfer.number_of(count, "client") for count in (0, 1, 2)] == ["0 clients", "1 client", "2 clients"]
