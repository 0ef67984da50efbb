"""How long a web page of 100 objects (3.0 MB) takes in headless Chromium: through the proxy, and over each link alone.

    python tests/measure/page.py    # figures of the page "How fast the proxy is"; root; some two minutes

Each load has a browser with nothing kept, and a proxy that has just been connected.
"""

import argparse
import json
import os
import random
import statistics
import sys
import threading
import time
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import lab
from targets import Targets

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

OBJECTS, PAGE_BYTES, PORT = 100, 3_000_000, 8080
PIXEL = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
"""A picture. What follows it in the file is not looked at."""
WAYS = {
    "direct, the better link": ("direct", (0,)),
    "direct, the other link": ("direct", (1,)),
    "proxy, the better link alone": ("proxy", (0,)),
    "proxy, the other link alone": ("proxy", (1,)),
    "proxy, both links": ("proxy", (0, 1)),
}
"""By which links."""
BOTH, BETTER = "proxy, both links", "proxy, the better link alone"
SLOWER = 1.05
"""The issue names no bound: two links are not to be slower than the better one, by more than loads differ anyway."""


def objects() -> list[bytes]:
    """Pictures of 2 to 120 kB, most of them small, as pages have them."""
    draw = random.Random(1)
    sizes = [draw.uniform(0.7, 4.8) ** 3 for _ in range(OBJECTS)]
    return [PIXEL + draw.randbytes(int(size / sum(sizes) * PAGE_BYTES) - len(PIXEL)) for size in sizes]


class Website(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    pictures = objects()

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        if name.isdigit():
            self.answer("image/png", self.pictures[int(name)])
        else:
            images = "".join(f'<img src="{at}">' for at in range(OBJECTS))
            self.answer("text/html", f"<!doctype html><link rel=icon href=data:,><title>page</title>{images}".encode())

    def answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 256


def far() -> None:
    lab.own_address()
    threading.Thread(target=Server(("", PORT), Website).serve_forever, daemon=True).start()
    lab.relay()


def near(turns: int) -> None:
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(turns):
        for way, taken in times.items():
            taken.append(load(way))
    print(json.dumps(times), flush=True)


def load(way: str) -> float:
    """Seconds from the begin of the navigation to the page's `load` event."""
    from browser import Browser

    through, links = WAYS[way]
    client = lab.client(through, paths=[lab.NEAR[at] for at in links])
    if client:
        flag, host = f"--proxy-server=socks5://127.0.0.1:{lab.SOCKS}", lab.SERVER
    else:
        flag, host = "--no-proxy-server", os.environ["WEFT_PEERS"].split()[links[0]]
    with Browser(flags=(flag, "--disable-background-networking", "--disable-component-update")) as browser:
        time.sleep(1)
        browser.load(f"http://{host}:{PORT}/")
        shown = browser.run("[...document.images].filter((image) => image.naturalWidth == 1).length")
        if shown != OBJECTS:
            sys.exit(f"{way}: {shown} of {OBJECTS} pictures have come")
        taken = browser.run("performance.getEntriesByType('navigation')[0].loadEventStart")
    lab.end(client)
    return float(taken) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("far", "near"), help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    match args.role:
        case "far":
            far()
        case "near":
            near(args.turns)
        case _:
            told = lab.emulate(
                lab.links(lab.BEST, lab.OTHER), (__file__, "far"), (__file__, "near", "--turns", str(args.turns))
            )
            judge(json.loads(told))


def judge(times: dict[str, list[float]]) -> None:
    print(f"{'seconds until the page is there':36}{'median':>8}{'least':>8}{'most':>8}")
    for way, taken in times.items():
        print(f"{way:36}{statistics.median(taken):8.2f}{min(taken):8.2f}{max(taken):8.2f}")
    ratio = statistics.median(times[BOTH]) / statistics.median(times[BETTER])
    targets = Targets()
    targets.tell("proxy: both links beside the better one alone, median", ratio, "times", most=SLOWER)
    targets.exit()


if __name__ == "__main__":
    main()
