"""Arguments and options that several verbs have."""

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from weftway._native import ScenarioError
from weftway.runs import backends


class Verb(TyperCommand):
    """A command whose options and arguments are never empty: `--out "$UNSET"` is a slip, and no path or name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given, rest, _ = self.make_parser(ctx).parse_args(list(args))
        params: list[Any] = self.params
        if (
            rest
            and not ctx.resilient_parsing
            and not ctx.allow_extra_args
            and any(p.name == "scenario" for p in params)
        ):
            raise ScenarioError(
                f"weft {ctx.info_name} takes one scenario, and `{rest[0]}` is one more: `weft sweep` runs several, "
                "`weft rank --on` ranks over several"
            )
        for param in params:
            if not ctx.resilient_parsing and is_empty(given.get(param.name)):
                raise ScenarioError(f"{_usage(param, ctx)}: the value is empty. {param.help or ''}".rstrip())
        return super().parse_args(ctx, args)


def is_empty(value: object) -> bool:
    """Says whether a text, or one of several, has nothing in it."""
    return not value.strip() if isinstance(value, str) else isinstance(value, list) and any(map(is_empty, value))


def _usage(param: Any, context: Any) -> str:
    """`--out DIR`, `SCENARIO`, or `--cc` where what it takes has no name."""
    words = [param.opts[0]] if param.param_type_name == "option" else []
    metavar = param.make_metavar(context)
    return " ".join(words if metavar.startswith("<") else [*words, metavar])


def _completed(kind: str, typed: str) -> list[str]:
    """The names of a kind, or the switches of one, that begin as what is typed, or as what follows its last comma."""
    from weftway.commands import catalogue

    before, comma, last = typed.rpartition(",")
    head, colon, _ = last.rpartition(":")
    every = catalogue.matching(kind)
    if colon:
        named = [entry for entry in every if head.partition(":")[0] in catalogue.names(entry)]
        given = {switch.partition("=")[0] for switch in head.split(":")[1:]}
        offered = [switch for entry in named for switch in catalogue.switches(entry)]
        candidates = [f"{head}:{switch}" for switch in offered if switch.partition("=")[0] not in given]
    else:
        candidates = [catalogue.short(entry) for entry in every]
    return [f"{before}{comma}{candidate}" for candidate in candidates if candidate.startswith(last)]


def _files(incomplete: str, *endings: str) -> list[str]:
    """The files with one of these endings that begin as what is typed, and the folders in which there may be some."""
    folder, slash, begun = incomplete.rpartition("/")
    named = f"{folder}{slash}"
    there = sorted(file for file in Path(named or ".").expanduser().glob("*") if file.name.startswith(begun))
    visible = [file for file in there if begun or not file.name.startswith(".")]
    folders = [f"{named}{file.name}/" for file in visible if file.is_dir()]
    files = [f"{named}{file.name}" for file in visible if file.suffix in endings and not file.is_dir()]
    if len(folders) == 1 and not files and begun:
        # A shell ends the word after the only answer: what is in the folder is told at once.
        return _files(folders[0], *endings) or [_as_word(folders[0])]
    return sorted(map(_as_word, (*folders, *files)))


def _as_word(text: str) -> str:
    """A text as bash takes it for one word. Other shells do that themselves."""
    in_bash = os.environ.get("_WEFT_COMPLETE") == "complete_bash"
    return re.sub(r"([\s'\"\\$&;()<>|*?`#!])", r"\\\1", text) if in_bash else text


def schedulers(incomplete: str) -> list[str]:
    """Completes schedulers for the shell: ours, the classes of a file, and policies."""
    before, comma, last = incomplete.rpartition(",")
    file, colon, _ = last.partition(".py:")
    if colon and Path(f"{file}.py").is_file():
        text = Path(f"{file}.py").read_text(encoding="utf-8", errors="replace")
        classes = [f"{file}.py:{name}" for name in re.findall(r"^class (\w+)", text, re.MULTILINE)]
        own = [candidate for candidate in classes if candidate.startswith(last)]
    else:
        own = _files(last, ".py", ".safetensors")
    return [*_completed("scheduler", incomplete), *(f"{before}{comma}{candidate}" for candidate in own)]


def controllers(incomplete: str) -> list[str]:
    """Completes controllers for the shell."""
    return _completed("controller", incomplete)


def scenarios(incomplete: str) -> list[str]:
    """Completes scenarios for the shell: ours, and files."""
    return [*_completed("scenario", incomplete), *_files(incomplete, ".toml")]


def distributions(incomplete: str) -> list[str]:
    """Completes distributions for the shell: ours, and files."""
    return [*_completed("distribution", incomplete), *_files(incomplete, ".toml")]


def worlds(incomplete: str) -> list[str]:
    """Completes for the shell what schedulers are ranked over."""
    return [*_completed("distribution", incomplete), *scenarios(incomplete)]


def grids(incomplete: str) -> list[str]:
    """Completes for the shell what `weft sweep` takes."""
    return [*_completed("sweep", incomplete), *scenarios(incomplete)]


def anything(incomplete: str) -> list[str]:
    """Completes for the shell what `weft list` takes."""
    from weftway.commands import catalogue

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

MOST_PACKETS = 1000
"""A larger initial window is a slip of the finger."""

WINDOWS = Annotated[
    str, typer.Option("--initial-window", metavar="N,…", help="Also runs with such initial windows, in packets: 16,32.")
]

BACKENDS = ", ".join(backends.BACKENDS)
"""Names of the backends, as the help of an option lists them."""


def packets(text: str) -> list[int]:
    """Initial windows in packets, each once."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := next((one for one in parts if not one.isdecimal() or not 0 < int(one) <= MOST_PACKETS), None):
        raise ScenarioError(f"initial window `{wrong}`: expected numbers of packets from 1 to {MOST_PACKETS}: 10,16,32")
    return list(dict.fromkeys(map(int, parts)))
