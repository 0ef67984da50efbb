"""Real programs over two links that change: datagrams late and lost, by `weft pipe`, `weft proxy` and RIST.

python tests/measure/pipe.py                       # all programs, ways and links: hours; root
python tests/measure/pipe.py --programs srt rtp --ways deadline redundant first second --on drive --seconds 300 --jobs 4
python tests/measure/pipe.py --faults --ways deadline first

Datagrams are watched as they go in and come out: one that took more than 200 ms is late. That is the time of the pipe,
the latency of SRT and the buffer of RIST. RIST and `--order` hold all for so long: there it is twice that.
`sent beyond` is what left over all links by what went in, less one, with all headers and repetitions.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lab
import tap
from programs import FRAMES, INTO, LATENCY_MS, OUT, PROGRAMS, make

SEED = 1
"""Of the links' draws: with it the satellite is there some of the time."""
RIST = 9100
IN_ORDER = ("video",)
"""Programs without a buffer of their own: the pipe has `--order`."""
SCENARIOS = Path(__file__).parents[2] / "scenarios"
WORLDS = ("starlink-lte", "drive", "fading-wifi", "deep-queue", "walking-out", "driving-live-video", "perfect")
DRIVE = 64
"""Run of the drives with two carriers of which each now and then has less than the video needs, never both."""
FADING_WIFI = (
    'rate = "40 Mbit/s"\ndelay = "5 ms"\nqueue = "100 packets"\n'
    'jitter = "correlated 3 ms over 200 ms"\nloss = "0.3 %"\n'
    'fade = { share = "12 %", median = "1 s", p95 = "4 s", floor = "0.1 Mbit/s..2 Mbit/s" }'
)
DEEP_QUEUE = (
    'rate = "6 Mbit/s"\ndelay = "20 ms"\nqueue = "450 kB"\n'
    'fade = { share = "12 %", median = "1 s", p95 = "4 s", floor = "0.5 Mbit/s..1.5 Mbit/s" }'
)
"""A link whose queue holds 600 ms of its rate."""
SECOND = 'trace = { down = "traces/lte.down", up = "traces/lte.up" }\ndelay = "35 ms"\nqueue = "150 packets"'
PERFECT = 'rate = "50 Mbit/s"\ndelay = "{} ms"\nqueue = "300 packets"'
FAULTS = ("cut", "return", "address change", "NAT rebinding")
REBIND = "rebind"
"""Name of the file that tells the far end to change the near one's address."""
FIRST_FAULT_S, FAULT_EVERY_S, SPARED_MS = 8, 6, 250
"""The first fault, the time between two, and the time after one in which datagrams may be missed."""


@dataclass(frozen=True)
class Way:
    """How datagrams go: what carries them, over which of the links, and its options, which its relay has too."""

    name: str
    through: str
    options: tuple[str, ...] = ()
    links: tuple[int, ...] = (0, 1)

    def paths(self, named: Sequence[str]) -> list[str]:
        return [word for at in self.links for word in ("--path", named[at])]


WAYS = {
    "deadline": Way("weft pipe", "pipe", ("--scheduler", "deadline")),
    "redundant": Way("weft pipe --scheduler redundant", "pipe", ("--scheduler", "redundant")),
    "bbr3": Way("weft pipe --cc bbr3", "pipe", ("--scheduler", "deadline", "--cc", "bbr3")),
    "bdp": Way("weft pipe --cc bdp", "pipe", ("--scheduler", "deadline", "--cc", "bdp")),
    "first": Way("weft pipe, first link alone", "pipe", links=(0,)),
    "second": Way("weft pipe, second link alone", "pipe", links=(1,)),
    "min-rtt": Way("weft pipe --scheduler min-rtt", "pipe", ("--scheduler", "min-rtt")),
    "earliest": Way("weft pipe --scheduler earliest-delivery", "pipe", ("--scheduler", "earliest-delivery")),
    "proxy": Way("weft proxy, by SOCKS5", "proxy"),
    "rist": Way("RIST, all over both links", "rist"),
    "rist-shared": Way("RIST, shared between both links", "rist", ("weight=5",)),
}


def possible(program: str, way: str) -> bool:
    """Returns true if that way can carry the program: RIST carries plain video only."""
    return program == "video" or WAYS[way].through != "rist"


