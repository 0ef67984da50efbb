"""`weft emulate`: ordinary commands over a scenario's links, held against what the scenario promises."""

import csv
import json
import shlex
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import machine
from conftest import Weft
from draws import link_seeds, losses
from weftway.scenario import HOME

SEED = 7
LINKS = """\
title = "A link to measure"
[path.wifi]
rate = "30 Mbit/s"
delay = "20 ms"
loss = "2 %"
queue = "unlimited"
[path.lte]
rate = "5 Mbit/s"
delay = "40 ms"
[workload]
kind = "bulk"
bytes = "1 MB"
"""
PINGS, FLOOD = 150, 3000
HEADERS = 28
"""IPv4 and UDP."""

SERVER = """\
import os, socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_000_000)
server.bind(("0.0.0.0", 9000))
seen = open("seen", "w", buffering=1)
while True:
    packet, sender = server.recvfrom(2000)
    number = int.from_bytes(packet[:4], "big")
    print(number, file=seen)
    if len(packet) < 1000:
        server.sendto(packet, sender)
"""
"""Notes which packets came, and answers the small ones."""

CLIENT = f"""\
import os, socket, time
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_000_000)
client.connect((os.environ["WEFT_PEER"], 9000))
for number in range({PINGS}):
    client.send(number.to_bytes(4, "big") + bytes(96))
    time.sleep(0.004)
for number in range({PINGS}, {PINGS + FLOOD}):
    client.send(number.to_bytes(4, "big") + bytes(1196))
    if number % 10 == 0:
        time.sleep(0.001)
time.sleep(1)
"""
"""Lone small packets, then more large ones than the link takes, then a second for them to arrive."""


@dataclass(frozen=True)
class Packet:
    """A line of the log."""

    link: str
    bytes: int
    entered_ns: int
    fate: str
    due_ns: int | None
    left_ns: int | None

    @property
    def delay_ms(self) -> float:
        assert self.left_ns is not None, "it arrived"
        return (self.left_ns - self.entered_ns) / 1e6


@dataclass(frozen=True)
class Session:
    """Files and report that a run of the command left."""

    folder: Path
    told: dict[str, Any]
    log: list[str]

    def packets(self, link: str) -> list[Packet]:
        lines = csv.DictReader(line for line in self.log if not line.startswith("#"))
        return [packet(line) for line in lines if line["link"] == link]

    @property
    def fit(self) -> bool:
        return bool(self.told["emulator"]["fit"])


