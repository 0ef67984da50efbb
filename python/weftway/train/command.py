"""`weft train`: an algorithm's settings as options, read from its dataclass.

Every field of `Args` is an option, its docstring the help; a field that an algorithm gives another value keeps the
docstring of the class it comes from.
"""

import argparse
import ast
import difflib
import inspect
import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, replace
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from weftway._native import ScenarioError
from weftway.train import ALGORITHMS, ALIASES, limits
from weftway.train.picture import draw

USAGE = f"weft train ALGORITHM [--help] [--quick] [--out DIR] [--resume] …\n\nAlgorithms: {', '.join(ALGORITHMS)}."


RESULTS = ("*.safetensors", "*.jsonl")
"""Files of a training that has begun: its policies, its learning curve."""


class _Parser(argparse.ArgumentParser):
    """A parser whose mistakes are those of the command `weft`."""

    def error(self, message: str) -> NoReturn:
        raise ScenarioError(f"{self.prog}: {message}; --help lists what there is")


def module(algorithm: str) -> Any:
    """The file of an algorithm. JAX keeps to one thread, unless it was told otherwise: equal seeds, equal bytes."""
    if algorithm not in ALGORITHMS:
        near = difflib.get_close_matches(algorithm, ALGORITHMS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"there is {', '.join(ALGORITHMS)}"
        raise ScenarioError(f"no algorithm `{algorithm}`; {hint}")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    try:
        return import_module(ALGORITHMS[algorithm])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("weftway"):
            raise
        raise ScenarioError(f"training needs `{error.name}`: pip install 'weftway[train]'") from None


def documented(args: type) -> dict[str, str]:
    """The docstring of every field, by its name."""
    found: dict[str, str] = {}
    for one in reversed(args.__mro__[:-1]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        body = getattr(tree, "body", [])
        for field, after in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        found[field.target.id] = " ".join(text.split())
    return found


def parser(program: str, args: type) -> argparse.ArgumentParser:
    """The options of a program that trains, from the dataclass of its settings."""
    made = _Parser(prog=program, allow_abbrev=False, description=inspect.getdoc(args))
    help_, hints, stated_limits = documented(args), get_type_hints(args), limits.limits(args)
    for field in fields(args):
        option, said = f"--{field.name.replace('_', '-')}", help_.get(field.name, "").replace("%", "%%")
        add = partial(made.add_argument, option, dest=field.name, default=argparse.SUPPRESS)
        if hints[field.name] is bool:
            add(action=argparse.BooleanOptionalAction if field.default is True else "store_true", help=said)
            continue
        usual = "" if field.default in (MISSING, None, "") else f" [{field.default}]"
        stated = f" Takes {stated_limits[field.name]}." if field.name in stated_limits else ""
        kind = hints[field.name] if hints[field.name] in (int, float, str) else Path
        name = kind.__name__.upper() if kind is not Path else "DIR"
        add(type=partial(_read, kind), metavar=name, help=said + stated.replace("%", "%%") + usual)
    return made


def _read(kind: type, text: str) -> Any:
    """The value; what cannot be one stays text, of which `limits.check` says what was expected."""
    try:
        return kind(text)
    except ValueError:
        return text


def settings(algorithm: str, args: type, options: Sequence[str]) -> Any:
    """What the options say; the folder has a name in any case."""
    given = args(**vars(parser(f"weft train {algorithm}", args).parse_args(list(options))))
    return given if given.out is not None else replace(given, out=Path(f"{algorithm}-{given.seed}"))


def keep(folder: Path, resume: bool) -> None:
    """Refuses a folder that has an earlier training, unless that is to go on."""
    earlier = [] if resume else sorted(file.name for kind in RESULTS for file in folder.glob(kind))
    if earlier:
        told = f"--out {folder}: an earlier training is there ({', '.join(earlier)})"
        raise ScenarioError(f"{told}; name another folder, or go on with it by --resume")


def run(algorithm: str, options: Sequence[str], progress: Callable[[int, int], None]) -> Any:
    """Trains as the options say; what `train` of the algorithm returns."""
    algorithm = ALIASES.get(algorithm, algorithm)
    algorithm_ = module(algorithm)
    try:
        args = settings(algorithm, algorithm_.Args, options)
        keep(args.out, args.resume)
        trained = algorithm_.train(args, progress)
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    if points := getattr(trained, "curve", None):
        draw(points, args.command(), args.out / f"{algorithm}.svg")
    return trained


def wants_usage(algorithm: str | None) -> bool:
    """Whether nothing but help is asked for."""
    return algorithm is None or algorithm in ("--help", "-h")


def lines(trained: Any) -> list[str]:
    """What is told of a training: its last measurement, its policy; or what it has to say itself."""
    if hasattr(trained, "lines"):
        return list(trained.lines())
    told = [trained.policy.card["evaluation"]]
    return [*told, f"policy in {trained.file}, learning curve (.jsonl, .svg) beside it"] if trained.file else told
