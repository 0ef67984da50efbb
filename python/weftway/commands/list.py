"""`weft list`."""

from typing import Annotated, Any

import typer

from weftway._native import ScenarioError
from weftway.commands import catalogue
from weftway.report import papers
from weftway.terminal import listing

from .options import JSON, anything
from .output import out, print_json, write


def command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND|NAME]",
            help="schedulers, controllers, scenarios, …; or the name of one entry.",
            autocompletion=anything,
        ),
    ] = None,
    as_json: JSON = False,
    bibtex: Annotated[
        bool, typer.Option("--bibtex", help="The papers to cite for schedulers and controllers, as BibTeX.")
    ] = False,
    gate: Annotated[
        bool, typer.Option("--gate", help="Schedulers that run inside noq, and why the others do not.")
    ] = False,
) -> None:
    """Lists schedulers, controllers, scenarios and more, or describes one of them."""
    entries = catalogue.entries() if what is None else catalogue.matching(what)
    if bibtex:
        write("\n".join(_papers(entries, what)))
        return
    if gate:
        entries = catalogue.gated(entries)
    if as_json:
        print_json(entries)
    elif gate:
        out.print(listing.gated(entries))
    elif what is None:
        out.print(listing.overview(entries), "", listing.HINT, sep="\n")
    elif catalogue.kind(what):
        out.print(listing.lines(f"{entries[0]['kind']}s", entries) if entries else f"no {what}")
    else:
        for entry in entries:
            out.print(listing.entry(entry), "")


def _papers(records: list[dict[str, Any]], what: str | None) -> list[str]:
    """The entries for all that is found, each once, by the order of the list."""
    entries = dict.fromkeys(text for record in records for text in papers.bibtex(record["name"]))
    if not entries:
        raise ScenarioError(f"`{what}` has no paper; schedulers and controllers have: `weft list ecf --bibtex`")
    return list(entries)
