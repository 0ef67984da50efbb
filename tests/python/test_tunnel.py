"""`weft tunnel`: programs of all kinds in network namespaces."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import machine
import namespaces
from conftest import Weft
from ends import ended, wait_until
from namespaces import SERVER, Lab
from test_proxy import until_told
from weftway.scenario import HOME


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "weft tunnel needs --to HOST:PORT"),
        (["--restore", "--to", "192.0.2.1"], "--restore goes alone"),
        (["--to", "192.0.2.1", "--device", "a/b"], "--device a/b"),
        (["--to", "192.0.2.1", "--device", "x" * 16], "1 to 15 letters"),
        (["--to", "192.0.2.1", "--dns", "example.org"], "--dns example.org"),
        (["--to", "192.0.2.1", "--only", "example.org"], "--only example.org: it is a network, ports, or both"),
        (["--to", "192.0.2.1", "--path", "near1,tier=bakcup"], "did you mean `backup`?"),
        (["--to", "192.0.2.1", "--classes", "nowhere"], "nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused(weft_here: Weft, line: str, options: list[str], words: str) -> None:
    run = weft_here("tunnel", *options, *(["--pair", line] if "--to" in options and "--restore" not in options else []))
    # A file that is not there may be there later, when a disk is mounted.
    assert run.returncode == (1 if words == "nowhere" else 2) and words in run.stderr, run.stderr


def test_without_rights_it_says_that_it_needs_them(tmp_path: Path, line: str) -> None:
    command = [*machine.powerless(), *machine.WEFT, "tunnel", "--to", "127.0.0.1:9", "--pair", line]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode in (1, 2) and ("needs root" in run.stderr or "CAP_NET_ADMIN" in run.stderr), run.stderr


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with namespaces.lab(tmp_path) as made:
        yield made


SERVERS = """
import http.server, socket, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "3000000")
        self.end_headers()
        self.wfile.write(b"weft" * 750000)
    def log_message(self, *_): pass
class Web(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
def echo(family, address, port):
    with socket.socket(family, socket.SOCK_DGRAM) as own:
        own.bind((address, port))
        while True:
            data, other = own.recvfrom(65536)
            own.sendto(data, other)
def names():
    with socket.create_server(("203.0.113.9", 53)) as server:
        while True:
            own = server.accept()[0]
            own.sendall(own.recv(100))
def greetings():
    kept = []
    with socket.create_server(("203.0.113.9", 54)) as server:
        while True:
            kept.append(server.accept()[0])
            kept[-1].sendall(b"hello")
for server in (names, greetings):
    threading.Thread(target=server).start()
for port in (7000, 53):
    threading.Thread(target=echo, args=(socket.AF_INET, "203.0.113.9", port)).start()
threading.Thread(target=echo, args=(socket.AF_INET6, "2001:db8:9::9", 7000)).start()
web = Web(("::", 8000), Page)
print("there", flush=True)
web.serve_forever()
"""

PAGE = """
import sys, urllib.request
try:
    print(len(urllib.request.urlopen(sys.argv[1], timeout=30).read()))
except OSError as error:
    print(getattr(error, "reason", error))
"""

DATAGRAM = """
import socket, sys
host, port, length, device = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as own:
    if device:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device[0].encode())
    own.settimeout(30)
    try:
        own.sendto(b"x" * length, (host, port))
        data, other = own.recvfrom(65536)
        print(len(data), other[0])
    except OSError as error:
        print(error)
"""

CONNECTION = """
import socket, sys
with socket.create_connection((sys.argv[1], 53), timeout=30) as own:
    own.sendall(b"question")
    print(own.recv(100).decode())
"""

PING = """
import socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as own:
    own.settimeout(30)
    head = struct.pack(">BBHHH", 8, 0, 0, 77, 1) + b"data"
    total = sum(struct.unpack(">6H", head))
    head = head[:2] + struct.pack(">H", ~(total + (total >> 16)) & 0xffff) + head[4:]
    own.sendto(head, (sys.argv[1], 0))
    while True:
        data = own.recv(1000)[20:]
        if data[0] in (0, 3):
            print(data[0], data[1], data[4:].hex() if data[0] == 0 else "")
            break
"""


RECEIVER = """
import socket
with socket.create_connection(("203.0.113.9", 54), timeout=60) as own:
    print(own.recv(100).decode(), flush=True)
    try:
        print(len(own.recv(100)))
    except OSError as error:
        print(type(error).__name__)
"""


def can_end_connections() -> bool:
    """Tries if `ss` can end a connection, with one of this test."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()[:2]) as own,
        server.accept()[0],
    ):
        filters = ("dst", f"127.0.0.1:{own.getpeername()[1]}")
        subprocess.run(["ss", "--kill", "--tcp", *filters], capture_output=True, check=False)
        own.setblocking(False)
        try:
            own.recv(1)
        except BlockingIOError:
            return False
        except OSError:
            return True
    return False


