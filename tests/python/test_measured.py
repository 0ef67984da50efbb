"""What measurements tell: ping, iperf3, captures, Mahimahi traces; and the scenario that is made of them."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import machine
from conftest import Weft
from weftway import ScenarioError, measured, new_scenario
from weftway.scenario import load

LINUX = """\
PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=20.0 ms
64 bytes from 192.0.2.1: icmp_seq=2 ttl=57 time=22.0 ms
64 bytes from 192.0.2.1: icmp_seq=3 ttl=57 time=24.0 ms
64 bytes from 192.0.2.1: icmp_seq=4 ttl=57 time=26.0 ms
64 bytes from 192.0.2.1: icmp_seq=6 ttl=57 time=28.0 ms

--- 192.0.2.1 ping statistics ---
6 packets transmitted, 5 received, 16.6667% packet loss, time 5009ms
rtt min/avg/max/mdev = 20.000/24.000/28.000/2.828 ms
"""

MAC = """\
--- example.org ping statistics ---
50 packets transmitted, 50 packets received, 0.0% packet loss
round-trip min/avg/max/stddev = 61.0/70.0/131.0/8.0 ms
"""

WINDOWS = """\
Reply from 192.0.2.1: bytes=32 time=12ms TTL=57
Reply from 192.0.2.1: bytes=32 time<1ms TTL=57

Ping statistics for 192.0.2.1:
    Packets: Sent = 4, Received = 2, Lost = 2 (50% loss),
"""


def written(folder: Path, name: str, content: str | bytes) -> Path:
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def iperf(mbps: list[float], reverse: int = 1, rtt_us: tuple[int, int, int] | None = None, udp: float = -1.0) -> str:
    """What iperf3 prints, as far as it is read."""
    sums = [{"start": float(n), "end": n + 1.0, "bits_per_second": rate * 1e6} for n, rate in enumerate(mbps)]
    names = ("min_rtt", "mean_rtt", "max_rtt")
    sender = dict(zip(names, rtt_us, strict=True)) if rtt_us else {}
    end: dict[str, object] = {"streams": [{"sender": sender, "receiver": {}}]}
    if udp >= 0:
        end["sum"] = {"lost_percent": udp, "lost_packets": int(udp * 10), "packets": 1000}
    test = {"protocol": "TCP" if udp < 0 else "UDP", "reverse": reverse}
    return json.dumps({"start": {"test_start": test}, "intervals": [{"sum": one} for one in sums], "end": end})


def test_ping_of_linux(tmp_path: Path) -> None:
    """The median of five is 24 ms; quantiles 0.84 and 0.16 of 20, 22, … 28 are 26.72 and 21.28 ms. One of six is lost
    on a round trip: 1 − √(5/6) one way."""
    told = measured.read(written(tmp_path, "a.txt", LINUX))
    assert told.rtt_ms is not None and told.loss is not None and told.jitter_ms is not None
    assert (told.kind, told.rtt_ms.value) == ("ping", 24.0)
    assert told.jitter_ms == pytest.approx(2.72)
    assert told.loss.value == pytest.approx(1 - (5 / 6) ** 0.5)
    assert told.loss.low < told.loss.value < told.loss.high


def test_ping_of_others(tmp_path: Path) -> None:
    mac = measured.read(written(tmp_path, "a.txt", MAC))
    assert mac.rtt_ms is not None and (mac.rtt_ms.value, mac.rtt_ms.low, mac.rtt_ms.high) == (70.0, 62.0, 78.0)
    assert mac.loss is not None and mac.loss.value == 0 and mac.loss.high > 0
    windows = measured.read(written(tmp_path, "b.txt", WINDOWS))
    assert windows.loss is not None and windows.loss.value == pytest.approx(1 - 0.5**0.5)


def test_iperf3_over_tcp(tmp_path: Path) -> None:
    """Slow start, the first second, does not count: the median of 28, 30, 29 is 29, and 1500 B carry 1448."""
    down = measured.read(written(tmp_path, "a.json", iperf([9, 28, 30, 29])))
    assert list(down.rates) == ["down"]
    assert down.rates["down"].value == pytest.approx(29 * 1500 / 1448)
    assert down.rtt_ms is None
    up = measured.read(written(tmp_path, "b.json", iperf([5, 5], 0, (40_000, 90_000, 140_000))))
    assert up.rtt_ms is not None and up.queue_ms is not None
    assert (list(up.rates), up.rtt_ms.value, up.queue_ms.value) == (["up"], 40.0, 100.0)


def test_iperf3_over_udp(tmp_path: Path) -> None:
    """Of 10 Mbit/s sent, 2 % do not come. A test that loses 20 % was sent too fast: its losses are not the link's."""
    sent = measured.read(written(tmp_path, "a.json", iperf([10, 10], udp=2.0)))
    assert sent.rates["down"].value == pytest.approx(9.8 * 1500 / 1472)
    assert sent.loss is not None and sent.loss.value == 0.02
    flooded = measured.read(written(tmp_path, "b.json", iperf([10, 10], udp=20.0)))
    assert flooded.loss is None


