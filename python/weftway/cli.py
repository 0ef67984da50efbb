"""The command `weft`: its verbs, each a file of `weftway.commands`.

Results go to standard output, everything else to standard error. The exit status says what
happened: 0 it worked, 1 a run failed, 2 bad input, 130 interrupted, 141 nobody read the results.
"""

import errno
import sys
from typing import Annotated

import typer

from weftway import completion
from weftway._native import EmulationError, ScenarioError, SimulationError, TransferError, __version__
from weftway.commands import (
    advise,
    bench,
    compare,
    doctor,
    emulate,
    evaluate,
    fidelity,
    new,
    pair,
    proxy,
    rank,
    record,
    recv,
    relay,
    reproduce,
    run,
    schema,
    send,
    service,
    steer,
    sweep,
    top,
    train,
    tunnel,
)
from weftway.commands import list as list_
from weftway.commands.options import Verb
from weftway.commands.output import CLOSED, ClosedPipe, discard_output, fail, out, write_nearest
from weftway.exit_status import BAD_INPUT, RUN_FAILED

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


app.command("list", cls=Verb)(list_.command)
app.command("run", cls=Verb)(run.command)
app.command("compare", cls=Verb)(compare.command)
app.command("sweep", cls=Verb)(sweep.command)
app.command("train", cls=Verb, context_settings=OPTIONS_OF_ITS_OWN, add_help_option=False)(train.command)
app.command("evaluate", cls=Verb)(evaluate.command)
app.command("rank", cls=Verb)(rank.command)
app.command("advise", cls=Verb)(advise.command)
app.command("reproduce", cls=Verb)(reproduce.command)
app.command("emulate", cls=Verb)(emulate.command)
app.command("fidelity", cls=Verb)(fidelity.command)
app.command("steer", cls=Verb)(steer.command)
app.command("pair", cls=Verb)(pair.command)
app.command("send", cls=Verb)(send.command)
app.command("recv", cls=Verb)(recv.command)
app.command("relay", cls=Verb)(relay.command)
app.command("proxy", cls=Verb)(proxy.command)
app.command("tunnel", cls=Verb)(tunnel.command)
app.command("top", cls=Verb)(top.command)
app.command("service", cls=Verb, context_settings=OPTIONS_OF_ITS_OWN)(service.command)
app.command("record", cls=Verb)(record.command)
app.command("doctor", cls=Verb)(doctor.command)
app.command("schema", cls=Verb)(schema.command)
app.command("bench", cls=Verb)(bench.command)
app.command("new", cls=Verb)(new.command)


def main() -> None:
    """Runs the command and turns what went wrong into one message and an exit status."""
    write_nearest()
    try:
        _run()
    except ClosedPipe:
        discard_output()
        sys.exit(CLOSED)


def _run() -> None:
    try:
        completion.answer(app)
    except ScenarioError as error:
        from weftway.transfer import printable

        # Names and lines of files may be in it, on several lines.
        fail("".join(one if one in "\n\t" else printable(one) for one in str(error)), BAD_INPUT)
    except TransferError as error:
        from weftway.transfer import printable

        # The other end's words, and names of files, may be in it.
        fail(printable(str(error)), RUN_FAILED)
    except (SimulationError, EmulationError) as error:
        fail(str(error), RUN_FAILED)
    except BrokenPipeError:
        raise ClosedPipe from None
    except OSError as error:
        status = RUN_FAILED if error.errno in FULL + SCARCE else BAD_INPUT
        where = error.filename or ("standard output" if error.errno in FULL else None)
        if where == "standard output":
            # What is left would be told to be too much for it once more.
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
