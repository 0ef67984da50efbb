"""`weft new`."""

from typing import Annotated

import typer

from weftway._native import ScenarioError

from .output import out


def command(
    kind: Annotated[str, typer.Argument(metavar="scheduler", help="What to begin.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: lower case, words joined by -.")],
) -> None:
    """Begins a scheduler in the source tree. Writes its file, its line in the registry and its vectors."""
    from weftway import new
    from weftway.scenario import HOME

    if kind != "scheduler":
        raise ScenarioError(f"`weft new {kind}`: only `weft new scheduler NAME` is known")
    for line in new.scheduler(name, HOME):
        out.print(line)
