"""`weft record`."""

from decimal import Decimal
from typing import Annotated

import typer

from weftway._native import ScenarioError
from weftway.exit_status import INTERRUPTED, RUN_FAILED

from .new import tell
from .options import JSON
from .output import err, fail, out, print_json
from .recv import PATHS

CAP = "100 MB"


def command(
    local: PATHS = None,
    peer: Annotated[
        str | None, typer.Option(metavar="HOST[:PORT]", help="Where `weft record --listen` runs; port 4434.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="[ADDR:]PORT", help="Is the other end, for one recording after another.")
    ] = None,
    seconds: Annotated[str, typer.Option("--for", metavar="TIME", help="How long it measures.")] = "60 s",
    load: Annotated[
        bool, typer.Option("--load", help="Fills all links in both directions: the rate is what arrives.")
    ] = False,
    cap: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help=f"With --load or --listen: the most a path and direction takes. Default: {CAP}."
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--out", metavar="NAME", help="Writes NAME.toml, NAME.down.csv, NAME.up.csv.")
    ] = "recorded",
    workload: Annotated[
        str | None, typer.Option(metavar="bulk|web|stream|voip|call", help="The scenario's workload. Default: bulk.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Measures several links at once, both directions, on one clock; writes a drive and a scenario that uses it.

    By default with probes: round trip and loss, and for the rate an upper bound. On the other machine: weft record
    --listen 4434.
    """
    if (peer is None) == (listen is None):
        raise ScenarioError("weft record needs either --peer HOST, with --path for each link, or --listen PORT")
    if listen is not None:
        if local or load or workload or as_json:
            raise ScenarioError("weft record --listen takes --cap alone: the other end says what is measured")
        return host(listen, size(cap or CAP))
    if not local:
        raise ScenarioError("weft record needs --path for each link, as in --path wlan0 --path wwan0")
    if cap and not load:
        raise ScenarioError("--cap is the most that load takes: it goes with --load")
    return measure(
        local, str(peer), whole_seconds(seconds), size(cap or CAP) if load else None, name, workload, as_json
    )


def size(text: str) -> int:
    """A cap in bytes."""
    from weftway.randomisation import quantity

    return int(quantity(text, "size", "--cap"))


def whole_seconds(text: str) -> int:
    """How long it measures."""
    from weftway.randomisation import quantity
    from weftway.record.listening import MOST_SECONDS

    found = quantity(text, "time", "--for") / Decimal(10**9)
    if not 1 <= found <= MOST_SECONDS or found != int(found):
        raise ScenarioError(f"--for {text}: whole seconds from 1 to {MOST_SECONDS} are possible")
    return int(found)


def host(listen: str, cap: int) -> None:
    """Is the end that listens, until it is interrupted."""
    from weftway.record import listening, places

    opened = places.listening(listen)
    address, port, *_ = opened.getsockname()
    err.print(f"listening at {f'[{address}]' if ':' in address else address}:{port}")
    try:
        listening.serve(opened, cap, lambda line: err.print(line))
    except KeyboardInterrupt:
        fail("stopped listening", INTERRUPTED)


def measure(
    local: list[str], peer: str, seconds: int, cap: int | None, name: str, workload: str | None, as_json: bool
) -> None:
    """Records, writes, and says what it found."""
    from weftway import transfer
    from weftway.progress import Bar
    from weftway.record import places, recording, report
    from weftway.record.wire import Plan

    report.free(name, workload)
    report.link_names(local)
    probes = report.probe_bytes(seconds, places.IPV6_HEADER)
    if cap is not None and cap < 2 * probes:
        raise ScenarioError(f"--cap: {transfer.amount(cap)} are not enough for {seconds} s: probes take half of it")
    # Twice: for what comes before the first second, and for the records.
    plan = Plan(len(local), seconds, cap is not None, 2 * probes + 1_000_000 if cap is None else cap)
    if cap is None:
        err.print(f"probes: {transfer.amount(probes)} a path and direction in {seconds} s")
    else:
        whole = transfer.amount(2 * len(local) * cap)
        err.print(
            f"load: at most {transfer.amount(cap)} a path and direction, {whole} in all; it ends when one is spent"
        )
    try:
        with Bar(err, "seconds", "recorded") as bar:
            recorded = recording.Recorder(local, peer, plan, bar.tell).run()
    except KeyboardInterrupt:
        fail("interrupted before anything was measured", INTERRUPTED)
    made = report.write(recorded, name, workload)
    if as_json:
        print_json(report.record(made))
    else:
        out.print(report.table(made))
        for line in made.caveats:
            out.print(line, soft_wrap=True)
        tell(made.written, "compare")
    if recorded.interrupted:
        fail(f"interrupted; {made.seconds:g} s were measured and are written", INTERRUPTED)
    if made.cut:
        fail(f"{made.cut}; {made.seconds:g} of {seconds} s were measured and are written", RUN_FAILED)
