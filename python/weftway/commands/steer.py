"""`weft steer`."""

from typing import TYPE_CHECKING, Annotated

import typer

from weftway.terminal.exit_status import INTERRUPTED

from .options import JSON, MOST_JOBS, SETS, controllers, scenarios, schedulers
from .output import err, fail, print_json, print_notes, print_tables

if TYPE_CHECKING:
    from weftway.links.steer import SteeringOptions


def command(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="A scenario file, or the name of one of ours; none with --live.",
            autocompletion=scenarios,
        ),
    ] = None,
    scheduler: Annotated[
        str,
        typer.Option(
            "--scheduler", "--schedulers", metavar="S,…", help="Schedulers that steer.", autocompletion=schedulers
        ),
    ] = "min-rtt",
    cc: Annotated[
        str | None, typer.Option(metavar="C,…", help="Congestion controllers.", autocompletion=controllers)
    ] = None,
    interval: Annotated[str, typer.Option(metavar="TIME", help="Time between two choices.")] = "100ms",
    mode: Annotated[str, typer.Option(metavar="exclusive|preferred", help="What the other subflows do.")] = "exclusive",
    seeds: Annotated[str | None, typer.Option("--seeds", "--seed", metavar="A..B", help="Seeds, without B.")] = None,
    sets: SETS = None,
    jobs: Annotated[int | None, typer.Option(min=1, max=MOST_JOBS, metavar="N", help="Transfers at a time.")] = None,
    is_live: Annotated[bool, typer.Option("--live", help="Steers this namespace's connections until Ctrl-C.")] = False,
    token: Annotated[
        str | None, typer.Option(metavar="T", help="With --live: one connection, as `ss -tiM` shows.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Steers the kernel's MPTCP: a scheduler chooses a path per interval, through priorities (MP_PRIO)."""
    from weftway._native import ScenarioError
    from weftway.links import steer

    options = steer.SteeringOptions(steer.interval(interval), mode)
    if is_live == (scenario is not None) or (token is not None and not is_live):
        raise ScenarioError("weft steer takes a scenario, or --live and perhaps --token")
    given = {"--cc": cc, "--seeds": seeds, "--set": sets or None, "--jobs": jobs}
    if is_live and (wrong := [name for name, value in given.items() if value is not None]):
        raise ScenarioError(f"--live steers existing connections: it does not take {', '.join(wrong)}")
    if is_live:
        steer_live(scheduler, options, token, as_json)
    else:
        steer_transfers(scenario or "", sets or [], scheduler, options, (cc, seeds, jobs), as_json)


def steer_live(scheduler: str, options: "SteeringOptions", token: str | None, as_json: bool) -> None:
    """Steers the connections that there are, until Ctrl-C."""
    from weftway.links import steer

    report = steer.live(scheduler, options, steer.token(token), lambda line: err.print(line))
    if as_json:
        print_json([report])
    else:
        err.print("\n".join(steer.summary(report)))


def steer_transfers(
    scenario: str,
    sets: list[str],
    scheduler: str,
    options: "SteeringOptions",
    given: tuple[str | None, str | None, int | None],
    as_json: bool,
) -> None:
    """Runs the transfers of a scenario, steered and not."""
    from weftway import scenario as scenarios
    from weftway._native import SimulationError
    from weftway.links import steer
    from weftway.terminal.progress import Bar

    cc, seeds, jobs = given
    loaded = scenarios.load(scenarios.locate(scenario), sets)
    wanted = steer.transfers(loaded, steer.steerers(scheduler), options, cc, seeds)
    try:
        with Bar(err) as bar:
            rows, missing = steer.run(wanted, jobs or steer.LABS, bar.tell)
    except KeyboardInterrupt:
        fail("interrupted; nothing is left behind", INTERRUPTED)
    reasons = list(dict.fromkeys(skip.reason for skip in missing))
    if not rows:
        raise SimulationError("; ".join(reasons))
    print_notes(reasons)
    if as_json:
        print_json(rows)
    else:
        print_tables(steer.table(rows))