def packet(line: dict[str, str]) -> Packet:
    due, left = (int(line[name]) if line[name] else None for name in ("due_ns", "left_ns"))
    return Packet(line["link"], int(line["bytes"]), int(line["entered_ns"]), line["fate"], due, left)


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def emulate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*machine.WEFT, "emulate", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Pings, then a flood. Late runs are repeated."""
    folder = tmp_path_factory.mktemp("flooded")
    for name, text in (("links.toml", LINKS), ("server.py", SERVER), ("client.py", CLIENT)):
        (folder / name).write_text(text)
    server = shlex.join([sys.executable, "server.py"])
    words = ["links.toml", "--server", server, "--seed", str(SEED), "--pcap", "caps", "--json"]
    for _ in range(machine.TRIES):
        done = emulate(folder, *words, "--", sys.executable, "client.py")
        assert done.returncode == 0, done.stderr
        (report,) = json.loads(done.stdout)
        session = Session(folder, report, (folder / "packets.csv").read_text().splitlines())
        if session.fit:
            break
    return session


def punctual(session: Session) -> Session:
    if not session.fit:
        pytest.skip(
            f"the machine is too busy to measure times: late in {machine.TRIES} runs, {session.told['emulator']}"
        )
    return session


@machine.emulation
def test_the_packets_lost_are_those_that_the_seed_says(flooded: Session) -> None:
    # A download by default: its data go down. A single loss holds both ways here.
    down, up = link_seeds(SEED, "wifi")
    for link, seed in (("wifi.up", up), ("wifi.down", down)):
        fates = [packet.fate for packet in flooded.packets(link)]
        expected = ["lost" if lost else "delivered" for lost in losses(seed, 0.02, len(fates))]
        assert fates == expected
        assert "lost" in fates
    assert len(flooded.packets("wifi.up")) == PINGS + FLOOD


@machine.emulation
def test_what_the_log_says_is_what_the_commands_saw(flooded: Session) -> None:
    seen = [int(line) for line in (flooded.folder / "seen").read_text().split()]
    up = flooded.packets("wifi.up")
    assert seen == [number for number, packet in enumerate(up) if packet.fate == "delivered"]
    assert [packet.bytes for packet in up] == [100 + HEADERS] * PINGS + [1200 + HEADERS] * FLOOD
    assert len(flooded.packets("wifi.down")) == sum(number < PINGS for number in seen)
    assert flooded.packets("lte.up") == flooded.packets("lte.down") == []


@machine.emulation
def test_a_full_link_carries_its_rate(flooded: Session) -> None:
    flood = [packet for packet in punctual(flooded).packets("wifi.up") if packet.bytes > 1000]
    arrived = [number for number, packet in enumerate(flood) if packet.fate == "delivered"]
    # From the middle on it is certainly full. Lost packets take capacity, too.
    first, last = arrived[len(arrived) // 2], arrived[-1]
    carried = sum(packet.bytes for packet in flood[first + 1 : last + 1])
    begin, end = flood[first].left_ns, flood[last].left_ns
    assert begin is not None
    assert end is not None
    assert carried * 8e3 / (end - begin) == pytest.approx(30, rel=0.01)
    (link,) = (link for link in flooded.told["links"] if link["link"] == "wifi.up")
    assert link["busy_rate_mbps"] == pytest.approx(30, rel=0.01)


@machine.emulation
def test_a_lone_packet_takes_the_links_delay(flooded: Session) -> None:
    for link in ("wifi.up", "wifi.down"):
        pings = [packet for packet in punctual(flooded).packets(link) if packet.bytes < 1000]
        delays = [packet.delay_ms for packet in pings if packet.fate == "delivered"]
        # 128 B at 30 Mbit/s are another 0.034 ms.
        assert median(delays) == pytest.approx(20.034, abs=0.2)
        assert min(delays) >= 20.034


@machine.emulation
def test_the_log_says_where_it_comes_from(flooded: Session) -> None:
    head = [line for line in flooded.log if line.startswith("#")]
    assert head[0] == "# weft emulate: A link to measure"
    assert flooded.told["code"] in head[1]
    assert f"links.toml ({flooded.told['scenario_hash']}), seed {SEED}" in head[1]
    assert head[2].startswith("# weft emulate links.toml --server ")
    entered = [packet.entered_ns for packet in flooded.packets("wifi.up")]
    assert entered == sorted(entered)


@machine.emulation
def test_a_command_of_several_lines_is_a_comment_throughout(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    assert weft("emulate", "links.toml", "--", "sh", "-c", "true\ntrue\n").returncode == 0
    lines = (tmp_path / "packets.csv").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["packet,link,bytes,entered_ns,fate,due_ns,left_ns"]


@machine.emulation
def test_json_is_all_there_is_on_standard_output(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    done = weft("emulate", "links.toml", "--json", "--no-log", "--", "echo", "the client's words")
    (report,) = json.loads(done.stdout)
    assert [link["link"] for link in report["links"]] == ["wifi.up", "wifi.down", "lte.up", "lte.down"]
    assert "the client's words" in done.stderr


@machine.emulation
def test_lateness_is_counted_packet_by_packet(flooded: Session) -> None:
    emulator = flooded.told["emulator"]
    handed_over = [packet for link in ("wifi.up", "wifi.down") for packet in flooded.packets(link) if packet.left_ns]
    late = [packet.left_ns - packet.due_ns for packet in handed_over if packet.left_ns and packet.due_ns]
    assert min(late) >= 0
    assert emulator["packets"] == sum(emulator["bins"]) == len(late)
    assert emulator["late_over_1ms"] == sum(by > 1_000_000 for by in late)
    assert emulator["late_mean_us"] == pytest.approx(sum(late) / len(late) / 1e3, abs=0.06)
    assert emulator["fit"] == (emulator["late_over_1ms"] <= 0.005 * len(late))


@machine.emulation
def test_captures_are_pcap_with_what_each_end_saw(flooded: Session) -> None:
    up, down = flooded.packets("wifi.up"), flooded.packets("wifi.down")
    arrived_up, arrived_down = ([p for p in link if p.fate == "delivered"] for link in (up, down))
    client = captured(flooded.folder / "caps/client.pcap")
    server = captured(flooded.folder / "caps/server.pcap")
    assert len(client) == len(up) + len(arrived_down)
    assert len(server) == len(arrived_up) + len(down)
    assert sum(length for length, _ in client) == sum(packet.bytes for packet in [*up, *arrived_down])
    # Version 4, five words of header; UDP is protocol 17.
    assert {(data[0], data[9]) for _, data in client + server} == {(0x45, 17)}


def captured(file: Path) -> list[tuple[int, bytes]]:
    """The length on the wire and the kept bytes of each packet of a capture."""
    data = file.read_bytes()
    magic, major, minor, _, _, _, kind = struct.unpack_from("=IHHIIII", data)
    # Nanoseconds; raw IP.
    assert (magic, major, minor, kind) == (0xA1B2_3C4D, 2, 4, 101)
    found, at = [], 24
    while at < len(data):
        _, _, kept, length = struct.unpack_from("=IIII", data, at)
        found.append((length, data[at + 16 : at + 16 + kept]))
        at += 16 + kept
    assert at == len(data)
    return found


FAST = LINKS.replace("30 Mbit/s", "400 Mbit/s").replace("20 ms", "2 ms").replace('loss = "2 %"\n', "")

SINK = """\
import socket
server = socket.create_server(("0.0.0.0", 9000))
stream, _ = server.accept()
while stream.recv(1 << 20):
    pass
