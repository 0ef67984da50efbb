"""`weft proxy` and `weft relay`, as programs use them: over loopback, and over emulated links."""

import http.client
import http.server
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import machine
from conftest import Weft
from ends import BOTH, PATIENCE_S, Start, ended, port, wait_until
from weftway.scenario import HOME

BODY = bytes(range(256)) * 4000


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def website() -> Iterator[int]:
    """The port of a web server on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


GONE = (" has left", " is gone")
"""What a relay says of a client that ended: the datagram that says so may be lost, and then it is missed."""


def until_told(process: subprocess.Popen[str], *words: str) -> str:
    """Reads what a process says until it says one of `words`: that line."""
    assert process.stderr
    heard = []
    # One that says nothing more is ended, so that the test says what was heard.
    late = threading.Timer(PATIENCE_S, process.kill)
    late.start()
    try:
        for line in process.stderr:
            heard.append(line)
            if any(word in line for word in words):
                return line
    finally:
        late.cancel()
    raise AssertionError(f"it said {heard}, and none of {words}")


def get(proxy: int, host: str, number: int) -> tuple[int, bytes]:
    """A page through the proxy: the proxy's status if it does not connect."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=60)
    connection.set_tunnel(host, number)
    try:
        connection.request("GET", "/")
        return 200, connection.getresponse().read()
    except OSError as error:
        return int(str(error).split()[3]), b""
    finally:
        connection.close()


def test_a_program_gets_a_page_over_two_paths(start: Start, line: str, website: int) -> None:
    at, local = f"127.0.0.1:{port()}", port()
    relay = start("relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8")
    proxy = start("proxy", "--to", at, "--pair", line, *BOTH, "--listen", str(local))
    until_told(proxy, "connected to the relay")
    # What happens within a tenth of a second is told in one line: so this is read before anything else happens.
    until_told(relay, " is here")
    assert get(local, "127.0.0.1", website) == (200, BODY)
    assert get(local, "localhost", website) == (200, BODY), "the relay finds the address"
    assert get(local, "127.0.0.1", port())[0] == 502, "nobody listens"
    assert get(local, "10.0.0.1", 80)[0] == 403, "no public address"
    proxy.send_signal(signal.SIGINT)
    status, _, errors = ended(proxy)
    assert (status, errors) == (130, "weft: stopped carrying connections\n")
    until_told(relay, *GONE)
    relay.send_signal(signal.SIGINT)
    status, _, errors = ended(relay)
    assert (status, errors) == (130, "weft: stopped relaying\n")


def test_a_running_relay_takes_new_names_and_revocations(weft: Weft, start: Start, line: str, website: int) -> None:
    at = f"127.0.0.1:{port()}"
    relay = start("relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8")
    until_told(relay, "listening at")
    # The relay runs before there is a name.
    laptop = weft("pair", "--identity", "me", "--name", "laptop").stdout.strip()
    other, local = port(), port()
    until_told(relay, "the pairing lines have changed")
    proxy = start("proxy", "--to", at, "--pair", laptop, "--listen", str(other))
    came = until_told(relay, "is here")
    assert came.startswith("laptop is here (127.0.0.1:"), came
    until_told(proxy, "connected to the relay")
    assert get(other, "127.0.0.1", website) == (200, BODY)
    plain = start("proxy", "--to", at, "--pair", line, "--listen", str(local))
    until_told(plain, "connected to the relay")

    assert weft("pair", "--identity", "me", "--revoke", "laptop").returncode == 0
    until_told(relay, "laptop has no valid token any more (127.0.0.1:")
    status, _, errors = ended(proxy)
    assert status == 1 and "wrong token" in errors, errors
    again = weft("pair", "--identity", "me", "--name", "laptop").stdout.strip()
    until_told(relay, "the pairing lines have changed")
    proxy = start("proxy", "--to", at, "--pair", again, "--listen", str(other))
    until_told(relay, "laptop is here (127.0.0.1:")
    proxy.send_signal(signal.SIGINT)
    assert "laptop" in until_told(relay, *GONE)
    assert ended(proxy)[0] == 130, "its port is free again"
    refused = weft("proxy", "--to", at, "--pair", laptop, "--listen", str(other))
    assert refused.returncode == 1 and "wrong token" in refused.stderr
    assert get(local, "127.0.0.1", website) == (200, BODY), "the others stay"


