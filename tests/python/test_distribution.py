"""Distributions of scenarios: what is drawn, from where, and what may never be drawn twice."""

import hashlib
import math
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from weftway._native import Scenario, ScenarioError
from weftway.commands import catalogue
from weftway.sample import distribution
from weftway.sample.distribution import Distribution, parse
from weftway.scenario import HOME

SMALL = """\
title = "Two paths"
transport = "mpquic"
cc = { one_of = ["cubic", "bbr1"], weights = [3, 1] }

[path.a]
rate = { from = "1 Mbit/s", to = "100 Mbit/s" }
delay = { from = "5 ms", to = "50 ms", scale = "linear" }
loss = { sometimes = "25 %", value = { from = "0 %", to = "2 %" } }
queue = { from = "10 packets", to = "90 packets" }

[path.b]
rate = "7 Mbit/s"

[workload]
kind = "bulk"
bytes = "1 MB"
"""

MANY = """\
transport = "mptcp"
paths = { from = 2, to = 4 }

[path.p]
copies = 4
rate = { from = "1 Mbit/s", to = "9 Mbit/s" }
via = { sometimes = "50 %", value = "shared" }

[link.shared]
rate = "5 Mbit/s"

[cross.first]
on = "p1"
rate = "100 kbit/s"

[cross.core]
on = "shared"
rate = "100 kbit/s"

[[workload]]
weight = 3
kind = "bulk"
bytes = "1 MB"

[[workload]]
weight = 1
kind = "duration"
duration = "1 s"
"""


def small(extra: str = "") -> Distribution:
    """Read once for many draws: the ends of every range are checked, which takes longer than to draw."""
    return parse(SMALL + extra, "small")


def number(text: str) -> float:
    return float(text.split()[0])


def test_an_instance_is_a_function_of_split_seed_and_index() -> None:
    sample = small().sample(3, 5)
    assert small().sample(3, 5) == sample
    others = [small().sample(3, 6), small().sample(4, 5), small().sample(3, 5, "held-out")]
    assert len({sample.text, *(other.text for other in others)}) == 4


def test_a_draw_is_a_hash_of_its_key() -> None:
    """64 bits of SHA-256 over 2⁶⁴ are u, and the delay is 5 ms + 45 ms · u, cut to four digits, of which the last is
    even for training."""
    text = b'["train", 3, 5, "path.a.delay"]'
    u = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") / 2**64
    exact = 5 + 45 * u
    drawn = number(small().sample(3, 5).values["path.a.delay"])
    step = 0.01 if exact >= 10 else 0.001
    assert abs(drawn - exact) <= step
    assert round(drawn / step) % 2 == 0


def test_another_knob_moves_no_other_draw() -> None:
    plain, more = small(), small('[options]\nreceive_buffer = { from = "64 KiB", to = "1024 KiB" }\n')
    for index in range(20):
        before, after = plain.sample(1, index), more.sample(1, index)
        assert "options.receive_buffer" in after.values
        assert before.values.items() <= after.values.items()
        assert before.seed == after.seed


def test_held_out_instances_are_never_trained_on() -> None:
    """The last of four digits is even in training and odd otherwise; so is the seed of the run."""
    there = small()
    for split, parity in (("train", 0), ("held-out", 1)):
        for index in range(200):
            drawn = there.sample(1, index, split)
            assert drawn.seed % 2 == parity
            digits = re.sub(r"\D", "", f"{number(drawn.values['path.a.rate']):.3e}".split("e")[0])
            assert int(digits) % 2 == parity, drawn.values["path.a.rate"]
    pools = [{variant.hash for variant in there.pool(1, 200, split)} for split in distribution.SPLITS]
    assert [len(pool) for pool in pools] == [200, 200]
    assert not pools[0] & pools[1]


def test_where_nothing_is_drawn_only_the_seeds_differ() -> None:
    exact = distribution.load("four-paths-exact")
    train, held = ({exact.sample(1, index, split).seed for index in range(50)} for split in distribution.SPLITS)
    assert len(train) == len(held) == 50
    assert not train & held
    assert len({variant.hash for variant in exact.pool(1, 5)}) == 1