def receiver(lab: Lab) -> subprocess.Popen[str]:
    """A program with a connection by which it only receives."""
    program = lab.start(lab.near, machine.WEFT[0], "-c", RECEIVER)
    assert program.stdout and program.stdout.readline() == "hello\n"
    return program


def is_ended(program: subprocess.Popen[str]) -> bool:
    """Waits for the program, which learns that its connection is over."""
    if not can_end_connections():
        pytest.skip("`ss` ends no connections here: it needs a kernel with CONFIG_INET_DIAG_DESTROY")
    program.wait(timeout=60)
    assert program.stdout
    return program.stdout.read() in ("ConnectionAbortedError\n", "ConnectionResetError\n")


def web(family: int) -> str:
    return f"http://{SERVER[family] if family == 4 else f'[{SERVER[family]}]'}:8000/"


RELAY_AT = f"{SERVER[4]}:4433"
"""The relay is behind the default route, as the servers are: only the tunnel's rules keep it there."""


def begin(
    lab: Lab, line: str, *options: str, to: str = RELAY_AT
) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """Servers, a relay, and a tunnel that is connected: the last two."""
    servers = lab.start(lab.far, machine.WEFT[0], "-c", SERVERS)
    assert servers.stdout and servers.stdout.readline() == "there\n"
    allow = ("--allow", "203.0.113.0/24", "--allow", "2001:db8:9::/64")
    relay = lab.weft(lab.far, "relay", "--listen", "4433", "--identity", "me", *allow, "--dns", SERVER[4])
    until_told(relay, "listening at")
    return relay, connected(lab, line, *options, to=to)


def connected(lab: Lab, line: str, *options: str, to: str = RELAY_AT) -> subprocess.Popen[str]:
    paths = ("--path", "10.9.1.1", "--path", "10.9.2.1")
    tunnel = lab.weft(lab.near, "tunnel", "--to", to, "--pair", line, *paths, *options)
    until_told(tunnel, "connected to the relay")
    return tunnel


@namespaces.tunnels
def test_programs_of_all_kinds_go_through_it(lab: Lab, line: str) -> None:
    lab.run(lab.far, "sysctl", "-w", "net.ipv4.ping_group_range=0 2147483647")
    # Nothing goes beside it: the machine has no other way to the servers.
    lab.run(lab.near, "ip", "route", "delete", "default")
    lab.run(lab.near, "ip", "-6", "route", "delete", "default")
    begin(lab, line, to="10.9.1.2:4433")
    for family in (4, 6):
        assert lab.python(lab.near, PAGE, web(family)) == "3000000"
        assert "refused" in lab.python(lab.near, PAGE, web(family).replace("8000", "8001"))
        # The third has a packet of 1500 bytes. Longer ones go in fragments.
        for length in (1, 1200, 1472 if family == 4 else 1452, 1473, 4000):
            assert lab.python(lab.near, DATAGRAM, SERVER[family], "7000", str(length)) == f"{length} {SERVER[family]}"
    assert lab.python(lab.near, PAGE, "http://10.77.0.1/").endswith("No route to host"), "the relay does not allow it"
    assert lab.python(lab.near, PING, SERVER[4]).split() == ["0", "0", "004d0001" + b"data".hex()]
    # Whichever server of names is asked in a private network, the relay's answers in its place.
    assert lab.python(lab.near, DATAGRAM, "192.168.7.7", "53", "20") == "20 192.168.7.7"
    assert lab.python(lab.near, DATAGRAM, "198.18.77.2", "53", "20") == "20 198.18.77.2"
    assert lab.python(lab.near, CONNECTION, "192.168.7.7") == "question"


def snapshots(tunnel: subprocess.Popen[str]) -> socket.socket:
    """Socket on which a tunnel tells of itself, a line of JSON a second, and may be asked for something."""
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    own.settimeout(60)
    own.connect(str(Path(os.environ["XDG_RUNTIME_DIR"], "weftway", f"tunnel-{tunnel.pid}.sock")))
    return own


@namespaces.tunnels
def test_its_scheduler_is_switched_while_it_carries(lab: Lab, line: str) -> None:
    _, tunnel = begin(lab, line, to="10.9.1.2:4433")
    with contextlib.closing(snapshots(tunnel)) as reader:
        for name, message in (("nobody", "min-rtt goes on"), ("round-robin", "round-robin schedules from now on")):
            reader.sendall(json.dumps({"scheduler": name}).encode() + b"\n")
            until_told(tunnel, message)
    assert lab.python(lab.near, PAGE, web(4)) == "3000000"


