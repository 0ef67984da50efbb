"""Arguments and options that several verbs have."""

from typing import Annotated

import typer

from weftway import backends


def _completed(kind: str, typed: str) -> list[str]:
    """The names of a kind that begin as what is typed, or as what follows its last comma."""
    from weftway import catalogue

    before, comma, last = typed.rpartition(",")
    every = (catalogue.short(entry) for entry in catalogue.matching(kind))
    return [f"{before}{comma}{name}" for name in every if name.startswith(last)]


def schedulers(incomplete: str) -> list[str]:
    """For the shell."""
    return _completed("scheduler", incomplete)


def controllers(incomplete: str) -> list[str]:
    """For the shell."""
    return _completed("controller", incomplete)


def scenarios(incomplete: str) -> list[str]:
    """For the shell."""
    return _completed("scenario", incomplete)


def distributions(incomplete: str) -> list[str]:
    """For the shell."""
    return _completed("distribution", incomplete)


def anything(incomplete: str) -> list[str]:
    """For the shell: what `weft list` takes."""
    from weftway import catalogue

    every = [*(f"{kind}s" for kind in catalogue.KINDS), *map(catalogue.short, catalogue.entries())]
    return [name for name in dict.fromkeys(every) if name.startswith(incomplete)]


SCENARIO = Annotated[
    str,
    typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of one of ours.", autocompletion=scenarios),
]
SETS = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replaces a key: path.lte.loss=2%. Repeatable.")
]
JSON = Annotated[bool, typer.Option("--json", help="Prints one JSON array on standard output.")]

BACKENDS = ", ".join(backends.BACKENDS)
"""As the help of an option lists them."""
