"""Captures: their formats, what stands in front of a packet, who the user is, and how long is long enough."""

import sys
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

import machine
from captures import ETHERNET, TAGS, Frames, behind_extensions, cooked, ethernet, pcap, pcapng, pppoe, tcp, udp
from conftest import Weft
from weftway import ScenarioError
from weftway.links import measured
from weftway.links.measured import Reading, Undecided

USER, REMOTE = "192.0.2.7", "198.51.100.1"
USER_6, REMOTE_6 = "2001:db8::7", "2001:db8:1::1"
HTTPS = (REMOTE, 443, USER, 40000)


def read(folder: Path, content: bytes, local: tuple[str, ...] = ()) -> Reading:
    file = folder / "wifi.pcap"
    file.write_bytes(content)
    return measured.read(file, local)


def back(ends: tuple[str, int, str, int]) -> tuple[str, int, str, int]:
    return ends[2], ends[3], ends[0], ends[1]


def download(
    ends: tuple[str, int, str, int] = HTTPS, begins: float = 0.0, lasts: float = 2.0, opened: bool = False
) -> Iterator[tuple[float, bytes]]:
    """Each ms a packet of 1000 B on the wire, 8 Mbit/s, and an acknowledgement of each fourth; before it a handshake
    of 30 ms, if it was seen."""
    if opened:
        yield begins - 0.031, tcp(back(ends), flags=2)
        yield begins - 0.001, tcp(ends, flags=18)
        yield begins - 0.001, tcp(back(ends))
    for n in range(round(lasts * 1000)):
        yield begins + n / 1000, tcp(ends, 16, n * 960, 960)
        if n % 4 == 3:
            yield begins + n / 1000 + 0.0001, tcp(back(ends), 16, 1)


def quic(ends: tuple[str, int, str, int]) -> Iterator[tuple[float, bytes]]:
    for n in range(2000):
        yield n / 1000, udp(ends, 972)
        if n % 4 == 3:
            yield n / 1000 + 0.0001, udp(back(ends), 40)


def transfer() -> Iterator[tuple[float, bytes]]:
    """Between two private hosts: a handshake of 30 ms, then 2 s of a packet of 1040 B each ms; each hundredth again."""
    ends = ("10.0.0.2", 1002, "10.0.0.1", 1001)
    yield 0.0, tcp(back(ends), 2)
    yield 0.03, tcp(ends, 18)
    yield 0.03, tcp(back(ends), 16, 1)
    for n in range(2000):
        yield 0.031 + n / 1000, tcp(ends, 16, 1 + n * 1000, 1000)
        if n % 100 == 99:
            yield 0.0315 + n / 1000, tcp(ends, 16, 1 + (n - 5) * 1000, 1000)


