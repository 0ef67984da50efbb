"""Distributions of scenarios: what is drawn, from where, and what may never be drawn twice."""

import hashlib
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from weftway import catalogue, distribution
from weftway._native import ScenarioError
from weftway.distribution import Distribution, parse

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
    return parse(SMALL + extra, "small")


def number(text: str) -> float:
    return float(text.split()[0])


def test_an_instance_is_a_function_of_split_seed_and_index() -> None:
    one = small().sample(3, 5)
    assert small().sample(3, 5) == one
    others = [small().sample(3, 6), small().sample(4, 5), small().sample(3, 5, "held-out")]
    assert len({one.text, *(other.text for other in others)}) == 4


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
    more = small('[options]\nreceive_buffer = { from = "64 KiB", to = "1024 KiB" }\n')
    for index in range(20):
        before, after = small().sample(1, index), more.sample(1, index)
        assert "options.receive_buffer" in after.values
        assert before.values.items() <= after.values.items()
        assert before.seed == after.seed


def test_held_out_instances_are_never_trained_on() -> None:
    """The last of four digits is even in training and odd otherwise; so is the seed of the run."""
    for split, parity in (("train", 0), ("held-out", 1)):
        for index in range(200):
            drawn = small().sample(1, index, split)
            assert drawn.seed % 2 == parity
            digits = re.sub(r"\D", "", f"{number(drawn.values['path.a.rate']):.3e}".split("e")[0])
            assert int(digits) % 2 == parity, drawn.values["path.a.rate"]
    pools = [{one.hash for one in small().pool(1, 200, split)} for split in distribution.SPLITS]
    assert [len(pool) for pool in pools] == [200, 200]
    assert not pools[0] & pools[1]


def test_where_nothing_is_drawn_only_the_seeds_differ() -> None:
    exact = distribution.load("four-paths-exact")
    train, held = ({exact.sample(1, index, split).seed for index in range(50)} for split in distribution.SPLITS)
    assert len(train) == len(held) == 50
    assert not train & held
    assert len({one.hash for one in exact.pool(1, 5)}) == 1


def test_ranges_weights_and_chances_are_as_written() -> None:
    """Of 2000: half below the geometric middle 10 of 1 to 100, half below the middle 27.5 of 5 to 50, three quarters
    CUBIC, a quarter with losses. Five standard deviations: 5·√(2000·¼) = 112, and 5·√(2000·3/16) = 97."""
    drawn = [small().sample(9, index).values for index in range(2000)]
    rates = [number(one["path.a.rate"]) for one in drawn]
    delays = [number(one["path.a.delay"]) for one in drawn]
    assert min(rates) >= 1 and max(rates) <= 100
    assert min(delays) >= 5 and max(delays) <= 50
    assert abs(sum(rate < 10 for rate in rates) - 1000) < 112
    assert abs(sum(delay < 27.5 for delay in delays) - 1000) < 112
    assert abs(sum(one["cc"] == "cubic" for one in drawn) - 1500) < 97
    assert abs(sum("path.a.loss" in one for one in drawn) - 500) < 97
    assert all(re.fullmatch(r"\d+ packets", one["path.a.queue"]) for one in drawn)


def test_some_of_the_paths_and_what_belongs_to_them() -> None:
    """Two to four of four, equally often: 300 of 900 each, within 5·√(900·2/9) = 71. A path is in 3/4 of all: 675,
    within 5·√(900·3/16) = 65."""
    many = parse(MANY, "many")
    counts, first = [], 0
    for index in range(900):
        values = many.sample(2, index).values
        paths = list(dict.fromkeys(key.split(".")[1] for key in values if key.startswith("path.")))
        assert paths == sorted(paths)
        counts.append(len(paths))
        first += "p1" in paths
        crossed = any(key.endswith(".via") for key in values)
        assert ("link.shared.rate" in values) == crossed == ("cross.core.rate" in values)
        assert ("cross.first.rate" in values) == ("p1" in paths)
    assert all(abs(counts.count(count) - 300) < 71 for count in (2, 3, 4))
    assert abs(first - 675) < 65
    kinds = [many.sample(2, index).values["workload.kind"] for index in range(900)]
    assert abs(kinds.count("bulk") - 675) < 65


def test_knobs_may_share_a_draw() -> None:
    knob = '{{ sometimes = "50 %", draw = "lossy", value = "{} %" }}'
    text = SMALL.replace('rate = "7 Mbit/s"', f'rate = "7 Mbit/s"\nloss = {knob.format(1)}')
    both = parse(text.replace('sometimes = "25 %"', 'sometimes = "50 %", draw = "lossy"'), "both")
    drawn = [both.sample(1, index).values for index in range(100)]
    lossy = [("path.a.loss" in one, "path.b.loss" in one) for one in drawn]
    assert set(lossy) == {(True, True), (False, False)}


@pytest.mark.parametrize(
    ("old", "new", "told"),
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
        ('sometimes = "25 %"', 'sometimes = "25"', "path.a.loss.sometimes: `25` is no share"),
        ('rate = "7 Mbit/s"', 'raet = "7 Mbit/s"', "unknown key `raet`"),
        ('rate = "7 Mbit/s"', 'rate = { from = "7 ms", to = "9 ms" }', "`ms` is "),
        ('one_of = ["cubic", "bbr1"]', 'one_of = ["cubic", "brr1"]', "did you mean `bbr1`?"),
        ('transport = "mpquic"', "paths = 3", "paths: 3 of 2 paths cannot be had"),
        ('transport = "mpquic"', 'seeds = "0..3"', "`seeds`: a distribution has no such key"),
        ("[path.b]", "[path.b]\ncopies = 0", "path.b.copies"),
        ("[path.b]", "[path.b", "Expected ']'"),
    ],
)
def test_a_mistake_is_told_with_its_file_and_key(tmp_path: Path, old: str, new: str, told: str) -> None:
    file = tmp_path / "wrong.toml"
    assert old in SMALL
    file.write_text(SMALL.replace(old, new))
    with pytest.raises(ScenarioError) as error:
        distribution.load(file).pool(1, 4)
    assert told in str(error.value)
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
    for index in range(50):
        values = distribution.load("streaming").sample(1, index).values
        lossy = "path.first.loss" in values
        assert lossy == ("path.second.loss" in values)
        assert lossy == math.isclose(number(values["path.first.delay"]), number(values["path.second.delay"]))


def test_distributions_are_no_scenarios_of_the_list() -> None:
    assert not [one["name"] for one in catalogue.entries() if "distributions" in one["name"]]


def test_the_package_needs_no_numpy() -> None:
    code = "import sys, weftway, weftway.distribution; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
