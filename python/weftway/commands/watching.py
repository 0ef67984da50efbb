"""What `weft proxy`, `weft relay` and `weft send` have for those who watch them."""

from typing import TYPE_CHECKING, Annotated

import typer

from .output import err

if TYPE_CHECKING:
    from weftway.status.watched import Watched

METRICS = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDR:]PORT",
        help="Answers Prometheus here, for example at 9464; ADDR is 127.0.0.1 unless it is named.",
    ),
]
JSON_LINES = Annotated[
    bool, typer.Option("--json", help="Prints what is going on as JSON, a line a second (docs/how-to/see.md).")
]


def watched(program: str, metrics: str | None = None, as_json: bool = False) -> "Watched":
    """A running program that its user sees, and whoever else may."""
    from weftway.status.watched import Watched

    return Watched(program, err, as_json=as_json, metrics=metrics)
