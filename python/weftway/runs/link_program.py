"""The program weft-link: its verbs carry real traffic, and `weft` hands them over to it.

It needs no Python. A checkout builds it with the first use of such a verb; the wheel `weftway-link` brings it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from weftway._native import ScenarioError

VARIABLE = "WEFT_LINK"
"""The environment names another program with it, for tests."""

NAME = "weft-link"

VERBS = {
    "pair": "Prints the line with which another machine connects to this one.",
    "send": "Sends a file or a directory over several links.",
    "recv": "Receives what `weft send` sends.",
    "relay": "Connects the programs of `weft proxy`, `tunnel` and `pipe` on other machines.",
    "proxy": "Carries the connections of programs over several links.",
    "pipe": "Carries live video or any datagrams over several links, in a given time.",
    "tunnel": "Carries all traffic of this machine over several links. Linux, root.",
    "top": "Shows links and connections of what runs on this machine.",
    "service": "Prints a systemd unit that runs a proxy, a relay, a tunnel or a pipe.",
    "record": "Measures several links at once; writes a drive and a scenario.",
}
"""Verbs of the program, and what `weft --help` says of each."""


def program() -> Path:
    """The program, which is built first where this is a checkout. ScenarioError: it is not installed."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    root = Path(__file__).resolve().parents[3]
    setup = root / ".ci" / "setup.sh"
    if setup.exists():
        build = 'root=$1; . "$root/.ci/setup.sh"; build_link; echo "$link"'
        built = subprocess.run(["sh", "-eu", "-c", build, "sh", root], stdout=subprocess.PIPE, text=True, check=False)
        if built.returncode != 0:
            raise SystemExit(built.returncode)
        return Path(built.stdout.strip())
    program = shutil.which(NAME, path=str(Path(sys.executable).parent)) or shutil.which(NAME)
    if program is None:
        raise ScenarioError("the program weft-link is not installed: pip install 'weftway[link]'")
    return Path(program)


def hand_over(words: Sequence[str]) -> NoReturn:
    """Lets the program take this process over; it calls itself `weft`."""
    file = program()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(file, ["weft", *words])


def answer(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs the program to its end and returns its standard output; what it says goes to standard error."""
    return subprocess.run(["weft", *words], executable=program(), stdout=subprocess.PIPE, text=True, check=False)
