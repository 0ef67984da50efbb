"""Arguments and options that several verbs have."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from weftway import backends
from weftway._native import ScenarioError


class Verb(TyperCommand):
    """A command whose options and arguments are never empty: `--out "$UNSET"` is a slip, and no path or name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, _, _ = self.make_parser(ctx).parse_args(list(args))
        params: list[Any] = self.params
        for one in params:
            if not ctx.resilient_parsing and is_empty(given.get(one.name)):
                raise ScenarioError(f"{_usage(one, ctx)}: the value is empty. {one.help or ''}".rstrip())
        return super().parse_args(ctx, args)


def is_empty(value: object) -> bool:
    """Whether a text, or one of several, has nothing in it."""
    return not value.strip() if isinstance(value, str) else isinstance(value, list) and any(map(is_empty, value))


def _usage(one: Any, context: Any) -> str:
    """`--out DIR`, `SCENARIO`, or `--cc` where what it takes has no name."""
    words = [one.opts[0]] if one.param_type_name == "option" else []
    metavar = one.make_metavar(context)
    return " ".join(words if metavar.startswith("<") else [*words, metavar])


def _completed(kind: str, typed: str) -> list[str]:
    """The names of a kind, or the switches of one, that begin as what is typed, or as what follows its last comma."""
    from weftway import catalogue

    before, comma, last = typed.rpartition(",")
    head, colon, _ = last.rpartition(":")
    every = catalogue.matching(kind)
    if colon:
        named = [entry for entry in every if head.partition(":")[0] in catalogue.names(entry)]
        given = {switch.partition("=")[0] for switch in head.split(":")[1:]}
        offered = [switch for entry in named for switch in catalogue.switches(entry)]
        found = [f"{head}:{switch}" for switch in offered if switch.partition("=")[0] not in given]
    else:
        found = [catalogue.short(entry) for entry in every]
    return [f"{before}{comma}{one}" for one in found if one.startswith(last)]


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


def worlds(incomplete: str) -> list[str]:
    """For the shell: what schedulers are ranked over."""
    return [*distributions(incomplete), *scenarios(incomplete)]


def grids(incomplete: str) -> list[str]:
    """For the shell: what `weft sweep` takes."""
    return [*_completed("sweep", incomplete), *scenarios(incomplete)]


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
MOST = 1_000_000
"""More of anything that is counted is a slip of the finger."""

MOST_JOBS = 1024
JOBS = Annotated[
    int | None,
    typer.Option("--jobs", min=1, max=MOST_JOBS, metavar="N", help="Number of threads. Default: all cores."),
]
JSON = Annotated[bool, typer.Option("--json", help="Prints one JSON array on standard output.")]

BACKENDS = ", ".join(backends.BACKENDS)
"""As the help of an option lists them."""