def test_ranges_weights_and_chances_are_as_written() -> None:
    """Of 2000: half below the geometric middle 10 of 1 to 100, half below the middle 27.5 of 5 to 50, three quarters
    CUBIC, a quarter with losses. Five standard deviations: 5·√(2000·¼) = 112, and 5·√(2000·3/16) = 97."""
    there = small()
    drawn = [there.sample(9, index).values for index in range(2000)]
    rates = [number(values["path.a.rate"]) for values in drawn]
    delays = [number(values["path.a.delay"]) for values in drawn]
    assert min(rates) >= 1 and max(rates) <= 100
    assert min(delays) >= 5 and max(delays) <= 50
    assert abs(sum(rate < 10 for rate in rates) - 1000) < 112
    assert abs(sum(delay < 27.5 for delay in delays) - 1000) < 112
    assert abs(sum(values["cc"] == "cubic" for values in drawn) - 1500) < 97
    assert abs(sum("path.a.loss" in values for values in drawn) - 500) < 97
    assert all(re.fullmatch(r"\d+ packets", values["path.a.queue"]) for values in drawn)


def test_some_of_the_paths_and_what_belongs_to_them() -> None:
    """Two to four of four, equally often: 300 of 900 each, within 5·√(900·2/9) = 71. A path is in 3/4 of all: 675,
    within 5·√(900·3/16) = 65."""
    many = parse(MANY, "many")
    counts, kinds, first = [], [], 0
    for index in range(900):
        values = many.sample(2, index).values
        paths = list(dict.fromkeys(key.split(".")[1] for key in values if key.startswith("path.")))
        assert paths == sorted(paths)
        counts.append(len(paths))
        kinds.append(values["workload.kind"])
        first += "p1" in paths
        crossed = any(key.endswith(".via") for key in values)
        assert ("link.shared.rate" in values) == crossed == ("cross.core.rate" in values)
        assert ("cross.first.rate" in values) == ("p1" in paths)
    assert all(abs(counts.count(count) - 300) < 71 for count in (2, 3, 4))
    assert abs(first - 675) < 65
    assert abs(kinds.count("bulk") - 675) < 65


def test_knobs_may_share_a_draw() -> None:
    knob = '{{ sometimes = "50 %", draw = "lossy", value = "{} %" }}'
    text = SMALL.replace('rate = "7 Mbit/s"', f'rate = "7 Mbit/s"\nloss = {knob.format(1)}')
    both = parse(text.replace('sometimes = "25 %"', 'sometimes = "50 %", draw = "lossy"'), "both")
    drawn = [both.sample(1, index).values for index in range(100)]
    lossy = [("path.a.loss" in values, "path.b.loss" in values) for values in drawn]
    assert set(lossy) == {(True, True), (False, False)}


WORLD = """\
transport = "mpquic"
order = "drawn"

[path.often]
weight = 3
rate = { down = "20 Mbit/s", up = "5 Mbit/s" }

[path.seldom]
rate = "10 Mbit/s"

[path.traced]
trace = { down = "traces/lte.down", up = "traces/lte.up" }
"""

MESSAGES = """
[workload]
kind = "messages"
sizes = [{ weight = 3, bytes = "2 kB" }, { weight = 1, bytes = "10 kB" }]
load = "20 %"
"""


def world(top: str, rest: str) -> Distribution:
    return parse(f"{top}\n{WORLD}{rest}", "world")


def bulk(rest: str) -> str:
    return f'{rest}\n[workload]\nkind = "bulk"\nbytes = "1 MB"\n'


def paths_of(values: dict[str, object]) -> list[str]:
    return list(dict.fromkeys(key.split(".")[1] for key in values if key.startswith("path.")))


def test_paths_have_weights_and_a_drawn_order() -> None:
    """One of three with the weights 3, 1, 1: the first in 3/5, 600 of 1000 within 5·√(1000·6/25) = 77. Of all three,
    each comes first equally often: 333 within 5·√(1000·2/9) = 75."""
    single, every = world("paths = 1", bulk("")), world("", bulk(""))
    drawn = [paths_of(single.sample(1, index).values) for index in range(1000)]
    assert {len(names) for names in drawn} == {1}
    assert abs(sum(names == ["often"] for names in drawn) - 600) < 77
    firsts = [paths_of(every.sample(1, index).values)[0] for index in range(1000)]
    assert all(abs(firsts.count(name) - 333) < 75 for name in ("often", "seldom", "traced"))


