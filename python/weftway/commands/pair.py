"""`weft pair`."""

from pathlib import Path
from typing import Annotated

import typer

from .options import JSON
from .output import out, print_json

IDENTITY = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="This machine's identity. Default: weftway/identity.json in ~/.config."),
]


def command(
    identity: IDENTITY = None,
    new: Annotated[bool, typer.Option("--new", help="A new identity: older lines are no longer valid.")] = False,
    as_json: JSON = False,
) -> None:
    """Prints the line with which another machine connects to this one. Keep it secret: it holds the access token.

    Run it on the machine that listens; give the line to `weft send --pair` or `weft recv --pair` on the other.
    """
    from weftway import transfer

    file = identity or transfer.identity_file()
    line = transfer.pair(file, new=new)
    if as_json:
        print_json([{"pairing": line, "identity": str(file)}])
    else:
        out.print(line, soft_wrap=True)
