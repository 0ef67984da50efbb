"""Voice beside downloads: how long datagrams take, one way, 50 a second.

python tests/measure/voice.py    # table of the page "How fast the proxy is"; root; some four minutes
python tests/measure/voice.py --through tunnel --downloads 4
"""

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

import lab
import servers
from targets import Targets

EVERY_S = 0.02
HEAD = struct.Struct("!QI")
SIZE = 172
"""20 ms of a voice with 64 kbit/s, and its header."""
BEYOND_MS = 5.0
"""So much longer than alone on the better link the 99th percentile may be beside downloads."""
CUT = 'schedule = [{ at = "8 s", state = "down" }, { at = "12 s", state = "up" }]'


def far(cc: str) -> None:
    lab.own_address()
    threading.Thread(target=servers.serve_bulk, daemon=True).start()
    threading.Thread(target=servers.serve_echo, daemon=True).start()
    lab.relay("--cc", cc)


def drain(through: str, count: int) -> None:
    """Reads downloads, and says once a second how much came."""
    received = lab.Received([lab.connect(through) for _ in range(count)])
    while True:
        print(time.monotonic(), received.total, flush=True)
        time.sleep(1)


def near(through: str, downloads: int, cc: str, seconds: float, voice: bool) -> None:
    client = lab.client(through, *(("--cc", cc) if through != "direct" else ()))
    bulk = None
    if downloads:
        words = [sys.executable, __file__, "drain", "--through", through, "--downloads", str(downloads)]
        bulk = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        time.sleep(3)
    told = talk(through, seconds) if voice else quiet(seconds)
    if bulk:
        bulk.kill()
        samples = [tuple(map(float, line.split())) for line in bulk.communicate()[0].splitlines()[3:]]
        (begin, first), (end, last) = samples[0], samples[-1]
        told["bulk_mbps"] = round((last - first) * 8e-6 / (end - begin), 1)
    lab.end(client)
    print(json.dumps(told), flush=True)


def quiet(seconds: float) -> dict[str, object]:
    time.sleep(seconds)
    return {}


def talk(through: str, seconds: float) -> dict[str, object]:
    """Sends for so long; delays up and down in ms, at percentiles, and how many did not come back."""
    voice = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    voice.settimeout(1)
    head = b""
    if through == "proxy":
        _open, to = lab.socks(3, "0.0.0.0", 0)
        head = b"\0\0\0\1" + socket.inet_aton(lab.SERVER) + struct.pack("!H", lab.ECHO)
    else:
        to = (lab.SERVER if through == "tunnel" else os.environ["WEFT_PEER"], lab.ECHO)
    heard: dict[int, tuple[int, int]] = {}

    def listen() -> None:
        while True:
            try:
                data = voice.recv(2048)[len(head) :]
            except OSError:
                return
            now = time.monotonic_ns()
            sent, number = HEAD.unpack_from(data)
            came = struct.unpack("!Q", data[-8:])[0]
            heard.setdefault(number, (came - sent, now - came))

    voice.sendto(head + HEAD.pack(time.monotonic_ns(), 1 << 31) + bytes(SIZE - HEAD.size), to)
    listener = threading.Thread(target=listen)
    listener.start()
    begin, count = time.monotonic(), int(seconds / EVERY_S)
    for number in range(count):
        time.sleep(max(0.0, begin + number * EVERY_S - time.monotonic()))
        voice.sendto(head + HEAD.pack(time.monotonic_ns(), number) + bytes(SIZE - HEAD.size), to)
    listener.join()
    heard.pop(1 << 31, None)

    def percentiles(way: int) -> dict[str, float]:
        delays = sorted(times[way] / 1e6 for times in heard.values())
        return {
            f"p{share}": round(delays[min(len(delays) * share // 100, len(delays) - 1)], 1)
            for share in (50, 95, 99, 100)
        }

    return {"sent": count, "lost": count - len(heard), "up_ms": percentiles(0), "down_ms": percentiles(1)}


def measure(
    through: str, downloads: int, cc: str, cut: bool, seconds: float, voice: bool = True
) -> tuple[str, dict[str, Any]]:
    """What was measured, in words, and what `near` told of it."""
    scenario = lab.links(lab.BEST, lab.OTHER, CUT if cut else "")
    options = ["--through", through, "--downloads", str(downloads), "--cc", cc, "--seconds", str(seconds)]
    options += [] if voice else ["--no-voice"]
    told = lab.emulate(scenario, [__file__, "far", "--cc", cc], [__file__, "near", *options])
    what = f"{through}, {downloads} downloads, {cc}{', the better link cut for 4 s' if cut else ''}"
    print(f"{what}: {told}", flush=True)
    return what, json.loads(told)


def table(seconds: float) -> None:
    """All rows; the first one, alone on the better link, is what the others are held against."""
    targets = Targets()
    alone: dict[str, float] = {}
    for through, downloads, cc, cut in (
        ("direct", 0, "cubic", False),
        ("proxy", 0, "cubic", False),
        ("proxy", 4, "cubic", False),
        ("proxy", 4, "bbr3", False),
        ("proxy", 2, "cubic", True),
        ("tunnel", 0, "cubic", False),
        ("tunnel", 4, "cubic", False),
    ):
        what, told = measure(through, downloads, cc, cut, seconds)
        if cut:
            targets.tell(f"lost: {what}", told["lost"], "", most=0)
            continue
        for way in ("up", "down"):
            delay = told[f"{way}_ms"]["p99"]
            if way in alone:
                targets.tell(f"99th percentile {way}: {what}", delay, "ms", most=alone[way] + BEYOND_MS)
            else:
                alone[way] = delay
    targets.exit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("far", "near", "drain"), help=argparse.SUPPRESS)
    parser.add_argument("--through", choices=("direct", "proxy", "tunnel"))
    parser.add_argument("--downloads", type=int, default=0)
    parser.add_argument("--cc", default="cubic")
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--no-voice", action="store_true", help="The downloads alone.")
    parser.add_argument("--seconds", type=float, default=20)
    args = parser.parse_args()
    match args.role:
        case "far":
            far(args.cc)
        case "near":
            near(args.through, args.downloads, args.cc, args.seconds, not args.no_voice)
        case "drain":
            drain(args.through, args.downloads)
        case _ if args.through:
            measure(args.through, args.downloads, args.cc, args.cut, args.seconds, not args.no_voice)
        case _:
            table(args.seconds)


if __name__ == "__main__":
    main()
