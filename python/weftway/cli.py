"""The command `weft`.

Results go to standard output, everything else to standard error. The exit status says what
happened: 0 it worked, 1 a run failed, 2 bad input, 130 interrupted.
"""

import json
import shlex
import signal
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from weftway import catalogue, comparison, emulate, new, plan, report, tables
from weftway import scenario as scenarios
from weftway._native import CODE, EmulationError, ScenarioError, SimulationError, TraceError, __version__
from weftway.progress import Bar
from weftway.store import Store, table

RUN_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    help="Which path of a multipath connection carries the next packet: run, compare, list schedulers.",
    epilog="Exit status: 0 it worked, 1 a run failed, 2 bad input, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

SCENARIO = Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of one of ours.")]
BACKENDS = ", ".join(plan.BACKENDS)
SETS = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replaces a key: path.lte.loss=2%. Repeatable.")
]
JSON = Annotated[bool, typer.Option("--json", help="One JSON array on standard output, and nothing else there.")]

out = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
err = Console(stderr=True, highlight=False, soft_wrap=True, width=None if sys.stderr.isatty() else 160)


@app.callback(invoke_without_command=True)
def _weft(version: Annotated[bool, typer.Option("--version", help="Prints the version.")] = False) -> None:
    if version:
        out.print(f"weft {__version__}")
        raise typer.Exit


@app.command("list")
def _list(as_json: JSON = False) -> None:
    """Lists what can be run: schedulers, controllers, scenarios."""
    found = catalogue.entries()
    if as_json:
        print_json(found)
        return
    kinds = {kind: [one for one in found if one["kind"] == kind] for kind in ("scheduler", "controller")}
    for part in tables.registry(kinds["scheduler"], kinds["controller"]):
        out.print(part, "")
    for kind in ("backend", "scenario", "experiment"):
        if some := [one for one in found if one["kind"] == kind]:
            out.print(tables.files(f"{kind}s", some), "")


@app.command("run")
def _run(
    scenario: SCENARIO,
    scheduler: Annotated[str | None, typer.Option(help="A name, or my_rules.py:MyRule.")] = None,
    cc: Annotated[str | None, typer.Option(help="A congestion controller.")] = None,
    backend: Annotated[str | None, typer.Option(help=f"Where to run it: {BACKENDS}.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed.")] = None,
    sets: SETS = None,
    events: Annotated[Path | None, typer.Option(metavar="FILE", help="Writes every event, a line each.")] = None,
    qlog: Annotated[Path | None, typer.Option(metavar="DIR", help="Writes a qlog file (JSON-SEQ).")] = None,
    as_json: JSON = False,
) -> None:
    """Runs one scheduler once."""
    loaded = scenarios.load(scenarios.locate(scenario), sets or [])
    with redirect_stdout(sys.stderr):  # what a scheduler in Python prints is no result
        wanted = comparison.first(plan.plan(loaded, scheduler, cc, seed, backend))
        found = comparison.record(wanted, events, qlog) if events or qlog else executed(wanted, 1, None)
    if found.skipped:
        raise SimulationError(skipped(found)[0])
    if as_json:
        print_json(found.rows)
    else:
        out.print(tables.single(found.rows[0]))