"""

BLAST = """\
import os, socket, time
stream = socket.create_connection((os.environ["WEFT_PEER"], 9000))
end = time.monotonic() + 1.5
while time.monotonic() < end:
    stream.sendall(bytes(1 << 18))
"""


@machine.emulation
def test_a_fast_link_is_on_time(tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(FAST)
    words = ["links.toml", "--server", shlex.join(python(SINK)), "--no-log", "--json", "--", *python(BLAST)]
    for _ in range(machine.TRIES):
        (report,) = json.loads(emulate(tmp_path, *words).stdout)
        if report["emulator"]["fit"] and report["emulator"]["late_mean_us"] < 100:
            break
    else:
        pytest.skip(f"the machine is too busy for 400 Mbit/s: {report['emulator']}")
    up = report["links"][0]
    assert up["busy_rate_mbps"] == pytest.approx(400, rel=0.01)
    # A slow start of some round trips of 4 ms, then 400 Mbit/s to the end of 1.5 s: nine tenths of it at least.
    assert up["delivered_bytes"] * 8 / 1.5e6 > 0.9 * 400
    assert not (tmp_path / "packets.csv").exists()


TALK = """\
import os, socket
with socket.create_connection((os.environ["WEFT_PEER"], 9000)) as stream:
    print(os.environ["WEFT_SIDE"], stream.getsockname()[0], stream.makefile().read().strip(), sep="; ")
