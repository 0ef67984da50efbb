"""The routes and rules of `weft tunnel`: what is asked of `ip`, and how it is taken back, however the tunnel ended.

Packets of programs are led to the tunnel's device by rules before those of the system. They look into a table that
holds one route, to that device; so when the device is gone, with a tunnel that was killed, the table is empty and the
system's own routes count again. A kill switch is a table of `nft`, which stays. Routes and rules would not do: a
program that binds itself to a link is let out by the kernel although they lead nowhere.
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

FIRST_RULE, LAST_RULE = 4400, 4499
"""The preferences of its rules: before those of other programs, behind those of the machine's own addresses (0)."""

FILTER = "inet weft_tunnel"
"""The table of `nft` that is the kill switch."""

NEEDED = """\
oifname "lo" accept
icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept
udp sport 68 udp dport 67 accept
udp sport 546 udp dport 547 accept
"""
"""What a kill switch lets out: to this machine itself, and what links need for having addresses."""

ADDRESS = {4: "198.18.77.1", 6: "fd77:6566:7477::1"}
"""Where packets on the device come from. Of networks for tests (RFC 2544) and for nobody else (RFC 4193)."""

RESOLVER = "198.18.77.2"
"""An address to which questions for names may be sent: the tunnel answers them."""

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

    def matches(self) -> list[str]:
        """The same, as `nft` says it."""
        network = self.network
        to = "" if network is None else f"{'ip' if network.version == 4 else 'ip6'} daddr {network} "
        if self.ports is None:
            return [to]
        first, last = self.ports
        return [f"{to}{protocol} dport {first}-{last} " for protocol in ("tcp", "udp")]


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
    """What goes through the tunnel. Nothing is named: all does, but what a route of the system knows better than its
    default route, such as the network at home."""
    names: bool = True
    """Whether questions for names go through it, whichever server they are for."""
    kill_switch: bool = False
    """Whether nothing goes beside it: not to the network at home, and not when the tunnel is gone."""

    def addresses(self) -> Iterator[str]:
        """What the device is given, and that it is up."""
        for family in families(self.device):
            nodad = " nodad" if family == 6 else ""
            yield f"-{family} address add {ADDRESS[family]}/{32 if family == 4 else 128} dev {self.device}{nodad}"
        yield f"link set dev {self.device} mtu {self.mtu} up"

    def routes(self) -> Iterator[str]:
        """The routes and rules."""
        for family in families(self.device):
            yield f"-{family} route add default dev {self.device} table {TABLE}"
            # The last one is there first: rules before it may go there.
            yield f"-{family} rule add pref {LAST_RULE} nop"
            for at, selector in enumerate(self._rules(family)):
                yield f"-{family} rule add pref {FIRST_RULE + at} {selector}"

    def _rules(self, family: int) -> Iterator[str]:
        for address, port in self.relays:
            if ipaddress.ip_address(address).version == family:
                yield f"to {address} ipproto udp dport {port} goto {LAST_RULE}"
        for selector in self.selectors(family):
            if selector == "" and not self.kill_switch:
                yield "lookup main suppress_prefixlength 0"
            yield f"{selector} lookup {TABLE}".strip()

    def filter(self) -> str:
        """The kill switch, as `nft` reads it: what is for the tunnel may leave by its device alone."""
        lines = NEEDED + f'oifname "{self.device}" accept\n'
        for address, port in self.relays:
            family = "ip" if ipaddress.ip_address(address).version == 4 else "ip6"
            lines += f"{family} daddr {address} udp dport {port} accept\n"
        for one in self.only or (Part(None, None),):
            lines += "".join(f"{match} reject\n".lstrip() for match in one.matches())
        if self.names and self.only:
            lines += "udp dport 53 reject\ntcp dport 53 reject\n"
        chains = "".join(
            f"chain {hook} {{\ntype filter hook {hook} priority 0; policy accept;\n{lines}}}\n"
            for hook in ("output", "forward")
        )
        # In one step: it is never not there.
        return f"table {FILTER} {{}}\ndelete table {FILTER}\ntable {FILTER} {{\n{chains}}}\n"

    def selectors(self, family: int) -> Iterator[str]:
        """What goes through the tunnel, as rules say it."""
        if self.names:
            yield "ipproto udp dport 53"
            yield "ipproto tcp dport 53"
            if family == 4:
                yield f"to {RESOLVER}"
        for one in self.only or (Part(None, None),):
            yield from one.selectors(family)


