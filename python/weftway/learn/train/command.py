"""`weft train`: an algorithm's settings as options, read from its dataclass.

Every field of `Args` is an option, its docstring the help; a field that an algorithm gives another value keeps the
docstring of the class it comes from.
"""

import argparse
import ast
import difflib
import inspect
import os
import sys
import textwrap
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from weftway._native import ScenarioError
from weftway.learn.train import ALGORITHMS, ALIASES, FOR_COMPLETION, REPLACED, limits
from weftway.learn.train.picture import draw
from weftway.terminal.exit_status import BAD_INPUT, INTERRUPTED
from weftway.terminal.progress import Bar

USAGE = (
    "weft train ALGORITHM [--help] [--quick] [--out DIR] [--resume] …\n\n"
    f"Algorithms: {', '.join(ALGORITHMS)}.\n"
    f"With --objective completion the networks of {', '.join(FOR_COMPLETION)} are trained for the time until data have "
    "arrived, not for the reward that their papers print."
)

OBJECTIVES = ("printed", "completion")
"""Objectives that a network can be trained for."""


RESULTS = ("*.safetensors", "*.jsonl")
"""Files of a training that has begun: its policies, its learning curve."""


class _Parser(argparse.ArgumentParser):
    """A parser whose mistakes are those of the command `weft`."""

    def error(self, message: str) -> NoReturn:
        raise ScenarioError(f"{self.prog}: {message}; --help lists what there is")


def module(algorithm: str, objective: str = "printed") -> Any:
    """The file of an algorithm, or of the one that replaces its objective.

    JAX keeps to one thread, unless it was told otherwise: equal seeds, equal bytes.
    """
    if algorithm not in ALGORITHMS:
        near = difflib.get_close_matches(algorithm, ALGORITHMS, n=1)
        own = "; one of your own is trained as examples/ppo.py does it"
        hint = f"did you mean `{near[0]}`?" if near else f"there is {', '.join(ALGORITHMS)}{own}"
        raise ScenarioError(f"no algorithm `{algorithm}`; {hint}")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    try:
        return import_module(ALGORITHMS[algorithm] if objective == "printed" else REPLACED)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("weftway"):
            raise
        raise ScenarioError(f"training needs `{error.name}`: pip install 'weftway[train]'") from None


def documented(args: type) -> dict[str, str]:
    """The docstring of every field, by its name."""
    docs: dict[str, str] = {}
    for class_ in reversed(args.__mro__[:-1]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(class_))).body
        body = getattr(tree, "body", [])
        for field, after in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                match after:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        docs[field.target.id] = " ".join(text.split())
    return docs


def parser(program: str, args: type, fixed: Container[str] = ()) -> argparse.ArgumentParser:
    """The options of a program that trains, from the dataclass of its settings; what is `fixed` is no option."""
    made = _Parser(prog=program, allow_abbrev=False, description=inspect.getdoc(args))
    help_, hints, stated_limits = documented(args), get_type_hints(args), limits.limits(args)
    for field in (field for field in fields(args) if field.name not in fixed):
        option, text = f"--{field.name.replace('_', '-')}", help_.get(field.name, "").replace("%", "%%")
        add = partial(made.add_argument, option, dest=field.name, default=argparse.SUPPRESS)
        if hints[field.name] is bool:
            add(action=argparse.BooleanOptionalAction if field.default is True else "store_true", help=text)
            continue
        usual = "" if field.default in (MISSING, None, "") else f" [{field.default}]"
        stated = f" Takes {stated_limits[field.name]}." if field.name in stated_limits else ""
        kind = hints[field.name] if hints[field.name] in (int, float, str) else Path
        name = kind.__name__.upper() if kind is not Path else "DIR"
        add(type=partial(_read, kind), metavar=name, help=text + stated.replace("%", "%%") + usual)
    return made


def _read(kind: type, text: str) -> Any:
    """The value; what cannot be one stays text, of which `limits.check` says what was expected."""
    if kind is Path and not text.strip():
        raise argparse.ArgumentTypeError("the value is empty")
    try:
        return kind(text)
    except ValueError:
        return text


def settings(algorithm: str, args: type, options: Sequence[str], **fixed: str) -> Any:
    """Settings from the options and from `fixed`; the folder has a name in any case."""
    made = parser(f"weft train {algorithm}", args, fixed)
    if algorithm in FOR_COMPLETION:
        made.add_argument("--objective", choices=OBJECTIVES, default=argparse.SUPPRESS, help=OBJECTIVE)
    given = args(**vars(made.parse_args(list(options))), **fixed)
    return given if given.out is not None else replace(given, out=Path(f"{algorithm}-{given.seed}"))


OBJECTIVE = (
    "What the network is trained for: the reward that its paper prints, or the time until data have arrived, which has "
    "settings of its own. [printed]"
)


def objective(algorithm: str, options: Sequence[str]) -> tuple[str, list[str]]:
    """The objective that the options name, and the other options."""
    picked = _Parser(prog=f"weft train {algorithm}", allow_abbrev=False, add_help=False)
    picked.add_argument("--objective", choices=OBJECTIVES, default="printed")
    known, others = picked.parse_known_args(list(options))
    if known.objective == "completion" and algorithm not in FOR_COMPLETION:
        raise ScenarioError(f"--objective completion: not for `{algorithm}`; there is {', '.join(FOR_COMPLETION)}")
    return known.objective, others


@contextmanager
def failures(program: str, interrupted: str) -> Iterator[None]:
    """A mistake, and an interrupt, is one line and the status that `weft` has for it."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"{program}: {interrupted}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except (ScenarioError, limits.SettingError, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def keep(folder: Path, args: Any) -> None:
    """Refuses a folder that has an earlier training, unless that is to go on."""
    resumes = getattr(args, "resume", None)
    earlier = [] if resumes else sorted(file.name for kind in RESULTS for file in folder.glob(kind))
    if earlier:
        message = f"--out {folder}: an earlier training is there ({', '.join(earlier)})"
        other = "" if resumes is None else ", or go on with it by --resume"
        raise ScenarioError(f"{message}; name another folder{other}")


def run(algorithm: str, options: Sequence[str], bar: Bar) -> Any:
    """Trains as the options say, and tells the bar how far it is; what `train` of the algorithm returns."""
    algorithm = ALIASES.get(algorithm, algorithm)
    wanted, options = objective(algorithm, options) if algorithm in ALGORITHMS else ("printed", options)
    algorithm_ = module(algorithm, wanted)
    fixed = {"scheduler": algorithm} if wanted == "completion" else {}
    try:
        args = settings(algorithm, algorithm_.Args, options, **fixed)
        keep(args.out, args)
        bar.unit = args.UNIT
        trained = algorithm_.train(args, bar.tell)
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    if points := getattr(trained, "curve", None):
        draw(points, args.command(), args.out / f"{algorithm}.svg")
    return trained


def wants_usage(algorithm: str | None) -> bool:
    """Returns whether nothing but help is asked for."""
    return algorithm is None or algorithm in ("--help", "-h")


def lines(trained: Any) -> list[str]:
    """Lines that report a training: its last measurement and its policy, or its own lines if it has some."""
    if hasattr(trained, "lines"):
        return list(trained.lines())
    report = [trained.policy.card["evaluation"]]
    return [*report, f"policy in {trained.file}, learning curve (.jsonl, .svg) beside it"] if trained.file else report