def far(program: str, way: Way, folder: Path) -> None:
    devices = _devices()
    tap.listen(OUT, folder / "far.tap")
    lab.own_address()
    if way.through == "rist":
        source = f"rist://@0.0.0.0:{RIST}?buffer={LATENCY_MS}"
        words = ["ristreceiver", "-i", source, "-o", f"udp://127.0.0.1:{OUT}", "-v", "-1"]
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        allow = ("--allow-pipe", f"127.0.0.1:{OUT}")
        threading.Thread(target=lambda: lab.relay(*allow, *way.options), daemon=True).start()

    def tell() -> None:
        while True:
            (folder / "far.new").write_text(str(_left(devices)))
            (folder / "far.new").rename(folder / "far.left")
            time.sleep(0.2)

    threading.Thread(target=tell, daemon=True).start()
    threading.Thread(target=_rebind, args=(devices[0], folder), daemon=True).start()
    PROGRAMS[program].far(folder)


def near(program: str, way: Way, folder: Path, seconds: float, faults: bool) -> None:
    devices = _devices()
    tap.listen(INTO, folder / "near.tap")
    to = ("--to", f"{os.environ['WEFT_PEER']}:{lab.RELAY}", "--pair", "line")
    if way.through == "rist":
        peers = [
            f"rist://{peer}:{RIST}?{'&'.join((f'buffer={LATENCY_MS}', *way.options))}"
            for peer in os.environ["WEFT_PEERS"].split()
        ]
        words = ["ristsender", "-i", f"udp://@127.0.0.1:{INTO}", "-o", ",".join(peers), "-v", "-1"]
        quiet = subprocess.DEVNULL
        end = subprocess.Popen(words, stdout=quiet, stderr=quiet, text=True)
    elif way.through == "proxy":
        end = lab.start("proxy", *to, *way.paths(lab.NEAR), *way.options)
        threading.Thread(target=_by_socks, daemon=True).start()
    else:
        ports = ("--listen", f"udp://127.0.0.1:{INTO}", "--deliver", f"udp://127.0.0.1:{OUT}")
        paths = way.paths(devices if faults else lab.NEAR)
        order = ["--order"] * (program in IN_ORDER)
        end = lab.start("pipe", *to, "--latency", f"{LATENCY_MS}ms", *ports, *paths, *order, *way.options)
    time.sleep(2)
    before = _left(devices), _left_far(folder)
    if faults:
        threading.Thread(target=_break, args=(devices[0], folder), daemon=True).start()
    PROGRAMS[program].near(folder, seconds)
    time.sleep(1.5)
    left = _left(devices) - before[0], _left_far(folder) - before[1]
    end.send_signal(signal.SIGTERM)
    end.wait()
    print(json.dumps({"left": left[PROGRAMS[program].way]}), flush=True)


def _by_socks() -> None:
    """Gives the proxy what comes, and gives answers back to whom they are for."""
    _open, to = lab.socks(3, "0.0.0.0", 0)
    head = b"\0\0\0\1" + socket.inet_aton(lab.SERVER) + struct.pack("!H", OUT)
    taken, through = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    for each in (taken, through):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    taken.bind(("127.0.0.1", INTO))
    through.bind(("127.0.0.1", 0))
    source: list[Any] = []

    def answer() -> None:
        while True:
            data = through.recv(1 << 16)[len(head) :]
            if source:
                taken.sendto(data, source[-1])

    threading.Thread(target=answer, daemon=True).start()
    while True:
        data, source[:1] = (came := taken.recvfrom(1 << 16))[0], [came[1]]
        through.sendto(head + data, to)


def _break(device: str, folder: Path) -> None:
    """Cuts a link and mends it, gives it another address, and lets a NAT before it take another one."""
    table = "add table inet broken"
    chains = [
        "add chain inet broken out { type filter hook postrouting priority 300; }",
        "add chain inet broken in { type filter hook prerouting priority -300; }",
    ]
    cut = [f"add rule inet broken out oifname {device} drop", f"add rule inet broken in iifname {device} drop"]
    number = _table_of(device)
    told = []

    def nft(*rules: str) -> None:
        subprocess.run(["nft", ";".join(rules)], check=True)

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    def change() -> None:
        ip("address", "add", "10.0.1.7/24", "dev", device)
        ip("rule", "add", "from", "10.0.1.7", "lookup", number)
        ip("address", "del", "10.0.1.1/24", "dev", device)
        # It goes with the last address, or with the first one of its network.
        subprocess.run(["ip", "address", "replace", "10.0.1.7/24", "dev", device], check=True)
        ip("route", "replace", "default", "dev", device, "table", number)

    def rebind() -> None:
        nft(f"add rule inet broken in iifname {device} ip daddr 10.0.1.99 ip daddr set 10.0.1.7")
        (folder / REBIND).touch()

    nft(table, *chains)
    acts = (lambda: nft(*cut), lambda: nft("flush table inet broken"), change, rebind)
    begin = time.monotonic()
    for at, act in enumerate(acts):
        time.sleep(max(0.0, begin + FIRST_FAULT_S + at * FAULT_EVERY_S - time.monotonic()))
        told.append(time.time_ns())
        act()
        (folder / "faults.json").write_text(json.dumps(told))


