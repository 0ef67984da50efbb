"""What a second link carries that is to rest until it is needed, and at which byte a cap stops.

    python tests/measure/overflow.py              # the figures of docs/how-to/policy.md; needs root; a minute

A link's bytes are those that the kernel counts on its device, both ways.
"""

import argparse
import json
import threading
import time
from pathlib import Path
from typing import Any

import lab
import servers
from targets import Targets

FITS_MBPS = 36
"""A download that the first link has room for."""
CAP = 5_000_000
RESERVED = 192 * 1024
"""What the product keeps of a cap for acknowledgements and the search for the MTU."""
UNSPENT = 2 * 4096 + 1500
"""What is too little to be worth a message or a packet."""
WARM_S, SETTLED_S = 3.0, 3.0
DEVICES = ("best", "other")
KINDS = ("fits", "all", "cap")


def far(kind: str) -> None:
    lab.own_address()
    threading.Thread(target=servers.serve_bulk, args=(FITS_MBPS if kind == "fits" else None,), daemon=True).start()
    lab.relay()


def carried() -> list[int]:
    """By each link since it is there."""
    lines = (line.partition(":") for line in Path("/proc/self/net/dev").read_text().splitlines())
    counts = {name.strip(): fields.split() for name, _, fields in lines}
    return [int(counts[device][0]) + int(counts[device][8]) for device in DEVICES]


def near(kind: str, seconds: float) -> None:
    second = lab.NEAR[1] + (f",cap={CAP // 1_000_000}MB/day" if kind == "cap" else ",tier=secondary")
    client = lab.client("proxy", paths=(lab.NEAR[0], second))
    received = lab.Received([lab.connect("proxy")])
    time.sleep(WARM_S)
    mbps, then = received.mbps(seconds), carried()
    time.sleep(SETTLED_S)
    told = {"mbps": mbps, "carried": then, "afterwards": carried()}
    lab.end(client)
    print(json.dumps(told), flush=True)


def judge(targets: Targets, kind: str, told: dict[str, Any]) -> None:
    best, other = told["carried"]
    if kind == "fits":
        share = 100 * other / (best + other)
        targets.tell(
            f"{other / 1e6:.3f} of {(best + other) / 1e6:.1f} MB on the second link, where the first one suffices",
            share,
            "%",
            most=2,
        )
        targets.tell(f"what came of {FITS_MBPS} Mbit/s that were sent", told["mbps"], "Mbit/s", least=0.98 * FITS_MBPS)
    elif kind == "all":
        least = 0.9 * lab.SUM_MBPS
        targets.tell("rate where the first link does not suffice: 0.9 of the sum", told["mbps"], "Mbit/s", least=least)
    else:
        least, most = (CAP - RESERVED - UNSPENT) / 1e6, CAP / 1e6
        targets.tell(f"carried by the second link, with a cap of {most:g} MB", other / 1e6, "MB", least, most)
        targets.tell(f"the same {SETTLED_S:g} s later", told["afterwards"][1] / 1e6, "MB", least, most)
        targets.tell("rate beside it: 0.9 of the first link's", told["mbps"], "Mbit/s", least=0.9 * lab.BEST[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("far", "near"), help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    match args.role:
        case "far":
            far(args.only)
        case "near":
            near(args.only, args.seconds)
        case _:
            targets = Targets()
            for kind in [args.only] if args.only else KINDS:
                words = ("--only", kind, "--seconds", str(args.seconds))
                scenario = lab.links(lab.BEST, lab.OTHER)
                told = json.loads(lab.emulate(scenario, (__file__, "far", *words), (__file__, "near", *words)))
                judge(targets, kind, told)
            targets.exit()


if __name__ == "__main__":
    main()
