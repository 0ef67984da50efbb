"""Files over several links: addresses, identities, and what is told of a transfer while it runs and at its end."""

import errno
import ipaddress
import json
import os
import re
import resource
import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from weftway import _native, reading
from weftway._native import ScenarioError, TransferError
from weftway.identity import Changes, check_available, read_identity, read_private
from weftway.listing import plain_table
from weftway.queued_output import QueuedOutput

if TYPE_CHECKING:
    from rich.live import Live

PORT = 4433
"""Where the end listens that was told no port."""

UNIX = "unix:"
"""Beginning of the name of a socket in the file system."""

PAIR_VARIABLE = "WEFT_PAIR"
"""Where the pairing line may be that is not to stand on a command line, which other users of the machine can read."""

LONGEST_NAME = 254
"""The characters of the longest name, with the dot at its end (RFC 1035)."""

REFRESH_S = 0.25
"""Time between two views on a terminal."""

SHOWN = 5
"""So many of the things that are never sent are named."""

CARRYING = ("relaying", "bypassed", "blocked")
"""States of a program that carries connections. Packets go beside a tunnel: bypassed; or its kill switch stops them."""

Report = dict[str, Any]
Progress = dict[str, Any]


class InterruptedAtEndError(KeyboardInterrupt):
    """An interrupt that came when all was there: the transfer has a `report`, and the program is to end."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report


class InterruptedInMidstError(KeyboardInterrupt):
    """An interrupt that came when the ends had met, and not all was there."""


@dataclass(frozen=True)
class OtherEnd:
    """The other end: at `address`, known by its `pairing` line; or it comes to `address`, where this one listens."""

    address: str
    pairing: str | None = None
    identity: str | None = None
    others: tuple[str, ...] = ()
    """More addresses of the same end: its name has several."""
    name: tuple[str, int] | None = None
    """Its name and port, if it was given by one: it may move."""
    file: Path | None = None
    """Where `identity` was read."""


def pairing(given: str | None) -> str | None:
    """A pairing line: `given` itself, the first line of standard input if it is `-`, or the file of this name.

    Without it, WEFT_PAIR in the environment is taken for it.
    """
    text = given or os.environ.get(PAIR_VARIABLE)
    if not text:
        return None
    if text == "-":
        if line := _first_line(sys.stdin):
            return line
        raise ScenarioError("--pair -: nothing came on standard input; give it the line that `weft pair` printed")
    return text if text.startswith("weft1-") else reading.text(Path(text))


def connect(host: str, line: str) -> OtherEnd:
    """The end at `host`, which may name a port, and its pairing line."""
    name, port = split(host)
    first, *others = resolve(name, port, passive=False)
    named = None if name is None or _is_address(name) else (name, port)
    return OtherEnd(first, pairing=line.strip(), others=tuple(others), name=named)


def listen(address: str, file: Path) -> OtherEnd:
    """Waits at `address`, which may be a port alone, with the identity in `file`."""
    if not file.exists():
        why = "this machine has no identity yet: run `weft pair` here, and copy its line"
        raise FileNotFoundError(errno.ENOENT, why, str(file))
    host, port = split_listening(address)
    return OtherEnd(resolve(host or all_addresses(), port, passive=True)[0], identity=read_identity(file), file=file)


def all_addresses() -> str:
    """The address for a socket that takes what comes over IPv6 and over IPv4, or over IPv4 where there is no IPv6."""
    if socket.has_dualstack_ipv6():
        with suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as tried:
            tried.bind(("::", 0))
            return "::"
    return "0.0.0.0"


def run(
    role: str,
    path: Path,
    other: OtherEnd,
    *,
    paths: Sequence[str] = (),
    scheduler: str = "earliest-delivery",
    cc: str = "cubic",
    watch: Callable[[Progress], None] = lambda _: None,
    switch: Callable[[], list[str]] = list,
    qlog: Path | None = None,
    checksum: bool = False,
    sync: bool = True,
) -> Report:
    """Sends `path`, or receives into it, until all of it is there. A sender writes what happens into the file `qlog`.

    Each of `paths` is an interface or address, and may say what the link is for: "wwan0,tier=backup,cap=10GB/month".

    With `checksum` a sender has contents compared and not times. With `sync` all is on the receiver's disk at the end.
    `watch` is told ten times a second how far it is; then `switch` may name schedulers that take over.
    An interrupt that comes when all is there is raised with the report; before that it is told apart whether the ends
    had met.
    """
    check_available()

    def tell(text: str) -> list[str]:
        watch(json.loads(text))
        return switch()

    told, interrupted = _native.transfer(
        role,
        str(path),
        [other.address, *other.others],
        other.pairing,
        other.identity,
        list(paths),
        scheduler,
        cc,
        tell,
        str(qlog) if qlog else None,
        checksum,
        sync,
        str(usage_file()),
        other.name,
    )
    if told is None:
        raise InterruptedInMidstError
    report: Report = json.loads(told)
    if interrupted:
        raise InterruptedAtEndError(report)
    return report


def relay_connections(
    other: OtherEnd,
    *,
    ports: Sequence[str] = (),
    passwords: str | None = None,
    allow: Sequence[str] = (),
    deny: Sequence[str] = (),
    classes: str | None = None,
    clients: Sequence[str] = (),
    names: str | None = None,
    paths: Sequence[str] = (),
    scheduler: str = "min-rtt",
    cc: str = "cubic",
    watch: Callable[[Progress], None] = lambda _: None,
    switch: Callable[[], list[str]] = list,
) -> None:
    """Carries connections of programs, which come to `ports`, to a relay; or is the relay, if the other end comes here.

    Each of `paths` is an interface or address, and may say what the link is for: "wwan0,tier=backup,cap=10GB/month".

    `classes` is the text of a file of rules, which say how urgent each connection is. `clients` say how much a client
    may have: "rate=50Mbit/s" all of them, "laptop,connections=100" that of this name. Tunnels ask the server of names
    at `names`, or that of this machine.

    `watch` is told ten times a second what is going on; then `switch` may name schedulers that take over.

    `passwords` is the text of a file of lines USER:PASSWORD, one of which programs have to show at `ports`.

    A relay connects to public addresses, and to those in the networks `allow`, but to none in the networks `deny`. It
    ends when it is interrupted. When the file of its identity changes, names that are new and those that were revoked
    count at once.
    """
    check_available()
    _allow_descriptors()
    changes = Changes(other.file, other.identity) if other.file and other.identity else None

    def tell(text: str) -> tuple[str | None, list[str]]:
        progress, became = json.loads(text), None
        try:
            became = changes() if changes else None
        except ScenarioError as error:
            progress["note"] = "; ".join(filter(None, [progress["note"], f"{error}; the identity before is kept"]))
        watch(progress)
        return became, switch()

    addresses = [other.address, *other.others]
    _native.relay_connections(
        addresses,
        other.pairing,
        other.identity,
        list(paths),
        scheduler,
        cc,
        tell,
        list(ports),
        list(allow),
        str(usage_file()),
        classes,
        list(clients),
        names,
        other.name,
        list(deny),
        passwords,
    )


def _allow_descriptors() -> None:
    """Each connection of a program needs a file descriptor: as many as the system allows this user, and not 1024."""
    with suppress(OSError, ValueError):  # it is a wish: where it is refused, further connections wait
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def usage_file() -> Path:
    """Where it is counted what links with a cap carry."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "weftway" / "usage.json"


