"""`weft recv`, and what `weft send` has of it."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weftway._native import ScenarioError
from weftway.exit_status import INTERRUPTED
from weftway.queued_output import beside_traffic

from .config import CONFIG
from .output import err, fail, json_text, out, write
from .pair import IDENTITY

if TYPE_CHECKING:
    from weftway.transfer import Display, OtherEnd, Report

LISTEN = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDR:]PORT",
        help="Waits here for the other end, for example at 4433. A port alone is over IPv6 and IPv4.",
    ),
]
PAIR = Annotated[
    str | None,
    typer.Option(
        metavar="LINE|FILE|-",
        help="What `weft pair` printed on the machine that listens: the line, a file with it, or - to read it from "
        "standard input. Without it, WEFT_PAIR in the environment is taken.",
    ),
]
PATHS = Annotated[
    list[str] | None,
    typer.Option(
        "--path", metavar="IFACE|ADDR", help="A link of this machine: an interface or its address. Repeatable."
    ),
]

LINKS = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        metavar="IFACE|ADDR[,KEY=VALUE]",
        help="A link of this machine: an interface or its address. What it is for may follow, as in "
        "wwan0,tier=backup,cap=10GB/month,price=4/GB (docs/how-to/policy.md). Repeatable.",
    ),
]

REPORTS = Annotated[bool, typer.Option("--json", help="Prints JSON on standard output, a line for each transfer.")]

PARTLY = 23
"""The status where some files did not arrive, and all others did: rsync's."""

RESUMABLE = ("interrupted; what has arrived is kept: run the same command again to go on", INTERRUPTED)


def command(
    target: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Where the files go. Nothing is written elsewhere.")
    ] = None,
    listen: LISTEN = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="HOST[:PORT]", help="Where `weft send --listen` waits.")
    ] = None,
    pair: PAIR = None,
    local: PATHS = None,
    identity: IDENTITY = None,
    sync: Annotated[
        bool,
        typer.Option(
            "--sync/--no-sync", help="Ends when all files are on the disk itself, and not only in the system's memory."
        ),
    ] = True,
    measure: Annotated[
        bool, typer.Option("--measure", help="Keeps nothing of what comes: for weft compare --backend live.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Ends after one transfer. Without it, the next one may come.")
    ] = False,
    as_json: REPORTS = False,
    config: CONFIG = None,
) -> None:
    """Receives files over several links from a machine with `weft send`. It listens, or it connects with --from.

    It takes one transfer after another until Ctrl-C; with --once or --from it takes one.

    A file has its name when its BLAKE3 hash is the sender's; until then it is in DIR/.weft-partial.
    """
    from weftway import transfer

    if measure and (target or source):
        raise ScenarioError("weft recv --measure keeps nothing and listens: leave out DIR and --from")
    if not measure and target is None:
        raise ScenarioError("weft recv needs DIR, where the files go")
    if source and listen:
        raise ScenarioError("weft recv either listens or connects: --listen or --from")
    if not source and not listen:
        listen = str(transfer.PORT)
    other = other_end(source, listen, pair, identity, "--from")
    show = print_line if as_json else print_summary if target else print_rate

    def receive(other: "OtherEnd", display: transfer.Display) -> "Report":
        with beside_traffic(), display, inbox(target) as folder:
            return transfer.run("receive", folder, other, paths=local or [], watch=display.tell, sync=sync)

    interrupted = RESUMABLE if target else ("interrupted", INTERRUPTED)
    if once or source:
        try:
            report = receive(other, transfer.Display(err))
        except transfer.InterruptedAtEndError as end:
            report = end.report
        except KeyboardInterrupt:
            fail(*interrupted)
        finish(report, show)
        return
    try:
        whole = receive_on(receive, other, show)
    except transfer.InterruptedInMidstError:
        fail(*interrupted)
    if not whole:
        fail("stopped listening", INTERRUPTED)
    err.print(f"stopped listening after {whole} {'transfer' if whole == 1 else 'transfers'}")


def receive_on(
    receive: Callable[["OtherEnd", "Display"], "Report"], other: "OtherEnd", show: Callable[["Report"], None]
) -> int:
    """Receives one transfer after another until an interrupt comes between two: how many arrived whole.

    A transfer that fails is told, and the next one may come: its sender tries again.
    """
    from weftway import transfer
    from weftway._native import TransferError

    whole, begun = 0, False
    display = transfer.Display(err)
    try:
        while True:
            try:
                report = receive(other, display)
                whole += not report["failed"]
                tell(report, show)
            except ScenarioError as error:
                if begun:  # it was right at the start
                    raise TransferError(str(error)) from None
                raise
            except TransferError as error:
                if display.listening is None:
                    raise
                err.print(f"weft: {transfer.printable(str(error))}")
            begun = True
            # A port that was free stays the same one.
            other = replace(other, address=display.listening or other.address)
            display = transfer.Display(err, ready="listening for the next transfer at")
    except transfer.InterruptedAtEndError as end:
        tell(end.report, show)
        return whole + (not end.report["failed"])
    except transfer.InterruptedInMidstError:
        raise
    except KeyboardInterrupt:
        return whole


@contextmanager
def inbox(target: Path | None) -> Iterator[Path]:
    """The folder where files go: `target`, or one that is removed."""
    if target:
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="weftway-") as folder:
        yield Path(folder)


def tell(report: "Report", show: Callable[["Report"], None]) -> None:
    """Prints what came of a transfer, and goes on."""
    with suppress(SystemExit):  # it said what did not arrive
        finish(report, show)


def other_end(host: str | None, listen: str | None, pair: str | None, identity: Path | None, option: str) -> "OtherEnd":
    """Who the other end is, as the options say."""
    from weftway import transfer
    from weftway.identity import identity_file

    if host is None:
        if pair:
            raise ScenarioError(f"--pair goes with {option}: the end that listens has the identity itself")
        return transfer.listen(listen or "", identity or identity_file())
    line = transfer.pairing(pair)
    if line is None:
        raise ScenarioError(f"{option} needs --pair LINE: `weft pair` prints it on the machine that listens")
    return transfer.connect(host, line)


def finish(report: "Report", show: Callable[["Report"], None]) -> None:
    """Prints what came of a transfer, and ends the command if not all of it arrived."""
    from weftway import transfer

    for line in transfer.complaints(report):
        err.print(line)
    show(report)
    if report["failed"]:
        count = len(report["failed"])
        fail(f"{count} {'entry' if count == 1 else 'entries'} did not arrive; all others did", PARTLY)


def print_summary(report: "Report") -> None:
    """For a person."""
    from weftway import transfer

    for part in transfer.summary(report):
        out.print(part)


def print_rate(report: "Report") -> None:
    """For a person, of what is not kept."""
    from weftway import transfer

    err.print(f"{transfer.amount(report['bytes'])}, {report['goodput_mbps']:.1f} Mbit/s")


def print_line(report: "Report") -> None:
    """For a program, which reads it at once."""
    write(json_text(report) + "\n")
    sys.stdout.flush()