def test_a_trace_has_its_direction_in_its_name(tmp_path: Path) -> None:
    """Four times 1500 B in 12 ms are 4 Mbit/s."""
    trace = measured.read(written(tmp_path, "lte.up", "0\n4\n8\n12\n"))
    assert trace.traces == {"up": pytest.approx(4.0)}


def tcp(source: int, target: int, flags: int, sequence: int, payload: int) -> bytes:
    """An IPv4 packet from host 10.0.0.`source` whose payload was not captured."""
    header = struct.pack("!BBHHHBBH", 0x45, 0, 40 + payload, 0, 0, 64, 6, 0)
    addresses = bytes([10, 0, 0, source, 10, 0, 0, target])
    return (
        header + addresses + struct.pack("!HHIIBBHHH", 1000 + source, 1000 + target, sequence, 0, 0x50, flags, 0, 0, 0)
    )


def transfer() -> Iterator[tuple[float, bytes]]:
    """A handshake of 30 ms, then for 2 s a packet of 1040 B each ms from host 2; each hundredth is sent again."""
    yield 0.0, tcp(1, 2, 2, 0, 0)
    yield 0.03, tcp(2, 1, 18, 0, 0)
    yield 0.03, tcp(1, 2, 16, 1, 0)
    for n in range(2000):
        yield 0.031 + n / 1000, tcp(2, 1, 16, 1 + n * 1000, 1000)
        if n % 100 == 99:
            yield 0.0315 + n / 1000, tcp(2, 1, 16, 1 + (n - 5) * 1000, 1000)


def pcap(order: str) -> bytes:
    out = struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 101)
    for at, packet in transfer():
        micros = round(at * 1e6)
        out += struct.pack(order + "4I", micros // 10**6, micros % 10**6, len(packet), len(packet)) + packet
    return out


def pcapng() -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        length = 12 + len(body)
        return struct.pack("<2I", kind, length) + body + struct.pack("<I", length)

    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack("<HHI", 1, 0, 96) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0))
    for at, packet in transfer():
        frame = bytes(12) + b"\x08\x00" + packet
        nanos = round(at * 1e9)
        head = struct.pack("<5I", 0, nanos >> 32, nanos & 0xFFFFFFFF, len(frame), len(frame))
        out += block(6, head + frame + bytes(-len(frame) % 4))
    return out


