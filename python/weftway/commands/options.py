"""Arguments and options that several verbs have."""

from typing import Annotated

import typer

from weftway import backends

SCENARIO = Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of one of ours.")]
SETS = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replaces a key: path.lte.loss=2%. Repeatable.")
]
JSON = Annotated[bool, typer.Option("--json", help="One JSON array on standard output, and nothing else there.")]

BACKENDS = ", ".join(backends.BACKENDS)
"""As the help of an option lists them."""