@namespaces.tunnels
def test_a_relay_that_may_not_ping_lets_programs_know(lab: Lab, line: str) -> None:
    lab.run(lab.far, "sysctl", "-w", "net.ipv4.ping_group_range=1 0")
    begin(lab, line)
    assert lab.python(lab.near, PING, SERVER[4]).split() == ["3", "13"]


@namespaces.tunnels
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_routes_are_as_they_were_after_any_end(lab: Lab, line: str, end: signal.Signals) -> None:
    # The kernel drops what comes from elsewhere than where an answer would go.
    lab.run(lab.near, "sysctl", "-w", "net.ipv4.conf.near1.rp_filter=1")
    before = lab.routes()
    _, tunnel = begin(lab, line)
    assert lab.python(lab.near, PAGE, web(4)) == "3000000"
    assert "51877" in lab.routes()
    program = receiver(lab)
    tunnel.send_signal(end)
    status, _, errors = ended(tunnel)
    # Without a kill switch it goes on without the tunnel at once.
    assert lab.python(lab.near, PAGE, web(4)) == "3000000"
    if end == signal.SIGKILL:
        assert lab.run(lab.near, *machine.WEFT, "tunnel", "--restore").stderr == "restored\n"
    else:
        assert (status, errors) == (130, "weft: stopped the tunnel\n")
    assert lab.routes() == before
    assert lab.run(lab.near, *machine.WEFT, "tunnel", "--restore").stderr == "there was nothing to restore\n"
    assert is_ended(program)