@pytest.mark.parametrize("capture", [pcap("<"), pcap(">"), pcapng()], ids=["little", "big", "pcapng"])
def test_captures(tmp_path: Path, capture: bytes) -> None:
    """A busy second has 1000 packets and 10 again: 1010 · 1040 · 8 bits. Host 1 opened: it is the user. Its three small
    packets do not tell how fast the way up is, and what was sent again may have been dropped by a full queue."""
    told = measured.read(written(tmp_path, "a.pcap", capture))
    assert told.rtt_ms is not None and told.loss is not None
    assert told.rates["down"].value == pytest.approx(8.4, rel=0.03)
    assert told.rtt_ms.value == pytest.approx(30.0)
    assert list(told.rates) == ["down"]
    assert told.loss.value == 0 and 20 / 2020 < told.loss.high < 40 / 2020


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "the file is empty"),
        ("hello\n", "unknown kind of file; expected the output of `ping`"),
        (b"\x00\xff\xfe\x01", "a binary file, but not a capture"),
        ('{"start": ', "no JSON at line 1"),
        ("{}", "`start` is missing"),
        ('{"error": "unable to connect"}', "iperf3 failed: unable to connect; measure again"),
        (iperf([0.0, 0.0]), "nothing was transferred"),
        ("3 packets transmitted, 0 received, 100% packet loss", "no ping was answered"),
        ("0\n5\n3\n", "line 3: `3` is less than the time before it"),
        ("0\n0\n", "ends at 0 ms"),
        (pcap("<")[:100], "cut off or damaged"),
        (pcap("<")[:24], "no IP packet"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_line(tmp_path: Path, content: str | bytes, reason: str) -> None:
    file = written(tmp_path, "wifi.txt", content)
    with pytest.raises(ScenarioError) as told:
        measured.read(file)
    assert str(told.value).startswith(f"{file}: ") and reason in str(told.value) and "\n" not in str(told.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        measured.read(tmp_path / "none")
    with pytest.raises(ScenarioError, match="a folder"):
        measured.read(tmp_path)


@pytest.fixture
def links(tmp_path: Path) -> list[str]:
    """Measurements of two links; of LTE nothing tells a loss or a rate up."""
    written(tmp_path, "wifi-ping.txt", LINUX)
    written(tmp_path, "wifi-iperf3.json", iperf([9, 28, 30, 29]))
    written(tmp_path, "wifi-iperf3-up.json", iperf([5, 5], 0, (20_000, 60_000, 120_000)))
    written(tmp_path, "lte.down", "0\n1\n2\n3\n")
    return ["wifi-ping.txt", "wifi-iperf3.json", "wifi-iperf3-up.json", "lte.down"]


def test_the_scenario_says_where_each_value_comes_from(weft_here: Weft, tmp_path: Path, links: list[str]) -> None:
    done = weft_here("new", "scenario", "home", *links)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "home.toml").read_text()
    values = [line for line in text.split("[workload]")[0].splitlines() if " = " in line and "title" not in line]
    assert all("#" in line for line in values if not line.startswith("seeds"))
    for line in (
        'rate.down  = "30 Mbit/s"       # wifi-iperf3.json: median of 3 intervals of iperf3 over TCP, with headers',
        'delay      = "12 ms"           # one way; wifi-ping.txt: half the median of 5 round trips (24 ms)',
        'trace.down = "lte.down"        # Mahimahi trace, 16 Mbit/s on the mean',
        'rate.up    = "4 Mbit/s"        # assumed: a quarter of the rate down',
        '"path.wifi.delay" = "10.4 ms..13.6 ms"',
    ):
        assert line in text.splitlines()
    assert "lte.delay" in done.stdout and "wifi.delay" not in done.stdout
    # 100 ms of 5.18 Mbit/s are 43 packets of 1500 B.
    assert 'queue.up   = "43 packets"' in text
    (variant,) = load(tmp_path / "home.toml").variants()
    assert variant.transport == "mptcp"


def test_nothing_is_overwritten_and_nothing_half_written(weft_here: Weft, tmp_path: Path, links: list[str]) -> None:
    (tmp_path / "home.toml").write_text("mine")
    done = weft_here("new", "scenario", "home", *links)
    assert (done.returncode, done.stderr) == (2, "weft: home.toml exists already; give another name, or move it away\n")
    assert (tmp_path / "home.toml").read_text() == "mine"
    done = weft_here("new", "scenario", "other", *links, "lte.loss=3 pct")
    assert done.returncode == 2 and "`pct` is no unit" in done.stderr
    assert not (tmp_path / "other.toml").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["wifi-ping.txt"], "measurements only of the link `wifi`; a scenario needs two or more"),
        (["wifi-ping.txt", "lte.down"], "link `wifi`: no measurement gives its rate down; add the output of"),
        ([], "needs measurements of two or more links"),
        (
            ["wifi-ping.txt", "lte.down", "--workload", "game"],
            "--workload game: there is bulk, web, stream, voip, call",
        ),
        (
            ["wifi-ping.txt", "lte.down", "wifi.rat=3"],
            "`wifi.rat=3`: the keys of a link are rate, rate.down, rate.up, delay, loss",
        ),
        (["wifi=none.txt", "lte.down"], "none.txt: No such file or directory"),
        (["ping.txt", "lte.down"], "ping.txt: its name does not name a link; write wifi=ping.txt"),
    ],
)
def test_what_is_missing_is_said(
    weft_here: Weft, tmp_path: Path, links: list[str], words: list[str], reason: str
) -> None:
    written(tmp_path, "ping.txt", LINUX)
    done = weft_here("new", "scenario", "home", *words)
    assert done.returncode == 2 and reason in done.stderr
    assert not (tmp_path / "home.toml").exists()


