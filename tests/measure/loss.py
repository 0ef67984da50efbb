"""Measures `weft send` over a link that loses packets, beside Multipath QUIC in virtual time, under each controller.

python tests/measure/loss.py                 # needs root; some six minutes
python tests/measure/loss.py --busy          # the same beside two programs that never rest
python tests/measure/loss.py --jitter 1 --loss 0    # packets overtake one another
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import lab
from targets import Targets

RATE_MBPS, DELAY_MS = 40, 5
LOSSES = (0.0, 0.1, 1.0, 3.0)
"""In percent, of each way."""
CONTROLLERS = ("cubic", "cubic:random_loss=2", "bbr1", "bbr3", "bdp")
NEAR_MOST = 10.0
"""Percent by which the live rate may be below the one in virtual time."""


def scenario(loss: float, megabytes: int, jitter: float) -> str:
    head = 'title = "measured"\ntransport = "mpquic"\nseeds = "0..3"\n'
    link = f'rate = "{RATE_MBPS} Mbit/s"\ndelay = "{DELAY_MS} ms"\nqueue = "100 packets"\nloss = "{loss:g} %"\n'
    if jitter:
        link += f'jitter = "uniform {jitter:g} ms"\nreorder = true\n'
    return f'{head}[workload]\nkind = "bulk"\nbytes = "{megabytes} MB"\n[path.only]\n{link}'


def far() -> None:
    words = ("recv", "inbox", "--listen", str(lab.RELAY), "--identity", "me")
    subprocess.run([*lab.WEFT, *words], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def near(cc: str, megabytes: int) -> None:
    Path("sent").write_bytes(os.urandom(megabytes * 1_000_000))
    to = f"{os.environ['WEFT_PEER']}:{lab.RELAY}"
    words = ("send", "sent", "--to", to, "--pair", "line", "--path", lab.NEAR[0], "--cc", cc, "--json")
    done = subprocess.run([*lab.WEFT, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    print(json.dumps(json.loads(done.stdout)[0]), flush=True)


def live(loss: float, cc: str, megabytes: int, jitter: float = 0) -> float:
    words = ["--cc", cc, "--megabytes", str(megabytes)]
    told = json.loads(lab.emulate(scenario(loss, 1, jitter), [__file__, "far"], [__file__, "near", *words]))
    return float(told["goodput_mbps"])


def virtual(loss: float, cc: str, megabytes: int, jitter: float = 0) -> float:
    """The mean over the seeds of the scenario."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "link.toml"
        file.write_text(scenario(loss, megabytes, jitter))
        words = ("compare", str(file), "--scheduler", "min-rtt", "--cc", cc, "--backend", "quic", "--json")
        done = subprocess.run([*lab.WEFT, *words], stdout=subprocess.PIPE, check=True)
        rates = [row["goodput_mbps"] for row in json.loads(done.stdout)]
    return sum(rates) / len(rates)


def rest_never() -> None:
    while True:
        pass


def table(megabytes: int, controllers: Sequence[str], losses: Sequence[float], jitter: float) -> None:
    targets = Targets()
    print(f"{'Mbit/s':24}{'loss':>8}{'virtual time':>16}{'weft send':>12}")
    for cc in controllers:
        for loss in losses:
            beside, own = virtual(loss, cc, megabytes, jitter), live(loss, cc, megabytes, jitter)
            print(f"{cc:24}{f'{loss:g} %':>8}{beside:16.1f}{own:12.1f}", flush=True)
            share = 100 * own / beside
            targets.tell(f"{cc}, {loss:g} %: live, of virtual time", share, "%", 100 - NEAR_MOST)
    targets.exit()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("far", "near"), help=argparse.SUPPRESS)
    parser.add_argument("--cc", help="One controller only.")
    parser.add_argument("--loss", type=float, help="One loss only, in percent.")
    parser.add_argument("--jitter", type=float, default=0, help="Delays vary by so many ms, and packets overtake.")
    parser.add_argument("--megabytes", type=int, default=30)
    parser.add_argument("--busy", action="store_true", help="Two programs that never rest run beside it.")
    args = parser.parse_args()
    match args.role:
        case "far":
            far()
        case "near":
            near(args.cc, args.megabytes)
        case _:
            busy = [multiprocessing.Process(target=rest_never, daemon=True) for _ in range(2 if args.busy else 0)]
            for process in busy:
                process.start()
            controllers = [args.cc] if args.cc else CONTROLLERS
            table(args.megabytes, controllers, LOSSES if args.loss is None else [args.loss], args.jitter)


if __name__ == "__main__":
    main()
