"""`weft advise`: what is tried, what is picked, and what is said of it."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import machine
from conftest import Weft
from weftway import Interrupted, ScenarioError, advise, fairness
from weftway.advise import added, candidates, carry, choice, neighbours, runs
from weftway.runs.job import Job
from weftway.runs.runner import Outcome, Workers
from weftway.scenario import load

LOSSY = """\
title = "A lossy path and a clean one"
seeds = "0..2"
[path.wifi]
rate = "20 Mbit/s"
delay = "10 ms"
loss = "3 %"
[path.lte]
rate = { down = "10 Mbit/s", up = "2 Mbit/s" }
delay = "30 ms"
[workload]
kind = "bulk"
bytes = "2 MB"
"""


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    file = tmp_path / "lossy.toml"
    file.write_text(LOSSY)
    return file


def test_a_range_is_drawn_from_and_the_rest_is_assumed() -> None:
    keys = {
        "path.wifi.rate.down": "20 Mbit/s",
        "path.wifi.delay": "10 ms",
        "path.lte.rate.down": "8 Mbit/s",
        "path.lte.loss": "0 %",
        "path.lte.loss.enter": "1 %",
        "workload.rate": "1 Mbit/s",
    }
    near = neighbours.cells(keys, {"path.lte.rate.down": "900 kbit/s..2 Mbit/s"}, 50)
    assert near == neighbours.cells(keys, {"path.lte.rate.down": "900 kbit/s..2 Mbit/s"}, 50)
    assert (len(near), near[0].sets) == (51, ())
    drawn: dict[str, list[float]] = {}
    for cell in near[1:]:
        for setting in cell.sets:
            key, value = setting.split("=")
            drawn.setdefault(key, []).append(float(value.split()[0]))
    assert drawn.keys() == {"path.wifi.rate.down", "path.wifi.delay", "path.lte.rate.down", "path.lte.loss"}
    assert 16 <= min(drawn["path.wifi.rate.down"]) < 18 and 22 < max(drawn["path.wifi.rate.down"]) <= 25
    assert 0.9 <= min(drawn["path.lte.rate.down"]) < 1.1 and 1.8 < max(drawn["path.lte.rate.down"]) <= 2
    assert set(drawn["path.lte.loss"]) == {0.0}


def test_half_of_the_seeds_pick_and_the_others_judge() -> None:
    assert (choice.picking([3, 5, 8, 9]), choice.judging([3, 5, 8, 9])) == ([3, 8], [5, 9])


def test_what_linux_has_is_tried(lossy: Path) -> None:
    keys = {"path.wifi.rate": "1 Mbit/s", "path.lte.rate": "1 Mbit/s", "workload.kind": "voip"}
    first = candidates.first("linux", keys)
    assert len({candidate.words for candidate in first}) == len(first) == 9
    assert first[0] == candidates.baseline("linux", keys) and first[0].commands == ()
    bbr = next(candidate for candidate in first if candidate.words == "bbr, lte as backup")
    assert bbr.commands == (
        "sysctl -w net.ipv4.tcp_congestion_control=bbr",
        "ip mptcp endpoint change <address of lte> backup",
    )
    assert {"transport=mptcp", "stack=linux-v1", "path.lte.role=backup"} <= set(bbr.sets)
    more = candidates.second("linux", keys, [bbr])
    assert any("tcp_rmem" in command for candidate in more for command in candidate.commands)
    # A buffer that the application fixes is not the sysctl's to change.
    fixed = candidates.second("linux", {**keys, "options.receive_buffer": "1 MB"}, [bbr])
    assert not any("tcp_rmem" in command for candidate in fixed for command in candidate.commands)


def test_every_candidate_can_be_simulated(lossy: Path) -> None:
    keys = {"path.wifi.rate": "1 Mbit/s", "path.lte.rate": "1 Mbit/s", "workload.kind": "stream"}
    first = candidates.first("linux", keys)
    for candidate in [*first, *candidates.second("linux", keys, first[:1])]:
        assert load(lossy, candidate.sets).variants()[0].transport == "mptcp"


def test_the_advice_gains_what_its_evidence_shows(lossy: Path) -> None:
    """The cost that it tells is that of the runs which its command repeats."""
    import weftway

    advice = advise.advise(advise.Request(str(lossy), cells=2, seeds="0..4"))
    record = advise.records(advice)[0]
    assert advice.gain > 0.1 and advice.within.low <= advice.gain <= advice.within.high
    both = (advice.baseline.candidate, advice.chosen.candidate)
    means = []
    for one in both:
        rows = weftway.compare(lossy, scheduler=one.scheduler, cc=one.cc, seeds=[1, 3], set=one.sets)
        means.append(math.exp(sum(math.log(ms) for ms in rows["fct_ms"]) / 2))
    assert [record["baseline_cost_ms"], record["cost_ms"]] == pytest.approx(means)
    for one in both:
        assert f"--cc {one.cc}" in record["evidence"] or f",{one.cc}" in record["evidence"]


def test_lines_for_people_and_records_for_programs(weft_here: Weft, lossy: Path) -> None:
    done = weft_here("advise", "lossy.toml", "--cells", "1", "--seeds", "0..2")
    assert (done.returncode, machine.told(done.stderr)) == (0, [])
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        *("set", "pair", "gain", "held", "alone", "risk", "share", "basis", "evidence", "next")
    ]
    assert lines[0].startswith("set       on the server: sysctl -w net.ipv4.tcp_congestion_control=")
    records = json.loads(weft_here("advise", "lossy.toml", "--cells", "1", "--seeds", "0..2", "--json").stdout)
    assert {record["kind"] for record in records} == {"advice", "candidate", "cell"}
    assert records[0]["evidence"] in lines[8]
    assert len(records[0]["share_of_cubic"]) == 3 and "times what a CUBIC flow beside it takes" in lines[6]
    assert lines[1] == f"pair      the kernel's scheduler with {records[0]['cc']}, on the server"
    assert lines[3].startswith("held out  on held-out seeds: gain and risk are of the 1 that did not pick; of ")


def test_who_uploads_sets_the_controller_here(weft_here: Weft, lossy: Path) -> None:
    lossy.write_text(LOSSY.replace("seeds", 'direction = "upload"\nseeds'))
    done = weft_here("advise", "lossy.toml", "--cells", "1", "--seeds", "0..2")
    assert "set       here: sysctl -w net.ipv4.tcp_congestion_control=" in done.stdout


def test_where_nothing_is_to_be_gained_nothing_is_to_be_set(weft_here: Weft, lossy: Path) -> None:
    """A few messages a second over two paths that are alike and clean: whatever is set, they take the same time."""
    lossy.write_text(
        LOSSY.split("[path.wifi]")[0]
        + '[path.a]\nrate = "20 Mbit/s"\ndelay = "10 ms"\n[path.b]\nrate = "20 Mbit/s"\ndelay = "10 ms"\n'
        + '[workload]\nkind = "messages"\nsize = "100 B"\nperiod = "100 ms"\ncount = 20\n'
    )
    done = weft_here("advise", "lossy.toml", "--cells", "0", "--seeds", "0..2")
    assert done.returncode == 2 or "nothing: the change" in done.stdout
    done = weft_here("advise", "lossy.toml", "--cells", "1", "--seeds", "0..2")
    nothing = "set       nothing: the most promising change is not sure to gain 2 % over default Linux"
    assert f"{nothing} (cubic, all paths active)" in done.stdout
    assert "risk      none: nothing changes" in done.stdout


def ending(at: str, second: str = "10 Mbit/s", bytes: str = "20 MB") -> str:
    """Two links that die at a time and stay so."""
    links = "".join(
        f'[path.{name}]\nrate = "{rate}"\nschedule = [{{ at = "{at}", state = "down" }}]\n'
        for name, rate in (("a", "10 Mbit/s"), ("b", second))
    )
    return f'stack = "linux-v1"\ntime_limit = "20 s"\n{links}[workload]\nkind = "bulk"\nbytes = "{bytes}"\n'


@pytest.mark.parametrize("place", candidates.PLACES)
def test_where_no_run_finishes_there_is_nothing_to_advise(weft_here: Weft, lossy: Path, place: str) -> None:
    text = ending("1 s") if place == "linux" else ending("1 s").replace('stack = "linux-v1"', 'transport = "mpquic"')
    lossy.write_text(text.replace('"20 s"', '"3 s"'))
    done = weft_here("advise", "lossy.toml", "--cells", "1", "--seeds", "0..2", "--deployable", place)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no run finished under any setting" in done.stderr and "`weft run lossy.toml`" in done.stderr


def test_where_some_runs_finish_it_says_how_many_do_not(weft_here: Weft, lossy: Path) -> None:
    """20 MB need 16 s of the first link alone; both die soon after. Where links are slower, nothing finishes."""
    lossy.write_text(ending("16.5 s", second="1 Mbit/s"))
    words = ("advise", "lossy.toml", "--cells", "2", "--seeds", "0..2")
    lines = dict(line.split(None, 1) for line in weft_here(*words).stdout.splitlines())
    advice = advise.advise(advise.Request(str(lossy), cells=2, seeds="0..2"))
    chosen, base = advice.chosen.unfinished, advice.baseline.unfinished
    assert 0 < chosen < len(advice.chosen.costs) and base > 0
    sentence = f"{chosen} of {len(advice.chosen.costs)} runs did not finish and count with their time limit"
    assert sentence in lines["risk"]
    assert advice.chosen is advice.baseline or f"as it comes: {base}" in lines["risk"]
    record = advise.records(advice)[0]
    assert (record["unfinished"], record["baseline_unfinished"]) == (chosen, base)


def test_a_time_limit_is_not_told_as_a_completion_time(lossy: Path) -> None:
    lossy.write_text(ending("16.5 s", second="1 Mbit/s"))
    advice = advise.advise(advise.Request(str(lossy), cells=2, seeds="0..2"))
    # Another may be no better where neither finishes: what would be said of it if it were advised.
    advice = replace(advice, chosen=next(trial for trial in advice.trials if trial is not advice.baseline))
    gain = next(line for line in advise.lines(advice) if line.startswith("gain"))
    judged = {(0, seed) for seed in choice.judging(advice.seeds)}
    assert advice.chosen is not advice.baseline and judged & advice.baseline.cut
    assert "instead of more than 20 s" in gain


def test_quic_picks_from_the_registry(lossy: Path) -> None:
    lossy.write_text(LOSSY.replace("2 MB", "200 kB"))
    advice = advise.advise(advise.Request(str(lossy), place="quic", cells=1, seeds="0..2"))
    record = advise.records(advice)[0]
    assert advice.baseline.candidate.words == "min-rtt, cubic"
    assert all(command.startswith("weftway_") for command in record["set"])
    larger = [trial.candidate for trial in advice.trials if trial.candidate.window == 32]
    assert len(advice.trials) == 1 + advise.runs.SCREENED + len(larger) and len(larger) in (3, 4)


def test_pairs_are_tried_with_two_initial_windows() -> None:
    """Those that are best in the first round, and what nobody has set. A scenario's own window stays as it is."""
    keys = {"path.wifi.rate": "1 Mbit/s", "path.lte.rate": "1 Mbit/s", "workload.kind": "bulk"}
    first = candidates.first("quic", keys, "pipe")
    assert {one.cc for one in first} == {"cubic:random_loss=2", "bbr1", "bbr3", "bdp"}
    assert {one.window for one in first} == {10}
    bdp = next(one for one in first if (one.scheduler, one.cc, one.alone) == ("blest", "bdp", ""))
    assert bdp.pair == "blest with bdp"
    larger, unset = candidates.second("quic", keys, [bdp], "pipe")
    assert larger.commands == ("--scheduler blest", "--cc bdp", "--initial-window 32")
    assert larger.sets[-1] == "options.initial_window=32 packets"
    assert larger.pair == "blest with bdp, initial window of 32 packets"
    assert (unset.commands, unset.cc) == (("--initial-window 32",), "cubic:random_loss=2")
    assert candidates.second("quic", {**keys, "options.initial_window": "16 packets"}, [bdp], "pipe") == []


