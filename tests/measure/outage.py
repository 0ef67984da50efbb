"""A download through the proxy while the better link is cut at 10 s for 4 s: its rate each quarter of a second.

python tests/measure/outage.py                # needs root; some 20 s for each of six runs
python tests/measure/outage.py --scheduler earliest-delivery --runs 1
"""

import argparse
import itertools
import json
import math
import threading
import time

import lab
import servers
from targets import Targets

CUT_S, BACK_S, END_S = 10.0, 14.0, 18.0
FIRST_S = 8.0
"""The first row of the table."""
STEP_S = 0.25
CUT = f'schedule = [{{ at = "{CUT_S:g} s", state = "down" }}, {{ at = "{BACK_S:g} s", state = "up" }}]'
SURVIVOR_S, BOTH_S = 0.5, 1.0
"""So soon the survivor's rate must be there after the cut, and that of both after the return."""
SHARE = 0.9
"""What a program must have of a link's rate, as in `rates.py`: headers take some, too."""
SCHEDULERS = ("min-rtt", "earliest-delivery")


def far(scheduler: str) -> None:
    lab.own_address()
    threading.Thread(target=servers.serve_bulk, daemon=True).start()
    lab.relay("--scheduler", scheduler)


def near(scheduler: str) -> None:
    """Samples lie on the links' clock."""
    zero = lab.links_began()
    client = lab.client("proxy", "--scheduler", scheduler)
    received = lab.Received([lab.connect("proxy")])
    totals = []
    for step in range(int((END_S - FIRST_S) / STEP_S) + 1):
        time.sleep(max(0.0, zero + FIRST_S + step * STEP_S - time.monotonic()))
        totals.append(received.total)
    lab.end(client)
    rates = [(later - earlier) * 8e-6 / STEP_S for earlier, later in itertools.pairwise(totals)]
    print(json.dumps({"rates": rates}), flush=True)


def reached(rates: list[float], since: float, until: float, wanted: float) -> float:
    """Seconds from `since` to the first sample with the rate, if the mean from there to `until` has it as well.

    Single samples afterwards may be below: what arrives before a piece that is sent again waits for it.
    """
    first, last = (int((at - FIRST_S) / STEP_S) for at in (since, until))
    for at in range(first, last):
        if rates[at] >= wanted and sum(rates[at:last]) / (last - at) >= wanted:
            return (at - first) * STEP_S
    return math.inf


def judge(targets: Targets, scheduler: str, runs: list[list[float]]) -> None:
    print(f"\n{scheduler}: Mbit/s of each run; the better link is cut from {CUT_S:g} to {BACK_S:g} s")
    for step in range(len(runs[0])):
        at = FIRST_S + step * STEP_S
        print(
            f"{at:6.2f} s"
            + "".join(f"{rates[step]:9.1f}" for rates in runs)
            + ("  cut" if CUT_S <= at < BACK_S else "")
        )
    for number, rates in enumerate(runs, 1):
        for what, since, until, mbps, most in (
            ("survivor's rate", CUT_S, BACK_S, lab.OTHER[0], SURVIVOR_S),
            ("rate of both", BACK_S, END_S, lab.SUM_MBPS, BOTH_S),
        ):
            wanted = SHARE * mbps
            after = f"{'the cut' if since == CUT_S else 'the return'}"
            later = reached(rates, since, until, wanted)
            targets.tell(
                f"{scheduler}, run {number}: {what} ({wanted:.1f} Mbit/s) after {after}", later, "s", most=most
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("far", "near"), help=argparse.SUPPRESS)
    parser.add_argument("--scheduler", choices=SCHEDULERS)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    match args.role:
        case "far":
            far(args.scheduler)
        case "near":
            near(args.scheduler)
        case _:
            targets = Targets()
            for scheduler in [args.scheduler] if args.scheduler else SCHEDULERS:
                words = ("--scheduler", scheduler)
                scenario = lab.links(lab.BEST, lab.OTHER, CUT)
                runs = [
                    json.loads(lab.emulate(scenario, (__file__, "far", *words), (__file__, "near", *words)))["rates"]
                    for _ in range(args.runs)
                ]
                judge(targets, scheduler, runs)
            targets.exit()


if __name__ == "__main__":
    main()
