"""`weft record` between two namespaces over emulated drives: it recovers what the links carry."""

import csv
import json
from pathlib import Path

import pytest

import machine
from conftest import Weft

DOWN = """\
at_s,a_mbps,b_mbps
0,8,2
2,3,6
4,0.2,9
6,6,4
8,10,0.5
"""
UP = """\
at_s,a_mbps,b_mbps
0,2,3
2,4,1
4,3,2
6,1,4
8,5,2
"""
LINKS = """\
title = "Two links that change places"
[drive]
file = { down = "links.down.csv", up = "links.up.csv" }
[path.a]
drive = "a"
delay = "20 ms"
queue = "200 packets"
[path.b]
drive = "b"
delay = "35 ms"
queue = "200 packets"
[workload]
kind = "bulk"
bytes = "1 MB"
"""
MEANS = {("a", "down"): 5.44, ("b", "down"): 4.3, ("a", "up"): 3.0, ("b", "up"): 2.4}
"""Of the whole drive, which takes 10 s and begins anew: (8 + 3 + 0.2 + 6 + 10) / 5, and so on."""


@machine.emulation
def test_rates_of_an_emulated_drive_come_out_within_ten_percent(weft: Weft, tmp_path: Path) -> None:
    """Recorded for as long as the drive lasts, so that it does not matter where in it the recording begins."""
    for name, text in (("links.toml", LINKS), ("links.down.csv", DOWN), ("links.up.csv", UP)):
        (tmp_path / name).write_text(text)
    command = " ".join(machine.WEFT)
    record = f"{command} record --path 10.0.1.1 --path 10.0.2.1 --peer $WEFT_PEER --load --for 10s --json"
    for attempt in range(machine.TRIES):
        server = f"{command} record --listen 4434"
        run = f"sleep 2; exec {record} --out run{attempt}"
        done = weft("emulate", "links.toml", "--no-log", "--server", server, "--", "sh", "-c", run)
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)
        rates = {(name, row["direction"]): row["rate_mbps"] for name, row in zip("aabb", rows, strict=True)}
        if rates == pytest.approx(MEANS, rel=0.1):
            break
    assert rates == pytest.approx(MEANS, rel=0.1), done.stderr
    # Without load a round trip takes 40 or 70 ms, and half of that is the delay of each direction.
    with (tmp_path / f"run{attempt}.down.csv").open() as file:
        first, *rest = csv.DictReader(file)
    assert float(first["10-0-1-1_delay_ms"]) == pytest.approx(20, abs=3)
    assert float(first["10-0-2-1_delay_ms"]) == pytest.approx(35, abs=3)
    # It is a drive, not a mean: the first link has an outage, while the second is at its best.
    assert len(rest) == 19
    assert min(float(row["10-0-1-1_mbps"]) for row in rest) < 1
    assert max(float(row["10-0-2-1_mbps"]) for row in rest) > 8
