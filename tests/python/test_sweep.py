"""Sweeps: grids of scenarios, on this machine and on a Ray cluster of two nodes."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import machine
from conftest import SMALL, Weft
from ends import PATIENCE_S, wait_until
from weftway import _native, sweep
from weftway._native import Scenario, ScenarioError
from weftway.runs import parallel
from weftway.runs.plan import plan
from weftway.scenario import HOME
from weftway.sweep.grid import varied
from weftway.sweep.parcel import Sender, carried_out

CELLULAR = SMALL.replace('rate = "5 Mbit/s"', 'trace = "traces/lte.down"')
RULE = """\
class Fastest:
    def select(self, cx):
        return min(cx.sendable(), key=lambda path: path.srtt_ms, default=None)
"""
GRID = """\
title = "Two scenarios"
seeds = "0..4"
[[run]]
scenario = "small.toml"
scheduler = ["min-rtt", "my_rules.py:Fastest"]
set = ["path.lte.loss=1%"]
[[run]]
scenario = "cellular.toml"
cc = ["cubic", "bbr1"]
[vary]
"path.wifi.loss" = ["0 %", "2 %"]
"""


@pytest.fixture
def grid(tmp_path: Path, small: Path) -> Path:
    """Two scenarios, one of them with traces, and a scheduler in Python: 2·2·4 and 2·2·2·4 jobs."""
    (tmp_path / "traces").mkdir()
    shutil.copy(HOME / "traces/lte.down", tmp_path / "traces")
    (tmp_path / "cellular.toml").write_text(CELLULAR)
    (tmp_path / "my_rules.py").write_text(RULE)
    (tmp_path / "grid.toml").write_text(GRID)
    return tmp_path / "grid.toml"


# Grids


def test_a_grid_gives_the_rows_of_its_comparisons(weft: Weft, grid: Path, tmp_path: Path) -> None:
    swept = weft("sweep", "grid.toml", "--out", "out", "--json")
    assert swept.returncode == 0, swept.stderr
    small = ["--scheduler", "min-rtt,my_rules.py:Fastest", "--set", "path.lte.loss=1%", "--seeds", "0..4"]
    vary = '[vary]\n"path.wifi.loss" = ["0 %", "2 %"]\n'
    for file in ("small.toml", "cellular.toml"):
        (tmp_path / file).write_text((tmp_path / file).read_text() + vary)
    whole = weft("compare", "small.toml", *small, "--out", "one", "--json")
    two = weft("compare", "cellular.toml", "--cc", "cubic,bbr1", "--seeds", "0..4", "--out", "two", "--json")
    assert json.loads(swept.stdout) == [*json.loads(whole.stdout), *json.loads(two.stdout)]
    for name, folder in (("small", "one"), ("cellular", "two")):
        kept, compared = (tmp_path / at / "rows.parquet" for at in (f"out/{name}", folder))
        assert kept.read_bytes() == compared.read_bytes()
        assert (tmp_path / "out" / name / "report.html").exists()
    # 2 losses · 2 schedulers · 4 seeds, and 2 losses · 2 controllers · 2 schedulers · 4 seeds.
    assert pl.read_parquet(tmp_path / "out/rows.parquet").height == 16 + 32


def test_a_scenario_is_a_grid_of_one_run(weft: Weft, small: Path, tmp_path: Path) -> None:
    swept = weft("sweep", small, "--out", "swept")
    compared = weft("compare", small, "--out", "compared")
    assert (swept.returncode, swept.stdout) == (0, compared.stdout)
    rows = [(tmp_path / folder / "rows.parquet").read_bytes() for folder in ("swept", "compared")]
    assert rows[0] == rows[1]
    assert (tmp_path / "swept/report.html").exists()


def test_a_scenario_may_come_from_a_pipe(small: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, small.read_bytes())
    os.close(writer)
    assert sweep.grid.read(f"/dev/fd/{reader}").runs[0].plan.jobs
    os.close(reader)


def test_a_sweep_goes_on_where_it_was(weft: Weft, grid: Path, tmp_path: Path) -> None:
    weft("sweep", "grid.toml", "--out", "out", "--seeds", "0..1")
    table = tmp_path / "out/small/rows.parquet"
    # A number that no run gives shows whether it was taken from the table.
    pl.read_parquet(table).with_columns(pl.lit(1.25).alias("fct_ms")).write_parquet(table)
    rows = json.loads(weft("sweep", "grid.toml", "--out", "out", "--seeds", "0..2", "--json").stdout)
    assert [row["seed"] for row in rows if row["fct_ms"] == 1.25] == [0] * 4


BAD = {
    "an unknown key": (GRID.replace("title", "titel"), "unknown key `titel` at the top of the grid"),
    "a mistyped key of a run": (GRID.replace("scheduler =", "schedular ="), "did you mean `scheduler`?"),
    "no runs": ('title = "x"\n', "[[run]]"),
    "a run of nothing": ("[[run]]\ncc = 'cubic'\n", "lacks its `scenario`"),
    "a missing scenario": (GRID.replace("small.toml", "smell.toml"), "there is no file `smell.toml`"),
    "an unknown scheduler": (GRID.replace('"min-rtt"', '"min-rt"'), "did you mean `min-rtt`?"),
    "an unknown path": (GRID.replace('"path.wifi.loss"', '"path.wfi.loss"'), "did you mean `wifi`?"),
    "a varied scheduler": (GRID + 'scheduler = ["ecf"]\n', "`scheduler` is no key of a grid's [vary]"),
    "seeds of another kind": (GRID.replace('"0..4"', "1.5"), "`seeds` is a range"),
    "a name that is the folder above": (GRID.replace("cc =", 'name = ".."\ncc ='), "`..` cannot be"),
    "a name that the sweep has": (GRID.replace("cc =", 'name = "rows.parquet"\ncc ='), "`rows.parquet` cannot be"),
    "a name that is no folder": (GRID.replace("cc =", 'name = "../x"\ncc ='), "`../x` cannot be"),
    "one name twice": (GRID.replace("cellular.toml", "small.toml"), "two runs are called `small`"),
    "no TOML": ("[[run]\n", "grid.toml"),
}


@pytest.mark.parametrize(("text", "hint"), BAD.values(), ids=BAD)
def test_a_bad_grid_is_told_in_one_message(grid: Path, text: str, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(grid.parent)
    grid.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        sweep.read("grid.toml")
    assert hint in str(caught.value)
    assert "grid.toml" in str(caught.value)


def test_ours_can_be_read_and_are_no_scenarios(weft: Weft) -> None:
    names = [file.stem for file in HOME.glob("sweeps/*.toml")]
    assert names
    assert all(len(sweep.read(name).runs) > 1 for name in names)
    assert not {entry["name"] for entry in json.loads(weft("list", "--json").stdout)} & set(names)
    assert "did you mean `lossy-wifi`?" in weft("sweep", "lossy-wfi", "--out", "out").stderr


def test_what_a_grid_varies_joins_what_the_scenario_varies() -> None:
    joint = '"path.wifi.delay, path.lte.delay" = [\n  ["1 ms", "2 ms"],\n  ["3 ms", "4 ms"],\n]\n'
    own = f'\n[vary]\nscheduler = ["ecf"]\n{joint}'
    text = SMALL.replace('scheduler = ["min-rtt", "round-robin"]\n', "").replace("\n[workload]", own + "[workload]")
    scenario = Scenario.parse(varied(text, {"path.wifi.loss": ["0 %", "2 %"]}))
    assert scenario.schedulers == ["ecf"]
    delays = [(variant.values["path.wifi.delay"], variant.values["path.wifi.loss"]) for variant in scenario.variants()]
    assert delays == [("1 ms", "0 %"), ("1 ms", "2 %"), ("3 ms", "0 %"), ("3 ms", "2 %")]


# Parcels


@pytest.mark.parametrize("name", ["lte.down", "../../up/lte.down", "/lte.down"])
def test_a_node_needs_none_of_the_files(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a/b"
    folder.mkdir(parents=True)
    named = str(tmp_path / "lte.down") if name.startswith("/") else name
    trace = (folder / named).resolve()
    trace.parent.mkdir(exist_ok=True)
    shutil.copy(HOME / "traces/lte.down", trace)
    (folder / "cellular.toml").write_text(CELLULAR.replace("traces/lte.down", named))
    (tmp_path / "my_rules.py").write_text(RULE)
    wanted = plan(Scenario.load(str(folder / "cellular.toml")), ["ecf", f"{tmp_path}/my_rules.py:Fastest"], seed="0..2")
    parcel = Sender(wanted.scenario).parcel(wanted.jobs)
    here = _native.Batch([wanted.jobs[0]], 1)
    expected = None
    while here.remaining:
        expected = next((text for _, _, text, _ in here.wait(1.0)), expected)
    shutil.rmtree(tmp_path)
    answer = carried_out(parcel)
    assert answer.refusal is None
    assert [kind for kind, _ in answer.results] == ["row"] * 4
    assert answer.results[0][1] == expected


@pytest.mark.parametrize("sets", [[], ["drive.file.down=other.csv"], ['drive.file={ down = "other.csv" }']])
def test_a_node_gets_drives_and_line_ends_as_they_are(tmp_path: Path, sets: list[str]) -> None:
    lines = (HOME / "traces/drives/us-2023.down.csv").read_bytes().replace(b"\n", b"\r\n")
    for place in ("traces/drives/us-2023.down.csv", "other.csv"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(lines)
    file = str(shutil.copy(HOME / "scenarios/driving-live-video.toml", tmp_path))
    wanted = plan(Scenario.load(file, ["workload.duration=1s", *sets]), "ecf", "cubic", "0..1")
    parcel = Sender(wanted.scenario).parcel(wanted.jobs)
    shutil.rmtree(tmp_path)
    answer = carried_out(parcel)
    assert (answer.refusal, [kind for kind, _ in answer.results]) == (None, ["row"])


def test_a_node_with_other_code_or_another_scenario_does_nothing(small: Path) -> None:
    wanted = plan(Scenario.load(str(small)))
    parcel = Sender(wanted.scenario).parcel(wanted.jobs)
    other = carried_out(replace(parcel, code="0.0.0 (other)"))
    assert (other.results, str(other.refusal).endswith(f"{_native.CODE} in place of 0.0.0 (other)")) == ([], True)
    changed = replace(parcel, origin=replace(parcel.origin, text=SMALL.replace("1 %", "2 %")))
    assert "has the hash" in str(carried_out(changed).refusal)


# Pools


def used(pool: Any) -> None:
    with pool:
        # More items than there is room for at once.
        assert sorted(pool.map_unordered(abs, (-n for n in range(20)))) == [(n, n) for n in range(20)]
        with pytest.raises(TypeError):
            list(pool.map_unordered(abs, ["no number"]))
        found = []
        with pytest.raises(TypeError):
            for result in pool.map_unordered(abs, ["no number", *range(5)]):
                found.append(result)  # those before the exception
        assert sorted(found) == [(n + 1, n) for n in range(5)], "a call that fails costs no other one"
        result, two = pool.actors(random.Random, 2, 7)
        drawn = [result.random(), result.random(), two.random()]
        expected = random.Random(7)
        first, second = expected.random(), expected.random()
        assert [future.result(60) for future in drawn] == [first, second, first]


def test_processes_of_this_machine() -> None:
    used(parallel.LocalPool(2))


# Ray


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and a second node, one core each; a third can be added and killed."""
    pytest.importorskip("ray")
    parallel._imported()
    from ray.cluster_utils import Cluster

    nodes: Any = Cluster(shutdown_at_exit=False)
    try:
        nodes.add_node(num_cpus=1, include_dashboard=False)
        nodes.add_node(num_cpus=1)
    except Exception as error:
        nodes.shutdown()
        pytest.skip(f"no Ray cluster can be started here: {type(error).__name__}: {error}")
    session = nodes.head_node.get_session_dir_path()
    yield nodes
    nodes.shutdown()
    assert machine.soon(lambda: not left_of(session)), left_of(session)


