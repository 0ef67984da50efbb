"""Reference pages of the command, of the Python package and of the crates, from what each says of itself.

Python files are read and not imported, so that what is optional need not be installed.
"""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import weftway
from weftway.markdown import cell
from weftway.runs import link_program

PACKAGE = Path(weftway.__file__).parent

COMMAND = """\
# The command `weft`

`weft` has these commands and options; `weft COMMAND -h` prints the same.

Results go to standard output, everything else to standard error. The exit status is 0 if it worked, 1 if a run failed,
2 if the input was bad, and 130 after an interrupt. [Install it, and complete its words](../how-to/install.md).
"""

CARRYING = """\
# Verbs that carry real traffic

They are those of [`weft-link`](../how-to/router.md), a program that needs no Python; `weft` hands them over to it.
"""

PYTHON = """\
# The Python package `weftway`

It runs scenarios, and has environments for agents and the classes that a scheduler in Python sees.
"""

CRATES = """\
# The Rust crates

Each crate with what it is for.

In a checkout, `cargo doc --workspace --no-deps --open` shows the reference of every crate.
[How they depend on one another](../../ARCHITECTURE.md#the-crates) ·
[Write a scheduler in Rust](../how-to/rust-scheduler.md) · [Run one inside a noq application](../how-to/noq.md)

| crate | what it is |
|---|---|
"""

CALLS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("weftway", "calls.py", ("compare", "run", "export")),
    ("weftway.results", "results.py", ("Results",)),
    ("weftway.metrics", "metrics.py", ("summary",)),
    ("weftway.evaluate", "evaluate.py", ("evaluate",)),
    ("weftway.env", "env.py", ("PacketEnv", "IntervalEnv", "WeftwayVectorEnv", "sb3_vec_env")),
    ("weftway.vector", "vector.py", ("VectorEnv",)),
    ("weftway.state", "state.py", ()),
    ("weftway.learn.own_env", "learn/own_env.py", ("Observe", "Reward")),
    ("weftway.agent", "agent.py", ("Agent", "state_of")),
    ("weftway.report", "report/__init__.py", ("figures",)),
)
"""Described parts: module, file, and names; without names the module's own docstring."""

SEEN = ("Context", "Path", "Packet", "Flow", "Event", "Ahead", "Repeat", "Recall")
"""Classes that a scheduler in Python is given, and those that it may answer with."""


def commands() -> str:
    """The page of the command."""
    from typer.main import get_command

    from weftway.cli import app

    group: Any = get_command(app)
    # What completes the shell's words is not there on every machine.
    parts = [COMMAND, _table([one for one in group.params if "completion" not in one.name])]
    for name, command in verbs(group):
        if name in link_program.VERBS:
            continue
        arguments = " ".join(
            one.metavar or one.name.upper() for one in command.params if one.param_type_name == "argument"
        )
        parts += [
            f"## `weft {name}{' ' if arguments else ''}{arguments}`",
            "",
            inspect.cleandoc(command.help or ""),
            "",
        ]
        parts.append(_table(command.params))
    program = link_program.answer(["reference"])
    return "\n".join([*parts, CARRYING, program.stdout])


def verbs(group: Any) -> Iterator[tuple[str, Any]]:
    """All commands below a group, those of its groups with two words each."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {verb}", one) for verb, one in verbs(command))
        else:
            yield name, command


def _table(params: list[Any]) -> str:
    """A line for each argument and option."""
    lines = [f"| `{cell(_spelled(one))}` | {cell(_meaning(one))} |" for one in params if not one.hidden]
    return "\n".join(["| option | meaning |", "|---|---|", *lines, ""]) if lines else ""


def _spelled(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    words = ", ".join([*param.opts, *param.secondary_opts])
    takes = "" if param.is_flag or param.count else f" {param.metavar or param.type.name.upper()}"
    return f"{words}{takes}"


def _meaning(param: Any) -> str:
    told = " ".join((param.help or "").split())
    is_told = param.default in (None, False, True, ()) or callable(param.default) or "efault" in told
    return told if is_told or param.required else f"{told} Default: {param.default}."


def crates(folder: Path) -> str:
    """The page of the crates, which are in `folder`."""
    lines = []
    for file in sorted(folder.glob("*/Cargo.toml")):
        package = tomllib.loads(file.read_text(encoding="utf-8"))["package"]
        told = package["description"].removeprefix("Weftway: ")
        lines.append(f"| [`{package['name']}`](../../crates/{file.parent.name}) | {cell(told)} |\n")
    return CRATES + "".join(lines)


def calls() -> str:
    """The page of the package."""
    parts = [PYTHON]
    for module, file, names in CALLS:
        tree = ast.parse((PACKAGE / file).read_text())
        parts += [f"## `{module}`", ""]
        if not names:
            parts += [_text(tree), ""]
        for name in names:
            parts += list(_described(tree, name))
    parts += ["## What a scheduler in Python sees and returns", ""]
    parts += [
        "[How to write one](../how-to/python-scheduler.md). Each class is `weftway.NAME`, or the type of a field.",
        "",
    ]
    tree = ast.parse((PACKAGE / "_native.pyi").read_text())
    for name in SEEN:
        parts += list(_described(tree, name))
    return "\n".join(parts)


def _described(tree: ast.Module, name: str) -> Iterator[str]:
    """A function, a class with its fields, or a name with the text below it."""
    for node, after in pairwise([*tree.body, ast.Pass()]):
        match node:
            case ast.FunctionDef() if node.name == name:
                yield from (f"### `{name}({_arguments(node.args)})`", "", _text(node), "")
            case ast.ClassDef() if node.name == name:
                made = next(
                    (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None
                )
                given = f"({_arguments(made.args)})" if made else ""
                yield from (f"### `{name}{given}`", "", _text(node), "", *_fields(node))
            case ast.Assign(targets=[ast.Name(id=found)]) if found == name:
                yield from (f"### `{name}`", "", _below(after), "")


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """Described fields and methods of a class."""
    lines = []
    for one, after in pairwise([*node.body, ast.Pass()]):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and (told := _below(after)):
            lines.append(
                f"| `{one.target.id}` | `{cell(ast.unparse(one.annotation))}` | {cell(' '.join(told.split()))} |"
            )
        elif isinstance(one, ast.FunctionDef) and not one.name.startswith("_") and (told := _text(one)):
            first = told.split("\n\n")[0]
            lines.append(f"| `{one.name}({_arguments(one.args)})` | | {cell(' '.join(first.split()))} |")
    if lines:
        yield from ("| name | type | meaning |", "|---|---|---|", *lines, "")


def _arguments(args: ast.arguments) -> str:
    """Names with their defaults, without types: these are in the source, and an editor shows them."""
    plain = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    shown = [
        _argument(one, default) for one, default in zip(plain, defaults, strict=True) if one.arg not in ("self", "cls")
    ]
    if args.kwonlyargs:
        shown.append("*")
        shown += [_argument(one, default) for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return ", ".join(shown)


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    return one.arg if default is None else f"{one.arg}={ast.unparse(default)}"


def _text(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    """The docstring; its headings are below those of the page, and its examples are code."""
    text = re.sub(r"^(#+ )", r"##\1", ast.get_docstring(node) or "", flags=re.MULTILINE)
    return re.sub(r"((?:^>>> .*\n?(?:^(?!>>>)\S.*\n?)*)+)", r"```python\n\1\n```\n", text, flags=re.MULTILINE)


def _below(node: ast.stmt) -> str:
    """The text that stands below a name."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""
