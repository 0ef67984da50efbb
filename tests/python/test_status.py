"""Reports of a running program about itself: snapshots, the socket for `weft top`, metrics, systemd."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Weft
from ends import BOTH, Start, ended, port, wait_until
from test_proxy import BODY, get, until_told, website

__all__ = ["website"]

PATH: dict[str, Any] = {
    "path": "wlan0",
    "up": True,
    "bytes": 1000,
    "carried": 5_000_000,
    "srtt_ms": 12.5,
    "min_rtt_ms": 10.0,
    "packets": 200,
    "lost": 1,
    "retransmissions": 0,
    "given_up": 0,
    "away_ms": 0.0,
    "policy": {"tier": "secondary", "open": False, "carried": 5_000_000, "left": 7_000_000, "cost": None},
}
PROGRESS: dict[str, Any] = {
    "state": "relaying",
    "listening": None,
    "note": None,
    "bytes": 0,
    "had": 0,
    "done": 0,
    "files": 0,
    "ports": ["127.0.0.1:1080"],
    "clients": 0,
    "flows": 3,
    "by_class": {"realtime": 1, "interactive": 0, "bulk": 2},
    "busiest": [
        {
            "target": "example.org:443",
            "class": "bulk",
            "up": 10,
            "down": 2_000_000,
            "paths": [
                {"path": "wlan0", "sent": 100, "received": 1_499_900},
                {"path": "wwan0", "sent": 0, "received": 500_000},
            ],
        }
    ],
    "refusals": {"not_allowed": 4},
    "drops": {"too_long": 2, "malformed": 1},
    "by_client": [],
    "paths": [PATH],
}


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder of sockets. The path of a socket may have a hundred characters, and that of a test's folder has more."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def progress(**changes: Any) -> dict[str, Any]:
    return {**PROGRESS, **changes}


class Program:
    """A program as `weft top` finds it: it tells the same again and again, and hears what is asked.

    Who asks for the last hour gets `hour`, once.
    """

    def __init__(self, runtime: Path, snapshot: dict[str, Any], hour: Any = None) -> None:
        folder = runtime / "weftway"
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / f"{snapshot['program']}-{snapshot['pid']}.sock"
        self.asked: list[dict[str, Any]] = []
        self._snapshot, self._hour = snapshot, hour
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self.path))
        self._socket.listen()
        self._socket.settimeout(0.05)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._tell)
        self._thread.start()

    def _tell(self) -> None:
        readers: list[socket.socket] = []
        while not self._is_over.is_set():
            with contextlib.suppress(TimeoutError):
                readers.append(self._socket.accept()[0])
                readers[-1].settimeout(0.01)
            for reader in readers:
                with contextlib.suppress(OSError):
                    reader.sendall(json.dumps({**self._snapshot, **self._answer(reader)}).encode() + b"\n")
        for reader in readers:
            reader.close()

    def _answer(self, reader: socket.socket) -> dict[str, Any]:
        asked: list[dict[str, Any]] = []
        with contextlib.suppress(TimeoutError):
            asked = list(map(json.loads, reader.recv(4096).splitlines()))
        self.asked += asked
        return {"hour": self._hour} if any(program.get("hour") for program in asked) else {}

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._socket.close()
        self.path.unlink()


def asked(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def seen(weft: Weft, *processes: subprocess.Popen[str]) -> dict[str, dict[str, Any]]:
    """Programs that `weft top` tells of, these and no others, by their names. A busy one may be late to tell."""
    numbers = {process.pid for process in processes}
    programs: list[dict[str, Any]] = []

    def is_told() -> bool:
        programs[:] = json.loads(weft("top", "--json").stdout)
        return {program["pid"] for program in programs} >= numbers

    wait_until(is_told)
    assert {program["pid"] for program in programs} == numbers
    return {program["program"]: program for program in programs}


def sample(text: str, name: str) -> float | None:
    """The value of a metric, with its labels; none if it is not told."""
    values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name + " ")]
    return float(values[0]) if values else None


@contextlib.contextmanager
def strange(proxy: int) -> Iterator[None]:
    """A program with datagrams has sent what no proxy understands."""
    with socket.create_connection(("127.0.0.1", proxy)) as asked:
        asked.sendall(b"\5\1\0\5\3\0\1" + bytes(6))
        answer = b""
        while len(answer) < 12:
            answer += asked.recv(12 - len(answer))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.sendto(b"?", ("127.0.0.1", int.from_bytes(answer[10:], "big")))
            yield


def test_a_proxy_and_a_relay_are_seen_while_they_run(
    weft: Weft, start: Start, runtime: Path, tmp_path: Path, website: int
) -> None:
    line = weft("pair", "--identity", "me", "--name", "laptop").stdout.strip()
    at, local, there, here = f"127.0.0.1:{port()}", port(), port(), port()
    relay = start(
        "relay", "--listen", at, "--identity", "me", "--allow", "127.0.0.0/8", "--metrics", str(there), "--json"
    )
    proxy = start(
        "proxy", "--to", at, "--pair", line, *BOTH, "--listen", str(local), "--metrics", f"127.0.0.1:{here}", "--json"
    )
    until_told(proxy, "connected to the relay")
    assert get(local, "127.0.0.1", website) == (200, BODY)
    assert get(local, "10.0.0.1", 80)[0] == 403

    urls = [f"http://127.0.0.1:{number}/metrics" for number in (here, there)]
    wait_until(lambda: all(sample(asked(url), 'weft_refusals_total{reason="not_allowed"}') == 1 for url in urls))
    here_told, there_told = map(asked, urls)
    assert sample(here_told, "weft_connected") == 1
    with strange(local):
        wait_until(lambda: sample(asked(urls[0]), 'weft_dropped_total{reason="not_for_anyone"}') == 1)
    carried = [sample(here_told, f'weft_link_bytes_total{{link="127.0.0.{number}"}}') or 0 for number in (1, 2)]
    assert sum(carried) > len(BODY)
    assert (sample(there_told, 'weft_client_down_bytes_total{client="laptop"}') or 0) >= len(BODY)
    assert sample(there_told, "weft_clients") == 1
    stored = json.loads((tmp_path / "me").read_text())
    secrets = [stored["token"], stored["named"]["laptop"], stored["key"]]
    assert not [secret for secret in secrets if secret in here_told + there_told]

    shown = seen(weft, proxy, relay)
    assert (shown["proxy"]["drops"], shown["relay"]["drops"]) == ({"not_for_anyone": 1}, {})
    packet = shown["proxy"]["last_packet"]
    assert packet["path"] in BOTH and packet["path"] in packet["scheduler_says"], "a reason names links, not numbers"
    assert shown["proxy"]["refusals"] == {"not_allowed": 1} and len(shown["proxy"]["paths"]) == 2
    assert [client["name"] for client in shown["relay"]["by_client"]] == ["laptop"]
    assert not [secret for secret in secrets if secret in json.dumps(list(shown.values()))]
    table = weft("top").stdout
    assert f"weft proxy at 127.0.0.1:{local} ({proxy.pid}): relaying" in table and "laptop" in table

    for process in (proxy, relay):
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        lines = [json.loads(line) for line in output.splitlines()]
        assert lines and all(line["pid"] == process.pid for line in lines)
    assert not list((runtime / "weftway").iterdir())
    nothing = weft("top")
    assert (nothing.returncode, nothing.stdout) == (0, "") and "no weft proxy" in nothing.stderr


def test_a_port_for_metrics_that_is_taken_is_told(weft: Weft, runtime: Path, line: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        run: subprocess.CompletedProcess[str] = weft(
            "proxy", "--to", "127.0.0.1:9", "--pair", line, "--metrics", str(number)
        )
    assert run.returncode == 1 and f"--metrics 127.0.0.1:{number}" in run.stderr, run.stderr


def test_an_address_of_ipv6_stands_in_brackets_in_a_link(start: Start, runtime: Path, line: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6: {error}")
    number = port()
    proxy = start("proxy", "--to", "127.0.0.1:9", "--pair", line, "--metrics", f"[::1]:{number}")
    assert until_told(proxy, "metrics at") == f"metrics at http://[::1]:{number}/metrics\n"
    wait_until(lambda: "# TYPE" in asked(f"http://[::1]:{number}/metrics"))


def test_a_socket_is_for_its_user_alone_and_a_folder_of_others_is_not_used(
    start: Start, runtime: Path, line: str
) -> None:
    words = ("relay", "--listen", "127.0.0.1:0", "--identity", "me")
    relay = start(*words)
    until_told(relay, "listening at")
    path = runtime / "weftway" / f"relay-{relay.pid}.sock"
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, path.parent)] == [0o600, 0o700]
    path.parent.chmod(0o777)
    other = start(*words)
    message = until_told(other, "weft top will not show this program")
    assert f"{path.parent} is no folder of this user's alone (mode 0700): remove it" in message
    until_told(other, "listening at")


def test_whoever_does_not_read_holds_nobody_up_and_whoever_asks_is_heard(
    start: Start, runtime: Path, line: str
) -> None:
    relay = start("relay", "--listen", "127.0.0.1:0", "--identity", "me")
    until_told(relay, "listening at")
    idle, reader = (socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2))
    with idle, reader:
        for process in (idle, reader):
            process.settimeout(30)
            process.connect(str(runtime / "weftway" / f"relay-{relay.pid}.sock"))
        lines = reader.makefile()
        assert json.loads(lines.readline())["program"] == "relay"
        reader.sendall(b'nonsense\n{"scheduler": "no-such-scheduler"}\n{"hour": true}\n')
        hours = [json.loads(lines.readline()).get("hour") for _ in range(4)]
        (hour,) = filter(None, hours)
        assert hour["every_s"] == 10 and list(hour) == ["every_s", "at", "links", "clients", "flows", "notes"]
    assert "no-such-scheduler" in until_told(relay, "no-such-scheduler")


@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_is_told_what_it_waits_for(
    start: Start, runtime: Path, line: str, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    name = f"weft-{os.getpid()}" if abstract else str(runtime / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service_manager:
        service_manager.bind("\0" + name if abstract else name)
        service_manager.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name if abstract else name)
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        relay = start("relay", "--listen", "127.0.0.1:0", "--identity", "me")
        lines: list[str] = []

        def hear(word: str) -> None:
            deadline = time.monotonic() + 30
            while word not in lines and time.monotonic() < deadline:
                lines.append(service_manager.recv(1000).decode())

        hear("READY=1")
        # A fifth of a second is half of the time in which a sign of life is awaited.
        lines.clear()
        hear("WATCHDOG=1")
        relay.send_signal(signal.SIGTERM)
        hear("STOPPING=1")
        assert "WATCHDOG=1" in lines and lines[-1] == "STOPPING=1"
        assert ended(relay)[0] == 130