def _rebind(device: str, folder: Path) -> None:
    """The NAT's other side, at the far end: there packets come one by one. Where several leave at once (UDP GSO), the
    kernel does not mend the checksums of all when their address changes."""
    while not (folder / REBIND).exists():
        time.sleep(0.01)
    rules = (
        "add table inet broken",
        "add chain inet broken in { type filter hook prerouting priority -300; }",
        f"add rule inet broken in iifname {device} ip saddr 10.0.1.7 ip saddr set 10.0.1.99",
    )
    subprocess.run(["nft", ";".join(rules)], check=True)


def _table_of(device: str) -> str:
    """Number of the table with the routes of what leaves from the device's address."""
    routes = subprocess.run(["ip", "route", "show", "table", "all"], stdout=subprocess.PIPE, text=True, check=True)
    line = next(line for line in routes.stdout.splitlines() if line.startswith(f"default dev {device} table"))
    return line.split()[4]


def _devices() -> list[str]:
    """The links of this end, first the first."""
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    listed = subprocess.run(["ip", "-br", "-4", "address"], stdout=subprocess.PIPE, text=True, check=True).stdout
    address = {line.split()[0]: line.split()[2] for line in listed.splitlines()}
    return sorted(names, key=lambda name: address[name])


def _left(devices: list[str]) -> int:
    """Bytes that have left over the links."""
    return sum(int(Path(f"/sys/class/net/{name}/statistics/tx_bytes").read_text()) for name in devices)


def _left_far(folder: Path) -> int:
    """The same of the other end, as it has told last."""
    while not (told := folder / "far.left").exists():
        time.sleep(0.1)
    return int(told.read_text())


def decoded(file: Path, seconds: float) -> tuple[int, int]:
    """Frames of the first `seconds` of a video, and errors that the decoder tells of."""
    words = ["nice", "ffmpeg", "-v", "error", "-stats", "-i", str(file)]
    words += ["-map", "0:v", "-t", str(seconds), "-f", "null", "-"]
    # In a session of its own, so that the kernel takes it for none of those whose packets are measured.
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False, start_new_session=True)
    lines = done.stderr.replace("\r", "\n").splitlines()
    frames = [line.split("frame=")[1].split()[0] for line in lines if "frame=" in line]
    return int(frames[-1]) if frames else 0, sum("frame=" not in line for line in lines)


def links(world: str, is_upload: bool) -> str:
    """A scenario with the links of a world; of recorded ones, the way that was recorded carries the datagrams."""
    pairs = {
        "fading-wifi": (("wifi", FADING_WIFI), ("lte", SECOND)),
        "deep-queue": (("modem", DEEP_QUEUE), ("lte", SECOND)),
        "perfect": (("near", PERFECT.format(10)), ("away", PERFECT.format(30))),
    }
    if world in pairs:
        paths = "".join(f"[path.{name}]\n{link}\n" for name, link in pairs[world])
        head = 'title = "measured"\ntransport = "mpquic"\nseeds = "0..1"\n[workload]\nkind = "bulk"\nbytes = "1 MB"\n'
        scenario = head + paths
    else:
        scenario = (SCENARIOS / f"{'driving-live-video' if world == 'drive' else world}.toml").read_text()
    if world == "drive":
        scenario = scenario.replace("run  = 26", f"run  = {DRIVE}")
    if is_upload:
        scenario = scenario.replace("file = { down =", "file = { up =").replace("rate  = { up =", "rate  = { down =")
    return scenario.replace('"traces/', f'"{SCENARIOS.parent}/traces/')


def percentile(values: list[int], share: float) -> float:
    """In ms, of nanoseconds in order."""
    return values[min(int(len(values) * share), len(values) - 1)] / 1e6 if values else float("nan")