def test_a_relay_whose_identity_cannot_be_read_says_so_and_keeps_it(
    start: Start, line: str, website: int, tmp_path: Path
) -> None:
    at, local = f"127.0.0.1:{port()}", port()
    relay = start("relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8")
    until_told(relay, "listening at")
    (tmp_path / "me").chmod(0o644)
    lines = until_told(relay, "the identity before is kept")
    assert "other users of this machine may read or change this identity (mode 0644)" in lines
    until_told(start("proxy", "--to", at, "--pair", line, "--listen", str(local)), "connected to the relay")
    assert get(local, "127.0.0.1", website) == (200, BODY)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("relay", "--allow", "home"), "home is no network: 192.168.1.0/24 is one"),
        (("relay", "--scheduler", "minrt"), "minrt"),
        (("relay", "--client", "laptop,raet=1Mbit/s"), "did you mean `rate`?"),
        (("proxy", "--to", "192.0.2.1"), "--to needs --pair LINE"),
        (("proxy", "--to", "192.0.2.1", "--pair", "LINE", "--listen", "70000"), "a port is a number up to 65535"),
        (("proxy", "--to", "192.0.2.1", "--pair", "LINE", "--listen", "unix:"), "name the socket's file"),
        (("proxy",), "weft proxy needs --to HOST:PORT"),
        (("proxy", "--to", "192.0.2.1", "--pair", "LINE", "--cc", "cubc"), "cubc"),
    ],
)
def test_a_mistake_is_one_line(weft: Weft, line: str, words: tuple[str, ...], expected: str) -> None:
    given = [line if word == "LINE" else word for word in words]
    refused = weft(*given, *(["--identity", "me", "--listen", "127.0.0.1:0"] if words[0] == "relay" else []))
    (message,) = machine.told(refused.stderr)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert expected in message


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        # Nobody has such a name (RFC 6761); a network that is not up yet knows none.
        (("proxy", "--to", "relay.invalid", "--pair", "LINE"), 1, "relay.invalid: "),
        (("relay", "--listen", "relay.invalid:4433", "--identity", "me"), 1, "relay.invalid: "),
        # Disks that are not there yet.
        (("relay", "--listen", "127.0.0.1:0", "--identity", "nowhere/me"), 1, "nowhere/me: this machine has no"),
        (("proxy", "--to", "127.0.0.1", "--pair", "nowhere/line"), 1, "nowhere/line: No such file"),
        (("proxy", "--to", "127.0.0.1", "--pair", "LINE", "--classes", "nowhere/x"), 1, "nowhere/x: No such file"),
        (("recv", "/proc/nowhere", "--listen", "127.0.0.1:0", "--identity", "me"), 1, "/proc/nowhere: "),
        # A link that is not there yet.
        (("proxy", "--to", "127.0.0.1", "--pair", "LINE", "--path", "no-such-link"), 1, "path no-such-link"),
        # What no waiting makes right.
        (("proxy", "--to", "re lay", "--pair", "LINE"), 2, "re lay: this is neither an address nor a name"),
        (("proxy", "--to", "a..b", "--pair", "LINE"), 2, "a..b: this is neither"),
        (("proxy", "--to", f"{'a' * 64}.example", "--pair", "LINE"), 2, "this is neither"),
        (("proxy", "--to", "127.0.0.1", "--pair", "weft1-x"), 2, "this is no line of `weft pair`"),
    ],
)
def test_what_may_pass_has_the_status_after_which_a_service_is_started_again(
    weft_here: Weft, line: str, words: tuple[str, ...], status: int, expected: str
) -> None:
    refused = weft_here(*(line if word == "LINE" else word for word in words))
    (message,) = machine.told(refused.stderr)
    assert (refused.returncode, refused.stdout) == (status, "")
    assert expected in message


