"""Simulator beside another stack, mostly picoquic as the receiver: how far medians differ, with one setting of the
simulator changed.

python tests/measure/receiver.py --seeds 2                          # wifi-lte and cells 0 to 19
python tests/measure/receiver.py --cells 5 7 --messages 3000 --seeds 4
python tests/measure/receiver.py --cells 14 --set ack_path=fastest 'ack_delay=1 ms'
python tests/measure/receiver.py --backend picoquic --seeds 2       # picoquic at both ends, its own choice of paths

Cells are those of `weft fidelity --backend sim,quic-to-picoquic --cells 20 --seed 2811`; they and wifi-lte are cut to
15 MB or so many messages. The figure is the 95th percentile of message delays or the completion time. It needs
picoquic: see docs/explanation/quic.md.
"""

import argparse
import re
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from weftway._native import Scenario
from weftway.fidelity.quic import settings
from weftway.runs import comparison, plan
from weftway.scenario import HOME

SEED = 2811
MOST_MB = 15
SCHEDULERS = ("min-rtt", "ecf", "earliest-delivery")
CONTROLLERS = ("cubic", "bbr1", "bbr3")
PICOQUIC_CONTROLLERS = ("newreno", "cubic", "bbr3")
WIFI_LTE = "wifi-lte"
MB = {"kB": 1e-3, "MB": 1.0, "GB": 1e3}


def cell(name: str, messages: int) -> str:
    """The text of a drawn cell or of wifi-lte, cut to a size that many runs have time for."""
    if name == WIFI_LTE:
        whole = (HOME / "scenarios" / f"{name}.toml").read_text().replace('"traces/', f'"{HOME}/traces/')
    else:
        whole = settings.text(SEED, int(name))
    text = re.sub(r"^count *=.*$", f"count = {messages}", whole, flags=re.MULTILINE)
    size = re.search(r'^bytes *= *"([\d.]+) (\w+)"', text, flags=re.MULTILINE)
    if size and float(size[1]) * MB[size[2]] > MOST_MB:
        return text.replace(size[0], f'bytes = "{MOST_MB} MB"')
    return text


def medians(
    file: Path, sets: list[str], backend: str, seeds: int, named: tuple[Sequence[str], Sequence[str]]
) -> dict[tuple[str, str], float]:
    """The figure of each of the named schedulers and controllers."""
    schedulers, controllers = named
    figures = defaultdict(list)
    for cc in controllers:
        wanted = plan.plan(Scenario.load(str(file), sets), schedulers, cc, range(seeds), (backend,))
        for row in comparison.execute(wanted).complete().rows:
            figures[row["scheduler"], cc].append(row["message_p95_ms"] or row["elapsed_ms"])
    return {case: statistics.median(values) for case, values in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=[WIFI_LTE, *map(str, range(20))])
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--set", nargs="*", default=[], help="options of the simulator, as ack_delay='1 ms'")
    parser.add_argument("--backend", choices=("quic-to-picoquic", "picoquic", "quic"), default="quic-to-picoquic")
    parser.add_argument("--schedulers", nargs="*", help="instead of those of the page")
    parser.add_argument("--controllers", nargs="*", help="instead of those of the page")
    given = parser.parse_args()
    own = given.backend == "picoquic"
    named = (
        given.schedulers or (("picoquic",) if own else SCHEDULERS),
        given.controllers or (PICOQUIC_CONTROLLERS if own else CONTROLLERS),
    )
    acks = [] if given.backend == "quic" else ["options.ack_path=picoquic"]
    changed = [*acks, *(f"options.{each}" for each in given.set)]
    within = {cc: [0, 0, 0] for cc in named[1]}
    with tempfile.TemporaryDirectory() as folder:
        for name in given.cells:
            file = Path(folder) / f"cell{name}.toml"
            file.write_text(cell(name, given.messages))
            ours, theirs = (
                medians(file, sets, backend, given.seeds, named)
                for sets, backend in ((changed, "sim"), ([], given.backend))
            )
            for case, value in theirs.items():
                difference = ours[case] / value - 1
                within[case[1]][(abs(difference) > 0.05) + (abs(difference) > 0.2)] += 1
                print(f"cell {name:8}  {case[0]:18} {case[1]:7} {value:8.1f} ms  {difference:+7.1%}", flush=True)
    for cc, (near, far, beyond) in within.items():
        print(f"{cc:7}  {near:2} within 5 %, {far:2} within 20 %, {beyond:2} beyond")


if __name__ == "__main__":
    main()