NUMBER_LAST = re.compile(r"(?:^|\.)(?:[\d-]+|0[xX][\da-fA-F]*)\.?$")
"""A host whose last label is a number: an address, or none. The system would take 192.168.1 for 192.168.0.1
(`inet_aton`), and no top-level domain is a number (RFC 1123 §2.1)."""


def split(text: str, default: int = PORT) -> tuple[str | None, int]:
    """HOST, HOST:PORT, :PORT or [HOST]:PORT; the port is the `default` where it is not named."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, ""
    try:
        number = int(port) if port else default
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 16:
        raise ScenarioError(f"{text}: a port is a number up to 65535, for example 192.0.2.1:{default}")
    name = host.strip("[]")
    if NUMBER_LAST.search(name) and not _is_address(name):
        raise ScenarioError(f"{text}: {name} is no whole address, and no name ends in a number")
    return name or None, number


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def split_listening(text: str, default: int = PORT) -> tuple[str | None, int]:
    """[ADDR:]PORT, or ADDR alone."""
    return split(f":{text}" if text.isdigit() else text, default)


def name_server(text: str) -> str:
    """ADDR[:PORT] of a server of names."""
    host, port = split(text, default=53)
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        raise ScenarioError(f"--dns {text}: it is the address of a server of names, for example 9.9.9.9") from None
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def local_port(text: str) -> str:
    """[ADDR:]PORT for programs of this machine, where ADDR is 127.0.0.1 if it is not named; or unix:PATH."""
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        if not path:
            raise ScenarioError(f"--listen {text}: name the socket's file, as in unix:/run/user/1000/weft.sock")
        return UNIX + str(Path(path).absolute())
    host, port = split_listening(text, default=1080)
    return resolve(host or "127.0.0.1", port, passive=True)[0]


def read_passwords(file: Path | None) -> str | None:
    """The text of a file of passwords, which nobody else may read, if there is one."""
    if file is None:
        return None
    text = read_private(file, "file of passwords", "take other passwords")
    try:
        _native.check_passwords(text)
    except ScenarioError as error:
        raise ScenarioError(f"--passwords {file}: {error}") from None
    return text


def is_open_to_others(port: str) -> bool:
    """Returns true if programs of other machines reach a port of `local_port`."""
    return not port.startswith(UNIX) and not ipaddress.ip_address(split(port)[0] or "").is_loopback


def resolve(host: str | None, port: int, *, passive: bool) -> list[str]:
    """All addresses of a name, in the order in which they are best tried.

    What can be no name is bad input. A name that is not found now may be later: the network may not be up yet.
    """
    if host is not None and not _is_address(host) and not _is_name(host):
        raise ScenarioError(f"{host}: this is neither an address nor a name of a machine")
    flags = socket.AI_PASSIVE if passive else 0
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=flags)
    except OSError as error:
        raise TransferError(f"{host}: {error.strerror or error}") from None
    addresses = [
        _v6(*address) if family == socket.AF_INET6 else f"{address[0]}:{port}"
        for family, *_, address in found
        if family in (socket.AF_INET, socket.AF_INET6)
    ]
    return list(dict.fromkeys(addresses))


def _is_name(text: str) -> bool:
    """Returns true if the text can be the name of a machine (RFC 1123), in any script (RFC 5890)."""
    try:
        plain = text.encode("idna").decode("ascii")
    except UnicodeError:
        return False
    return re.fullmatch(r"[\w-]+(\.[\w-]+)*\.?", plain, re.ASCII) is not None and len(plain) <= LONGEST_NAME


def _v6(address: str, port: int, _: int, scope: int) -> str:
    """With the number of its interface, where it is an address of one link."""
    zone = f"%{scope}" if scope else ""
    return f"[{address.partition('%')[0]}{zone}]:{port}"


def _first_line(stream: IO[str]) -> str:
    """The next line of a stream. What follows it is left to whoever reads on."""
    line = b""
    while (byte := os.read(stream.fileno(), 1)) not in (b"", b"\n"):
        line += byte
    return line.decode("utf-8-sig", errors="replace")


class Lines:
    """The lines that come on a stream, without waiting for them."""

    def __init__(self, stream: IO[str]) -> None:
        self._file = stream.fileno()
        self._rest = b""
        self._ended = False

    def __call__(self) -> list[str]:
        """Those that came since the last call."""
        while not self._ended and select.select([self._file], [], [], 0)[0]:
            part = os.read(self._file, 4096)
            self._ended = not part
            self._rest += part
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode(errors="replace").strip() for line in lines if line.strip()]


class Display:
    """What is going on: on a terminal a table that is kept up to date, elsewhere only what the user must know."""

    def __init__(self, console: Console, ready: str = "listening at") -> None:
        self._console = console
        self._live: Live | None = None
        self._ready = ready
        """What is said before the address, once this end listens."""
        self.listening: str | None = None
        """Where this end has listened, if it has."""
        self.ports: list[str] = []
        """Where a proxy listens for programs, once it does."""
        self._before: Progress | None = None
        self._at = 0.0
        self._rates: list[float] = []
        self._shown = 0.0

    def tell(self, progress: Progress) -> None:
        """Called ten times a second."""
        if progress["listening"] and self.listening is None:
            self.listening = progress["listening"]
            self._console.print(f"{self._ready} {self.listening}")
        if progress["ports"] and not self.ports:
            self.ports = progress["ports"]
            self._console.print(f"programs connect to {', '.join(map(printable, self.ports))} (SOCKS5 or HTTP CONNECT)")
        if progress["note"]:
            self._console.print(printable(progress["note"]))
        self._tell_dropped()
        if self._console.is_terminal:
            self._show(progress)

    def _tell_dropped(self) -> None:
        """Says how many lines were dropped, as soon as the output is taken again."""
        stream = self._console.file
        if not isinstance(stream, QueuedOutput) or stream.error or not stream.is_free:
            return
        if count := stream.newly_dropped():
            self._console.print(f"{number_of(count, 'line')} dropped before this one: nobody took what was printed")

    def _show(self, progress: Progress) -> None:
        now = time.monotonic()
        if self._live is not None and now < self._shown + REFRESH_S:
            return
        stream = self._console.file
        if isinstance(stream, QueuedOutput) and not stream.is_free:
            # A view that nobody sees is not made; the next one is newer.
            return
        self._shown = now
        if self._before is None or now - self._at >= 0.5:
            self._rates = rates(self._before, progress, now - self._at)
            self._before, self._at = progress, now
        if self._live is None:
            from rich.live import Live

            # It has no thread of its own, which would wait for the terminal with a lock that all others need.
            # Nor does it take lines of JSON over, which are for standard output.
            own = {"auto_refresh": False, "redirect_stdout": False, "redirect_stderr": False}
            self._live = Live(console=self._console, transient=True, **own)  # type: ignore[arg-type]
            self._live.start()
        self._live.update(self._table(progress), refresh=True)

    def _table(self, progress: Progress) -> Table:
        table = _columns("path", "Mbit/s", "data", "round trip", "")
        table.caption = _caption(progress)
        for at, path in enumerate(progress["paths"]):
            rate = self._rates[at] if at < len(self._rates) else 0.0
            table.add_row(path["path"], f"{rate:.1f}", amount(path["bytes"]), _rtt(path), _state(path))
        return table

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
            self._live = None


def _caption(progress: Progress) -> str:
    state = str(progress["state"])
    if state in CARRYING:
        clients = f"{number_of(progress['clients'], 'client')}, " if progress["listening"] else ""
        return f"{state}  {clients}{number_of(progress['flows'], 'connection')}"
    whole, there = progress["bytes"], progress["had"] + progress["done"]
    share = f"{100 * there / whole:.0f} %" if whole else ""
    return f"{state}  {amount(there)} of {amount(whole)}  {share}"


def rates(before: Progress | None, after: Progress, seconds: float) -> list[float]:
    """What each path carried between two moments, in Mbit/s."""
    known = [_carried(path) for path in before["paths"]] if before else []
    known += [0] * (len(after["paths"]) - len(known))
    if before is None or seconds <= 0:
        return [0.0] * len(after["paths"])
    pairs = zip(after["paths"], known, strict=False)
    return [8e-6 * max(0, _carried(path) - earlier) / seconds for path, earlier in pairs]


def _carried(path: dict[str, Any]) -> int:
    """What a path carried: both ways where that is known, otherwise the data that this end knows of."""
    carried: int | None = path.get("carried")
    return path["bytes"] if carried is None else carried


def summary(report: Report) -> list[str | Table]:
    """What came of a transfer."""
    known = f"; {amount(report['had_bytes'])} were there" if report["had_bytes"] else ""
    files = "1 file" if report["files"] == 1 else f"{report['files']} files"
    lines: list[str | Table] = [
        f"{files}, {amount(report['bytes'])}, verified{known}: "
        f"{report['elapsed_s']:.1f} s, {report['goodput_mbps']:.1f} Mbit/s{_gain(report)}"
    ]
    table = _columns("path", "data", "share", "round trip", "lost packets", "given up")
    whole = sum(path["bytes"] for path in report["paths"]) or 1
    for path in report["paths"]:
        share = f"{100 * path['bytes'] / whole:.0f} %"
        lost, times = str(path["lost"]), str(path["given_up"])
        row = [path["path"], amount(path["bytes"]), share, _rtt(path)]
        table.add_row(*row, *([lost, times] if report["role"] == "send" else ["", ""]))
    costs = [f"{path['path']}: {_cost(path['policy'])}" for path in report["paths"] if _cost(path.get("policy"))]
    return [*lines, table, *costs]


def complaints(report: Report) -> list[str]:
    """A line for each file that did not arrive, and one for each kind of what is never sent."""
    skipped: dict[str, list[str]] = {}
    for one in report["skipped"]:
        skipped.setdefault(one["kind"], []).append(printable(one["path"]))
    lines = []
    for kind, paths in skipped.items():
        named = ", ".join(paths[:SHOWN]) + (f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else "")
        lines.append(f"skipped {len(paths)} {kind}{'s' if len(paths) > 1 else ''}: {named}")
    return lines + [f"weft: {printable(one['path'])}: {printable(one['reason'])}" for one in report["failed"]]


def printable(text: str, kept: str = "") -> str:
    """A text of the other end or a file's name, without characters that a terminal would obey, but those `kept`."""
    return "".join(
        char if char.isprintable() or char in kept else char.encode("unicode_escape").decode() for char in text
    )