def test_a_controller_whose_share_is_not_known_is_not_advised(lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = advise.Request(str(lossy), cells=1, seeds="0..2")
    before = advise.advise(request)
    cc = before.chosen.candidate.cc
    assert before.shares and cc != "cubic"
    measured = fairness.beside_cubic
    monkeypatch.setattr(fairness, "beside_cubic", lambda name, jobs: [] if name == cc else measured(name, jobs))
    advice = advise.advise(request)
    assert advice.chosen.candidate.cc != cc and advice.shares
    assert advice.skipped == [f"{cc}: its share beside CUBIC is not known, so it is not advised"]


def test_a_larger_window_is_told_with_what_it_costs_short_flows(lossy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal links and short messages: the first window holds a third of one, the larger one all of it."""
    lossy.write_text(
        LOSSY.split("[path.wifi]")[0]
        + '[path.a]\nrate = "50 Mbit/s"\ndelay = "40 ms"\n[path.b]\nrate = "50 Mbit/s"\ndelay = "40 ms"\n'
        + '[workload]\nkind = "bulk"\nbytes = "70 kB"\n'
    )
    monkeypatch.setattr(candidates, "first", lambda place, keys, carrier: [candidates.baseline(place, keys, carrier)])
    advice = advise.advise(advise.Request(str(lossy), "quic", cells=1, seeds="0..2", carrier="pipe"))
    assert advice.chosen.candidate.window == 32
    told = "\n".join([*advise.lines(advice), *carry.lines(advice)])
    assert "with cubic, initial window of 32 packets, at both ends" in told
    assert "; short flows during such a start take " in told and " ms instead of " in told
    assert told.count("--cc cubic:random_loss=2 --initial-window 32") == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--deployable", "windows"], "--deployable windows: there is linux, quic"),
        (["--seeds", "0..1"], "--seeds 0..1: one half picks, the other judges; give two or more"),
        (["--check", "--deployable", "quic", "--cells", "1", "--seeds", "0..2"], "--check runs the Linux kernel"),
    ],
)
def test_what_cannot_be_asked_is_refused(weft_here: Weft, lossy: Path, words: list[str], reason: str) -> None:
    lossy.write_text(LOSSY.replace("2 MB", "50 kB"))
    done = weft_here("advise", "lossy.toml", *words)
    assert (done.returncode, done.stdout) == (2, "") or "--check" in words
    assert done.returncode == 2 and reason in done.stderr


def test_an_interrupt_names_no_folder_since_there_is_no_option_for_one(
    lossy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> Workers[Job]:
        def carried_out(todo: Sequence[Job]) -> Iterator[Outcome[Job]]:
            raise KeyboardInterrupt

        return carried_out

    monkeypatch.setattr(runs, "threads", interrupted)
    with pytest.raises(Interrupted, match=r"0 of \d+ runs finished; none is kept$"):
        advise.advise(advise.Request(str(lossy)))


def test_one_path_needs_no_advice(lossy: Path) -> None:
    lossy.write_text(LOSSY.split("[path.lte]")[0] + '[workload]\nkind = "bulk"\nbytes = "1 MB"\n')
    with pytest.raises(ScenarioError, match="the path `wifi` alone"):
        advise.advise(advise.Request(str(lossy)))


@machine.kernel
def test_the_kernel_is_asked_as_well(weft_here: Weft, lossy: Path) -> None:
    """Every candidate that needs no steering, over the scenario as it is; the best is 0 % above itself."""
    lossy.write_text(LOSSY.replace("2 MB", "200 kB"))
    words = ("advise", "lossy.toml", "--cells", "1", "--seeds", "0..2", "--check", "--json")
    done = weft_here(*words)
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)
    ran = [record for record in records if record["kind"] == "check"]
    tried = {record["candidate"] for record in records if record["kind"] == "candidate"}
    assert {record["candidate"] for record in ran} == tried
    assert (ran[0]["over_best"], sum(record["is_advised"] for record in ran)) == (1.0, 1)
    assert all(record["runs"] == 2 for record in ran)


@pytest.mark.parametrize(
    ("carrier", "there", "here"),
    [
        ("proxy", "weft relay --listen 4433 --scheduler ecf --cc bbr1", "weft proxy --to HOST:4433 --pair LINE"),
        ("tunnel", "weft relay --listen 4433 --scheduler ecf --cc bbr1", "weft tunnel --to HOST:4433 --pair LINE"),
        ("pipe", "--allow-pipe SERVER:PORT --scheduler ecf --cc bbr1", "--deliver SERVER:PORT --latency 200ms"),
        ("send", "weft recv inbox --listen 4433", "weft send FOLDER --to HOST:4433 --pair LINE"),
    ],
)
def test_the_commands_for_both_ends_have_scheduler_and_controller(
    lossy: Path, monkeypatch: pytest.MonkeyPatch, carrier: str, there: str, here: str
) -> None:
    def first(place: str, keys: object, name: str) -> list[candidates.Candidate]:
        base = candidates.baseline(place, {}, name)
        return [base, replace(base, scheduler="ecf", cc="bbr1", backups=("lte",), commands=("--scheduler ecf",))]

    monkeypatch.setattr(candidates, "first", first)
    request = advise.Request(str(lossy), "quic", cells=1, seeds="0..2", carrier=carrier)
    advice = advise.advise(request)
    chosen = next(one for one in advice.trials if (one.candidate.cc, one.candidate.window) == ("bbr1", 10))
    at_server, at_home, _ = carry.lines(replace(advice, chosen=chosen))
    assert at_server.startswith("there ") and at_server.endswith(there)
    assert here in at_home
    assert at_home.endswith("--path wifi --path lte,tier=backup --scheduler ecf --cc bbr1")
    sends = carrier == "send"
    assert ("direction=upload" in advice.baseline.candidate.sets) == sends
    assert (advice.baseline.candidate.scheduler == "earliest-delivery") == sends
    assert advice.baseline.candidate.words.endswith(", cubic:random_loss=2"), "not RFC 9438's, which is another"


def test_what_links_for_a_program_are_tried(lossy: Path) -> None:
    keys = {"path.wifi.rate": "1 Mbit/s", "path.lte.rate": "1 Mbit/s", "workload.kind": "voip"}
    first = candidates.first("quic", keys, "proxy")
    assert first[0] == candidates.baseline("quic", keys, "proxy") and first[0].commands == ()
    assert len({candidate.words for candidate in first}) == len(first)
    assert {one.alone for one in first} == {"", "wifi", "lte"}
    alone = next(one for one in first if one.words == "min-rtt, bbr1, lte in reserve")
    assert alone.commands == ("--cc bbr1", "--path lte,tier=backup")
    assert "path.lte.role=backup" in alone.sets


def test_the_kernels_commands_are_for_the_end_that_sends(weft_here: Weft, lossy: Path) -> None:
    done = weft_here("advise", "lossy.toml", "--for", "kernel", "--cells", "1", "--seeds", "0..2")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if not line.startswith("fill in"))
    assert lines["there"].startswith("sysctl -w net.ipv4.tcp_congestion_control=bbr; ")
    assert lines["there"].endswith("; mptcpize run SERVER")
    assert lines["here"] == "mptcpize run COMMAND"


def test_an_address_that_the_kernels_commands_leave_open_is_to_be_filled_in(lossy: Path) -> None:
    advice = advise.advise(advise.Request(str(lossy), "linux", cells=1, seeds="0..2", carrier="kernel"))
    backup = next(trial for trial in advice.trials if trial.candidate.backups == ("lte",))
    _, at_home, fill = carry.lines(replace(advice, chosen=backup))
    assert at_home == "here      ip mptcp endpoint change <address of lte> backup; mptcpize run COMMAND"
    assert fill.endswith("; <address of lte>: your address on that link, as in `ip mptcp endpoint`")


def test_a_further_link_is_like_the_one_whose_name_is_like_its_own(weft_here: Weft, lossy: Path) -> None:
    made = added.base(str(lossy), ["lte2.rate.down=15Mbit/s", "dsl.rate=50 Mbit/s", "dsl.delay=5 ms"])
    keys = runs.keys_of(load(made))
    assert keys["path.lte2.rate.down"] == "15Mbit/s" and keys["path.lte2.rate.up"] == "2 Mbit/s"
    assert keys["path.lte2.delay"] == "30 ms" and "path.lte2.loss" not in keys
    assert (keys["path.dsl.rate"], keys["path.dsl.delay"]) == ("50 Mbit/s", "5 ms")
    words = ["--cells", "1", "--seeds", "0..2", "--add", "lte2.rate=15Mbit/s"]
    done = weft_here("advise", "lossy.toml", *words)
    first, *_ = done.stdout.splitlines()
    assert first.startswith("added     with lte2 (rate 15Mbit/s; else as lte): completion time ")
    assert "% less" in first.split("over all cells")[1] and "evidence" not in done.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--for", "pigeon"], "--for pigeon: there is proxy, tunnel, send, pipe, kernel"),
        (["--for", "proxy", "--deployable", "quic"], "leave out --deployable"),
        (["--add", "lte.rate=1Mbit/s"], "the scenario has a link `lte`: --set path.lte.rate changes it"),
        (["--add", "lte2.price=3"], "the keys of a link are rate, delay, jitter, loss, queue"),
        (["--add", "lte2"], "as in lte2.rate=15Mbit/s"),
        (["--write", "x", "--cells", "4"], "files that last need 12 cells and 6 seeds at least"),
        (["--write", "x", "--seeds", "0..4"], "files that last need 12 cells and 6 seeds at least"),
        (["--write", "x", "--for", "proxy"], "--write DIR writes what Linux needs"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_run(
    weft_here: Weft, lossy: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], reason: str
) -> None:
    monkeypatch.setattr(runs._Trials, "run", None)
    done = weft_here("advise", "lossy.toml", *words)
    assert (done.returncode, done.stdout) == (2, "") and reason in done.stderr
