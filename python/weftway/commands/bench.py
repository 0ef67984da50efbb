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
    as_json: JSON = False,
) -> None:
    """Measures the speed of simulator and schedulers on this machine, in a checkout. Takes minutes."""
    from weftway import bench, plan

    figures = bench.measure(bench.PARTS if only is None else plan.names(only))
    if as_json:
        print_json([figures])
    else:
        out.print(*bench.tables(figures))