def test_equal_weights_change_no_draw() -> None:
    equal = parse(MANY.replace("copies = 4", "copies = 4\nweight = 2"), "many")
    plain = parse(MANY, "many")
    assert all(equal.sample(1, index).text == plain.sample(1, index).text for index in range(20))


def test_a_path_fails_in_a_share_of_the_instances() -> None:
    """Down at 2 s for 1.5 s in a fifth: 200 of 1000 within 5·√(1000·0.16) = 63, each path in a third of these."""
    failing = world("", bulk('[failure]\nsometimes = "20 %"\nat = "2 s"\nlasts = "1500 ms"\n'))
    drawn = [failing.sample(1, index).values for index in range(1000)]
    failed = [key.split(".")[1] for values in drawn for key in values if key.endswith(".schedule")]
    assert abs(len(failed) - 200) < 63
    assert all(abs(failed.count(name) - len(failed) / 3) < 5 * math.sqrt(len(failed) * 2 / 9) for name in set(failed))
    schedules = [value for values in drawn for key, value in values.items() if key.endswith(".schedule")]
    assert schedules[0] == [{"at": "2 s", "state": "down"}, {"at": "3.5 s", "state": "up"}]
    assert all(schedule == schedules[0] for schedule in schedules)
    plain = world("", bulk(""))
    for index, values in enumerate(drawn):
        kept = {key: value for key, value in values.items() if not key.endswith(".schedule")}
        assert kept == plain.sample(1, index).values, "a failure moves no other draw"


def test_a_workload_may_have_its_own_failure() -> None:
    rest = """
[failure]
at = "2 s"
lasts = "1 s"
[[workload]]
kind = "bulk"
bytes = "1 MB"
failure = { at = "100 ms" }
[[workload]]
kind = "duration"
duration = "9 s"
"""
    there = world("", rest)
    drawn = [there.sample(1, index).values for index in range(40)]
    steps = [(values, value) for values in drawn for key, value in values.items() if "schedule" in key]
    begins = {(values["workload.kind"], value[0]["at"]) for values, value in steps}
    assert begins == {("bulk", "100 ms"), ("duration", "2 s")}
    for_good = parse((WORLD + rest).replace('lasts = "1 s"\n', ""), "world").sample(1, 0).values
    assert [len(value) for key, value in for_good.items() if "schedule" in key] == [1]


def test_a_load_is_a_share_of_what_the_paths_carry() -> None:
    """Down, 20 and 10 Mbit/s and the trace's 25 092 lines of 1500 B in 25 s are 42.04 Mbit/s, of which a fifth is 8.41;
    messages of (3 · 2 + 10) / 4 = 4 kB then come every 32 / 8.41 = 3.81 ms. Up: 5 + 10 and 13 168 lines in 30 s."""
    for direction, carried in (("download", 30.0 + lines("lte.down")), ("upload", 15.0 + lines("lte.up"))):
        there = world(f'direction = "{direction}"', MESSAGES + "count = 10\n")
        values = there.sample(1, 0).values
        assert number(values["workload.period"]) == pytest.approx(4 * 8 / (0.2 * carried), rel=1e-3)
        assert "workload.load" not in values
    video = 'kind = "stream"\nload = "20 %"\nperiod = "20 ms"\ndeadline = "1 s"\nduration = "1 s"\n'
    free = world("", f"[workload]\n{video}").sample(1, 0).values
    assert number(free["workload.rate"]) == pytest.approx(0.2 * (30 + lines("lte.down")), rel=1e-3)
    limited = world("", f'[workload]\n{video}rate = "5 Mbit/s"\n').sample(1, 0).values
    assert limited["workload.rate"] == "5 Mbit/s"


def lines(trace: str) -> float:
    """The mean rate of a trace in Mbit/s."""
    times = (HOME / "traces" / trace).read_text().split()
    return len(times) * 1500 * 8 / int(times[-1]) / 1e3


