"""What a running program tells of itself: snapshots, the socket for `weft top`, metrics, systemd."""

import contextlib
import errno
import json
import os
import re
import signal
import socket
import stat
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from conftest import Weft
from ends import BOTH, Start, port, wait_until
from test_proxy import BODY, get, until_told, website
from weftway._native import ScenarioError
from weftway.queued_output import QueuedOutput
from weftway.status import local_socket, metrics, top
from weftway.status.local_socket import LocalSocket, Reader
from weftway.status.service_manager import ServiceManager
from weftway.status.snapshot import Snapshots
from weftway.transfer import Display

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
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets time pass."""
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def skip(seconds: float) -> None:
        nonlocal now
        now += seconds

    return skip


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sockets are. The path of one may have a hundred characters, and that of a test's folder has more."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def progress(**changes: Any) -> dict[str, Any]:
    return {**PROGRESS, **changes}


def test_a_snapshot_comes_each_second_and_no_note_is_lost(clock: Callable[[float], None]) -> None:
    snapshots = Snapshots("proxy")
    first = snapshots(progress(note="connected"))
    assert first and first["notes"] == ["connected"] and first["paths"][0]["mbps"] == 0
    for number in range(9):
        clock(0.0625)
        assert snapshots(progress(note=f"note {number}" if number % 4 == 0 else None)) is None
    clock(0.4375)
    faster = {**PATH, "carried": PATH["carried"] + 1_250_000}
    second = snapshots(progress(paths=[faster]))
    assert second and second["notes"] == ["note 0", "note 4", "note 8"]
    assert second["paths"][0]["mbps"] == 10 and second["paths"][0]["minute"] == [0, 10]
    assert (second["program"], second["pid"]) == ("proxy", os.getpid())
    assert "note" not in second and json.loads(json.dumps(second)) == second


def test_a_minute_of_rates_is_kept(clock: Callable[[float], None]) -> None:
    snapshots = Snapshots("proxy")
    for number in range(100):
        told = snapshots(progress(paths=[{**PATH, "carried": 125_000 * number * number}]))
        clock(1)
    assert told and len(told["paths"][0]["minute"]) == 60
    assert told["paths"][0]["minute"][-1] == 2 * 99 - 1


def test_whoever_reads_the_socket_gets_lines_and_whoever_does_not_is_left(runtime: Path) -> None:
    told = LocalSocket("proxy")
    mode = stat.S_IMODE(told.path.stat().st_mode), stat.S_IMODE(told.path.parent.stat().st_mode)
    assert mode == (0o600, 0o700)
    reader, idle = Reader(told.path), Reader(told.path)
    long = progress(notes=["x" * 60_000])
    for number in range(100):
        told.tell({**long, "at": number})
        while (snapshot := reader.read()) is None:
            pass
        assert snapshot["at"] == number
    assert [reader.path for reader in local_socket.running()] == [told.path]
    assert local_socket.running((told.path,)) == []
    told.close()
    assert not told.path.exists()
    with pytest.raises(EOFError):
        reader.read()
    for one in (reader, idle):
        one.close()


def test_a_program_without_descriptors_goes_on(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux says so of a socket to which nobody connects, too."""

    class Exhausted:
        def accept(self) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    told = LocalSocket("proxy")
    reader = Reader(told.path)
    told.tell(progress(notes=["one"]))
    with monkeypatch.context() as patched:
        patched.setattr(told, "_listening", Exhausted())
        told.tell(progress(notes=["two"]))
    snapshot = reader.read()
    assert snapshot is not None and snapshot["notes"] == ["one", "two"]
    reader.close()
    told.close()


def test_an_address_of_ipv6_stands_in_brackets_in_a_link() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        served = metrics.Metrics("::1", 0)
    except ScenarioError as error:
        pytest.skip(f"no IPv6: {error}")
    assert re.fullmatch(r"http://\[::1\]:\d+/metrics", served.address)
    served.close()


def test_whoever_reads_may_ask_and_nonsense_is_not_heard(runtime: Path) -> None:
    told = LocalSocket("proxy", lambda: {"links": "an hour"})
    reader, rude = Reader(told.path), Reader(told.path)
    assert told.requests() == [], "nobody has been let in yet"
    told.tell(progress(notes=["first"]))
    reader.ask({"scheduler": "ecf"})
    rude._socket.sendall(b'nonsense\n[1]\n"word"\n' + b"[" * 3000 + b"\n" + b'{"scheduler": "late')
    assert told.requests() == [{"scheduler": "ecf"}]
    rude._socket.sendall(b'"}\n')
    assert told.requests() == [{"scheduler": "late"}]
    # A line without an end: nothing more is kept of it than of the longest request.
    rude._socket.sendall(b"x" * 3 * local_socket.LONGEST_REQUEST)
    assert [told.requests() for _ in range(3)] == [[], [], []]
    reader.ask({"hour": True})
    told.requests()
    for note in ("second", "third"):
        told.tell(progress(notes=[note]))
    snapshot = reader.read()
    assert snapshot and snapshot["notes"] == ["first", "second", "third"] and snapshot["hour"] == {"links": "an hour"}
    told.tell(progress(notes=[]))
    assert "hour" not in (reader.read() or {"hour": "again"}), "it was asked for once"
    rude._socket.settimeout(10)
    with pytest.raises((EOFError, ConnectionResetError)):
        while True:
            rude.read()
    told.close()
    for one in (reader, rude):
        one.close()


