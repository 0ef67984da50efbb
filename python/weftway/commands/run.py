"""`weft run`."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from . import live
from .compare import executed, skipped, warn
from .options import BACKENDS, JSON, SCENARIO, SETS, controllers, schedulers
from .output import out, print_json


def command(
    scenario: SCENARIO,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", "--schedulers", help="A name, or my_rules.py:MyRule.", autocompletion=schedulers),
    ] = None,
    cc: Annotated[str | None, typer.Option(help="A congestion controller.", autocompletion=controllers)] = None,
    backend: Annotated[str | None, typer.Option(help=f"Where to run it: {BACKENDS}.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", "--seeds", help="The seed.")] = None,
    sets: SETS = None,
    events: Annotated[Path | None, typer.Option(metavar="FILE", help="Writes every event, one a line.")] = None,
    qlog: Annotated[Path | None, typer.Option(metavar="DIR", help="Writes a qlog file (JSON-SEQ).")] = None,
    perfetto: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Writes a trace that https://ui.perfetto.dev opens (JSON).")
    ] = None,
    peer: live.PEER = None,
    pair: live.PAIR = None,
    paths: live.PATHS = None,
    as_json: JSON = False,
) -> None:
    """Runs one scheduler once and prints all figures."""
    from weftway import scenario as scenarios
    from weftway._native import SimulationError
    from weftway.report import one_run
    from weftway.report.study import study_of
    from weftway.report.words import verdict
    from weftway.runs import comparison

    live.meet(peer, pair, paths)
    loaded = scenarios.load(scenarios.locate(scenario), sets or [])
    with redirect_stdout(sys.stderr):  # what a scheduler in Python prints is no result
        wanted = comparison.single(loaded, scheduler, cc, seed, backend)
        if events or qlog or perfetto:
            ran = comparison.record(wanted, events, qlog, perfetto)
        else:
            ran = executed(wanted, 1, None)
    if ran.skipped:
        raise SimulationError(skipped(ran)[0])
    ran.complete()
    warn(ran)
    if as_json:
        print_json(ran.rows)
    else:
        out.print(f"{verdict(study_of(ran))}\n")
        for part in one_run.tables(ran.rows[0]):
            out.print(part, "")