def undo() -> list[str]:
    """What takes routes and rules back: the same for every plan. The device goes with the process that made it."""
    lines = []
    for family in (4, 6):
        lines += [f"-{family} rule delete pref {pref}" for pref in range(FIRST_RULE, LAST_RULE + 1)]
        lines.append(f"-{family} route flush table {TABLE}")
    return lines


def families(device: str) -> list[int]:
    """The families of addresses that this machine has switched on, on any device but this one."""
    settings = Path("/proc/sys/net/ipv6/conf").glob("*/disable_ipv6")
    # What is set for all holds for those that were there then; each may be set anew.
    others = [file for file in settings if file.parent.name not in ("default", device)]
    return [4, 6] if any(_read_setting(file) == "0" for file in others) else [4]


def _read_setting(file: Path) -> str:
    """A setting of the kernel; nothing, of a device that has gone."""
    with suppress(OSError):
        return file.read_text().strip()
    return ""


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


def nft(text: str) -> str:
    """Has `nft` carry out this: what it complained of."""
    done = subprocess.run(["nft", "-f", "-"], input=text, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


LOOSE = "2"
"""A filter of sources that lets through what comes from an address to which the machine has any route (rp_filter)."""


def _listed_filter() -> str:
    """The kill switch as `nft` lists it, or nothing."""
    done = subprocess.run(["nft", "list", "table", *FILTER.split()], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def strict_filters() -> dict[str, str]:
    """The settings of the kernel that would drop what comes from the relay, and what they are now.

    A strict filter of sources (rp_filter 1) takes a packet only from the device by which an answer would leave. By the
    rules that would be the tunnel's, since they ask for more than an address. Of a device's setting and that of all
    devices the larger one counts, so that the latter is enough, also for devices that come later.
    """
    folder = Path("/proc/sys/net/ipv4/conf")
    of_all = folder / "all/rp_filter"
    is_strict = any(_read_setting(file) == "1" for file in folder.glob("*/rp_filter"))
    now = _read_setting(of_all)
    return {str(of_all): now} if is_strict and now != LOOSE else {}


def check_free(device: str) -> None:
    """Refuses the name of a device that is there: it is somebody else's."""
    if Path("/sys/class/net", device).exists():
        raise ScenarioError(f"--device {device}: there is an interface of this name; name another one")


def state_file() -> Path:
    """Where it is kept what a tunnel has changed: for each network namespace."""
    return Path("/run/weftway") / f"tunnel-{Path('/proc/self/ns/net').stat().st_ino}.json"


class Routes:
    """The routes of a tunnel that runs here. There is one at a time."""

    def __init__(self) -> None:
        if shutil.which("ip") is None:
            raise ScenarioError("weft tunnel needs the command `ip` (package iproute2)")
        self._file = state_file()
        self._state = self._open()
        self._closed = ""
        """The kill switch as `nft` listed it when it was set."""

    def _open(self) -> IO[str]:
        try:
            self._file.parent.mkdir(mode=0o755, exist_ok=True)
            while True:
                state = self._file.open("a+")
                fcntl.flock(state, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Another tunnel may have ended meanwhile, and its file with it.
                if self._file.exists() and self._file.stat().st_ino == os.fstat(state.fileno()).st_ino:
                    return state
                state.close()
        except BlockingIOError:
            raise ScenarioError("a tunnel runs already: there is one at a time") from None
        except OSError as error:
            raise ScenarioError(f"weft tunnel needs root: {self._file}: {error.strerror}") from None

    def begin(self, plan: Plan) -> str:
        """Takes back what an earlier tunnel has left, if it has. With a kill switch nothing goes beside it any more.

        Returns what could not be taken back, for the user.
        """
        if plan.kill_switch and shutil.which("nft") is None:
            raise ScenarioError("--kill-switch needs the command `nft` (package nftables)")
        before = self._read()
        closed = plan.kill_switch or bool(before.get("closed"))
        self._write({"settings": before.get("settings", {}), "closed": closed})
        if plan.kill_switch:
            self._check(self.close_off(plan), "nft")
        left = ""
        if before:
            left = end_connections()
            run(undo(), force=True)
            if closed and not plan.kill_switch:
                nft(f"delete table {FILTER}\n")
        return left

    def prepare(self, plan: Plan) -> None:
        """Gives the device what it needs. Nothing goes there yet."""
        self._check(self.make(plan, list(plan.addresses())))

    def apply(self, plan: Plan) -> None:
        """Leads packets to the tunnel."""
        self.loosen()
        self._check(self.make(plan, list(plan.routes())))

    def make(self, plan: Plan, lines: Sequence[str], *, force: bool = False) -> str:
        """Makes these of the plan's addresses, routes and rules; returns what `ip` complained of."""
        if any(line.startswith("-6 address") for line in lines):
            # New devices may have none where others do.
            with suppress(OSError):
                Path(f"/proc/sys/net/ipv6/conf/{plan.device}/disable_ipv6").write_text("0\n")
        return run(lines, force=force)

    def loosen(self) -> None:
        """Has strict filters of sources let through what comes from the relay."""
        strict = strict_filters()
        if strict:
            state = self._read()
            # Of a setting that another program has set again, the first value counts.
            self._write({**state, "settings": {**strict, **state.get("settings", {})}})
        for file in strict:
            with suppress(OSError):
                Path(file).write_text(f"{LOOSE}\n")

    def close_off(self, plan: Plan) -> str:
        """Sets the kill switch; returns what `nft` complained of."""
        complaint = nft(plan.filter())
        self._closed = _listed_filter()
        return complaint

    def is_closed_off(self) -> bool:
        """Returns true if the kill switch is there as it was set."""
        return self._closed != "" and self._closed == _listed_filter()

    def restore(self) -> bool:
        """Takes everything back: whether there was anything."""
        state = self._read()
        if state:
            end_connections()
        for file, value in state.get("settings", {}).items():
            with suppress(OSError):
                Path(file).write_text(f"{value}\n")
        if state:
            run(undo(), force=True)
        if state.get("closed", bool(state)) and shutil.which("nft") is not None:
            nft(f"delete table {FILTER}\n")
        self._write(None)
        self._file.unlink(missing_ok=True)
        return bool(state)

    def _read(self) -> dict[str, Any]:
        """What a tunnel has written down that has not taken it back."""
        self._state.seek(0)
        try:
            state = json.loads(self._state.read() or "{}")
        except ValueError:  # it was killed as it wrote
            state = None
        return state if isinstance(state, dict) else {"settings": {}}

    def _write(self, state: dict[str, Any] | None) -> None:
        self._state.seek(0)
        self._state.truncate()
        if state is not None:
            json.dump(state, self._state)
        self._state.flush()
        os.fsync(self._state.fileno())

    def _check(self, complaint: str, command: str = "ip") -> None:
        if complaint:
            raise TransferError(f"{command}: {complaint.splitlines()[0]}")


def end_connections() -> str:
    """Ends the TCP connections of programs that an earlier tunnel has carried; says which could not be ended, and why.

    They have its address. A program that only receives would wait for ever: it sends nothing that could be answered
    with a reset.
    """
    own = ["(", "src", ADDRESS[4], "or", "src", f"[{ADDRESS[6]}]", ")"]
    listed = ["ss", "--no-header", "--numeric", "--tcp", "state", "connected", "exclude", "time-wait", *own]
    if shutil.which("ss") is None:
        return "connections of an earlier tunnel are not ended: that needs the command `ss` (package iproute2)"
    for command in (["ss", "--kill", *listed[1:]], listed):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    count = len(done.stdout.splitlines())
    if count == 0:
        return ""
    # It says nothing of those that it could not end.
    return f"{count} connections of an earlier tunnel are not ended: that needs a kernel with CONFIG_INET_DIAG_DESTROY"


def resolve_through(plan: Plan) -> None:
    """Has systemd-resolved, where it runs, ask the tunnel: it binds its questions to devices, past all rules.

    It forgets that with the device.
    """
    if not plan.names or plan.only:
        return
    device = plan.device
    if shutil.which("resolvectl") is None or not Path("/run/systemd/resolve/resolv.conf").exists():
        return
    for words in (["dns", device, RESOLVER], ["domain", device, "~."], ["default-route", device, "yes"]):
        subprocess.run(["resolvectl", *words], capture_output=True, check=False)