def test_what_a_killed_program_left_is_removed(runtime: Path) -> None:
    killed = LocalSocket("proxy")
    killed._listening.close()
    assert killed.path.exists() and local_socket.running() == [] and not killed.path.exists()


def test_a_program_that_does_not_listen_yet_is_left_alone(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`weft top` looks for programs while one starts."""
    listen = socket.socket.listen

    def looked_for_before(one: socket.socket) -> None:
        assert local_socket.running() == []
        listen(one)

    monkeypatch.setattr(socket.socket, "listen", looked_for_before)
    with contextlib.closing(LocalSocket("proxy")) as told:
        (reader,) = local_socket.running()
        assert reader.path == told.path
        reader.close()


def test_a_folder_that_others_may_write_to_is_refused(runtime: Path) -> None:
    (runtime / "weftway").mkdir()
    (runtime / "weftway").chmod(0o777)
    with pytest.raises(ScenarioError, match="0700"):
        LocalSocket("proxy")


@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_is_told_what_it_waits_for(
    runtime: Path, monkeypatch: pytest.MonkeyPatch, clock: Callable[[float], None], abstract: bool
) -> None:
    name = f"weft-{os.getpid()}" if abstract else str(runtime / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service_manager:
        service_manager.bind("\0" + name if abstract else name)
        service_manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name if abstract else name)
        monkeypatch.setenv("WATCHDOG_USEC", "4000000")

        def told() -> list[str]:
            found = []
            while True:
                try:
                    found.append(service_manager.recv(1000).decode())
                except BlockingIOError:
                    return found

        manager = ServiceManager()
        assert "NOTIFY_SOCKET" not in os.environ
        manager.alive()
        manager.tell(progress(state="connecting"))
        assert told() == ["WATCHDOG=1", "STATUS=connecting, 3 connections"]
        for _ in range(2):
            manager.tell(progress())
            manager.alive()
        assert told() == ["READY=1", "STATUS=relaying, 3 connections"]
        clock(2)
        manager.alive()
        manager.close()
        assert told() == ["WATCHDOG=1", "STOPPING=1"]


def test_without_a_service_manager_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    manager = ServiceManager()
    manager.alive()
    manager.tell(progress())
    manager.close()


def drawn(snapshot: dict[str, Any]) -> list[str]:
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    console.print(top.view(snapshot))
    return [line.rstrip() for line in console.export_text().splitlines() if line.strip()]


def test_output_that_nobody_takes_is_told_by_top_and_on_the_terminal_once_somebody_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for dropped, said in [(2, ["nobody reads what it prints: 2 lines dropped"]), (0, [])]:
        snapshot = Snapshots("relay", [dropped].pop)(progress())
        assert snapshot and [line for line in drawn(snapshot) if line.startswith("nobody reads")] == said

    read, written = os.pipe()
    stream = QueuedOutput(os.fdopen(written, "w"))
    stream.write_if_free("first\n")
    monkeypatch.setattr(QueuedOutput, "is_free", property(lambda _: False))
    display = Display(Console(file=stream))  # type: ignore[arg-type]
    stream.write_if_free("dropped\n")
    display.tell(progress(note=None))
    monkeypatch.undo()
    for _ in range(2):
        wait_until(lambda: stream.is_free)
        display.tell(progress(note=None, ports=[]))
    stream.below.close()
    lines = os.read(read, 999).decode().splitlines()
    assert lines[0] == "first" and lines[-1] == "1 line dropped before this one: nobody took what was printed"
    assert sum("dropped" in line for line in lines) == 1


def test_the_view_has_links_and_connections(clock: Callable[[float], None]) -> None:
    snapshot = Snapshots("proxy")(progress())
    assert snapshot
    title, heads, link, flow_heads, flow, refused, dropped = drawn(snapshot)
    assert title.startswith("weft proxy at 127.0.0.1:1080 (") and title.endswith(
        "relaying, 3 connections (1 realtime, 2 bulk)"
    )
    assert heads.split() == [
        "link",
        "Mbit/s",
        "last",
        "minute",
        "round",
        "trip",
        "queue",
        "lost",
        "tier",
        "cap",
        "left",
    ]
    assert link.split() == [
        "wlan0",
        "0.0",
        "▁",
        "12.5",
        "ms",
        "2.5",
        "ms",
        "0.5",
        "%",
        "secondary",
        "7.0",
        "MB",
        "closed",
    ]
    assert flow_heads.split() == ["connection", "class", "sent", "received", "links"]
    assert " ".join(flow.split()) == "example.org:443 bulk 10 B 2.0 MB wlan0 75 %, wwan0 25 %"
    assert refused == "refused: not_allowed 4"
    assert dropped == "dropped: malformed 1, too_long 2"


@pytest.mark.parametrize("state", ["bypassed", "blocked"])
def test_a_tunnel_to_which_packets_do_not_come_is_seen_with_its_connections(state: str) -> None:
    snapshot = Snapshots("tunnel")(progress(state=state, scheduler="min-rtt"))
    assert snapshot
    assert f"{state}, scheduler min-rtt, 3 connections" in drawn(snapshot)[0]


UNREAD: dict[str, Any] = {
    "memory": 536_870_912,
    "promised": 90_000_000,
    "connections": 2,
    "bytes": 3_500_000,
    "most": [{"target": "example.org:443", "bytes": 2_000_000}, {"target": "example.net:80", "bytes": 1_500_000}],
}


def test_the_view_says_who_holds_memory_without_reading(clock: Callable[[float], None]) -> None:
    snapshot = Snapshots("proxy")(progress(unread=UNREAD))
    assert snapshot
    told = (
        "not read: 2 connections with 3.5 MB (example.org:443 2.0 MB, example.net:80 1.5 MB), 90.0 MB of 536.9 MB of "
        "memory are promised"
    )
    assert told in " ".join(drawn(snapshot))
    everybody_reads = Snapshots("proxy")(progress(unread={**UNREAD, "connections": 0, "bytes": 0, "most": []}))
    assert everybody_reads and "not read" not in " ".join(drawn(everybody_reads))


def test_metrics_say_how_much_is_not_read_and_not_of_whom(clock: Callable[[float], None]) -> None:
    snapshot = Snapshots("proxy")(progress(unread=UNREAD))
    assert snapshot
    served = metrics.Metrics("127.0.0.1", 0)
    served.tell(snapshot)
    told = {sample.name: sample.value for family in served.collect() for sample in family.samples}
    served.close()
    assert (told["weft_unread_connections"], told["weft_unread_bytes"]) == (2, 3_500_000)
    memory = (told["weft_receive_memory_promised_bytes"], told["weft_receive_memory_bytes"])
    assert memory == (90_000_000, 536_870_912)
    assert "example" not in str(told)


def test_the_view_says_where_a_packet_went_and_why(clock: Callable[[float], None]) -> None:
    last = {"path": "wlan0", "scheduler_says": "wlan0 has the smallest srtt, 12 ms"}
    snapshot = Snapshots("proxy")(progress(last_packet=last, scheduler="min-rtt"))
    assert snapshot
    shown = drawn(snapshot)
    assert "relaying, scheduler min-rtt, 3 connections" in shown[0]
    assert shown[3] == "a packet went over wlan0: wlan0 has the smallest srtt, 12 ms"
    silent = drawn({**snapshot, "last_packet": {**last, "scheduler_says": None}})
    assert silent[3] == "a packet went over wlan0: this scheduler gives no reasons"


def test_the_last_minute_of_all_links_has_one_scale() -> None:
    assert top.sparklines([]) == []
    assert top.sparklines([[], [0.0, 0.0]]) == ["", "▁"]
    assert top.sparklines([[0, 0, 4, 4, 8, 8]]) == ["▁▅█"]
    assert top.sparklines([[9, 6, 6], [3]]) == ["█▆", "▃"], "the oldest alone"
    assert len(top.sparklines([[1.0] * 60])[0]) == 30


def asked(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def seen(weft: Weft, *processes: subprocess.Popen[str]) -> dict[str, dict[str, Any]]:
    """What `weft top` tells of these programs, and of no others, by their names. A busy one may be late to tell."""
    numbers = {process.pid for process in processes}
    told: list[dict[str, Any]] = []

    def is_told() -> bool:
        told[:] = json.loads(weft("top", "--json").stdout)
        return {one["pid"] for one in told} >= numbers

    wait_until(is_told)
    assert {one["pid"] for one in told} == numbers
    return {one["program"]: one for one in told}


def sample(text: str, name: str) -> float | None:
    """The value of a metric, with its labels; none if it is not told."""
    found = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name + " ")]
    return float(found[0]) if found else None


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
    pytest.importorskip("prometheus_client")
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
        told, _ = process.communicate(timeout=60)
        lines = [json.loads(line) for line in told.splitlines()]
        assert lines and all(line["pid"] == process.pid for line in lines)
    assert not list((runtime / "weftway").iterdir())
    nothing = weft("top")
    assert (nothing.returncode, nothing.stdout) == (0, "") and "no weft proxy" in nothing.stderr


def test_a_port_for_metrics_that_is_taken_is_told(weft: Weft, runtime: Path, line: str) -> None:
    pytest.importorskip("prometheus_client")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        told: subprocess.CompletedProcess[str] = weft(
            "proxy", "--to", "127.0.0.1:9", "--pair", line, "--metrics", str(number)
        )
    assert told.returncode == 1 and f"--metrics 127.0.0.1:{number}" in told.stderr, told.stderr
