"""`weft advise`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from weftway.terminal.exit_status import RUN_FAILED

from .options import JOBS, JSON, MOST, SCENARIO, SETS
from .output import err, interruptible, out, print_json, print_notes


def command(
    scenario: SCENARIO,
    carrier: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="proxy|tunnel|send|pipe|kernel",
            help="What carries the traffic: prints its commands for both ends.",
        ),
    ] = "",
    added: Annotated[
        list[str] | None,
        typer.Option(
            "--add", metavar="LINK.KEY=VALUE", help="What a further link would bring: lte2.rate=15Mbit/s. Repeatable."
        ),
    ] = None,
    deployable: Annotated[
        str | None,
        typer.Option(metavar="linux|quic", help="What you can change: Linux (default), or a QUIC stack of your own."),
    ] = None,
    cells: Annotated[
        int,
        typer.Option(
            min=1, max=MOST, metavar="N", help="Number of similar scenarios, with other rates, delays and losses."
        ),
    ] = 12,
    seeds: Annotated[
        str, typer.Option(metavar="A..B", help="Seeds, without B. One half picks, the other judges.")
    ] = "0..6",
    sets: SETS = None,
    jobs: JOBS = None,
    check: Annotated[
        bool, typer.Option("--check", help="Also runs the candidates on this machine's kernel, in real time.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--write", metavar="DIR", help="Writes set-up that lasts: MPTCP, sysctl.d, systemd.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Advises settings for your links. Simulates what you can deploy, in this scenario and similar ones."""
    from weftway import advise
    from weftway.advise import carry, setup
    from weftway.runs import caveats
    from weftway.terminal.progress import Bar

    place = advise.place(deployable, carrier)
    request = advise.Request(scenario, place, cells, seeds, sets or [], carrier, added or [])
    if folder:
        setup.check(request, folder)
    with interruptible(), Bar(err) as bar:
        advice = advise.advise(request, jobs, bar.tell)
        without = advise.advise(replace(request, added=[]), jobs, bar.tell) if added else None
    records = advise.records(advice)
    written = setup.write(advice, folder) if folder else []
    if not as_json:
        told = [*([advise.with_added(advice, without)] if without else []), *advise.lines(advice), *carry.lines(advice)]
        for line in told:
            out.print(line, soft_wrap=True)
    if check:
        with interruptible(), Bar(err) as bar:
            kernel = advise.check(advice, jobs, bar.tell)
        records += kernel
        if not as_json:
            for line in advise.checked(kernel):
                out.print(line, soft_wrap=True)
    if as_json:
        print_json(records)
    if written:
        err.print(f"files in {folder}: begin with {folder}/README")
    for line in setup.told(advice):
        err.print(line)
    print_notes(warnings=caveats.failures(advice.failed))
    if advice.failed:
        raise typer.Exit(RUN_FAILED)