@namespaces.tunnels
def test_impatient_interrupts_leave_no_routes(lab: Lab, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lab.routes()
    slow = lab.folder / "ip"
    slow.write_text(f'#!/bin/sh\nsleep 0.3\nexec {shutil.which("ip")} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(lab.folder), prepend=os.pathsep)
    _, tunnel = begin(lab, line)
    while tunnel.poll() is None:
        tunnel.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert tunnel.returncode == 130
    monkeypatch.undo()
    assert lab.routes() == before


@namespaces.tunnels
def test_a_tunnel_after_one_that_was_killed_takes_its_place(lab: Lab, line: str) -> None:
    before = lab.routes()
    _, tunnel = begin(lab, line)
    program = receiver(lab)
    tunnel.kill()
    tunnel.wait()
    tunnel = connected(lab, line)
    assert lab.python(lab.near, PAGE, web(4)) == "3000000"
    second = lab.run(lab.near, *machine.WEFT, "tunnel", "--to", RELAY_AT, "--pair", line)
    assert (second.returncode, second.stderr) == (2, "weft: a tunnel runs already: there is one at a time\n")
    assert is_ended(program)
    tunnel.send_signal(signal.SIGTERM)
    ended(tunnel)
    assert lab.routes() == before


@namespaces.tunnels
def test_a_machine_without_tun_devices_says_so(lab: Lab, line: str) -> None:
    hidden = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/net && exec "$@"', "sh")
    if (probed := lab.run(lab.near, *hidden, "true")).returncode != 0:
        pytest.skip(f"no mounts of our own here: {probed.stderr.strip()}")
    before = lab.routes()
    run = lab.run(lab.near, *hidden, *machine.WEFT, "tunnel", "--to", RELAY_AT, "--pair", line)
    assert (run.returncode, run.stdout) == (1, "")
    (message,) = machine.told(run.stderr)
    assert "a TUN device cannot be had" in message and "it needs /dev/net/tun" in message
    assert lab.routes() == before


@namespaces.tunnels
def test_an_interface_of_the_devices_name_is_left_alone(lab: Lab, line: str) -> None:
    lab.run(lab.near, "ip", "link", "add", "br7", "type", "veth", "peer", "name", "br8")
    before = lab.routes()
    for device in ("br7", "near1"):
        run = lab.run(lab.near, *machine.WEFT, "tunnel", "--to", RELAY_AT, "--pair", line, "--device", device)
        assert (run.returncode, run.stderr) == (
            2,
            f"weft: --device {device}: there is an interface of this name; name another one\n",
        )
        assert lab.run(lab.near, "ip", "link", "show", device).returncode == 0
    assert lab.routes() == before


@namespaces.tunnels
def test_strict_filters_and_devices_without_ipv6_are_seen_to(lab: Lab, line: str) -> None:
    """A link that comes later has the default filter: so what is set is that of all."""
    lab.run(lab.near, "sysctl", "-w", "net.ipv4.conf.default.rp_filter=1", "net.ipv6.conf.default.disable_ipv6=1")
    filters = ("sysctl", "-n", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.near1.rp_filter")
    before = lab.run(lab.near, *filters).stdout.split()
    assert before == ["0", "0"]
    _, tunnel = begin(lab, line)
    assert lab.run(lab.near, *filters).stdout.split() == ["2", "0"]
    assert lab.python(lab.near, PAGE, web(6)) == "3000000"
    tunnel.send_signal(signal.SIGTERM)
    ended(tunnel)
    assert lab.run(lab.near, *filters).stdout.split() == before


LATER = """
import pathlib, socket, time
with socket.create_connection(("203.0.113.9", 53), timeout=60) as own:
    print("connected", flush=True)
    while not pathlib.Path("go").exists():
        time.sleep(0.05)
    own.sendall(b"question")
    print(own.recv(100).decode())
"""


@namespaces.tunnels
def test_a_device_that_is_taken_away_is_made_again_and_connections_go_on(lab: Lab, line: str) -> None:
    before = lab.routes()
    _, tunnel = begin(lab, line)
    program = lab.start(lab.near, machine.WEFT[0], "-c", LATER)
    assert program.stdout and program.stdout.readline() == "connected\n"
    lab.run(lab.near, "ip", "link", "delete", "weft0")
    until_told(tunnel, "set again")
    (lab.folder / "go").touch()
    assert program.communicate(timeout=60)[0] == "question\n"
    tunnel.send_signal(signal.SIGTERM)
    assert ended(tunnel)[0] == 130
    assert lab.routes() == before


@namespaces.tunnels
def test_nothing_goes_beside_a_tunnel_with_a_kill_switch(lab: Lab, line: str) -> None:
    if lab.run(lab.near, "nft", "list", "ruleset").returncode != 0:
        pytest.skip("nft is not here")
    beside = [
        # By the default route, to the network at home, and bound to a link.
        (SERVER[4], "7000", "20"),
        (SERVER[6], "7000", "20"),
        (SERVER[4], "7000", "20", "near1"),
        (SERVER[6], "7000", "20", "near1"),
        (SERVER[4], "7000", "20", "near2"),
    ]
    _, tunnel = begin(lab, line, "--kill-switch")
    assert lab.python(lab.near, PAGE, web(4)) == "3000000"
    for where in beside[2:]:
        assert "not permitted" in lab.python(lab.near, DATAGRAM, *where)
    tunnel.kill()
    tunnel.wait()
    for where in beside:
        assert "not permitted" in lab.python(lab.near, DATAGRAM, *where), where
    assert lab.python(lab.near, PAGE, web(4)) not in ("3000000", "")
    # Another one goes on with it, and sets it again if it is taken away; one that fails leaves it closed.
    failed = lab.run(lab.near, *machine.WEFT, "tunnel", "--kill-switch", "--to", RELAY_AT, "--pair", wrong(line))
    assert failed.returncode == 1, failed.stderr
    assert "not permitted" in lab.python(lab.near, DATAGRAM, *beside[0])
    tunnel = connected(lab, line, "--kill-switch")
    was = lab.run(lab.near, "nft", "list", "ruleset").stdout
    for harm in ("flush ruleset", "flush chain inet weft_tunnel output"):
        lab.run(lab.near, "nft", harm)
        wait_until(lambda: lab.run(lab.near, "nft", "list", "ruleset").stdout == was)
    assert lab.python(lab.near, PAGE, web(4)) == "3000000"
    tunnel.kill()
    tunnel.wait()
    assert lab.run(lab.near, *machine.WEFT, "tunnel", "--restore").stderr == "restored\n"
    for where in beside[:4]:
        assert lab.python(lab.near, DATAGRAM, *where) == f"20 {where[0]}"


def wrong(line: str) -> str:
    """A line of the same machine whose token is another one."""
    return line[:-4] + ("abcd" if not line.endswith("abcd") else "efgh")


@namespaces.tunnels
def test_only_a_part_goes_through_it(lab: Lab, line: str) -> None:
    begin(lab, line, "--only", f"{SERVER[4]}:8000")
    through, beside = (
        lab.run(lab.near, "ip", "route", "get", SERVER[4], "ipproto", "tcp", "dport", port).stdout
        for port in ("8000", "8001")
    )
    assert "weft0" in through and "near1" in beside
    assert lab.python(lab.near, PAGE, web(4)) == "3000000"
    assert lab.python(lab.near, DATAGRAM, SERVER[4], "7000", "20") == f"20 {SERVER[4]}"


@pytest.mark.realtime
@machine.emulation
@namespaces.tunnels
def test_the_how_to_works_over_emulated_links(tmp_path: Path) -> None:
    (printed,) = machine.follow(HOME / "docs/how-to/tunnel.md", tmp_path)
    got, route, *rest = printed.splitlines()
    assert got.startswith("200 ") and "dev weft0 table 51877" in route
    assert "weft: stopped the tunnel" in rest
    # The rules of the emulated links are there again, and no others.
    assert not any("51877" in line for line in rest) and any("from 10.0.1.1" in line for line in rest)
