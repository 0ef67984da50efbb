"""Options that `weft compare` and `weft run` have for backend `live`."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

PAIR_VARIABLE = "WEFT_PAIR"
"""Environment variable for the pairing line: other users of the machine can read a command line."""

PEER = Annotated[
    str | None,
    typer.Option(metavar="HOST[:PORT]", help="For backend live: the machine where weft recv --measure listens."),
]
PAIR = Annotated[
    str | None, typer.Option(metavar="LINE|FILE|-", help="What weft pair printed there, or WEFT_PAIR has it.")
]
PATHS = Annotated[
    list[str] | None,
    typer.Option("--path", metavar="IFACE|ADDR", help="A link of this machine, one for each path of the scenario."),
]


def meet(peer: str | None, pair: str | None, paths: list[str] | None) -> None:
    """Tells the backend where its transfers go."""
    from weftway._native import ScenarioError
    from weftway.runs import backends
    from weftway.runs.backends.live import Peer

    if peer is None:
        if pair or paths:
            raise ScenarioError("--pair and --path go with --peer HOST")
        backends.LIVE.peer = None
        return
    line = _pairing(pair or os.environ.get(PAIR_VARIABLE))
    if not line:
        raise ScenarioError("--peer needs --pair LINE: `weft pair` prints it on the machine that listens")
    backends.LIVE.peer = Peer(peer, line, tuple(paths or ()))


def _pairing(given: str | None) -> str | None:
    """A pairing line: `given` itself, the first line of standard input if it is `-`, or the file of this name."""
    from weftway.files import reading

    if not given or given.startswith("weft1-"):
        return given
    return (sys.stdin.readline() if given == "-" else reading.text(Path(given))).strip()
