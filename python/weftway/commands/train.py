"""`weft train`. The options are those of the algorithm: `weftway.learn.train.command` reads them from its dataclass."""

import sys
from contextlib import nullcontext, redirect_stdout
from typing import Annotated

import typer

from weftway.terminal.exit_status import INTERRUPTED

from .output import err, fail, out


def command(
    context: typer.Context,
    algorithm: Annotated[str | None, typer.Argument(metavar="ALGORITHM", help="dqn, rlds, …")] = None,
) -> None:
    """Trains a scheduler. `weft train dqn --help` lists its settings."""
    from weftway.learn.train import command
    from weftway.terminal.progress import Bar

    if command.wants_usage(algorithm) or algorithm is None:
        out.print(command.USAGE)
        return
    try:
        with nullcontext() if {"--help", "-h"} & {*context.args} else redirect_stdout(sys.stderr), Bar(err) as bar:
            trained = command.run(algorithm, context.args, bar)
    except KeyboardInterrupt:
        fail("interrupted; --resume goes on from the last checkpoint", INTERRUPTED)
    for line in command.lines(trained):
        out.print(line)