@pytest.mark.parametrize("workload", new_scenario.WORKLOADS)
def test_every_workload_is_sound(weft_here: Weft, tmp_path: Path, links: list[str], workload: str) -> None:
    done = weft_here("new", "scenario", "home", "a=wifi-iperf3.json", "b.rate=3 Mbit/s", "--workload", workload)
    assert done.returncode == 0, done.stderr
    assert f'kind  = "{workload}"' in (tmp_path / "home.toml").read_text().replace("     =", "  =")


def test_answers_make_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"Name of link 2": "dsl", "  Round trip without load": "30 ms", "  Packets lost": "0.5 %"}
    made = new_scenario.from_answers("home", "voip", lambda text, default: given.get(text, default))
    assert made.links == ["wifi", "dsl"]
    text = made.file.read_text()
    assert 'delay      = "15 ms"           # answered' in text and 'loss       = "0.5 %"           # answered' in text


LINE = """\
transport = "tcp"
[path.wifi]
rate = { down = "20 Mbit/s", up = "5 Mbit/s" }
delay = "20 ms"
[workload]
kind = "bulk"
bytes = "1 MB"
"""

SERVER = """\
import socket
peer, _ = socket.create_server(("0.0.0.0", 5001)).accept()
peer.recv(2)
peer.sendall(bytes(7_000_000))
"""

CLIENT = """\
import os, socket, time
for _ in range(100):
    try:
        peer = socket.create_connection((os.environ["WEFT_PEER"], 5001))
        break
    except OSError:
        time.sleep(0.05)
peer.sendall(b"go")
while peer.recv(1 << 16):
    pass
"""


@machine.emulation
def test_a_capture_of_a_download_tells_the_line(weft: Weft, tmp_path: Path) -> None:
    """20 Mbit/s down and 40 ms, as the kernel's TCP finds them."""
    line = written(tmp_path, "line.toml", LINE)
    server = f"{sys.executable} {written(tmp_path, 'server.py', SERVER)}"
    client = written(tmp_path, "client.py", CLIENT)
    done = weft("emulate", line, "--no-log", "--pcap", "cap", "--server", server, "--", sys.executable, client)
    assert done.returncode == 0, done.stderr
    told = measured.read(tmp_path / "cap/client.pcap")
    assert told.rtt_ms is not None
    assert list(told.rates) == ["down"]
    assert told.rates["down"].value == pytest.approx(20, rel=0.1)
    assert told.rtt_ms.value == pytest.approx(40, rel=0.1)