def test_a_load_keeps_to_limits() -> None:
    """At 8.41 Mbit/s 12 s hold 3153 messages of 4 kB; of a period of 100 ms, 120."""
    period = 4 * 8 / (0.2 * (30 + lines("lte.down")))
    fitting = world("", MESSAGES + 'duration = "12 s"\n').sample(1, 0).values
    assert fitting["workload.count"] == int(12_000 / period)
    assert "workload.duration" not in fitting
    fewer = world("", MESSAGES + 'duration = "12 s"\ncount = 100\n').sample(1, 0).values
    assert fewer["workload.count"] == 100
    slower = world("", MESSAGES + 'duration = "12 s"\nperiod = "100 ms"\n').sample(1, 0).values
    assert (slower["workload.period"], slower["workload.count"]) == ("100 ms", 120)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (bulk("[failure]\nlasts = '1 s'"), "failure: `at` is missing"),
        (bulk("[failure]\nat = '1 s'\nwhen = '1 s'"), "failure: unknown key `when`"),
        (bulk("[failure]\nat = '1 kB'"), "failure.at: `1 kB` is not a time; its units are ns, us"),
        (MESSAGES.replace("20 %", "20") + "count = 1\n", "workload.load: `20` is not a share"),
        (MESSAGES.replace("20 %", "0 %") + "count = 1\n", "workload.load: expected more than 0"),
        (MESSAGES.replace("10 kB", "10 ms") + "count = 1\n", "workload.sizes: `10 ms` is not a size"),
        ('[workload]\nkind = "bulk"\nload = "10 %"', "workload.load: `bulk` has no rate"),
    ],
)
def test_a_mistake_about_load_or_failure_is_told(rest: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        world("", rest)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("weight = 3", "weight = '3'", "path.often.weight: `3` is not a weight"),
        ("weight = 3", "weight = -1", "path.often.weight: `-1` is not a weight"),
        ("weight = 3", "weight = 0", "paths: cannot choose 3 paths where the rest have weight 0"),
        ('order = "drawn"', 'order = "drown"', "order: `drown` is not an order of paths; there is file and drawn"),
        ("traces/lte.down", "traces/none.down", "trace `traces/none.down`"),
    ],
)
def test_a_mistake_about_paths_is_told(old: str, new: str, message: str) -> None:
    assert old in WORLD
    with pytest.raises(ScenarioError) as error:
        parse(WORLD.replace(old, new) + MESSAGES + "count = 1\n", "world")
    assert message in str(error.value)


DRIVE = """\
[drive]
run = "drawn"
file = { down = "traces/drives/us-2023.down.csv" }

[path.a]
drive = "att"
rate = { up = "5 Mbit/s" }

[path.b]
rate = "10 Mbit/s"

[workload]
kind = "limited"
load = "10 %"
bytes = "1 MB"
"""


def test_a_run_of_a_drive_is_drawn_from_its_part_and_carries_its_mean() -> None:
    there = parse(DRIVE, "drive")
    for split, parity in (("train", 0), ("held-out", 1)):
        runs = [there.sample(1, index, split).values["drive.run"] for index in range(60)]
        assert {run % 2 for run in runs} == {parity}
        assert len(set(runs)) > 20
    drawn = there.sample(1, 0)
    rows = (HOME / "traces/drives/us-2023.down.csv").read_text().splitlines()[1:]
    run = [row.split(",") for row in rows if row.startswith(f"{drawn.values['drive.run']},")]
    times = [float(row[1]) for row in run]
    steps = [after - at for at, after in zip(times, [*times[1:], 2 * times[-1] - times[-2]], strict=True)]
    mean = sum(step * float(row[2]) for step, row in zip(steps, run, strict=True)) / sum(steps)
    rate = float(str(drawn.values["workload.rate"]).removesuffix(" Mbit/s"))
    assert rate == pytest.approx(0.1 * (mean + 10), rel=1e-3)


def test_an_instance_is_kept_with_its_drive(tmp_path: Path) -> None:
    there = parse(DRIVE, "drive")
    drawn = there.sample(1, 0)
    drawn.keep(tmp_path, there.folder)
    (kept,) = Scenario.load(str(tmp_path / f"{drawn.id}.toml")).variants()
    assert kept.hash == there.variant(drawn).hash


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('run = "drawn"', "run = 91", "drive.run: `traces/drives/us-2023.down.csv` has no run 91"),
        ("us-2023.down.csv", "none.csv", "trace `traces/drives/none.csv`: no such file"),
        ('file = { down = "traces/drives/us-2023.down.csv" }', "", "drive.file: the name of a file is needed"),
        ('drive = "att"', 'drive = "at"', "unknown link of the drive `at`"),
    ],
)
def test_a_mistake_about_a_drive_is_told(old: str, new: str, message: str) -> None:
    assert old in DRIVE
    with pytest.raises(ScenarioError) as error:
        parse(DRIVE.replace(old, new), "drive")
    assert message in str(error.value)


