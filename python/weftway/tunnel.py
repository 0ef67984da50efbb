"""`weft tunnel`: packets of this machine's programs over several links, and the routes that lead them there."""

import json
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weftway import _native, classes, routing
from weftway._native import ScenarioError
from weftway.identity import check_available
from weftway.interrupts import ENDS, ended_by_signals
from weftway.routing import Plan, Routes
from weftway.routing_watch import Watcher
from weftway.transfer import OtherEnd, Progress, name_server, split, usage_file

MTU = 1500
"""What packets of programs may have."""


@dataclass(frozen=True)
class Setting:
    """What a tunnel carries, and where to."""

    other: OtherEnd
    paths: tuple[str, ...]
    plan: Plan
    names: str | None
    """Who answers questions to servers of names in private networks: `relay`, an address and a port, or nobody."""
    classes: str | None
    """The text of a file of rules."""


def setting(
    other: OtherEnd,
    *,
    paths: Sequence[str] = (),
    only: Sequence[str] = (),
    dns: str | None = None,
    kill_switch: bool = False,
    device: str = "weft0",
    classes: Path | None = None,
) -> Setting:
    """What the options say, or why they make no sense."""
    check_available()
    if not hasattr(_native, "carry_packets"):
        raise ScenarioError("weft tunnel needs Linux; `weft proxy` runs here, too")
    if re.fullmatch(r"[\w.-]{1,15}", device, re.ASCII) is None or device in (".", ".."):
        raise ScenarioError(f"--device {device}: a device's name has 1 to 15 letters, digits, '-', '_' or '.'")
    relays = []
    for address in (other.address, *other.others):
        host, port = split(address)
        relays.append((host or "", port))
    plan = Plan(
        device=device,
        mtu=MTU,
        relays=tuple(relays),
        only=tuple(map(routing.part, only)),
        names=dns != "off" and not (only and dns is None),
        kill_switch=kill_switch,
    )
    return Setting(other, tuple(paths), plan, _names(dns, plan), _rules(classes))


def _names(dns: str | None, plan: Plan) -> str | None:
    if not plan.names:
        return None
    if dns is None or dns == "relay":
        return "relay"
    return name_server(dns)


def _rules(file: Path | None) -> str | None:
    return classes.read(file)


def run(
    setting: Setting,
    *,
    scheduler: str = "min-rtt",
    cc: str = "cubic",
    watch: Callable[[Progress], None] = lambda _: None,
    switch: Callable[[], list[str]] = list,
) -> None:
    """Carries packets until it is interrupted. Then all routes are as they were, and so they are when it fails, unless
    there is a kill switch: what programs send leads nowhere then, until it is restored.

    Routes that other programs take away meanwhile are set again.

    `watch` is told ten times a second what is going on; then `switch` may name schedulers that take over.
    """
    other, plan = setting.other, setting.plan
    assert other.pairing is not None, "a tunnel connects to a relay"
    with ended_by_signals():
        routes = Routes()
        routing.check_free(plan.device)
        watcher: Watcher | None = None
        notes: list[str] = []
        stays_closed = False

        def lead_here() -> None:
            nonlocal watcher
            if watcher is None:
                routes.apply(plan)
                watcher = Watcher(plan, routes)

        def tell(text: str) -> list[str]:
            progress = json.loads(text)
            if progress["state"] == "relaying":
                lead_here()
            if watcher is not None:
                notes.extend(watcher.notes())
                progress["state"] = watcher.state(progress["state"])
            progress["note"] = "; ".join(filter(None, [progress["note"], *notes])) or None
            notes.clear()
            watch(progress)
            return switch()

        try:
            notes += filter(None, [routes.begin(plan)])
            device = _native.Tun(plan.device)
            routes.prepare(plan)
            if plan.kill_switch:
                lead_here()
            routing.resolve_through(plan)
            _native.carry_packets(
                device,
                plan.mtu,
                setting.names,
                [other.address, *other.others],
                other.pairing,
                list(setting.paths),
                scheduler,
                cc,
                tell,
                str(usage_file()),
                setting.classes,
            )
        except Exception:
            stays_closed = plan.kill_switch
            raise
        finally:
            with _undisturbed():
                if watcher is not None:
                    watcher.close()
                if not stays_closed:
                    routes.restore()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No signal interrupts this: an impatient second Ctrl-C would leave half of the routes."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, *ENDS)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
