"""`weft bench`."""

from typing import Annotated

import typer

from .options import JSON
from .output import out, print_json


def command(
    only: Annotated[
        str | None,
        typer.Option(metavar="PART,…", help="Parts to measure: simulator, decisions, learned, environments."),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Measures nothing: shows what was measured here, by commit.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Measures the speed of simulator and schedulers on this machine, in a checkout. Takes minutes."""
    from weftway.runs import bench, plan

    if history:
        noted = bench.history()
        if as_json:
            print_json(noted)
        else:
            out.print(bench.history_table(noted))
        return
    figures = bench.measure(bench.PARTS if only is None else plan.names(only))
    if as_json:
        print_json([figures])
    else:
        for table in bench.tables(figures):
            out.print(table, "")