def _gain(report: Report) -> str:
    ratio = report["ratio_to_best_path"]
    return f", {ratio:.1f} times what the best path carried" if ratio and len(report["paths"]) > 1 else ""


def amount(count: int) -> str:
    """Bytes, as people say them: what rounds to 1000 of a unit is one of the next."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if round(count / size * 1e3, 1) >= 1e3:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def number_of(count: int, what: str) -> str:
    """So many of them: 1 client, 2 clients."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def _columns(*names: str) -> Table:
    table = plain_table(None)
    for at, name in enumerate(names):
        table.add_column(name, justify="right" if at else "left")
    return table


def _state(path: dict[str, Any]) -> str:
    """Whether data can take a path; of one with a cap what is left of it."""
    policy = path.get("policy") or {}
    state = "down" if not path["up"] else "" if policy.get("open", True) else f"closed ({policy['tier']})"
    left = policy.get("left")
    return state if left is None else f"{state} {amount(left)} left".strip()


def _cost(policy: dict[str, Any] | None) -> str:
    """What a link carried and what that costs, where it has a price."""
    if not policy or policy["cost"] is None:
        return ""
    return f"{amount(policy['carried'])} both ways, headers included, cost {policy['cost']:.2f}"


def _rtt(path: dict[str, Any]) -> str:
    return "" if path["srtt_ms"] is None else f"{path['srtt_ms']:.1f} ms"