FORMATS = {
    "little": pcap(transfer(), "<"),
    "big": pcap(transfer(), ">"),
    "pcapng": pcapng((at, ethernet(packet)) for at, packet in transfer()),
    "obsolete blocks": pcapng(((at, ethernet(packet)) for at, packet in transfer()), kind=2),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_formats(tmp_path: Path, kind: str) -> None:
    """A busy second has 1000 packets and 10 again: 1010 · 1040 · 8 bits. Host 1 opened: it is the user. Its three small
    packets do not tell how fast the way up is, and what was sent again may have been dropped by a full queue."""
    reading = read(tmp_path, FORMATS[kind])
    assert reading.rtt_ms is not None and reading.loss is not None
    assert reading.rates["down"].value == pytest.approx(8.4, rel=0.03)
    assert reading.rtt_ms.value == pytest.approx(30.0)
    assert list(reading.rates) == ["down"]
    assert reading.loss.value == 0 and 20 / 2020 < reading.loss.high < 40 / 2020


@pytest.mark.parametrize("version", [HTTPS, (REMOTE_6, 443, USER_6, 40000)], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("tags", TAGS)
@pytest.mark.parametrize("put", [ethernet, pppoe])
def test_what_stands_in_front_of_a_packet(
    tmp_path: Path, put: Callable[[bytes, bytes], bytes], tags: str, version: tuple[str, int, str, int]
) -> None:
    frames = ((at, put(packet, TAGS[tags])) for at, packet in download(version))
    reading = read(tmp_path, pcap(frames, link=ETHERNET))
    longer = 1020 / 1000 if ":" in version[0] else 1
    assert {name: rate.value for name, rate in reading.rates.items()} == {"down": pytest.approx(8 * longer, rel=0.02)}


COOKED, IN, OUT = 113, 0, 4


def of_any(frames: Frames) -> Iterator[tuple[float, bytes]]:
    """Frames that the user's own machine sees on all its interfaces."""
    for at, packet in frames:
        yield at, cooked(packet, IN if packet[12:16] == ip_address(REMOTE).packed else OUT)


def test_a_capture_on_all_interfaces_of_which_one_was_used(tmp_path: Path) -> None:
    reading = read(tmp_path, pcap(of_any(download()), link=COOKED))
    assert {name: rate.value for name, rate in reading.rates.items()} == {"down": pytest.approx(8, rel=0.02)}


def test_extension_headers_of_ipv6(tmp_path: Path) -> None:
    """Neither address is private: that the user is the one who opened shows in TCP's header alone."""
    frames = (
        (at, behind_extensions(packet)) for at, packet in download((REMOTE_6, 40001, USER_6, 40000), 1.0, opened=True)
    )
    assert list(read(tmp_path, pcap(frames)).rates) == ["down"]


def test_sections_of_one_interface_are_one_link_and_those_of_two_are_not(tmp_path: Path) -> None:
    """`cat one.pcapng other.pcapng` is a capture of two sections, each of which counts its interfaces from 0."""
    one, later, other = (
        pcapng(((at, ethernet(packet)) for at, packet in download(begins=at)), name=name)
        for at, name in ((0.0, "wlan0"), (5.0, "wlan0"), (0.0, "wwan0"))
    )
    assert read(tmp_path, one + later).rates["down"].value == pytest.approx(8, rel=0.02)
    with pytest.raises(ScenarioError, match="captured on 2 interfaces"):
        read(tmp_path, one + other)


SIDES: dict[str, tuple[Frames, str]] = {
    "a handshake": (download((REMOTE, 40001, USER, 40000), 1.0, opened=True), "down"),
    "a server's port": (download(), "down"),
    "a server's port above 1023": (download((REMOTE, 8443, USER, 40000)), "down"),
    "QUIC": (quic(HTTPS), "down"),
    "QUIC up": (quic(back(HTTPS)), "up"),
    "a private address": (download((REMOTE, 40001, "192.168.1.7", 40000)), "down"),
    "a carrier's private address": (download((REMOTE, 40001, "100.64.3.7", 40000)), "down"),
    "a unique local address": (download((REMOTE_6, 40001, "fd00::7", 40000)), "down"),
    "two families at once": (
        sorted([*download(lasts=1.0), *download((REMOTE_6, 443, USER_6, 40000), 1.0, 1.0)]),
        "down",
    ),
    "strangers who knock": (
        sorted([*download(), *((n / 10, tcp(("203.0.113.9", 50000 + n, USER, 22), 2)) for n in range(20))]),
        "down",
    ),
}


@pytest.mark.parametrize("case", SIDES)
def test_who_is_the_user(tmp_path: Path, case: str) -> None:
    """Captures that begin in the middle: most packets go to the user, or to the server in an upload."""
    frames, side = SIDES[case]
    assert list(read(tmp_path, pcap(frames)).rates) == [side]


UNDECIDED: dict[str, Callable[[], Frames]] = {
    "no sign": lambda: download((REMOTE, 40001, USER, 40000)),
    "both private": lambda: download(("10.0.0.2", 40001, "10.0.0.1", 40000)),
    "both at servers' ports": lambda: download((REMOTE, 443, USER, 443)),
    "a private server": lambda: download((USER, 40001, "10.0.0.2", 443), 1.0, opened=True),
    "both open": lambda: [
        *download((REMOTE, 40001, USER, 40000), 1.0, opened=True),
        *download((USER, 40003, REMOTE, 40002), 4.0, opened=True),
    ],
    "without ports": lambda: ((n / 1000, udp(HTTPS, 972)[:9] + b"\x32" + udp(HTTPS, 972)[10:]) for n in range(2000)),
}


@pytest.mark.parametrize("case", UNDECIDED)
def test_where_nothing_is_certain_it_is_asked(tmp_path: Path, case: str) -> None:
    content = pcap(UNDECIDED[case]())
    with pytest.raises(Undecided, match="does not show which side is the user's; say which address") as refusal:
        read(tmp_path, content)
    first, second = refusal.value.addresses
    one, other = (list(read(tmp_path, content, (address,)).rates) for address in (first, second))
    assert sorted(one + other) == ["down", "up"] or one == other == ["down", "up"]


def test_the_user_can_be_a_network_or_nobody(tmp_path: Path) -> None:
    content = pcap(download((REMOTE, 40001, USER, 40000)))
    assert list(read(tmp_path, content, ("192.0.2.0/24",)).rates) == ["down"]
    with pytest.raises(ScenarioError, match=f"no packet of 203.0.113.1; it has {USER}, {REMOTE}"):
        read(tmp_path, content, ("203.0.113.1",))


@pytest.mark.parametrize("lasts", [0.1, 0.3, 0.5, 0.9, 1.4, 2.5, 5.0])
@pytest.mark.parametrize("around", [False, True], ids=["alone", "in a minute of silence"])
def test_a_short_transfer_has_the_rate_of_a_long_one(tmp_path: Path, lasts: float, around: bool) -> None:
    """8 Mbit/s, whenever it begins within a second, and whatever the capture has besides."""
    frames = list(download(begins=17.77, lasts=lasts))
    if around:
        frames = [*((n, tcp(back(HTTPS))) for n in range(17)), *frames, *((30.0 + n, tcp(HTTPS)) for n in range(30))]
    reading = read(tmp_path, pcap(frames))
    assert reading.rates["down"].value == pytest.approx(8, rel=0.05)


@pytest.mark.parametrize("at", [1, 15, 17, 50])
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_a_capture_that_was_killed_is_read_to_there(tmp_path: Path, kind: str, at: int) -> None:
    frames = [(at, ethernet(packet)) for at, packet in download()]
    whole = pcap(frames, link=ETHERNET) if kind == "pcap" else pcapng(frames)
    reading = read(tmp_path, whole[:-at])
    assert reading.rates["down"].value == pytest.approx(8, rel=0.02)
    assert "the file ends within a packet" in reading.rates["down"].why


def test_a_packet_without_a_length_is_as_long_as_its_frame(tmp_path: Path) -> None:
    """As a card is handed it that splits segments itself."""
    down = [(at, packet) for at, packet in quic(HTTPS) if packet[12:16] == ip_address(REMOTE).packed]
    frames = [(at, (packet[:2] + bytes(2) + packet[4:]).ljust(1000)) for at, packet in down]
    assert read(tmp_path, pcap(frames)).rates["down"].value == pytest.approx(8, rel=0.02)


MPLS = b"\x88\x47\x00\x01\x01\x40"

LTE = (REMOTE, 443, "203.0.113.7", 40000)


def twice(frames: Frames, later: float) -> list[tuple[float, bytes]]:
    """As a port that mirrors both directions of another shows it."""
    return sorted(frame for at, packet in frames for frame in ((at, packet), (at + later, packet)))


def set_back(frames: Frames, by: float) -> list[tuple[float, bytes]]:
    """Frames of a clock that goes back after the first second."""
    return [(at - by if at >= 1 else at, packet) for at, packet in frames]


def test_frames_that_are_a_little_out_of_order_are_read(tmp_path: Path) -> None:
    """Two processors hand them over: each tenth comes 50 ms late."""
    frames = list(download())
    late = [(at, packet) for n, (at, packet) in enumerate(frames) if n % 10 == 0]
    order = sorted(frames, key=lambda frame: frame[0] + (0.05 if frame in late else 0))
    assert order != frames
    assert read(tmp_path, pcap(order)).rates["down"].value == pytest.approx(8, rel=0.02)


def only(frames: Frames, source: str) -> list[tuple[float, bytes]]:
    """Frames that one side sent."""
    return [(at, packet) for at, packet in frames if packet[12:16] == ip_address(source).packed]


def test_acknowledgements_beside_a_handshake_tell_no_rate(tmp_path: Path) -> None:
    """The download itself went another way: what was captured of it opens it, and acknowledges."""
    frames = [frame for frame in download(opened=True) if frame[0] < 0] + only(download(), USER)
    reading = read(tmp_path, pcap([(at + 1, packet) for at, packet in frames]))
    assert (reading.rates, reading.rtt_ms is None) == ({}, False)
    assert "only acknowledgements" in reading.rate_unknown


@pytest.mark.parametrize("frames", [download(), quic(HTTPS)], ids=["TCP", "QUIC"])
def test_one_direction_alone_tells_its_rate(tmp_path: Path, frames: Frames) -> None:
    assert list(read(tmp_path, pcap(only(frames, REMOTE))).rates) == ["down"]


HALF = {
    "a clock that was set back": (pcap(set_back(download(), 0.5)), "its times go back by 0.5 s: the clock was set"),
    "files joined in the wrong order": (
        pcap([*download(begins=5), *download()]),
        "its times go back by 7 s: the clock was set, or files were joined",
    ),
    "acknowledgements alone": (pcap(only(download(), USER)), "only acknowledgements and the like"),
    "acknowledgements of QUIC alone": (pcap(only(quic(HTTPS), USER)), "only acknowledgements and the like"),
    "two links on all interfaces": (
        pcap(sorted([*of_any(download()), *of_any(download(LTE))]), link=COOKED),
        "192.0.2.7 and 203.0.113.7 are on this side; capture each by itself",
    ),
    "a router that sees each packet come and go": (
        pcap(((at, cooked(packet, n % 2 * 4)) for n, (at, packet) in enumerate(twice(quic(HTTPS), 0.0))), link=COOKED),
        "it has packets twice",
    ),
    "a mirrored port": (pcap(twice(download(), 0.00002)), "it has packets twice"),
    "two links": (
        pcapng(((at, ethernet(packet)) for at, packet in download()), interfaces=(0, 1)),
        "captured on 2 interfaces",
    ),
    "simple blocks": (pcapng(((at, ethernet(packet)) for at, packet in download()), kind=3), "packets have no times"),
    "an unknown link type": (pcap(download(), link=127), "100 % of its bytes are in frames of link type 127"),
    "labels that hide the packets": (
        pcap(((at, bytes(12) + MPLS + packet) for at, packet in download()), link=ETHERNET),
        "in frames of type 0x8847",
    ),
    "too little of each frame": (
        pcap(((at, ethernet(packet)[:30]) for at, packet in download()), link=ETHERNET),
        "frames of which too little was kept",
    ),
    "damaged": (pcap(download())[:5000] + b"\xff" * 400, "the capture is damaged: no frame begins at byte"),
    "nothing": (pcap([]), "has no IP packet"),
    "loopback": (pcap(download(("127.0.0.1", 443, "127.0.0.1", 40000))), "has no IP packet"),
    "cut in its first frame": (pcap(download())[:50], "is cut off before its first packet"),
    "a moment": (pcap(download(lasts=0.01)), "too short to tell anything"),
    "compressed": (b"\x1f\x8b\x08\x00" + bytes(range(256)), "compressed by gzip; unpack it first"),
}


@pytest.mark.parametrize("case", HALF)
def test_what_is_understood_in_half_is_refused(tmp_path: Path, case: str) -> None:
    content, reason = HALF[case]
    with pytest.raises(ScenarioError) as refusal:
        read(tmp_path, content)
    assert reason in str(refusal.value) and "\n" not in str(refusal.value)


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


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


@machine.emulation
def test_a_capture_of_a_download_tells_the_line(weft: Weft, tmp_path: Path) -> None:
    """20 Mbit/s down and 40 ms, as the kernel's TCP finds them."""
    line = written(tmp_path / "line.toml", LINE)
    server = f"{sys.executable} {written(tmp_path / 'server.py', SERVER)}"
    client = written(tmp_path / "client.py", CLIENT)
    done = weft("emulate", line, "--no-log", "--pcap", "cap", "--server", server, "--", sys.executable, client)
    assert done.returncode == 0, done.stderr
    reading = measured.read(tmp_path / "cap/client.pcap")
    assert reading.rtt_ms is not None
    assert list(reading.rates) == ["down"]
    assert reading.rates["down"].value == pytest.approx(20, rel=0.1)
    assert reading.rtt_ms.value == pytest.approx(40, rel=0.1)