@app.command("compare")
def _compare(
    scenario: SCENARIO,
    scheduler: Annotated[str | None, typer.Option(metavar="S,…|all", help="Names, or my_rules.py:MyRule.")] = None,
    cc: Annotated[str | None, typer.Option(metavar="C,…|all", help="Congestion controllers.")] = None,
    backend: Annotated[str | None, typer.Option(metavar="B,…|all", help=f"Where to run them: {BACKENDS}.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Seeds; B is left out.")] = None,
    sets: SETS = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads; all cores if not given.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keeps rows.parquet and report.html there; resumes.")
    ] = None,
    figures: Annotated[
        str | None, typer.Option(metavar="svg,pdf,csv", help="Writes every figure into DIR/figures.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Runs schedulers side by side over the seeds of a scenario."""
    formats = figure_formats(figures, folder)
    loaded = scenarios.load(scenarios.locate(scenario), sets or [])
    with redirect_stdout(sys.stderr):  # what a scheduler in Python prints is no result
        wanted = plan.plan(loaded, scheduler, cc, seeds, backend)
        found = executed(wanted, jobs, folder)
    for line in skipped(found):
        err.print(f"skipped: {line}", markup=False)
    if as_json:
        print_json(found.rows)
    else:
        print_tables(found)
    if folder and found.rows:
        with redirect_stdout(sys.stderr):
            page = comparison.write_report(found, folder, formats)
        err.print(f"rows in {folder / 'rows.parquet'}, report in {page}")


@app.command("sweep")
def _sweep(
    grid: Annotated[str, typer.Argument(metavar="GRID", help="A grid file, the name of one of ours, or a scenario.")],
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Keeps rows.parquet there, and a report per run; resumes.")
    ],
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="On a Ray cluster: auto, local, HOST:PORT, ray://HOST:PORT.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Seeds of every run; B is left out.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="At a time; what there is if not given.")] = None,
    as_json: JSON = False,
) -> None:
    """Runs many scenarios, on this machine or on a Ray cluster. The rows are those of weft compare."""
    from weftway import sweep

    wanted = sweep.read(grid, seeds)
    try:
        with redirect_stdout(sys.stderr), Bar(err) as bar:
            found = sweep.execute(wanted, sweep.Request(folder, jobs, ray), bar.tell)
    except comparison.Interrupted as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        fail(str(error), INTERRUPTED)
    for line in dict.fromkeys(line for one in found for line in skipped(one)):
        err.print(f"skipped: {line}", markup=False)
    if as_json:
        print_json(sweep.rows(found))
    for run, one in zip(wanted.runs, found, strict=True):
        if not one.rows:
            continue
        if not as_json:
            if not wanted.is_scenario:
                out.print(f"{run.name}: {one.plan.scenario.title}\n", markup=False, style="bold")
            print_tables(one)
        with redirect_stdout(sys.stderr):
            page = comparison.write_report(one, wanted.folder(run, folder))
        err.print(f"report in {page}", markup=False)
    if any(one.rows for one in found):
        err.print(f"rows in {folder / 'rows.parquet'}", markup=False)


@app.command(
    "train", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False
)
def _train(
    context: typer.Context,
    algorithm: Annotated[str | None, typer.Argument(metavar="ALGORITHM", help="What learns: dqn, rlds, …")] = None,
) -> None:
    """Trains a scheduler. `weft train dqn --help` has its settings."""
    from weftway.train import command

    if command.wants_usage(algorithm) or algorithm is None:
        out.print(command.USAGE, markup=False)
        return
    try:
        with redirect_stdout(sys.stderr) if "--help" not in context.args else nullcontext(), Bar(err) as bar:
            trained = command.run(algorithm, context.args, bar.tell)
    except KeyboardInterrupt:
        fail("interrupted; --resume goes on from the last checkpoint", INTERRUPTED)
    for line in command.lines(trained):
        out.print(line, markup=False)


@app.command("evaluate")
def _evaluate(
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="A scheduler's name, my_rules.py:MyRule, or a .safetensors file.")
    ],
    on: Annotated[str, typer.Option(metavar="DISTRIBUTION", help="A distribution of scenarios, or the name of ours.")],
    against: Annotated[
        str, typer.Option(metavar="S,…|all", help="Schedulers beside it; min-rtt always.")
    ] = "min-rtt,random,round-robin,ecf,blest",
    cc: Annotated[str | None, typer.Option(metavar="C,…|all", help="Controllers; the distribution's if none.")] = None,
    instances: Annotated[int, typer.Option(min=1, metavar="N", help="How many held-out instances.")] = 60,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Which instances: equal seeds draw equal ones.")] = 1,
    sets: SETS = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads; all cores if not given.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Keeps rows.parquet, instances and report.html there; resumes."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Evaluates a scheduler on scenarios that no training saw, beside others, with 95 % intervals."""
    from weftway import evaluate
    from weftway.report import held_out

    request = evaluate.Request(policy, on, against, cc, instances, seed, sets or [])
    try:
        with redirect_stdout(sys.stderr), Bar(err) as bar:  # what a scheduler in Python prints is no result
            found, missing = evaluate.run(request, jobs, folder, bar.tell)
    except comparison.Interrupted as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        fail(str(error), INTERRUPTED)
    for line in missing:
        err.print(f"skipped: {line}", markup=False)
    shown = evaluate.held(request, found)
    if as_json:
        print_json(
            [{"kind": "result", **one} for one in shown.lines] + [{"kind": "claim", **one} for one in shown.claims]
        )
    else:
        for part in held_out.terminal(shown):
            out.print(tables.fitted(part, out), "")
    if folder:
        written = evaluate.write_report(request, found, folder)
        err.print(f"rows in {folder / 'rows.parquet'}, report in {written}", markup=False)


