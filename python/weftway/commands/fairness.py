"""`weft fairness`."""

from pathlib import Path
from typing import Annotated

import typer

from weftway.terminal.exit_status import RUN_FAILED

from .options import JOBS, JSON, MOST, SETS, WINDOWS, controllers, packets
from .output import err, interruptible, out, print_json, print_notes, print_tables


def command(
    cc: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CC]…", help="Controllers. Default: all of ours.", autocompletion=controllers),
    ] = None,
    windows: WINDOWS = "",
    seeds: Annotated[str, typer.Option(metavar="A..B", help="Seeds of every run, without B.")] = "0..4",
    seconds: Annotated[int, typer.Option(min=1, max=MOST, metavar="S", help="Length of each run, simulated.")] = 40,
    sets: SETS = None,
    jobs: JOBS = None,
    folder: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for rows; resumes.")] = None,
    as_json: JSON = False,
) -> None:
    """Measures what congestion controllers leave to others: shares of a link, RFC 6356's goals, short flows."""
    from weftway import fairness
    from weftway.runs import caveats
    from weftway.terminal.progress import Bar

    request = fairness.Request(cc or [], seeds, packets(windows), sets or [], seconds)
    with interruptible(), Bar(err) as bar:
        found = fairness.run(request, jobs, folder, bar.tell)
    print_notes(found.skipped, caveats.failures(found.failed))
    if as_json:
        print_json(fairness.records(found))
    else:
        out.print("\n".join(fairness.findings(found)), "", sep="\n", soft_wrap=True)
        print_tables(fairness.terminal(found))
        out.print("\n".join(fairness.reading(found)), soft_wrap=True)
        if found.kept.sentence:
            out.print(found.kept.sentence)
    if folder:
        err.print(f"rows in {folder / 'rows.parquet'}")
    if found.failed:
        raise typer.Exit(RUN_FAILED)
