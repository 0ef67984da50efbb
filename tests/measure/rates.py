"""Rates of one and of 16 connections: the proxy over both links and over the better one, MPTCP of the kernel, direct.

python tests/measure/rates.py    # table of the page "How fast the proxy is"; root; some four minutes
python tests/measure/rates.py --only mptcp
"""

import argparse
import json
import socket
import subprocess
import threading
import time
from dataclasses import dataclass

import lab
import servers
from targets import Targets

WARM_S = 3.0
"""A rate is measured from here on."""
MANY = 16
LEAST = {"one download": 0.90, "16 downloads": 0.92}
"""What `weft proxy` over both links must have of the sum of both."""


@dataclass
class Row:
    """A row of the table: what programs connect through, and with which options both ends run."""

    name: str
    through: str
    paths: tuple[str, ...] = lab.NEAR
    options: tuple[str, ...] = ()
    uploads: bool = False
    needs: tuple[str, ...] = ()


ROWS = {
    "proxy": Row("weft proxy, both links", "proxy", uploads=True),
    "earliest": Row(
        "the same, earliest-delivery at both ends",
        "proxy",
        options=("--scheduler", "earliest-delivery"),
        uploads=True,
    ),
    "better": Row("weft proxy, the better link alone", "proxy", lab.NEAR[:1]),
    "mptcp": Row("mptcpize run microsocks, both links", "microsocks", needs=("mptcpize", "microsocks")),
    "direct": Row("direct, the better link", "direct"),
}


def far(row: Row) -> None:
    lab.own_address()
    if row.through == "microsocks":
        subprocess.Popen(["mptcpize", "run", "microsocks", "-p", str(lab.SOCKS)], stderr=subprocess.DEVNULL)
    threading.Thread(target=servers.serve_sink, daemon=True).start()
    if row.through == "proxy":
        threading.Thread(target=servers.serve_bulk, daemon=True).start()
        lab.relay(*row.options)
    else:
        servers.serve_bulk()


def near(row: Row, seconds: float) -> None:
    client = lab.client(row.through, *row.options, paths=row.paths)
    time.sleep(0.5)
    measured = {"one download": download(row.through, 1, seconds)}
    if row.uploads:
        measured["one upload"] = upload(row.through, seconds)
    measured[f"{MANY} downloads"] = download(row.through, MANY, seconds)
    lab.end(client)
    print(json.dumps(measured), flush=True)


def download(through: str, count: int, seconds: float) -> float:
    received = lab.Received([lab.connect(through) for _ in range(count)])
    time.sleep(WARM_S)
    rate = received.mbps(seconds)
    received.close()
    time.sleep(1)
    return rate


def upload(through: str, seconds: float) -> float:
    """What the server took: what a program could write is more, as there is room on the way."""
    flow = lab.connect(through, lab.SINK)
    end = time.monotonic() + WARM_S + seconds

    def write() -> None:
        zeros = bytes(1 << 16)
        try:
            while time.monotonic() < end:
                flow.sendall(zeros)
            flow.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    told: list[tuple[int, int]] = []
    with flow.makefile("rb") as answers:
        while len(answer := answers.read(servers.TAKEN.size)) == servers.TAKEN.size:
            told.append(servers.TAKEN.unpack(answer))
    writer.join()
    flow.close()
    told = [(when, taken) for when, taken in told if when >= told[0][0] + WARM_S * 1e9]
    (begin, first), (last, taken) = told[0], told[-1]
    time.sleep(1)
    return (taken - first) * 8e3 / (last - begin)


def measure(key: str, seconds: float) -> dict[str, float]:
    row = ROWS[key]
    before = ("mptcpize", "run") if row.through == "microsocks" else ()
    words = ["--only", key, "--seconds", str(seconds)]
    told = lab.emulate(lab.links(lab.BEST, lab.OTHER), [__file__, "far", *words], [__file__, "near", *words], before)
    measured: dict[str, float] = json.loads(told)
    return measured


def table(keys: list[str], seconds: float) -> None:
    measured = {}
    for key in keys:
        if (program := lab.lacking(*ROWS[key].needs)) is not None:
            print(f"{ROWS[key].name}: left out, {program} is missing")
            continue
        measured[key] = measure(key, seconds)
    columns = ("one download", "one upload", f"{MANY} downloads")
    print(f"{'Mbit/s':44}" + "".join(f"{column:>16}" for column in columns))
    for key, rates in measured.items():
        cells = [f"{rates[column]:.1f}" if column in rates else "" for column in columns]
        print(f"{ROWS[key].name:44}" + "".join(f"{cell:>16}" for cell in cells))
    targets = Targets()
    for column, least in LEAST.items():
        if "proxy" in measured:
            share = 100 * measured["proxy"][column] / lab.SUM_MBPS
            targets.tell(f"{column} over both links, of the sum of {lab.SUM_MBPS} Mbit/s", share, "%", 100 * least)
    targets.exit()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", nargs="?", choices=("far", "near"), help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=tuple(ROWS))
    parser.add_argument("--seconds", type=float, default=8, help="So long each rate is measured, after three seconds.")
    args = parser.parse_args()
    match args.role:
        case "far":
            far(ROWS[args.only])
        case "near":
            near(ROWS[args.only], args.seconds)
        case _:
            table([args.only] if args.only else list(ROWS), args.seconds)


if __name__ == "__main__":
    main()
