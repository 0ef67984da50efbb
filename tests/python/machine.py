"""Rights that this machine gives the tests, and leftovers of theirs on it."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pages
from weftway.commands import catalogue

emulation = pytest.mark.skipif(
    catalogue.lacking("emulate") is not None, reason=f"no emulated links here: {catalogue.lacking('emulate')}"
)
kernel = pytest.mark.skipif(
    catalogue.lacking("kernel") is not None, reason=f"no runs of the kernel here: {catalogue.lacking('kernel')}"
)

NIGHTLY = os.environ.get("WEFTWAY_TESTS") == "full"
"""Whether this is one of the runs at night, which look at more."""

TRIES = 3
"""A run that was late is repeated twice; then the machine is too busy, and the test is skipped."""

WEFT = (sys.executable, "-m", "weftway")

SOON_S = 60.0
"""What is to happen soon has happened by then, however busy the machine is."""

_markers = itertools.count(1)


def follow(page: Path, folder: Path) -> list[str]:
    """Runs the blocks of a page that need rights (`sh root`), in a folder of their own: what they print."""
    copy = folder / "page.md"
    copy.write_text(page.read_text().replace("```sh root", "```sh run"))
    place = folder / "place"
    place.mkdir()
    return [printed for _, printed, _ in pages.played(copy, place)]


def told(stderr: str) -> list[str]:
    """The lines of `stderr` without those of progress, which only a busy machine is slow enough to bring."""
    return [line for line in stderr.splitlines() if " runs finished after " not in line]


def powerless() -> list[str]:
    """Words to put before a command so that it runs without rights; nothing where there are none to give up."""
    if os.geteuid() != 0:
        if catalogue.lacking("emulate") is None:
            pytest.skip("an ordinary user may do everything here")
        return []
    words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    try:
        subprocess.run([*words, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"root's rights cannot be dropped here: {error}")
    return words


def marker() -> str:
    """A time to sleep that nobody else sleeps: 1000 s and a fraction of this process's and the call's own."""
    return f"1000.{os.getpid():07}{next(_markers):03}9"


def processes(word: str) -> list[Path]:
    """The processes that have `word` as an argument."""
    return [path for path in _all() if word.encode() in _arguments(path)]


def _all() -> Iterator[Path]:
    return (path for path in Path("/proc").iterdir() if path.name.isdigit())


def _arguments(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def members(namespace: int) -> list[str]:
    """The threads in the network namespace that a descriptor is of."""
    inode = os.fstat(namespace).st_ino
    threads = (thread for path in _all() for thread in _tasks(path))
    return [str(thread) for thread in threads if _inode(thread / "ns/net") == inode]


def _tasks(process: Path) -> list[Path]:
    try:
        return list((process / "task").iterdir())
    except OSError:
        return []


def _inode(file: Path) -> int | None:
    try:
        return file.stat().st_ino
    except OSError:
        return None


def devices(namespace: int) -> list[str]:
    """The network devices in the namespace that a descriptor is of."""
    visit = (
        "import ctypes, pathlib, sys\n"
        "assert ctypes.CDLL(None, use_errno=True).setns(int(sys.argv[1]), 0x40000000) == 0\n"
        "lines = pathlib.Path('/proc/self/net/dev').read_text().splitlines()[2:]\n"
        "print(*(line.split(':')[0].strip() for line in lines))\n"
    )
    command = [sys.executable, "-c", visit, str(namespace)]
    return subprocess.run(command, pass_fds=[namespace], capture_output=True, text=True, check=True).stdout.split()


def soon(what: Callable[[], bool]) -> bool:
    """Tells if it comes true within `SOON_S`."""
    end = time.monotonic() + SOON_S
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.01)
    return False