def test_a_run_cannot_be_drawn_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("at_s,att_mbps\n0,1\n")
    text = DRIVE.replace("traces/drives/us-2023.down.csv", "one.csv")
    with pytest.raises(ScenarioError, match="to have runs of even and of odd numbers"):
        parse(text, "drive", folder=tmp_path)


def test_an_instance_is_kept_with_its_traces(tmp_path: Path) -> None:
    there = world("", bulk(""))
    drawn = there.sample(1, 0)
    drawn.keep(tmp_path, there.folder)
    assert (tmp_path / "traces/lte.up").read_bytes() == (HOME / "traces/lte.up").read_bytes()
    (kept,) = Scenario.load(str(tmp_path / f"{drawn.id}.toml")).variants()
    assert kept.hash == there.variant(drawn).hash


BASE = """\
transport = "mpquic"
[path.a]
rate = { from = "1 Mbit/s", to = "9 Mbit/s" }
delay = "10 ms"
[path.b]
rate = "7 Mbit/s"
[workload]
kind = "bulk"
bytes = "1 MB"
"""


def with_base(folder: Path, own: str, **bases: str) -> Distribution:
    for name, text in bases.items():
        (folder / f"{name}.toml").write_text(text)
    (folder / "mine.toml").write_text(own)
    return distribution.load(folder / "mine.toml")


def test_keys_of_a_base_hold_where_the_file_has_none(tmp_path: Path) -> None:
    """Tables are merged key by key; what is drawn, and a list, is replaced as a whole. Later bases lie over earlier
    ones."""
    own = 'base = ["below.toml", "loads.toml"]\n[path.a]\nrate = { one_of = ["2 Mbit/s"] }\n'
    loads = '[[workload]]\nkind = "bulk"\nbytes = "5 MB"\n[path.b]\ndelay = "4 ms"\n'
    values = with_base(tmp_path, own, below=BASE, loads=loads).sample(1, 0).values
    assert values["transport"] == "mpquic"
    assert (values["path.a.rate"], values["path.a.delay"]) == ("2 Mbit/s", "10 ms")
    assert (values["path.b.rate"], values["path.b.delay"]) == ("7 Mbit/s", "4 ms")
    assert values["workload.bytes"] == "5 MB"
    assert not any("base" in key for key in values)


