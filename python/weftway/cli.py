"""The command `weft`: its verbs, each a file of `weftway.commands`.

Results go to standard output, everything else to standard error. The exit status says what
happened: 0 it worked, 1 a run failed, 2 bad input, 130 interrupted, 141 nobody read the results.
"""

import errno
import os
import sys
from functools import partial
from typing import Annotated

import typer

from weftway._native import EmulationError, ScenarioError, SimulationError, __version__
from weftway.commands import (
    advise,
    bench,
    board,
    compare,
    completion,
    doctor,
    emulate,
    evaluate,
    fairness,
    fidelity,
    handed_over,
    new,
    rank,
    reproduce,
    run,
    schema,
    steer,
    sweep,
    train,
)
from weftway.commands import list as list_
from weftway.commands.options import Verb
from weftway.commands.output import CLOSED, ClosedPipe, discard_output, fail, out, write_nearest
from weftway.runs import link_program
from weftway.terminal.exit_status import BAD_INPUT, RUN_FAILED
from weftway.terminal.listing import printable

app = typer.Typer(
    help="Runs and compares packet schedulers of multipath connections, in simulation and on the kernel.",
    epilog="Exit status: 0 it worked, 1 a run failed, 2 bad input, 130 interrupted.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

OPTIONS_OF_ITS_OWN = {"allow_extra_args": True, "ignore_unknown_options": True}
"""An algorithm's settings are read by the algorithm."""


@app.callback(invoke_without_command=True)
def _weft(version: Annotated[bool, typer.Option("--version", "-V", help="Prints the version.")] = False) -> None:
    if version:
        out.print(f"weft {__version__}")
        raise typer.Exit


verb = partial(app.command, cls=Verb)
verb("list")(list_.command)
verb("run")(run.command)
verb("compare")(compare.command)
verb("sweep")(sweep.command)
verb("train", context_settings=OPTIONS_OF_ITS_OWN, add_help_option=False)(train.command)
verb("evaluate")(evaluate.command)
verb("rank")(rank.command)
verb("fairness")(fairness.command)
app.add_typer(board.app, name="board")
verb("advise")(advise.command)
verb("reproduce")(reproduce.command)
verb("emulate")(emulate.command)
verb("fidelity")(fidelity.command)
verb("steer")(steer.command)
handed_over.add_to(app)
verb("doctor")(doctor.command)
verb("schema")(schema.command)
verb("bench")(bench.command)
verb("new")(new.command)


def main() -> None:
    """Runs the command and turns what went wrong into one message and an exit status."""
    write_nearest()
    try:
        if sys.argv[1:2] and sys.argv[1] in link_program.VERBS and "_WEFT_COMPLETE" not in os.environ:
            link_program.hand_over(sys.argv[1:])
        _run()
    except ClosedPipe:
        discard_output()
        sys.exit(CLOSED)


def _run() -> None:
    try:
        completion.answer(app)
    except ScenarioError as error:
        # Names and lines of files may be in it, on several lines.
        fail(printable(str(error), kept="\n\t"), BAD_INPUT)
    except (SimulationError, EmulationError) as error:
        fail(str(error), RUN_FAILED)
    except BrokenPipeError:
        raise ClosedPipe from None
    except OSError as error:
        status = RUN_FAILED if error.errno in FULL + SCARCE else BAD_INPUT
        where = error.filename or ("standard output" if error.errno in FULL else None)
        if where == "standard output":
            # The rest of the output would fail at the flush once more, and be reported a second time.
            discard_output()
        fail(f"{where}: {error.strerror}" if where else error.strerror or str(error), status)
    finally:
        _flush_output()


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""The disk's fault, not the user's."""

SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""The system has no more of it now."""


def _flush_output() -> None:
    """Writes out what is left; a full disk behind standard output would otherwise be told when nobody listens."""
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        discard_output()
        end = error.__context__
        if not (isinstance(end, SystemExit) and end.code):
            raise ClosedPipe from None
    except OSError as error:
        discard_output()
        fail(f"standard output: {error.strerror}", RUN_FAILED)