def left_of(session: str) -> list[str]:
    """The processes of a cluster."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_text(errors="replace")
        except OSError:
            continue
        if session in arguments:
            found.append(arguments)
    return found


ROWS = ("rows.parquet", "small/rows.parquet", "cellular/rows.parquet")


def same_rows(one: Path, two: Path) -> bool:
    return all((one / file).read_bytes() == (two / file).read_bytes() for file in ROWS)


def test_nodes_of_a_cluster(cluster: Any) -> None:
    used(parallel.RayPool(cluster.address))


def test_the_rows_of_a_cluster_are_those_of_this_machine(weft: Weft, grid: Path, tmp_path: Path, cluster: Any) -> None:
    here = weft("sweep", "grid.toml", "--out", "here", "--json")
    there = weft("sweep", "grid.toml", "--out", "there", "--json", "--ray", cluster.address)
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout
    assert same_rows(tmp_path / "here", tmp_path / "there")
    assert [line.replace("there", "here") for line in machine.told(there.stderr)] == machine.told(here.stderr)


def test_the_kernel_is_left_out(weft: Weft, small: Path, tmp_path: Path, cluster: Any) -> None:
    small.write_text('backend = ["sim", "kernel"]\n' + SMALL)
    done = weft("sweep", small, "--out", "out", "--json", "--ray", cluster.address)
    assert done.returncode == 0, done.stderr
    assert {row["backend"] for row in json.loads(done.stdout)} == {"sim"}
    assert "skipped: linux-v1: a run of the kernel is measured on this machine: leave out --ray" in done.stderr


def test_a_failing_rule_costs_no_other_row(weft: Weft, grid: Path, tmp_path: Path, cluster: Any) -> None:
    (tmp_path / "my_rules.py").write_text(
        "class Fastest:\n    def select(self, cx):\n        raise ValueError('why')\n"
    )
    done = weft("sweep", "grid.toml", "--out", "out", "--ray", cluster.address)
    assert done.returncode == 1
    assert "min-rtt" in done.stdout and "why" in done.stderr
    assert "repeat it with: weft run small.toml" in done.stderr
    assert (tmp_path / "out/small/rows.parquet").exists()


def test_other_code_on_a_node_is_refused(small: Path, tmp_path: Path, cluster: Any) -> None:
    driver = "from weftway import _native, cli; _native.CODE = 'other'; cli.main()"
    words = ["sweep", str(small), "--out", "out", "--ray", cluster.address]
    done = subprocess.run([sys.executable, "-c", driver, *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"has other code, {_native.CODE} in place of other" in done.stderr
    assert "Traceback" not in done.stderr


def begun(folder: Path, *words: str) -> subprocess.Popen[str]:
    """A sweep of which some rows are kept already."""
    command = [sys.executable, "-m", "weftway", "sweep", "grid.toml", "--out", "out", "--json", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: bool(list(folder.glob("out/*/parts/*.parquet"))) or process.poll() is not None)
    return process


def test_what_was_finished_before_an_interrupt_is_kept(weft: Weft, grid: Path, tmp_path: Path, cluster: Any) -> None:
    process = begun(tmp_path, "--seeds", "0..2000", "--ray", cluster.address)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    parts = [pl.read_parquet(part) for part in (tmp_path / "out").glob("*/parts/*.parquet")]
    # What was interrupted while it was written may be in two parts.
    kept = pl.concat(parts)["key"].n_unique()
    # 2000 seeds · 12 for each.
    assert (process.returncode, out) == (130, ""), err
    assert f"{kept} of 24000 runs finished and kept in out; the same command goes on" in err
    assert 0 < kept < 24000
    again = weft("sweep", "grid.toml", "--out", "out", "--json", "--seeds", "0..6", "--ray", cluster.address)
    fresh = weft("sweep", "grid.toml", "--out", "fresh", "--json", "--seeds", "0..6")
    assert again.returncode == 0, again.stderr
    assert again.stdout == fresh.stdout
    # The folder also has what was finished of other seeds.
    for file in ROWS:
        tables = [pl.read_parquet(tmp_path / folder / file).filter("selected") for folder in ("out", "fresh")]
        assert tables[0].equals(tables[1]), file


def test_a_node_that_is_lost_costs_no_row(weft: Weft, grid: Path, tmp_path: Path, cluster: Any) -> None:
    third = cluster.add_node(num_cpus=2)
    process = begun(tmp_path, "--seeds", "0..100", "--ray", cluster.address)
    assert process.poll() is None, "the sweep is at work"
    cluster.remove_node(third, allow_graceful=False)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    fresh = weft("sweep", "grid.toml", "--out", "fresh", "--json", "--seeds", "0..100")
    assert out == fresh.stdout
    assert same_rows(tmp_path / "out", tmp_path / "fresh")


def test_addresses_where_nobody_answers_are_told_at_once(weft: Weft, small: Path) -> None:
    pytest.importorskip("ray")
    for address, hint in (("127.0.0.1:1", "no Ray cluster answers there"), ("moon", "expected auto, local")):
        done = weft("sweep", small, "--out", "out", "--ray", address)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"--ray {address}: {hint}" in done.stderr


def test_without_ray_the_extra_is_named(small: Path, tmp_path: Path) -> None:
    driver = "import sys; sys.modules['ray'] = None; from weftway import cli; cli.main()"
    words = ["sweep", str(small), "--out", "out", "--ray", "auto"]
    done = subprocess.run([sys.executable, "-c", driver, *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "uv sync --extra sweep" in done.stderr
    assert len(done.stderr.splitlines()) == 1
