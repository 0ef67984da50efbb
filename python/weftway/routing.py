"""The routes and rules of `weft tunnel`: what is asked of `ip`, and how all of it is taken back, whatever happened to the tunnel.

Packets of programs are led to the tunnel's device by rules before those of the system. They look into a table that holds one
route, to that device; so when the device is gone, with a tunnel that was killed, the rules lead nowhere and the system's own
routes count again. With a kill switch the table also holds a route that leads nowhere, which stays.
"""

import fcntl
import ipaddress
import itertools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from weftway._native import ScenarioError, TransferError

TABLE = 51877
"""The table of the tunnel's routes: no other program that is known to us has this one."""

GUARD, FIRST_RULE, LAST_RULE = 4399, 4400, 4499
"""The preferences of its rules: before those of other programs, behind those of the machine's own addresses (0).

The first lets nothing through while a tunnel with a kill switch changes the others.
"""

ADDRESS = {4: "198.18.77.1", 6: "fd77:6566:7477::1"}
"""Where packets on the device come from. Of networks for tests (RFC 2544) and for nobody else (RFC 4193)."""

RESOLVER = "198.18.77.2"
"""An address to which questions for names may be sent: the tunnel answers them."""

LAST_METRIC = 4278198272
"""That of a route which counts when no other one does."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class Part:
    """A part of the traffic: to a network, to ports, or both."""

    network: Network | None
    ports: tuple[int, int] | None

    def selectors(self, family: int) -> list[str]:
        """The words of rules that select it. There are none in the other family."""
        if self.network is not None and self.network.version != family:
            return []
        to = f"to {self.network}" if self.network is not None else ""
        if self.ports is None:
            return [to]
        first, last = self.ports
        return [f"{to} ipproto {protocol} dport {first}-{last}".strip() for protocol in ("tcp", "udp")]


def part(text: str) -> Part:
    """NET, NET:PORT, :PORT or :PORT-PORT; a network of IPv6 before a port stands in brackets."""
    wrong = ScenarioError(
        f"--only {text}: it is a network, ports, or both: 10.0.0.0/8, :443, 192.0.2.0/24:8000-8080, [2001:db8::/32]:443"
    )
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(.+))?", text)
    if bracketed:
        place, port = bracketed[1], bracketed[2]
    elif text.count(":") > 1:
        place, port = text, None
    else:
        place, _, port = text.partition(":")
        port = port or None
        if text.endswith(":"):
            raise wrong
    try:
        network = ipaddress.ip_network(place, strict=False) if place else None
        first, last = (int(number) for number in (port or "1").split("-") * (1 if "-" in (port or "") else 2))
    except ValueError:
        raise wrong from None
    if not 1 <= first <= last < 1 << 16 or (network is None and port is None):
        raise wrong
    return Part(network, (first, last) if port else None)


@dataclass(frozen=True)
class Plan:
    """What a tunnel asks of the machine's routes."""

    device: str
    mtu: int
    relays: tuple[tuple[str, int], ...]
    """The addresses and ports of the relay: packets to it go as they did before."""
    only: tuple[Part, ...] = ()
    """What goes through the tunnel. Nothing is named: all does, but what a route of the system knows better than its default
    route, such as the network at home."""
    names: bool = True
    """Whether questions for names go through it, whichever server they are for."""
    kill_switch: bool = False
    """Whether nothing goes beside it: not to the network at home, and not when the tunnel is gone."""

    def addresses(self) -> Iterator[str]:
        """What the device is given, and that it is up."""
        for family in families():
            nodad = " nodad" if family == 6 else ""
            yield f"-{family} address add {ADDRESS[family]}/{32 if family == 4 else 128} dev {self.device}{nodad}"
        yield f"link set dev {self.device} mtu {self.mtu} up"

    def routes(self) -> Iterator[str]:
        """The routes and rules."""
        for family in families():
            if self.kill_switch:
                yield f"-{family} route add unreachable default table {TABLE} metric {LAST_METRIC}"
            yield f"-{family} route add default dev {self.device} table {TABLE}"
            # The last one is there first: rules before it may go there.
            yield f"-{family} rule add pref {LAST_RULE} nop"
            for at, selector in enumerate(self._rules(family)):
                yield f"-{family} rule add pref {FIRST_RULE + at} {selector}"

    def _rules(self, family: int) -> Iterator[str]:
        for address, port in self.relays:
            if ipaddress.ip_address(address).version == family:
                yield f"to {address} ipproto udp dport {port} goto {LAST_RULE}"
        if self.names:
            yield f"ipproto udp dport 53 lookup {TABLE}"
            yield f"ipproto tcp dport 53 lookup {TABLE}"
            if family == 4:
                yield f"to {RESOLVER} lookup {TABLE}"
        if not self.only:
            if not self.kill_switch:
                yield "lookup main suppress_prefixlength 0"
            yield f"lookup {TABLE}"
        for one in self.only:
            for selector in one.selectors(family):
                yield f"{selector} lookup {TABLE}"


def undo(device: str) -> list[str]:
    """What takes all of it back: the same for every plan."""
    lines = [f"link delete dev {device}"]
    for family in (4, 6):
        lines += [f"-{family} rule delete pref {pref}" for pref in range(FIRST_RULE, LAST_RULE + 1)]
        lines += [f"-{family} route flush table {TABLE}", *guard("delete", family)]
    return lines


