"""`weft list`."""

from typing import Annotated

import typer

from weftway import catalogue, listing

from .options import JSON
from .output import out, print_json


def command(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[KIND|NAME]", help="schedulers, controllers, scenarios, …; or one thing, by its name."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Lists what can be run: all of it by name, a kind with a line each, or all about one thing."""
    found = catalogue.entries() if what is None else catalogue.matching(what)
    if as_json:
        print_json(found)
    elif what is None:
        out.print(listing.overview(found), "", listing.HINT, markup=False, sep="\n")
    elif catalogue.kind(what):
        out.print(listing.lines(f"{found[0]['kind']}s", found) if found else f"no {what}")
    else:
        for entry in found:
            out.print(listing.entry(entry), "")
