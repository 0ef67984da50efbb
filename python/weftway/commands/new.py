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
    from weftway.scenario import source_tree

    if kind != "scheduler":
        raise ScenarioError(f"`weft new {kind}`: only `weft new scheduler NAME` is known")
    try:
        home = source_tree("`weft new scheduler`")
    except ScenarioError as error:
        raise ScenarioError(
            f"{error}. A rule in Python needs none: write a class with `select(self, cx)` into a file and name it, "
            "`weft compare wifi-lte --scheduler my_rules.py:MyRule`"
        ) from None
    for line in new.scheduler(name, home):
        out.print(line)
