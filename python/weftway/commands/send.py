"""`weft send`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from weftway._native import ScenarioError
from weftway.interrupts import ended_by_signals

from .options import JSON, WIRE_CC, controllers, schedulers
from .output import fail, print_json
from .pair import IDENTITY
from .recv import LINKS, LISTEN, PAIR, RESUMABLE, finish, other_end, print_summary
from .watching import watched


def command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file or a directory.")],
    to: Annotated[str | None, typer.Option(metavar="HOST[:PORT]", help="Where `weft recv` listens.")] = None,
    listen: LISTEN = None,
    pair: PAIR = None,
    local: LINKS = None,
    scheduler: Annotated[
        str, typer.Option(metavar="S", help="The scheduler: `weft list`.", autocompletion=schedulers)
    ] = "earliest-delivery",
    cc: Annotated[
        str, typer.Option(metavar="C", help="The congestion controller: `weft list`.", autocompletion=controllers)
    ] = WIRE_CC,
    switch: Annotated[
        bool, typer.Option("--switch", help="Reads schedulers from standard input; each takes over at once.")
    ] = False,
    identity: IDENTITY = None,
    checksum: Annotated[
        bool,
        typer.Option(
            "--checksum", help="Compares the contents of files that are there, and not only their sizes and times."
        ),
    ] = False,
    qlog: Annotated[Path | None, typer.Option(metavar="FILE", help="Writes a qlog file (JSON-SEQ, .sqlog).")] = None,
    as_json: JSON = False,
) -> None:
    """Sends a file or a directory over several links to a machine with `weft recv`.

    The same command again goes on where an earlier one was stopped.
    """
    from weftway import transfer

    if (to is None) == (listen is None):
        raise ScenarioError("weft send needs either --to HOST:PORT or --listen ADDR")
    other = other_end(to, listen, pair, identity, "--to")
    typed = transfer.Lines(sys.stdin) if switch else list
    try:
        with ended_by_signals(), watched("send") as program:
            report = transfer.run(
                "send",
                path,
                other,
                paths=local or [],
                scheduler=scheduler,
                cc=cc,
                watch=program.tell,
                switch=lambda: [*typed(), *program.schedulers()],
                qlog=qlog,
                checksum=checksum,
            )
    except transfer.InterruptedAtEndError as end:
        report = end.report
    except KeyboardInterrupt:
        fail(*RESUMABLE)
    finish(report, (lambda report: print_json([report])) if as_json else print_summary)
