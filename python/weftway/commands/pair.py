"""`weft pair`."""

from pathlib import Path
from typing import Annotated

import typer

from weftway._native import ScenarioError

from .options import JSON
from .output import err, out, print_json

IDENTITY = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="This machine's identity. Default: weftway/identity.json in ~/.config."),
]


def command(
    identity: IDENTITY = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A line for one client, for example laptop. It is made if there is none."),
    ] = None,
    revoke: Annotated[
        str | None, typer.Option(metavar="NAME", help="The line of this client is no longer valid.")
    ] = None,
    list_names: Annotated[bool, typer.Option("--list", help="Shows the names of clients, not their lines.")] = False,
    new: Annotated[
        bool, typer.Option("--new", help="A new identity: no older line is valid any more, with a name or without.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Prints the line with which another machine connects to this one. Keep it secret: it holds the access token.

    Run it on the machine that listens; give the line to `weft send`, `weft recv` or `weft proxy` --pair on the other.
    """
    from weftway import identity as identities

    file = identity or identities.identity_file()
    given = {"--name": name is not None, "--revoke": revoke is not None, "--list": list_names, "--new": new}
    chosen = [option for option, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise ScenarioError(f"{chosen[0]} and {chosen[1]} do not go together: each is a command of its own")
    if list_names:
        _print_names(identities.names(file), as_json)
    elif revoke is not None:
        identities.revoke(file, revoke)
        if as_json:
            print_json([{"revoked": revoke, "identity": str(file)}])
        else:
            err.print(f"the line of {revoke} is no longer valid")
    else:
        gone = identities.names_if_readable(file) if new else []
        _print_line(identities.pair(file, name, new=new), name, file, as_json)
        if gone:
            err.print(f"the lines with names are no longer valid either: {', '.join(gone)}")


def _print_line(line: str, name: str | None, file: Path, as_json: bool) -> None:
    if as_json:
        of_client = {} if name is None else {"name": name}
        print_json([{"pairing": line, **of_client, "identity": str(file)}])
    else:
        out.print(line, soft_wrap=True)


def _print_names(names: list[str], as_json: bool) -> None:
    from weftway.listing import plain_table

    if as_json:
        print_json([{"name": name} for name in names])
    elif names:
        table = plain_table(None)
        table.add_column("name")
        for name in names:
            table.add_row(name)
        out.print(table)
    else:
        err.print("there are no names: `weft pair --name laptop` makes a line for one client")
