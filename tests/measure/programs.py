"""Real programs that talk by UDP: what runs at either end, and what it needs."""

import importlib.util
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lab
import tap

INTO, OUT = 9000, 9001
"""Ports at which datagrams go in at this end, and come out at the other."""
INNER = 9300
"""Port of what comes through WireGuard."""
LATENCY_MS = 200
FRAMES = 30
_INNER_NEAR, _INNER_FAR = "10.77.0.1", "10.77.0.2"
_QUIET = subprocess.DEVNULL


def make(folder: Path, seconds: float) -> None:
    """Makes what they need: a test picture, and the keys of WireGuard."""
    picture = f"testsrc2=size=640x360:rate={FRAMES}:duration={seconds}"
    coded = ["-c:v", "mpeg2video", "-b:v", "2M", "-maxrate", "2M", "-bufsize", "1M", "-g", "15"]
    show = ["nice", "ffmpeg", "-v", "error", "-f", "lavfi", "-i", picture, *coded, str(folder / "show.ts")]
    subprocess.run(show, check=True, start_new_session=True)
    if lab.lacking("wg") is None:
        for end in ("near", "far"):
            key = subprocess.run(["wg", "genkey"], stdout=subprocess.PIPE, check=True).stdout
            (folder / f"{end}.key").write_bytes(key)
            public = subprocess.run(["wg", "pubkey"], input=key, stdout=subprocess.PIPE, check=True).stdout
            (folder / f"{end}.pub").write_bytes(public)


def _ffmpeg(folder: Path, to: str) -> None:
    """Sends the picture as it is to be shown."""
    words = ["ffmpeg", "-v", "error", "-re", "-i", str(folder / "show.ts"), "-map", "0", "-c", "copy"]
    subprocess.run([*words, "-f", "mpegts", to], check=False, stderr=_QUIET)


def _plain_far(folder: Path) -> None:
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    taken.bind(("", OUT))
    with (folder / "came.ts").open("wb", buffering=0) as file:
        while True:
            file.write(taken.recv(2048))


def _plain_near(folder: Path, _: float) -> None:
    _ffmpeg(folder, f"udp://127.0.0.1:{INTO}?pkt_size=1316")


def _srt_far(folder: Path) -> None:
    address = f"srt://:{OUT}?mode=listener&latency={LATENCY_MS}"
    with (folder / "came.ts").open("wb") as file:
        subprocess.run(["srt-live-transmit", "-q", address, "file://con"], stdout=file, stderr=_QUIET, check=False)


def _srt_near(folder: Path, _: float) -> None:
    _ffmpeg(folder, f"srt://127.0.0.1:{INTO}?mode=caller&latency={LATENCY_MS * 1000}&pkt_size=1316")


def _receive_rtp(port: int, folder: Path) -> None:
    kind = "application/x-rtp,media=video,clock-rate=90000,encoding-name=MP2T,payload=33"
    words = f"udpsrc port={port} buffer-size=4194304 caps={kind} ! rtpjitterbuffer latency={LATENCY_MS} ! rtpmp2tdepay"
    into = f"filesink buffer-mode=unbuffered location={folder / 'came.ts'}"
    subprocess.run(["gst-launch-1.0", "-q", *words.split(), "!", *into.split()], check=False, stderr=_QUIET)


def _send_rtp(folder: Path, host: str, port: int, cells: int) -> None:
    """Sends so many packets of the transport stream in each datagram."""
    words = f"filesrc location={folder / 'show.ts'} ! tsparse set-timestamps=true alignment={cells} ! rtpmp2tpay"
    into = f"udpsink host={host} port={port} sync=true"
    subprocess.run(["gst-launch-1.0", "-q", *words.split(), "!", *into.split()], check=False, stderr=_QUIET)


def _rtp_far(folder: Path) -> None:
    _receive_rtp(OUT, folder)


def _rtp_near(folder: Path, _: float) -> None:
    _send_rtp(folder, "127.0.0.1", INTO, 7)


def _wireguard(folder: Path, end: str, address: str, *peer: str) -> None:
    """Starts a tunnel; `peer` says what is told of its other end. What it leaves ends with the namespace."""
    name = f"wg{secrets.token_hex(5)}"
    environment = {**os.environ, "WG_PROCESS_FOREGROUND": "1"}
    subprocess.Popen(["wireguard-go", "-f", name], env=environment, stdout=_QUIET, stderr=_QUIET)
    for _ in range(50):
        time.sleep(0.1)
        if Path(f"/var/run/wireguard/{name}.sock").exists():
            break
    other = {"near": "far", "far": "near"}[end]
    public = (folder / f"{other}.pub").read_text().strip()
    words = ["wg", "set", name, "private-key", str(folder / f"{end}.key"), *peer[:2], "peer", public, *peer[2:]]
    subprocess.run(words, check=True)
    subprocess.run(["ip", "address", "add", f"{address}/24", "dev", name], check=True)
    subprocess.run(["ip", "link", "set", name, "mtu", "1280", "up"], check=True)


def _wireguard_far(folder: Path) -> None:
    _wireguard(folder, "far", _INNER_FAR, "listen-port", str(OUT), "allowed-ips", f"{_INNER_NEAR}/32")
    _receive_rtp(INNER, folder)


def _wireguard_near(folder: Path, _: float) -> None:
    to = ("listen-port", "9200", "allowed-ips", f"{_INNER_FAR}/32", "endpoint", f"127.0.0.1:{INTO}")
    _wireguard(folder, "near", _INNER_NEAR, *to)
    _send_rtp(folder, _INNER_FAR, INNER, 6)


def _http3_far(folder: Path) -> None:
    import http3

    http3.server(OUT, folder)


def _http3_near(folder: Path, seconds: float) -> None:
    import http3

    (folder / "download.json").write_text(json.dumps(http3.download(INTO, seconds)))


@dataclass(frozen=True)
class Program:
    """A program, by what runs at the end behind the relay, and here until all is sent."""

    name: str
    far: Callable[[Path], None]
    near: Callable[[Path, float], None]
    needs: tuple[str, ...] = ()
    way: int = tap.TO
    """Way of the datagrams that matter."""

    def lacks(self) -> str | None:
        """What is missing of what it needs."""
        if self.far is _http3_far and importlib.util.find_spec("aioquic") is None:
            return "aioquic"
        return lab.lacking("ffmpeg", *self.needs)


PROGRAMS = {
    "video": Program("MPEG-TS, ffmpeg", _plain_far, _plain_near),
    "srt": Program("SRT, ffmpeg", _srt_far, _srt_near, ("srt-live-transmit",)),
    "rtp": Program("RTP, GStreamer", _rtp_far, _rtp_near, ("gst-launch-1.0",)),
    "wireguard": Program("RTP in WireGuard", _wireguard_far, _wireguard_near, ("gst-launch-1.0", "wireguard-go", "wg")),
    "http3": Program("HTTP/3 download", _http3_far, _http3_near, ("openssl",), tap.FROM),
}