def test_a_port_that_is_taken_is_told(weft: Weft, line: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        refused = weft("proxy", "--to", "127.0.0.1", "--pair", line, "--listen", str(number))
    assert refused.returncode == 1
    assert f"cannot listen at 127.0.0.1:{number}" in refused.stderr


@pytest.mark.parametrize("where", ["{}", "127.0.0.1:{}"])
def test_a_relay_whose_port_is_taken_says_so(weft: Weft, line: str, where: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        number = taken.getsockname()[1]
        refused = weft("relay", "--identity", "me", "--listen", where.format(number))
    (message,) = machine.told(refused.stderr)
    assert refused.returncode == 1
    place = f"127.0.0.1:{number}" if ":" in where else f"port {number}"
    assert f"UDP {place}: Address already in use" in message and "name another port" in message


@pytest.mark.realtime
@machine.emulation
def test_the_how_to_works_over_emulated_links(tmp_path: Path) -> None:
    (printed,) = machine.follow(HOME / "docs/how-to/proxy.md", tmp_path)
    assert "connected to the relay at 10.0.1.2:4433" in printed
    assert "200 " in printed


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_a_proxy_that_is_ended_gives_back_what_it_did_not_use_of_a_cap(
    start: Start, line: str, website: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    at, local = f"127.0.0.1:{port()}", port()
    start("relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8")
    path = ("--path", "127.0.0.1,cap=100MB/month")
    proxy = start("proxy", "--to", at, "--pair", line, *path, "--listen", str(local))
    until_told(proxy, "connected to the relay")
    assert get(local, "127.0.0.1", website) == (200, BODY)

    def counted() -> int:
        usage = tmp_path / "state" / "weftway" / "usage.json"
        return int(json.loads(usage.read_text())["127.0.0.1"]["month_bytes"])

    # A sixteenth of the cap at a time.
    assert counted() >= 6_250_000
    proxy.send_signal(end)
    status, _, errors = ended(proxy)
    assert (status, errors) == (130, "weft: stopped carrying connections\n")
    assert len(BODY) <= counted() < 2 * len(BODY)


def test_a_connection_that_nobody_uses_is_kept_by_few_packets(start: Start, line: str, website: int) -> None:
    at, local = f"127.0.0.1:{port()}", port()
    start("relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8")
    proxy = start("proxy", "--to", at, "--pair", line, *BOTH, "--listen", str(local), "--json")
    assert proxy.stdout

    def snapshot() -> dict[str, Any]:
        assert proxy.stdout
        report: dict[str, Any] = json.loads(proxy.stdout.readline())
        return report

    def carried() -> int:
        return sum(path["carried"] for path in snapshot()["paths"])

    def longest_silence(seconds: int) -> int:
        """So many snapshots, one a second, of which so many in a row tell of nothing new."""
        longest = silent = 0
        before = carried()
        for _ in range(seconds):
            now = carried()
            silent = silent + 1 if now == before else 0
            longest, before = max(longest, silent), now
        return longest

    # With something open each path says every two seconds that it is alive, and is answered.
    until_told(proxy, "connected to the relay")
    with socket.create_connection(("127.0.0.1", local)) as asked:
        asked.sendall(f"CONNECT 127.0.0.1:{website} HTTP/1.1\r\n\r\n".encode())
        assert asked.recv(1000).startswith(b"HTTP/1.1 200")
        # Those of the time before it was open are told first.
        wait_until(lambda: snapshot()["flows"] == 1)
        assert longest_silence(10) <= 4
    wait_until(lambda: longest_silence(6) >= 6)


def has_ipv6() -> bool:
    """Tells if sockets of this machine take IPv6."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as tried:
            tried.bind(("::", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_relay_that_was_told_a_port_alone_is_reached_over_both_families(
    start: Start, line: str, website: int
) -> None:
    number, local = port(), port()
    relay = start("relay", "--listen", str(number), "--identity", "me", "--allow", "127.0.0.0/8")
    assert until_told(relay, "listening at") == f"listening at [::]:{number}\n"
    for to in (f"127.0.0.1:{number}", f"[::1]:{number}"):
        proxy = start("proxy", "--to", to, "--pair", line, "--listen", str(local))
        until_told(proxy, f"connected to the relay at {to}")
        came = until_told(relay, "is here")
        assert came.startswith(to.rpartition(":")[0]), "an address of IPv4 is told as such"
        assert get(local, "127.0.0.1", website) == (200, BODY)
        proxy.send_signal(signal.SIGINT)
        assert ended(proxy)[0] == 130


def test_a_port_with_a_password_and_a_socket_that_is_private(
    start: Start, line: str, website: int, tmp_path: Path
) -> None:
    at, local = f"127.0.0.1:{port()}", port()
    relay = start("relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8")
    until_told(relay, "listening at")
    (tmp_path / "passwords").touch(0o600)
    (tmp_path / "passwords").write_text("ada:secret\n")
    words = ["--listen", str(local), "--listen", "unix:socket", "--passwords", "passwords"]
    proxy = start("proxy", "--to", at, "--pair", line, *words)
    assert f"unix:{tmp_path}/socket" in until_told(proxy, "programs connect to")
    until_told(proxy, "connected to the relay")
    for place in (("127.0.0.1", local), str(tmp_path / "socket")):
        for header, status in [("", b"407"), ("Proxy-Authorization: Basic YWRhOnNlY3JldA==\r\n", b"200")]:
            family = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM) as program:
                program.settimeout(PATIENCE_S)
                program.connect(place)
                program.sendall(f"CONNECT 127.0.0.1:{website} HTTP/1.1\r\n{header}\r\n".encode())
                assert program.recv(12) == b"HTTP/1.1 " + status
    proxy.send_signal(signal.SIGINT)
    assert ended(proxy)[0] == 130
    assert not (tmp_path / "socket").exists()


def test_a_port_that_other_machines_reach_is_told_where_it_has_no_password(
    weft_here: Weft, line: str, tmp_path: Path
) -> None:
    (tmp_path / "open").write_text("ada:secret\n")
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "empty").touch(0o600)
    words = ["proxy", "--to", "192.0.2.1", "--pair", line, "--path", "no-such-link"]
    warning = "programs of other machines may use 0.0.0.0:1080 too, without a password: see --passwords\n"
    for more, expected in [
        (["--listen", "0.0.0.0:1080"], warning),
        (["--listen", "1080"], ""),
        (["--listen", "unix:socket"], ""),
        (["--listen", "0.0.0.0:1080", "--passwords", "open"], "may read or change this file of passwords (mode 0644)"),
        (["--passwords", "empty"], "--passwords empty: it has no line USER:PASSWORD"),
    ]:
        run = weft_here(*words, *more)
        assert expected in run.stderr and (expected == warning) == (warning in run.stderr), (more, run.stderr)
