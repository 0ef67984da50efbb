"""The scenario that is a measured drive: it is the drive that its file names, chosen as the file says."""

import csv
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from conftest import Weft
from weftway.scenario import HOME

DRIVES = HOME / "traces/drives/us-2023.down.csv"
NAME = "driving-live-video"

Moment = tuple[float, float, float]
"""When, and what AT&T and Verizon brought, in Mbit/s."""


def _drives() -> dict[int, list[Moment]]:
    moments: dict[int, list[Moment]] = defaultdict(list)
    with DRIVES.open() as file:
        for line in csv.DictReader(file):
            moments[int(line["run"])].append(
                (float(line["at_s"]), float(line["att_mbps"]), float(line["verizon_mbps"]))
            )
    return moments


def _changes_a_minute(drive: list[Moment]) -> float:
    """Number of times a minute that the other carrier becomes the better one."""
    better = [att > verizon for _, att, verizon in drive if att != verizon]
    return sum(before != other for before, other in pairwise(better)) / drive[-1][0] * 60


def test_the_drive_was_chosen_as_the_file_says() -> None:
    """For training, of a minute and more, with outages of both carriers: the one whose better carrier changes most."""
    allowed = {
        number: _changes_a_minute(drive)
        for number, drive in _drives().items()
        if number % 2 == 0 and drive[-1][0] >= 60 and all(min(moment[at] for moment in drive) < 1 for at in (1, 2))
    }
    assert len(allowed) > 5, "it is a choice among several"
    chosen = max(allowed, key=allowed.__getitem__)
    text = (HOME / f"scenarios/{NAME}.toml").read_text()
    assert f"\nrun  = {chosen}\n" in text
    assert f"run {chosen} of {DRIVES.relative_to(HOME)}" in text
    assert f"{allowed[chosen]:.0f} times a minute" in text
    minute = [(att, verizon) for at, att, verizon in _drives()[chosen] if at < 60]
    assert not [rates for rates in minute if max(rates) < 1], "never both at once"


def test_it_is_listed_with_its_drive(weft_here: Weft) -> None:
    output = " ".join(weft_here("list", NAME).stdout.split())
    assert "drive file (down traces/drives/us-2023.down.csv), run 26" in output
    assert "path.att drive att, rate (up 5 Mbit/s)" in output
    assert NAME in weft_here("list").stdout


def test_nothing_arrives_over_a_carrier_in_its_outage(weft_here: Weft, tmp_path: Path) -> None:
    done = weft_here("run", NAME, "--scheduler", "round-robin", "--cc", "bbr1", "--events", "events")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in (tmp_path / "events").read_text().splitlines() if not line.startswith("#")]
    drive = _drives()[26]
    for path in (0, 1):
        arrived = [int(line[0]) * 1e-9 for line in lines if line[1:3] == ["-", str(path)]]
        assert len(arrived) > 10_000
        outages = [(at, end) for (at, *rates), (end, *_) in pairwise(drive) if rates[path] == 0 and at < 59]
        assert len(outages) >= 5
        for begin, end in outages:
            # What had left before it began is there after the delay and its jitter.
            assert not [at for at in arrived if begin + 0.1 < at < end], (path, begin)


def test_the_trains_carriers_are_bad_together_as_its_file_says() -> None:
    text = (HOME / "scenarios/high-speed-rail.toml").read_text()
    with (HOME / "traces/drives/hsr-2018.down.csv").open() as file:
        rows = [(float(row["carrier-m_mbps"]), float(row["carrier-u_mbps"])) for row in csv.DictReader(file)]
    # Twice a second for 59 s.
    assert len(rows) == 118
    share = sum(max(rates) < 1 for rates in rows) / len(rows)
    assert "in a quarter of the time both are below" in text and 0.23 < share < 0.27
    means = [sum(rates[at] for rates in rows) / len(rows) for at in (0, 1)]
    spread = [[rates[at] - means[at] for rates in rows] for at in (0, 1)]
    products = [sum(a * b for a, b in zip(spread[i], spread[j], strict=True)) for i, j in ((0, 1), (0, 0), (1, 1))]
    assert f"Correlation {products[0] / (products[1] * products[2]) ** 0.5:.2f}" in text
    assert "MIT License" in (HOME / "traces/drives/hsr-2018.LICENSE").read_text()
