"""`weft top`."""

import sys

import typer

from .options import JSON
from .output import INTERRUPTED, err, out, print_json


def command(as_json: JSON = False) -> None:
    """Shows the links and connections of every `weft proxy`, `tunnel`, `relay` and `send` of this user on this machine.

    Keep it open on a terminal, and press q to end it. Elsewhere it prints one table.
    """
    from weftway.status import top

    try:
        if as_json:
            print_json(top.once())
        elif out.is_terminal and sys.stdin.isatty():
            top.show(out)
        else:
            snapshots = top.once()
            if not snapshots:
                err.print(top.NOTHING_RUNS, markup=False)
            for snapshot in snapshots:
                out.print(top.view(snapshot))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
