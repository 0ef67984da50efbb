"""`weft sweep`."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from weftway.terminal.exit_status import RUN_FAILED

from .compare import print_results, skipped
from .options import JSON, MOST_JOBS, grids
from .output import err, interruptible, out, print_json, print_notes


def command(
    grid: Annotated[
        str,
        typer.Argument(
            metavar="GRID", help="A grid file, the name of one of ours, or a scenario.", autocompletion=grids
        ),
    ],
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for rows.parquet and a report per run; resumes.")
    ],
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="On a Ray cluster: auto, local, HOST:PORT, ray://HOST:PORT.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Seeds of every run, without B.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=MOST_JOBS, metavar="N", help="Jobs at a time. Default: all cores.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Runs many scenarios, on this machine or on a Ray cluster, with the rows of weft compare."""
    from weftway import report, sweep
    from weftway.terminal.progress import Bar

    wanted = sweep.read(grid, seeds)
    with interruptible(), redirect_stdout(sys.stderr), Bar(err) as bar:
        found = sweep.execute(wanted, sweep.Request(folder, jobs, ray), bar.tell)
    runs = [(run, one) for run, one in zip(wanted.runs, found, strict=True) if one.rows]
    with redirect_stdout(sys.stderr):
        pages = [report.write(one, wanted.folder(run, folder)) for run, one in runs]
    print_notes(dict.fromkeys(line for one in found for line in skipped(one)), sweep.warnings(found))
    if as_json:
        print_json(sweep.rows(found))
    for (run, one), page in zip(runs, pages, strict=True):
        if not as_json:
            if not wanted.is_scenario:
                out.print(f"{run.name}: {one.plan.scenario.title}\n", style="bold")
            print_results(one)
            if not wanted.is_scenario:
                out.print("")
        err.print(f"report in {page}")
    if runs:
        err.print(f"rows in {folder / 'rows.parquet'}")
    if not runs or any(one.failed for one in found):
        raise typer.Exit(RUN_FAILED)  # why is told
