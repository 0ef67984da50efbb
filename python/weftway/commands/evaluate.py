"""`weft evaluate`."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from weftway.stats.baselines import AGAINST
from weftway.terminal.exit_status import RUN_FAILED

from .options import JOBS, JSON, MOST, SETS, controllers, distributions, schedulers
from .output import err, interruptible, out, print_json, print_notes, print_tables


def command(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY",
            help="A scheduler's name, my_rules.py:MyRule, or a .safetensors file.",
            autocompletion=schedulers,
        ),
    ],
    on: Annotated[
        str,
        typer.Option(
            metavar="DISTRIBUTION",
            help="A distribution of scenarios: a file, or one of ours.",
            autocompletion=distributions,
        ),
    ],
    against: Annotated[
        str,
        typer.Option(
            "--against",
            "--scheduler",
            "--schedulers",
            metavar="S,…|all",
            help="Schedulers to compare with, besides min-rtt.",
            autocompletion=schedulers,
        ),
    ] = AGAINST,
    cc: Annotated[
        str | None,
        typer.Option(metavar="C,…|all", help="Controllers. Default: the distribution's.", autocompletion=controllers),
    ] = None,
    instances: Annotated[int, typer.Option(min=1, max=MOST, metavar="N", help="Number of held-out instances.")] = 60,
    seed: Annotated[
        int, typer.Option(min=0, metavar="S", help="Seed of the instances: equal seeds draw equal ones.")
    ] = 1,
    seeds: Annotated[
        int, typer.Option(min=1, max=MOST, metavar="N", help="Runs of each instance, each with its own seed.")
    ] = 1,
    sets: SETS = None,
    jobs: JOBS = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for rows.parquet, instances and report.html; resumes."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Compares a scheduler with others on scenarios that no training saw, with 95 % intervals."""
    from weftway import evaluate
    from weftway.report import held_out
    from weftway.runs import caveats
    from weftway.terminal.progress import Bar

    request = evaluate.Request(policy, on, against, cc, instances, seed, seeds, sets or [])
    # Output that a scheduler in Python prints is no result.
    with interruptible(), redirect_stdout(sys.stderr), Bar(err) as bar:
        ran = evaluate.run(request, jobs, folder, bar.tell)
    shown = evaluate.held(request, ran.frame, ran.others)
    written = evaluate.write_report(shown, ran.frame, folder) if folder else None
    print_notes(ran.skipped, [*ran.failures, *caveats.faults(ran.frame)])
    if as_json:
        print_json(
            [{"kind": "result", **entry} for entry in shown.lines]
            + [{"kind": "claim", **entry} for entry in shown.claims]
        )
    else:
        for line in caveats.evaluated(shown.under(shown.controllers[0])):
            out.print(line)
        out.print("")
        print_tables(held_out.terminal(shown))
        if shown.others:
            out.print(shown.others)
    if folder:
        err.print(f"rows in {folder / 'rows.parquet'}, report in {written}")
    if ran.failures:
        raise typer.Exit(RUN_FAILED)