@app.command("emulate")
def _emulate(
    links: Annotated[str, typer.Argument(metavar="LINKS", help="A scenario file, or the name of one of ours.")],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="The client's command.")],
    server: Annotated[
        str | None, typer.Option(metavar="CMD", help="A command at the other end, started first.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**64 - 1, metavar="N", help="The seed of losses and jitter.")] = 0,
    sets: SETS = None,
    log: Annotated[Path, typer.Option(metavar="FILE", help="The packet log: a line per packet.")] = Path("packets.csv"),
    no_log: Annotated[bool, typer.Option("--no-log", help="Writes no packet log.")] = False,
    pcap: Annotated[Path | None, typer.Option(metavar="DIR", help="Writes client.pcap and server.pcap.")] = None,
    as_json: JSON = False,
) -> None:
    """Runs ordinary commands over emulated links. $WEFT_PEER is the other end's address.

    The exit status is that of CMD.
    """
    loaded = scenarios.load(scenarios.locate(links), sets or [])
    variant = loaded.variants()[0]
    words = server_words(server)
    kept = None if no_log else log
    again = plan.quoted
    asked = [f"--set {again(setting)}" for setting in [*loaded.sets, *variant.sets]]
    asked += [f"--server {again(server)}"] if server else []
    provenance = [
        f"weft emulate: {loaded.title}",
        f"code {CODE}, scenario {loaded.path} ({variant.hash}), seed {seed}",
        " ".join(["weft emulate", again(loaded.path), *asked, f"--seed {seed} --", *map(again, command)]),
    ]
    lines = [line for text in provenance for line in text.splitlines()]
    try:
        outcome = emulate.run(variant, command, words, seed=seed, log=kept, pcap=pcap, provenance=lines, quiet=as_json)
    except KeyboardInterrupt:
        fail("interrupted; nothing is left behind", INTERRUPTED)
    if as_json:
        print_json([{"scenario": loaded.name, "scenario_hash": variant.hash, "seed": seed, "code": CODE, **outcome}])
    else:
        err.print(emulate.links(outcome))
        for line in emulate.punctuality(outcome):
            err.print(line)
    if kept:
        err.print(f"packet log in {kept}", markup=False)
    sys.exit(outcome["client"])


@app.command("fidelity")
def _fidelity(
    cells: Annotated[int, typer.Option(min=1, metavar="N", help="How many cells.")] = 20,
    seed: Annotated[int, typer.Option(metavar="S", help="Which cells: equal seeds draw equal ones.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads; all cores if not given.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keeps everything there; resumes. [fidelity-S]")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Measures how near the simulator is to this machine's kernel, over cells drawn at random."""
    from weftway import fidelity

    request = fidelity.Request(cells=cells, seed=seed, folder=folder or Path(f"fidelity-{seed}"), jobs=jobs)
    try:
        with Bar(err) as bar:
            measured = fidelity.measure(request, progress=bar.tell)
    except comparison.Interrupted as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        fail(str(error), INTERRUPTED)
    found = fidelity.differences(measured.runs)
    if as_json:
        print_json([one.record for one in found])
    else:
        for part in fidelity.tables(measured, found):
            out.print(part, "")
    if found:
        store = Store(request.folder)
        page = fidelity.write_report(measured, found, lambda job: decoded(store.timeline(job.key)))
        err.print(f"rows in {request.folder / 'rows.parquet'}, report in {page}", markup=False)


def decoded(text: str | None) -> dict[str, Any] | None:
    """A timeline as it was kept."""
    if text is None:
        return None
    timeline: dict[str, Any] = json.loads(text)
    return timeline


@app.command("steer")
def _steer(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help="A scenario file, or the name of one of ours; none with --live."),
    ] = None,
    scheduler: Annotated[str, typer.Option(metavar="S,…", help="Schedulers that steer.")] = "min-rtt",
    cc: Annotated[str | None, typer.Option(metavar="C,…", help="Congestion controllers.")] = None,
    interval: Annotated[str, typer.Option(metavar="TIME", help="From one question to the next.")] = "100ms",
    mode: Annotated[str, typer.Option(metavar="exclusive|preferred", help="What other subflows do.")] = "exclusive",
    seeds: Annotated[str | None, typer.Option(metavar="A..B", help="Seeds; B is left out.")] = None,
    sets: SETS = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Transfers beside one another.")] = None,
    is_live: Annotated[bool, typer.Option("--live", help="Steers this namespace's connections until Ctrl-C.")] = False,
    token: Annotated[
        str | None, typer.Option(metavar="T", help="With --live: one connection, as `ss -tiM` shows.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Steers the kernel's MPTCP by a scheduler that is asked once per interval, through priorities (MP_PRIO)."""
    from weftway import steer

    manner = steer.Manner(steer.interval(interval), mode)
    if is_live == (scenario is not None) or (token is not None and not is_live):
        raise ScenarioError("weft steer takes a scenario, or --live and perhaps --token")
    transfers = {"--cc": cc, "--seeds": seeds, "--set": sets or None, "--jobs": jobs}
    if is_live and (given := [name for name, value in transfers.items() if value is not None]):
        raise ScenarioError(f"--live steers connections as they are: it takes no {', '.join(given)}")
    if is_live:
        report = steer.live(scheduler, manner, steer.token(token), lambda line: err.print(line, markup=False))
        if as_json:
            print_json([report])
        else:
            err.print("\n".join(steer.summary(report)), markup=False)
        return
    loaded = scenarios.load(scenarios.locate(scenario or ""), sets or [])
    wanted = steer.jobs(loaded, steer.steerers(scheduler), cc, seeds)
    try:
        with Bar(err) as bar:
            rows, missing = steer.run(wanted, manner, jobs or steer.LABS, bar.tell)
    except KeyboardInterrupt:
        fail("interrupted; nothing is left behind", INTERRUPTED)
    reasons = list(dict.fromkeys(one.reason for one in missing))
    if not rows:
        raise SimulationError("; ".join(reasons))
    for line in reasons:
        err.print(f"skipped: {line}", markup=False)
    if as_json:
        print_json(rows)
    else:
        for part in steer.table(rows):
            out.print(tables.fitted(part, out), "")


@app.command("bench")
def _bench(as_json: JSON = False) -> None:
    """Measures the simulator and the schedulers on this machine."""
    from weftway import bench

    figures = bench.measure()
    if as_json:
        print_json([figures])
    else:
        tables_ = (bench.engine_table, bench.decision_table, bench.learned_table, bench.environment_table)
        out.print(*(table(figures) for table in tables_))


@app.command("new")
def _new(
    kind: Annotated[str, typer.Argument(metavar="scheduler", help="What to begin.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: lower case, words joined by -.")],
) -> None:
    """Begins a scheduler in the source tree. Writes its file, its line in the registry and its vectors."""
    if kind != "scheduler":
        raise ScenarioError(f"`weft new {kind}`: only `weft new scheduler NAME` is known")
    for line in new.scheduler(name, scenarios.HOME):
        out.print(line)


def figure_formats(figures: str | None, folder: Path | None) -> list[str]:
    """What `--figures` names."""
    formats = plan.names(figures or "")
    if formats and folder is None:
        raise ScenarioError("--figures needs --out DIR, the folder to write them to")
    for name in formats:
        if name not in report.FORMATS:
            raise ScenarioError(f"--figures {name}: there is {', '.join(report.FORMATS)}")
    return formats


def server_words(server: str | None) -> list[str] | None:
    """What `--server` names, word by word."""
    if server is None:
        return None
    try:
        words = shlex.split(server)
    except ValueError as error:
        raise ScenarioError(f"--server {server}: {error}") from None
    if not words:
        raise ScenarioError("--server needs a command, for example --server 'iperf3 -s -1'")
    return words


def executed(wanted: plan.Plan, jobs: int | None, folder: Path | None) -> comparison.Comparison:
    """Runs a plan; an interrupt ends the command."""
    try:
        with Bar(err) as bar:
            return comparison.execute(wanted, jobs, folder, bar.tell)
    except comparison.Interrupted as error:
        # What is finished is kept: an impatient second Ctrl-C has nothing left to stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        fail(str(error), INTERRUPTED)


def skipped(found: comparison.Comparison) -> list[str]:
    """What could not be run and why, each once: the reason is seldom a matter of the controller."""
    return list(dict.fromkeys(f"{one.job.scheduler.name}: {one.reason}" for one in found.skipped))


def print_tables(found: comparison.Comparison) -> None:
    """The tables of a comparison, and published numbers beside ours where the scenario has them."""
    if not found.rows:
        return
    frame = table(found.rows)
    for part in tables.comparison(frame, scenarios.document(found.plan.scenario)):
        out.print(tables.fitted(part, out), "")


def print_json(rows: list[dict[str, Any]]) -> None:
    """One array, a line per element."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    sys.stdout.write(f"[\n{lines}\n]\n" if rows else "[]\n")


def main() -> None:
    """Runs the command and turns what went wrong into one message and an exit status."""
    try:
        app()
    except (ScenarioError, TraceError) as error:
        fail(str(error), BAD_INPUT)
    except (SimulationError, EmulationError) as error:
        fail(str(error), RUN_FAILED)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error), BAD_INPUT)


def fail(message: str, status: int) -> NoReturn:
    """One message on standard error, and out."""
    err.print(f"weft: {message}", markup=False)
    sys.exit(status)
