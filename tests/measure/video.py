"""Live video over two links that change: frames and bytes that came in time, by pipe, SRT in the pipe, and RIST.

python tests/measure/video.py                       # table of the page "Pipe"; root; some twenty-five minutes
python tests/measure/video.py --only rist --on fading-link --seconds 60

ffmpeg sends a test picture as MPEG-TS; what comes is decoded again. 200 ms is the time of the pipe, the latency of SRT
and the buffer of RIST. `missing` are bytes of video that did not come in time, `overhead` what left over all links by
what was sent, less one, with all headers and repetitions.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import lab

LATENCY_MS = 200
SEED = 1
"""Of the links' draws: with it the satellite is there some of the time."""
INTO, OUT, RIST = 9000, 9001, 9100
SCENARIOS = Path(__file__).parents[2] / "scenarios"
WORLDS = ("starlink-lte", "fading-link", "walking-out", "driving-live-video")


@dataclass(frozen=True)
class Way:
    """How the video goes: the program that carries it, and its options."""

    name: str
    through: str
    options: tuple[str, ...] = ()
    one: bool = False
    srt: bool = False


WAYS = {
    "pipe": Way("weft pipe", "pipe"),
    "min-rtt": Way("weft pipe --scheduler min-rtt", "pipe", ("--scheduler", "min-rtt")),
    "earliest": Way("weft pipe --scheduler earliest-delivery", "pipe", ("--scheduler", "earliest-delivery")),
    "redundant": Way("weft pipe --scheduler redundant", "pipe", ("--scheduler", "redundant")),
    "one": Way("weft pipe, the better link alone", "pipe", one=True),
    "srt": Way("SRT in weft pipe", "pipe", srt=True),
    "rist": Way("RIST, all over both links", "rist"),
    "rist-shared": Way("RIST, shared between both links", "rist", ("weight=5",)),
}


def far(way: Way, folder: Path) -> None:
    """Receives into a file."""
    if way.through == "pipe":
        allow = f"127.0.0.1:{OUT}"
        threading.Thread(target=lambda: lab.relay("--allow-pipe", allow, *way.options), daemon=True).start()
    else:
        source = f"rist://@0.0.0.0:{RIST}?buffer={LATENCY_MS}"
        words = ["ristreceiver", "-i", source, "-o", f"udp://127.0.0.1:{OUT}", "-v", "-1"]
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    came = folder / "came.ts"
    if way.srt:
        address = f"srt://127.0.0.1:{OUT}?mode=listener&latency={LATENCY_MS}"
        with came.open("wb") as file:
            subprocess.run(["srt-live-transmit", "-q", address, "file://con"], stdout=file, check=False)
        return
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    taken.bind(("127.0.0.1", OUT))
    with came.open("wb", buffering=0) as file:
        while True:
            file.write(taken.recv(2048))


def near(way: Way, folder: Path, seconds: float) -> None:
    ends: list[subprocess.Popen[str]] = []
    if way.through == "pipe":
        to = ("--to", f"{os.environ['WEFT_PEER']}:{lab.RELAY}", "--pair", "line", "--latency", f"{LATENCY_MS}ms")
        ports = ("--listen", f"udp://127.0.0.1:{INTO}", "--deliver", f"udp://127.0.0.1:{OUT}")
        paths = [word for path in lab.NEAR[: 1 if way.one else 2] for word in ("--path", path)]
        order = () if way.srt else ("--order",)  # SRT has a buffer of its own
        ends.append(lab.start("pipe", *to, *ports, *paths, *order, *way.options))
    else:
        peers = [f"rist://{peer}:{RIST}?{'&'.join((f'buffer={LATENCY_MS}', *way.options))}" for peer in _peers()]
        words = ["ristsender", "-i", f"udp://@127.0.0.1:{INTO}", "-o", ",".join(peers), "-v", "-1"]
        quiet = subprocess.DEVNULL
        ends.append(subprocess.Popen(words, stdout=quiet, stderr=quiet, text=True))
    time.sleep(2)
    before = _left()
    into = f"udp://127.0.0.1:{INTO}?pkt_size=1316"
    if way.srt:
        into = f"srt://127.0.0.1:{INTO}?mode=caller&latency={LATENCY_MS * 1000}&pkt_size=1316"
    copies = f"[f=mpegts:onfail=ignore]{into}|[f=mpegts]{folder / 'sent.ts'}"
    words = ["ffmpeg", "-v", "error", "-re", "-i", str(folder / "show.ts"), "-map", "0", "-c", "copy"]
    words += ["-f", "tee", copies]
    subprocess.run(words, check=False, timeout=seconds + 30)
    time.sleep(2)
    left = _left() - before
    for end in ends:
        end.send_signal(signal.SIGTERM)
        end.wait()
    sent = (folder / "sent.ts").stat().st_size
    print(json.dumps({"sent": sent, "left": left}), flush=True)


