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
    seeds: Annotated[
        str | None, typer.Option("--seeds", "--seed", metavar="A..B", help="Seeds of every run, without B.")
    ] = None,
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
        comparisons = sweep.execute(wanted, sweep.Request(folder, jobs, ray), bar.tell)
    runs = [(run, comparison) for run, comparison in zip(wanted.runs, comparisons, strict=True) if comparison.rows]
    with redirect_stdout(sys.stderr):
        pages = [report.write(comparison, wanted.folder(run, folder)) for run, comparison in runs]
    print_notes(
        dict.fromkeys(line for comparison in comparisons for line in skipped(comparison)), sweep.warnings(comparisons)
    )
    if as_json:
        print_json(sweep.rows(comparisons))
    for (run, comparison), page in zip(runs, pages, strict=True):
        if not as_json:
            if not wanted.is_scenario:
                out.print(f"{run.name}: {comparison.plan.scenario.title}\n", style="bold")
            print_results(comparison)
            if not wanted.is_scenario:
                out.print("")
        err.print(f"report in {page}")
    if runs:
        err.print(f"rows in {folder / 'rows.parquet'}")
    if not runs or any(comparison.failed for comparison in comparisons):
        raise typer.Exit(RUN_FAILED)  # why is told
