"""`weft recv`, and what `weft send` has of it."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from weftway._native import ScenarioError

from .options import JSON
from .output import INTERRUPTED, err, fail, out, print_json
from .pair import IDENTITY

if TYPE_CHECKING:
    from weftway.transfer import OtherEnd

LISTEN = Annotated[
    str | None,
    typer.Option(metavar="[ADDR:]PORT", help="Waits here for the other end, for example at 0.0.0.0:4433."),
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
        bool, typer.Option("--measure", help="Keeps nothing and goes on listening: for weft compare --backend live.")
    ] = False,
    stay: Annotated[
        bool,
        typer.Option("--stay/--once", help="Goes on listening after a transfer, or ends after one (the default)."),
    ] = False,
    as_json: JSON = False,
) -> None:
    """Receives files over several links from a machine with `weft send`. It listens, or it connects with --from.

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
    if stay and source:
        raise ScenarioError("weft recv --stay listens: leave out --from")
    other = other_end(source, listen, pair, identity, "--from")
    if target is None:
        receive_and_forget(other, local or [])
    if stay:
        receive_again_and_again(target, other, local or [], sync, as_json)
    try:
        with transfer.Display(err) as display:
            report = transfer.run("receive", target, other, paths=local or [], watch=display.tell, sync=sync)
    except transfer.InterruptedAtEndError as end:
        report = end.report
    except KeyboardInterrupt:
        fail(*RESUMABLE)
    finish(report, as_json)


def receive_and_forget(other: "OtherEnd", local: list[str]) -> NoReturn:
    """Receives one transfer after another until it is interrupted."""
    from weftway import transfer
    from weftway._native import TransferError

    display = transfer.Display(err)
    try:
        while True:
            # A port that was free stays the same one.
            other = replace(other, address=display.listening or other.address)
            with tempfile.TemporaryDirectory(prefix="weftway-") as folder, display:
                try:
                    report = transfer.run("receive", Path(folder), other, paths=local, watch=display.tell, sync=False)
                    err.print(f"{transfer.amount(report['bytes'])}, {report['goodput_mbps']:.1f} Mbit/s")
                except TransferError as error:
                    if display.listening is None:
                        raise
                    err.print(f"weft: {transfer.printable(str(error))}", markup=False)
    except KeyboardInterrupt:
        fail("stopped listening", INTERRUPTED)


def receive_again_and_again(target: Path, other: "OtherEnd", local: list[str], sync: bool, as_json: bool) -> NoReturn:
    """Receives one transfer after another into the folder, until it is interrupted. What fails is told; its sender
    tries again."""
    from weftway import transfer
    from weftway._native import TransferError

    display = transfer.Display(err)
    try:
        while True:
            # A port that was free stays the same one.
            other = replace(other, address=display.listening or other.address)
            with display:
                try:
                    report = transfer.run("receive", target, other, paths=local, watch=display.tell, sync=sync)
                except TransferError as error:
                    if display.listening is None:
                        raise
                    err.print(f"weft: {transfer.printable(str(error))}", markup=False)
                    continue
            with suppress(SystemExit):  # it said what did not arrive
                finish(report, as_json)
    except KeyboardInterrupt as end:
        if isinstance(end, transfer.InterruptedAtEndError):
            with suppress(SystemExit):
                finish(end.report, as_json)
        fail("stopped listening; what has arrived is kept", INTERRUPTED)


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


def finish(report: dict[str, Any], as_json: bool) -> None:
    """Prints what came of a transfer, and ends the command if not all of it arrived."""
    from weftway import transfer

    for line in transfer.complaints(report):
        err.print(line, markup=False)
    if as_json:
        print_json([report])
    else:
        for part in transfer.summary(report):
            out.print(part)
    if report["failed"]:
        count = len(report["failed"])
        fail(f"{count} {'entry' if count == 1 else 'entries'} did not arrive; all others did", PARTLY)