def test_a_base_draws_as_it_does_by_itself(tmp_path: Path) -> None:
    other = with_base(tmp_path, 'base = ["below.toml"]\n', below=BASE)
    for index in range(5):
        assert other.sample(1, index).values == parse(BASE, "below").sample(1, index).values


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ('"below.toml"', "base: a list of files is needed"),
        ('["below.toml", 5]', "base: a list of files is needed"),
        ('["belwo.toml"]', "base: `belwo.toml` cannot be read"),
        ('["broken.toml"]', "base: `broken.toml`: "),
        ('["next.toml"]', "base: `next.toml` has a base of its own; name that before it"),
    ],
)
def test_a_mistake_about_a_base_is_told(tmp_path: Path, base: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        with_base(tmp_path, f"base = {base}\n", below=BASE, broken="[path", next='base = ["below.toml"]\n')
    assert message in str(error.value)
    assert "mine.toml" in str(error.value)


def test_light_loads_are_light() -> None:
    """At most 12 % of what the links carry, for messages at most 5 %; over the links of `world` and of `drives`."""
    for name, links in (("light", "world"), ("light-drives", "drives")):
        light, whole = distribution.load(name), distribution.load(links)
        drawn = [light.sample(1, index, "held-out").values for index in range(100)]
        assert {values["workload.kind"] for values in drawn} == {"messages", "voip", "stream", "request-response"}
        for index, values in enumerate(drawn):
            other = whole.sample(1, index, "held-out").values
            paths = {key: value for key, value in values.items() if key.startswith("path.") and "schedule" not in key}
            assert paths == {key: value for key, value in other.items() if key in paths}
            if values["workload.kind"] == "stream":
                assert number(values["workload.rate"]) <= 8


def test_datagrams_go_over_the_links_of_world_and_of_fades() -> None:
    for name, links in (("datagrams", "world"), ("datagram-fades", "fades")):
        ours, whole = distribution.load(name), distribution.load(links)
        for index in range(50):
            values, other = (one.sample(1, index, "held-out").values for one in (ours, whole))
            assert (values["transport"], values["workload.kind"]) == ("mpquic", "datagrams")
            paths = {key: value for key, value in values.items() if key.startswith("path.") and "schedule" not in key}
            assert paths == {key: value for key, value in other.items() if key in paths}
            ours.sample(1, index, "train").scenario()


def fades_of(name: str) -> list[tuple[dict[str, Any], set[str]]]:
    """Of 100 instances the values, and the paths that fade."""
    there = distribution.load(name)
    drawn = [there.sample(1, index, "held-out").values for index in range(100)]
    return [(values, {key.split(".")[1] for key in values if ".fade.share" in key}) for values in drawn]


def test_every_instance_of_fades_fades_to_a_floor_of_0_to_10_mbit() -> None:
    floors = set()
    for values, fading in fades_of("fades"):
        assert fading == {path for path in paths_of(values) if path != "cable"} != set()
        for path in fading:
            median = number(values[f"path.{path}.fade.median"])
            longest = number(values.get(f"path.{path}.fade.p95", "0 s"))
            assert 0.2 <= median <= 4 and longest <= 20
            floors.add(values[f"path.{path}.fade.floor"])
    assert len(floors) == 6
    assert all(float(number) <= 10 for floor in floors for number in re.findall(r"\d+(?:\.\d+)?", floor))


def test_every_instance_of_satellites_has_one_with_the_measured_law() -> None:
    for values, fading in fades_of("satellites"):
        assert "leo" in fading == set(paths_of(values))
        assert 16 <= number(values["path.leo.fade.share"]) <= 17
        assert values["path.leo.fade.median"] == "2 s"
        assert 36 <= number(values["path.leo.fade.p95"]) <= 51
        assert values["path.leo.redraw.down.every"] == "15 s" and "path.leo.redraw.down.delay" in values
        assert not any(key.endswith(".common") for key in values)


def test_links_of_one_operator_share_their_draws() -> None:
    for values, _ in fades_of("one-operator"):
        groups = [
            (values[f"path.{path}.redraw.{way}.{key}"])
            for path in ("sa", "nsa")
            for way in ("down", "up")
            for key in ("common", "every", "correlation")
        ]
        assert len(set(groups)) == 3
        assert 33 <= number(values["path.sa.redraw.down.correlation"]) <= 53


def test_a_marginal_leg_is_in_every_instance_with_the_shortest_delay() -> None:
    for values, _ in fades_of("marginal-legs"):
        delays = {path: number(values[f"path.{path}.delay"]) for path in paths_of(values)}
        assert min(delays, key=delays.__getitem__) == "marginal"
        assert values["path.marginal.redraw.every"] == "15 s"


def test_a_distribution_is_told_from_a_scenario() -> None:
    for name in distribution.names():
        assert distribution.is_one(tomllib.loads((distribution.FOLDER / f"{name}.toml").read_text())), name
    for file in HOME.glob("scenarios/*.toml"):
        assert not distribution.is_one(tomllib.loads(file.read_text())), file


def test_the_world_has_what_it_says() -> None:
    """Of 400: failures in a fifth (80 within 5·√(400·0.16) = 40), QUIC in half (200 within 5·√100 = 50), every
    controller, stack, workload, kind of link and number of paths."""
    there = distribution.load("world")
    drawn = [there.sample(1, index, "held-out").values for index in range(400)]
    failing = sum(any(key.endswith(".schedule") for key in values) for values in drawn)
    assert abs(failing - 80) < 40
    assert abs(sum(values["transport"] == "mpquic" for values in drawn) - 200) < 50
    assert all(("stack" in values) == (values["transport"] == "mptcp") for values in drawn)
    assert {values.get("stack") for values in drawn} == {None, "v0.9x", "linux-v1"}
    assert {values["cc"] for values in drawn} == {"cubic", "lia", "olia", "balia", "bbr1", "bbr2", "bbr3"}
    assert {values["workload.kind"] for values in drawn} == {"bulk", "messages", "stream", "request-response"}
    assert {values["workload.bytes"] for values in drawn if values["workload.kind"] == "bulk"} == {"1 MB", "20 MB"}
    assert {len(paths_of(values)) for values in drawn} == {2, 3, 4}
    assert {name for values in drawn for name in paths_of(values)} == set(there.keys["path"])
    assert len({paths_of(values)[0] for values in drawn}) == len(there.keys["path"])
    for values in drawn:
        if values["workload.kind"] == "stream":
            assert number(values["workload.rate"]) <= 50


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('to = "100 Mbit/s" }', 'to = "100 ms" }', "path.a.rate: `1 Mbit/s` and `100 ms` differ in their units"),
        ('to = "100 Mbit/s" }', "to = 100 }", "path.a.rate: the ends of a range"),
        ('to = "100 Mbit/s" }', 'to = "1 Mbit/s" }', "path.a.rate: the range from 1 to 1 is empty"),
        ('to = "100 Mbit/s" }', 'to = "1.0001 Mbit/s" }', "path.a.rate: the range from 1.0 to 1.0001 is too narrow"),
        ('to = "100 Mbit/s" }', 'too = "100 Mbit/s" }', "path.a.rate: unknown key `too`"),
        ('to = "100 Mbit/s" }', 'scale = "log" }', "path.a.rate: a range needs `from` and `to`; `to` is missing"),
        ('from = "0 %"', 'scale = "log", from = "0 %"', "path.a.loss.scale"),
        ("weights = [3, 1]", "weights = [3]", "cc.weights: 2 values need as many weights"),
        ('["cubic", "bbr1"]', "[]", "cc.one_of: a list with at least one value"),
        ('sometimes = "25 %"', 'sometimes = "25"', "path.a.loss.sometimes: `25` is not a share"),
        ('rate = "7 Mbit/s"', 'raet = "7 Mbit/s"', "unknown key `raet`"),
        ('rate = "7 Mbit/s"', 'rate = { from = "7 ms", to = "9 ms" }', "`ms` is "),
        ('one_of = ["cubic", "bbr1"]', 'one_of = ["cubic", "brr1"]', "did you mean `bbr1`?"),
        ('transport = "mpquic"', "paths = 3", "paths: cannot choose 3 of 2 paths"),
        ('transport = "mpquic"', 'seeds = "0..3"', "`seeds`: a distribution has no such key"),
        ("[path.b]", "[path.b]\ncopies = 0", "path.b.copies"),
        ("[path.b]", "[path.b", "Expected ']'"),
    ],
)
def test_a_mistake_is_told_with_its_file_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "wrong.toml"
    assert old in SMALL
    file.write_text(SMALL.replace(old, new))
    with pytest.raises(ScenarioError) as error:
        distribution.load(file).pool(1, 4)
    assert message in str(error.value)
    assert str(file) in str(error.value)