"""

LISTEN = """\
import os, socket, time
time.sleep(0.3)
server = socket.create_server(("0.0.0.0", 9000))
stream, (peer, _) = server.accept()
names = ("WEFT_SIDE", "WEFT_PEER", "WEFT_PEERS", "WEFT_ADDRESSES")
stream.sendall(" / ".join([peer, *(os.environ[name] for name in names)]).encode())
print("the server's words")
"""


@machine.emulation
def test_each_end_knows_the_other_and_the_client_waits_for_a_listener(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS.replace('loss = "2 %"\n', ""))
    done = weft("emulate", "links.toml", "--server", shlex.join(python(LISTEN)), "--", *python(TALK))
    there = "10.0.1.1 / server / 10.0.1.1 / 10.0.1.1 10.0.2.1 / 10.0.1.2 10.0.2.2"
    assert (done.returncode, done.stdout) == (0, f"client; 10.0.1.1; {there}\n")
    # The client's standard output is the result; everything else goes to standard error.
    for words in ("the server's words", "what went over each link", "wifi.up", "lateness: mean", "packets.csv"):
        assert words in done.stderr


# The client waits for a server that listens. When it is asked to end it does, with a status if one is given.
LASTS = """\
import signal, socket, sys
if sys.argv[1:]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[1])))
server = socket.create_server(("0.0.0.0", 9000))
signal.pause()
"""


@machine.emulation
@pytest.mark.parametrize(
    ("server", "line"),
    [
        (["false"], "warning: the server ended by itself with status 1: what CMD measured may be of no server"),
        (["true"], None),
        (python(LASTS), None),
        ([*python(LASTS), "3"], None),
    ],
    ids=("fails", "ends", "is ended", "fails when it is ended"),
)
def test_a_server_that_fails_is_told(weft: Weft, tmp_path: Path, server: list[str], line: str | None) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    words = ("emulate", "links.toml", "--no-log", "--no-view", "--server", shlex.join(server), "--", "true")
    done = weft(*words)
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == ([line] if line else [])


@machine.emulation
@pytest.mark.parametrize(("script", "status"), [("true", 0), ("exit 7", 7), ("kill -TERM $$", 128 + 15)])
def test_the_exit_status_is_the_commands(weft: Weft, tmp_path: Path, script: str, status: int) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    assert weft("emulate", "links.toml", "--no-log", "--", "sh", "-c", script).returncode == status


@machine.emulation
@pytest.mark.parametrize("words", [["--", "no-such-program"], ["--server", "no-such-program -s", "--", "true"]])
def test_a_command_that_does_not_exist_is_one_line(weft: Weft, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    done = weft("emulate", "links.toml", *words)
    line = "weft: `no-such-program` cannot be started: there is no such program\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


@machine.emulation
def test_a_program_that_is_there_and_cannot_be_started_is_told_apart(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    done = weft("emulate", "links.toml", "--", "./links.toml")
    assert done.stderr == "weft: `./links.toml` cannot be started: it is not executable\n"


@machine.emulation
def test_a_log_that_cannot_be_written_is_one_line(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    done = weft("emulate", "links.toml", "--log", "links.toml/packets.csv", "--", "true")
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("weft: writing links.toml/packets.csv: ")
    assert len(done.stderr.splitlines()) == 1


MISTAKES = {
    "a misspelt key": (["links.toml", "--set", "path.wifi.lozz=1%"], "loss"),
    "a wrong unit": (["links.toml", "--set", "path.wifi.rate=5 apples"], "5 apples"),
    "no such file": (["wifi-lt"], "did you mean `wifi-lte`?"),
    "no server": (["links.toml", "--server", ""], "--server CMD: the value is empty."),
}


@pytest.mark.parametrize(("words", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_message_before_anything_runs(weft: Weft, tmp_path: Path, words: list[str], hint: str) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    done = weft("emulate", *words, "--", "touch", "ran")
    assert (done.returncode, done.stdout) == (2, "")
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "ran").exists()


def test_without_rights_the_message_names_the_right(tmp_path: Path) -> None:
    (tmp_path / "links.toml").write_text(LINKS)
    command = [*machine.powerless(), *machine.WEFT, "emulate", "links.toml", "--", "touch", "ran"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "a network namespace cannot be had" in done.stderr
    assert "root, or CAP_SYS_ADMIN" in done.stderr
    assert not (tmp_path / "ran").exists()


@machine.emulation
def test_the_page_can_be_followed(tmp_path: Path) -> None:
    (listing,) = machine.follow(HOME / "docs/how-to/emulate-links.md", tmp_path)
    # How long the server's list of its folder is.
    assert int(listing) > 100