def measure(program: str, way: str, world: str, seconds: float, faults: bool, made: Path, keep: Path | None) -> str:
    """A line of the table; `made` is the folder with what programs need."""
    its = PROGRAMS[program]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in made.iterdir():
            (folder / file.name).symlink_to(file)
        words = [__file__, "--programs", program, "--ways", way, "--folder", name, "--seconds", str(seconds)]
        words += ["--faults"] * faults
        said: list[str] = []
        scenario = links(world, its.way == tap.TO)
        told = json.loads(lab.emulate(scenario, [*words, "far"], [*words, "near"], seed=SEED, said=said))
        ends = (folder / "near.tap", folder / "far.tap")
        if keep:
            for file in folder.glob("*.tap"):
                shutil.copy(file, keep / f"{world}-{program}-{way}-{file.name}")
        sent = tap.followed(*(ends if its.way == tap.TO else ends[::-1]), its.way, LATENCY_MS * 10**6)
        if not sent:
            return "nothing was sent"
        delays = sorted(delay for _, delay, _ in sent if delay is not None)
        is_held = WAYS[way].through == "rist" or (WAYS[way].through == "pipe" and program in IN_ORDER)
        late = sum(delay > LATENCY_MS * 10**6 * (2 if is_held else 1) for delay in delays)
        lost = len(sent) - len(delays)
        line = f"{len(sent):8}{100 * late / len(sent):>8.3f} %{100 * lost / len(sent):>8.3f} %"
        line += "".join(f"{percentile(delays, share):>8.1f}" for share in (0.5, 0.99, 1))
        line += f"{100 * (told['left'] / sum(length for _, _, length in sent) - 1):>8.1f} %"
        if its.way == tap.FROM:
            line += f"{json.loads((folder / 'download.json').read_text()) * 8e-6 / seconds:>10.2f} Mbit/s"
        else:
            frames, errors = decoded(folder / "came.ts", seconds - 1)
            line += f"{100 * frames / ((seconds - 1) * FRAMES):>8.2f} %{errors:>6}"
        line += "   links too late" if any("NOT FIT" in text for text in said) else ""
        if faults:
            line += _after(json.loads((folder / "faults.json").read_text()), sent)
        return line


def _after(begins: list[int], sent: list[tuple[int, int | None, int]]) -> str:
    """What was missed soon after each fault, and what later than that."""
    lines = ""
    for at, (fault, begin) in enumerate(zip(FAULTS, begins, strict=False)):
        spared = begin + SPARED_MS * 10**6
        end = begins[at + 1] if at + 1 < len(begins) else begin + FAULT_EVERY_S * 10**9
        missed = [when for when, delay, _ in sent if delay is None or delay > LATENCY_MS * 10**6]
        soon, later = (sum(a <= when < b for when in missed) for a, b in ((begin, spared), (spared, end)))
        last = max(((when - begin) / 1e6 for when in missed if begin <= when < end), default=0)
        lines += (
            f"\n    {fault:16} missed {soon:4} in the first {SPARED_MS} ms, {later:4} after, the last at {last:.0f} ms"
        )
    return lines


def table(args: argparse.Namespace) -> None:
    heads = ("datagrams", "late", "lost", "p50 ms", "p99 ms", "most", "sent beyond", "frames, errors")
    print(f"{'':20}{'':20}{'':42}" + "  ".join(heads))
    asked = [(program, way, world) for world in args.on for program in args.programs for way in args.ways]

    def row(program: str, way: str, world: str, made: Path) -> None:
        through = WAYS[way].through
        missing = PROGRAMS[program].lacks() or lab.lacking(*(("ristsender",) if through == "rist" else ()))
        try:
            line = (
                measure(program, way, world, args.seconds, args.faults, made, args.keep)
                if missing is None
                else f"left out, {missing} is missing"
            )
        except (SystemExit, Exception) as error:
            line = f"failed: {error!r}"
        print(f"{world:20}{PROGRAMS[program].name:20}{WAYS[way].name:42}{line}", flush=True)

    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(args.jobs) as pool:
        make(Path(made), args.seconds)
        list(pool.map(lambda words: row(*words, Path(made)), [words for words in asked if possible(*words[:2])]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("far", "near"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--programs", nargs="+", choices=tuple(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("--on", nargs="+", choices=WORLDS, default=list(WORLDS[:-1]))
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--jobs", type=int, default=1, help="So many rows side by side.")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="Keeps here when datagrams went in and came out.")
    parser.add_argument("--faults", action="store_true", help="The first link is cut, returns, and changes address.")
    args = parser.parse_intermixed_args()
    match args.role:
        case "far":
            far(args.programs[0], WAYS[args.ways[0]], args.folder)
        case "near":
            near(args.programs[0], WAYS[args.ways[0]], args.folder, args.seconds, args.faults)
        case _:
            table(args)


if __name__ == "__main__":
    main()