def _peers() -> list[str]:
    return os.environ["WEFT_PEERS"].split()


def _left() -> int:
    """Bytes that have left over the links."""
    counters = Path("/sys/class/net").glob("*/statistics/tx_bytes")
    return sum(int(file.read_text()) for file in counters if file.parts[-3] != "lo")


def video(file: Path, seconds: float) -> int:
    """Bytes of the video's packets of the first `seconds`."""
    words = [
        "ffprobe",
        "-v",
        "quiet",
        "-select_streams",
        "v",
        "-show_entries",
        "packet=pts_time,size",
        "-of",
        "csv=p=0",
    ]
    told = subprocess.run([*words, str(file)], stdout=subprocess.PIPE, text=True, check=True).stdout
    packets = [line.split(",") for line in told.splitlines() if line]
    times = [(float(packet[0]), int(packet[1])) for packet in packets if packet[0] != "N/A"]
    first = min((time for time, _ in times), default=0.0)
    return sum(size for time, size in times if time - first < seconds)


def decoded(file: Path, seconds: float) -> tuple[int, int]:
    """Frames of the first `seconds` of a video, and errors that the decoder tells of."""
    words = ["ffmpeg", "-v", "error", "-stats", "-i", str(file), "-map", "0:v", "-t", str(seconds), "-f", "null", "-"]
    told = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False).stderr
    lines = told.replace("\r", "\n").splitlines()
    frames = [line.split("frame=")[1].split()[0] for line in lines if "frame=" in line]
    return int(frames[-1]) if frames else 0, sum("frame=" not in line for line in lines)


def upwards(scenario: str) -> str:
    """A scenario whose recorded links carry uploads, whatever folder it lies in."""
    scenario = scenario.replace("file = { down =", "file = { up =").replace("rate  = { up =", "rate  = { down =")
    return scenario.replace('"traces/', f'"{SCENARIOS.parent}/traces/')


def measure(key: str, world: str, seconds: float) -> dict[str, float]:
    scenario = upwards((SCENARIOS / f"{world}.toml").read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        picture = f"testsrc2=size=640x360:rate=30:duration={seconds}"
        coded = ["-c:v", "mpeg2video", "-b:v", "2M", "-maxrate", "2M", "-bufsize", "1M", "-g", "15"]
        show = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", picture, *coded, str(folder / "show.ts")]
        subprocess.run(show, check=True)
        words = [__file__, "--only", key, "--folder", name, "--seconds", str(seconds)]
        told = json.loads(lab.emulate(scenario, [*words, "far"], [*words, "near"], seed=SEED))
        # What is under way at the end is not counted.
        whole = seconds - 1
        came, sent = (video(folder / file, whole) for file in ("came.ts", "sent.ts"))
        frames, errors = decoded(folder / "came.ts", whole)
        return {
            "missing": max(0.0, 1 - came / sent),
            "overhead": told["left"] / told["sent"] - 1,
            "frames": frames / (whole * 30),
            "errors": errors,
        }


def table(keys: list[str], worlds: list[str], seconds: float) -> None:
    print(f"{'':20}{'':40}{'missing':>10}{'overhead':>10}{'frames':>10}{'errors':>8}")
    for world in worlds:
        for key in keys:
            needs = (
                "ffmpeg",
                *(("ristsender",) if WAYS[key].through == "rist" else ()),
                *(("srt-live-transmit",) * WAYS[key].srt),
            )
            if (program := lab.lacking(*needs)) is not None:
                print(f"{world:20}{WAYS[key].name:40}left out, {program} is missing")
                continue
            found = measure(key, world, seconds)
            shares = "".join(f"{100 * found[name]:>8.2f} %" for name in ("missing", "overhead", "frames"))
            print(f"{world:20}{WAYS[key].name:40}{shares}{found['errors']:>8}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("far", "near"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=tuple(WAYS))
    parser.add_argument("--on", choices=WORLDS)
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()
    match args.role:
        case "far":
            far(WAYS[args.only], args.folder)
        case "near":
            near(WAYS[args.only], args.folder, args.seconds)
        case _:
            table([args.only] if args.only else list(WAYS), [args.on] if args.on else list(WORLDS), args.seconds)


if __name__ == "__main__":
    main()