def guard(what: str, family: int) -> list[str]:
    """Adds or deletes the rule that lets nothing through."""
    return [f"-{family} rule {what} pref {GUARD} unreachable"]


def families() -> list[int]:
    """The families of addresses that this machine has switched on."""
    file = Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")
    return [4, 6] if file.exists() and file.read_text().strip() == "0" else [4]


def run(lines: Sequence[str], *, force: bool = False) -> str:
    """Has `ip` carry out these lines: what it complained of. It stops at the first that it cannot, unless it is forced.

    Each line may begin with the family of addresses, -4 or -6.
    """
    complaints = []
    for option, group in itertools.groupby(lines, key=lambda line: line[:2] if line.startswith("-") else ""):
        words = [option, *(["-force"] if force else []), "-batch", "-"]
        text = "\n".join(line.removeprefix(option).strip() for line in group) + "\n"
        done = subprocess.run(["ip", *filter(None, words)], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            complaints.append(done.stderr.strip() or f"status {done.returncode}")
            if not force:
                break
    return "\n".join(complaints)


def strict_filters() -> dict[str, str]:
    """The settings of the kernel that would drop what comes from the relay, and what they are now.

    A strict filter of sources (rp_filter 1) takes a packet only from the device by which an answer would leave. By the rules
    that would be the tunnel's, since they ask for more than an address.
    """
    folder = Path("/proc/sys/net/ipv4/conf")
    with suppress(OSError):
        is_strict = (folder / "all/rp_filter").read_text().strip() == "1"
        files = [file for file in folder.glob("*/rp_filter") if file.parent.name not in ("all", "default", "lo")]
        values = {str(file): file.read_text().strip() for file in files}
        return {file: value for file, value in values.items() if value == "1" or (is_strict and value == "0")}
    return {}


def state_file() -> Path:
    """Where it is kept what a tunnel has changed: for each network namespace."""
    return Path("/run/weftway") / f"tunnel-{Path('/proc/self/ns/net').stat().st_ino}.json"


class Routes:
    """The routes of a tunnel that runs here. There is one at a time."""

    def __init__(self, device: str) -> None:
        if shutil.which("ip") is None:
            raise ScenarioError("weft tunnel needs the command `ip` (package iproute2)")
        self._file = state_file()
        self._device = device
        self._state = self._open()

    def _open(self) -> IO[str]:
        try:
            self._file.parent.mkdir(mode=0o755, exist_ok=True)
            state = self._file.open("a+")
            fcntl.flock(state, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ScenarioError("a tunnel runs already: there is one at a time") from None
        except OSError as error:
            raise ScenarioError(f"weft tunnel needs root: {self._file}: {error.strerror}") from None
        return state

    def begin(self, plan: Plan) -> bool:
        """Takes back what an earlier tunnel has left, if it has. With a kill switch nothing goes out from now on."""
        before = self._read()
        settings = {**strict_filters(), **before.get("settings", {})}
        self._write({"device": self._device, "settings": settings})
        if plan.kill_switch:
            self._check(run([line for family in families() for line in guard("add", family)]))
        if before:
            run([line for line in undo(before.get("device", self._device)) if f"pref {GUARD} " not in line], force=True)
        return bool(before)

    def prepare(self, plan: Plan) -> None:
        """Gives the device what it needs. Nothing goes there yet."""
        self._check(run(list(plan.addresses())))

    def apply(self, plan: Plan) -> None:
        """Leads packets to the tunnel."""
        for file in self._read().get("settings", {}):
            with suppress(OSError):
                Path(file).write_text("2\n")
        self._check(run(list(plan.routes())))
        if plan.kill_switch:
            self._check(run([line for family in families() for line in guard("delete", family)]))

    def restore(self) -> bool:
        """Takes everything back: whether there was anything."""
        state = self._read()
        for file, value in state.get("settings", {}).items():
            with suppress(OSError):
                Path(file).write_text(f"{value}\n")
        if state:
            run(undo(state.get("device", self._device)), force=True)
        self._write(None)
        return bool(state)

    def _read(self) -> dict[str, Any]:
        """What a tunnel has written down that has not taken it back."""
        self._state.seek(0)
        try:
            state = json.loads(self._state.read() or "{}")
        except ValueError:  # it was killed as it wrote
            state = None
        return state if isinstance(state, dict) else {"device": self._device}

    def _write(self, state: dict[str, Any] | None) -> None:
        self._state.seek(0)
        self._state.truncate()
        if state is not None:
            json.dump(state, self._state)
        self._state.flush()
        os.fsync(self._state.fileno())

    def _check(self, complaint: str) -> None:
        if complaint:
            raise TransferError(f"ip: {complaint.splitlines()[0]}")


def resolve_through(device: str) -> None:
    """Has systemd-resolved, where it runs, ask the tunnel: it binds its questions to devices, past all rules.

    It forgets that with the device.
    """
    if shutil.which("resolvectl") is None or not Path("/run/systemd/resolve/resolv.conf").exists():
        return
    for words in (["dns", device, RESOLVER], ["domain", device, "~."], ["default-route", device, "yes"]):
        subprocess.run(["resolvectl", *words], capture_output=True, check=False)
