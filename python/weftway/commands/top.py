"""`weft top`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from weftway._native import ScenarioError
from weftway.exit_status import INTERRUPTED, RUN_FAILED

from .options import JSON
from .output import err, fail, out, print_json


def command(
    as_json: JSON = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Writes the last hour as a page that needs no network, and shows nothing."),
    ] = None,
) -> None:
    """Shows the links and connections of every `weft proxy`, `tunnel`, `relay` and `send` of this user on this machine.

    Keep it open on a terminal, press s to switch a program's scheduler and q to end it. Elsewhere it prints one table.
    """
    from weftway.status import top

    try:
        if page is not None:
            _write_page(page, as_json)
        elif as_json:
            print_json(top.once())
        elif out.is_terminal and sys.stdin.isatty():
            top.show(out)
        else:
            snapshots = top.once()
            if not snapshots:
                err.print(top.NOTHING_RUNS)
            for snapshot in snapshots:
                out.print(top.view(snapshot))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _write_page(file: Path, as_json: bool) -> None:
    from weftway.status import hour_page, top
    from weftway.store import whole

    if as_json:
        raise ScenarioError("either --json or --page FILE: a page is no JSON")
    snapshots = top.once(with_hour=True)
    if not snapshots:
        fail(top.NOTHING_RUNS, RUN_FAILED)
    with whole(file) as half:
        half.write_text(hour_page.page(snapshots), encoding="utf-8")
    err.print(f"written: {file}")
