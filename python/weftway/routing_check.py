"""Check of a tunnel's routes by `ip`: what is missing of them, and which packets go beside the tunnel.

Other programs change routes, too: systemd-networkd takes away rules that are not its own when it starts, a device that
is set down loses its routes, a VPN puts its rules before those of the tunnel.
"""

import ipaddress
import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from weftway.routing import TABLE, Plan, families

ANYWHERE = {4: [f"{first}.77.65.66" for first in range(1, 224, 32)], 6: ["2a00::7765:6674", "3000::7765:6674"]}
"""An address in each eighth of IPv4 that is not multicast, and in each half of what is in use of IPv6 (2000::/3).
Nobody has rules or routes for these hosts, as some have for 1.1.1.1."""

MOST_GENERAL = {4: 7, 6: 6}
"""A route to so long a prefix at most is a default route in parts, as VPN programs set them (0.0.0.0/1, 128.0.0.0/1),
and none to a network that the machine knows better: those have 8 bits (10.0.0.0/8) or 7 (fc00::/7) and more."""

LEADS_NOWHERE = ("local", "broadcast", "multicast", "unreachable", "blackhole", "prohibit", "throw")
"""The types of routes that let nothing out."""


@dataclass(frozen=True)
class Shown:
    """Output of `ip -json` for one family of addresses."""

    device: dict[str, Any] | None
    """The tunnel's device."""
    addresses: list[dict[str, Any]]
    """Its addresses."""
    routes: list[dict[str, Any]]
    """Routes of the tunnel's table."""
    rules: list[dict[str, Any]]

    @classmethod
    def read(cls, text: str) -> "Shown":
        """Reads what was printed of addresses, rules, table and device: a line each, but none for what is not there."""
        items = [item for document in _documents(text) for item in document]
        devices = [item for item in items if "ifname" in item]
        addresses = [address for device in devices for address in device.get("addr_info", [])]
        rules = [item for item in items if "priority" in item]
        routes = [item for item in items if "dst" in item and "priority" not in item]
        return cls(devices[0] if devices else None, addresses, routes, rules)

    def has(self, line: str) -> bool:
        """Tells if what this line asks of `ip` is there."""
        match line.split():
            case [_, "address", "add", address, *_]:
                return address in [f"{known.get('local')}/{known.get('prefixlen')}" for known in self.addresses]
            case ["link", "set", "dev", _, "mtu", mtu, "up"]:
                device = self.device or {"flags": [], "mtu": 0}
                return "UP" in device["flags"] and device["mtu"] == int(mtu)
            case [_, "route", "add", "default", "dev", device, *_]:
                return any(route["dst"] == "default" and route.get("dev") == device for route in self.routes)
            case [_, "rule", "add", *words]:
                wanted = _as_shown(words).items()
                return any(wanted <= rule.items() for rule in map(_comparable, self.rules))
        raise ValueError(line)


def missing(plan: Plan, shown: dict[int, Shown]) -> list[str]:
    """The lines of the plan whose results are not there: all, of a family that was switched on after the look."""
    lines = [*plan.addresses(), *plan.routes()]
    families_shown = {4: Shown.read(""), 6: Shown.read(""), **shown}
    return [line for line in lines if not families_shown[6 if line.startswith("-6") else 4].has(line)]


def look(plan: Plan) -> dict[int, Shown]:
    """Looks at each family of addresses that is switched on."""
    device = plan.device
    # The device comes last: after `link show` older versions of `ip` show no addresses in the same batch.
    lines = [f"address show dev {device}", "rule show", f"route show table {TABLE}", f"link show dev {device}"]
    return {family: Shown.read(_ask(family, lines).stdout) for family in families(plan.device)}


def beside(plan: Plan) -> str | None:
    """Finds packets for the tunnel that go beside it, and says which way they go."""
    for family in families(plan.device):
        probes = list(_probes(plan, family))
        done = _ask(family, [f"route get fibmatch {probe.packet}" for probe in probes])
        failed = {int(number) for number in re.findall(r"Command failed -:(\d+)", done.stderr)}
        answered = [probe for at, probe in enumerate(probes, 1) if at not in failed]
        for probe, routes in zip(answered, _documents(done.stdout), strict=False):
            if routes and probe.goes_beside(plan, family, routes[0]):
                return f"{routes[0]['dst']} of IPv{family} leads to {routes[0].get('dev', 'another device')}"
    return None


@dataclass(frozen=True)
class Probe:
    """A packet for the tunnel, as `ip route get` is asked for it."""

    packet: str
    is_general: bool
    """True where the machine may have a better route to the packet's network than the tunnel."""

    def goes_beside(self, plan: Plan, family: int, route: dict[str, Any]) -> bool:
        """Tells if the route that the kernel takes for the packet leads past the tunnel."""
        if route.get("dev") == plan.device or route.get("type") in LEADS_NOWHERE:
            return False
        general = 0 if route["dst"] == "default" else ipaddress.ip_network(route["dst"]).prefixlen
        return not self.is_general or general <= MOST_GENERAL[family]


def _probes(plan: Plan, family: int) -> Iterator[Probe]:
    relays = {address for address, _ in plan.relays}
    for selector in plan.selectors(family):
        match selector.split():
            case ["to", text, *rest]:
                network = ipaddress.ip_network(text)
                places = [str(network[min(1, network.num_addresses - 1)])]
            case rest:
                places = ANYWHERE[family][: 1 if rest else None]
        # Of several ports the first.
        words = " ".join(rest).partition("-")[0]
        is_general = selector == "" and not plan.kill_switch
        yield from (Probe(f"{place} {words}".strip(), is_general) for place in places if place not in relays)


def _as_shown(words: Sequence[str]) -> dict[str, Any]:
    """The words of a rule, as `ip -json -N` shows it: without its protocol, which versions of `ip` name differently."""
    shown: dict[str, Any] = {"src": "all"}
    rest = iter(words)
    for word in rest:
        match word:
            case "pref":
                shown["priority"] = int(next(rest))
            case "to":
                network = ipaddress.ip_network(next(rest))
                shown["dst"] = str(network.network_address)
                if network.prefixlen < network.max_prefixlen:
                    shown["dstlen"] = network.prefixlen
            case "dport":
                first, _, last = next(rest).partition("-")
                shown |= {"dport_start": int(first), "dport_end": int(last or first)}
            case "lookup":
                table = next(rest)
                shown["table"] = "254" if table == "main" else table
            case "suppress_prefixlength":
                shown["suppress_prefixlen"] = int(next(rest))
            case "goto":
                shown |= {"goto": int(next(rest)), "is_resolved": True}
            case "nop":
                shown["nop"] = None
            case "ipproto":
                next(rest)
    return shown


def _comparable(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule as `ip` shows it, with one port as a range. One that jumps to a rule that is not there is another one."""
    port = {"dport_start": rule["dport"], "dport_end": rule["dport"]} if "dport" in rule else {}
    return {**rule, **port, "is_resolved": "unresolved" not in rule}


def _ask(family: int, lines: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = ["ip", f"-{family}", "-json", "-N", "-force", "-batch", "-"]
    return subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)


def _documents(text: str) -> Iterator[list[dict[str, Any]]]:
    for line in text.splitlines():
        # A list that ended in an error has no end of its line: that of a table without routes.
        with suppress(ValueError):
            yield json.loads(line[1:] if line.startswith("[[") else line)
