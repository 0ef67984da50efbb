"""Options of a command in a file: `--config weft.toml`.

The file has a table for each command, whose keys are the command's own long options: there is no second list of them.
"""

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from weftway import reading
from weftway._native import ScenarioError

from .options import is_empty

TABLES = ("proxy", "relay", "tunnel", "recv")
"""The commands that take a file; each has its table."""

NOT_HERE = ("config", "help")


def _read(context: typer.Context, file: Path | None) -> Path | None:
    """Takes the options of the file over as defaults: those of the command line count before them."""
    if file is not None and not context.resilient_parsing:
        context.default_map = options(context, file)
    return file


CONFIG = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Takes options from this command's table in a TOML file; those given here count before them "
        "(docs/how-to/service.md).",
        is_eager=True,
        callback=_read,
    ),
]


def options(context: typer.Context, file: Path) -> dict[str, Any]:
    """The values of the command's table, by the names of its parameters."""
    # `weft service proxy` checks the options of `weft proxy`.
    program = (context.info_name or "").rpartition(" ")[2]
    table = _table(file, program)
    known = _known(context)
    found = {}
    for key, value in table.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f": its keys are {', '.join(sorted(known))}"
            raise ScenarioError(f"{file}: [{program}] {key}: weft {program} has no such option{hint}")
        found[str(known[key].name)] = _value(f"{file}: [{program}] {key}", known[key], value)
    return found


def _table(file: Path, program: str) -> dict[str, Any]:
    try:
        tables = tomllib.loads(reading.text(file))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{file}: {error}") from None
    for name, table in tables.items():
        if name not in TABLES:
            raise ScenarioError(f"{file}: [{name}]: the tables are {', '.join(f'[{one}]' for one in TABLES)}")
        if not isinstance(table, dict):
            raise ScenarioError(f"{file}: {name}: options stand in the table of their command, as in [{name}]")
    if program not in tables:
        raise ScenarioError(f"{file} has no table [{program}]")
    return dict(tables[program])


def _known(context: typer.Context) -> dict[str, Any]:
    """The options of the command, by their long names without dashes."""
    return {
        long: option
        for option in context.command.params
        for long in (name.removeprefix("--") for name in option.opts if name.startswith("--"))
        if long not in NOT_HERE
    }


def _value(where: str, option: Any, value: Any) -> Any:
    """A value as the command line would have it, or why it makes no sense."""
    if getattr(option, "is_flag", False):
        if isinstance(value, bool):
            return value
        raise ScenarioError(f"{where}: it is true or false")
    texts = value if isinstance(value, list) and option.multiple else [value]
    if not all(isinstance(text, str | int) and not isinstance(text, bool) for text in texts):
        many = ', or several: ["…", "…"]' if option.multiple else ""
        raise ScenarioError(f'{where}: it is a text, "…"{many}')
    if any(map(is_empty, texts)):
        raise ScenarioError(f"{where}: the value is empty. {option.help or ''}".rstrip())
    return list(map(str, texts)) if option.multiple else str(value)
