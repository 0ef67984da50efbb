"""`weft bench`."""

from typing import Annotated

import typer

from .options import JSON
from .output import out, print_json


def command(
    only: Annotated[
        str | None, typer.Option(metavar="PART,…", help="Of simulator, decisions, learned, environments.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Measures the simulator and the schedulers on this machine, in a checkout. All of it takes minutes."""
    from weftway import bench, plan

    figures = bench.measure(bench.PARTS if only is None else plan.names(only))
    if as_json:
        print_json([figures])
    else:
        out.print(*bench.tables(figures))
