"""`weft tunnel`."""

from typing import Annotated

import typer

from weftway._native import ScenarioError
from weftway.exit_status import INTERRUPTED

from .config import CONFIG
from .options import WIRE_CC
from .output import err, fail
from .proxy import CC, CLASSES, SCHEDULER, TO
from .recv import LINKS, PAIR, other_end
from .watching import JSON_LINES, METRICS, watched


def command(
    to: TO = None,
    pair: PAIR = None,
    local: LINKS = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NET][:PORT[-PORT]]",
            help="Carries only this: 10.0.0.0/8, :443, 192.0.2.0/24:8000-8080, [2001:db8::/32]:443. Repeatable.",
        ),
    ] = None,
    dns: Annotated[
        str | None,
        typer.Option(
            metavar="relay|off|ADDR[:PORT]",
            help="Who answers questions to servers of names in private networks: the server that the relay asks, they "
            "themselves, or this one. Default: relay; with --only: off.",
        ),
    ] = None,
    kill_switch: Annotated[
        bool, typer.Option("--kill-switch", help="Nothing goes beside the tunnel, also when it was killed.")
    ] = False,
    device: Annotated[str, typer.Option(metavar="NAME", help="The tunnel's network device.")] = "weft0",
    scheduler: SCHEDULER = "min-rtt",
    cc: CC = WIRE_CC,
    classes: CLASSES = None,
    metrics: METRICS = None,
    as_json: JSON_LINES = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Takes back what a tunnel that was killed has left, and starts nothing.")
    ] = False,
    config: CONFIG = None,
) -> None:
    """Carries all traffic of this machine over several links at once, to a machine with `weft relay`. Linux, root."""
    from weftway import routing, tunnel

    if restore:
        if to is not None:
            raise ScenarioError("--restore goes alone: it starts no tunnel")
        routes = routing.Routes()
        if left := routing.end_connections():
            err.print(left)
        restored = routes.restore()
        err.print("restored" if restored else "there was nothing to restore")
        return
    if to is None:
        raise ScenarioError("weft tunnel needs --to HOST:PORT, where `weft relay` listens")
    other = other_end(to, None, pair, None, "--to")
    setting = tunnel.setting(
        other, paths=local or [], only=only or [], dns=dns, kill_switch=kill_switch, device=device, classes=classes
    )
    try:
        with watched("tunnel", metrics, as_json) as program:
            tunnel.run(setting, scheduler=scheduler, cc=cc, watch=program.tell, switch=program.schedulers)
    except KeyboardInterrupt:
        fail("stopped the tunnel", INTERRUPTED)
