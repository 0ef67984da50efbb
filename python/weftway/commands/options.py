"""Arguments and options that several verbs have."""

from typing import Annotated

import typer

from weftway import backends

SCENARIO = Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of one of ours.")]
SETS = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replaces a key: path.lte.loss=2%. Repeatable.")
]
JSON = Annotated[bool, typer.Option("--json", help="Prints one JSON array on standard output.")]

BACKENDS = ", ".join(backends.BACKENDS)
"""As the help of an option lists them."""