def test_a_misspelled_name_is_told() -> None:
    with pytest.raises(ScenarioError, match="did you mean `four-paths`"):
        distribution.load("for-paths")
    with pytest.raises(ScenarioError, match="no split `test`"):
        small().sample(1, 0, "test")


@pytest.mark.parametrize("name", distribution.names())
def test_ours_are_drawn_and_read(name: str) -> None:
    ours = distribution.load(name)
    assert ours.title and ours.controllers
    for split in distribution.SPLITS:
        assert len(ours.pool(1, 32, split)) == 32


def test_the_four_paths_lie_around_the_published_ones() -> None:
    drawn = distribution.load("four-paths")
    for index in range(50):
        values = drawn.sample(1, index).values
        for place, rate in enumerate((2, 2, 4, 2), start=1):
            if f"path.p{place}.rate" in values:
                assert rate / 2 <= number(values[f"path.p{place}.rate"]) <= 2 * rate
                assert 5 <= number(values[f"path.p{place}.delay"]) <= 30
                assert 0 <= number(values[f"path.p{place}.loss"]) <= 5


def test_equal_delays_go_with_losses_in_streaming() -> None:
    streaming = distribution.load("streaming")
    for index in range(50):
        values = streaming.sample(1, index).values
        lossy = "path.first.loss" in values
        assert lossy == ("path.second.loss" in values)
        assert lossy == math.isclose(number(values["path.first.delay"]), number(values["path.second.delay"]))


def test_distributions_are_no_scenarios_of_the_list() -> None:
    kinds = {entry["kind"] for entry in catalogue.entries() if "distributions" in entry["name"]}
    assert kinds == {"distribution"}


def test_the_package_needs_no_numpy() -> None:
    code = "import sys, weftway, weftway.sample.distribution; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
