"""Training of the learned estimate: the same bytes each time, and a policy that the scheduler takes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="training needs weftway[train]")

import weftway
from weftway import ScenarioError, _native
from weftway.learn.train import foreseen
from weftway.learn.train.export import read_policy

TINY = foreseen.Args(on="drives:2:1", rounds=2, every=64, epochs=4, batch=64, width=8)


def test_a_tiny_training_gives_the_same_bytes_and_its_policy_runs(tmp_path: Path) -> None:
    files = []
    for name, threads in (("one", 1), ("two", 2)):
        foreseen.train(replace(TINY, out=tmp_path / name, threads=threads))
        files.append(tmp_path / name / "foreseen.safetensors")
    assert files[0].read_bytes() == files[1].read_bytes()
    policy = read_policy(files[0])
    assert policy.card["inputs"].split(",") == _native.arrival_inputs()
    assert "--on drives:2:1" in policy.card["command"] and "--threads" not in policy.card["command"]
    rows = weftway.compare("wifi-lte", scheduler=f"foreseen:policy={files[0]}", cc="cubic", seeds="0..1")
    assert rows["verdict"].to_list() == ["finished"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "drives"), "--on drives: expected NAME:SCENARIOS:RUNS"),
        (("--on", "drives:2:0"), "--on drives:2:0: expected NAME:SCENARIOS:RUNS"),
        (("--on", "drive:2:1"), "no distribution or scenario `drive`; did you mean `drives`?"),
        (("--rounds", "0"), "--rounds 0: expected a whole number, 1 or more"),
        (("--seed", "many"), "--seed many: expected a whole number"),
        (("--quantil", "0.5"), "unrecognized arguments: --quantil 0.5; --help lists what there is"),
        (("--on", "drives:1:1"), "expected at least two runs with rows"),
    ],
)
def test_a_mistake_is_one_line_and_the_status_of_a_usage_error(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        foreseen.main([*words, "--out", str(tmp_path)])
    assert ended.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    # On a busy machine a line or two before it tell how far the training is.
    lines = [line for line in output.err.splitlines() if " finished after " not in line]
    assert len(lines) == 1 and message in lines[0]


def test_how_far_a_round_is_is_told_while_it_goes_on() -> None:
    runs: list[tuple[int, int]] = []
    args = replace(TINY, on="drives:9:1")
    rows = foreseen.collect(args, 0, None, lambda done, total: runs.append((done, total)))
    assert runs == [(foreseen.AT_ONCE, 9), (9, 9)]
    batches: list[tuple[int, int]] = []
    foreseen.fit(args, rows, lambda done, total: batches.append((done, total)))
    (total,) = {total for _, total in batches}
    assert [done for done, _ in batches] == list(range(1, total + 1))


def test_the_quantile_is_found_and_scales_go_into_the_first_layer() -> None:
    """Of labels of 0 to 9 thirds, whatever is seen, seven of ten are at most 6.5 thirds. One input never varies."""
    rng = np.random.default_rng(1)
    seen = np.column_stack([rng.normal(50, 10, 4000), np.full(4000, 3.0)]).astype(np.float32)
    off = (np.tile(np.arange(10), 400) / 3).astype(np.float32)
    rows = foreseen.Rows(seen, off, np.repeat(np.arange(40), 100))
    fitted = foreseen.fit(foreseen.Args(epochs=30, batch=256, width=8), rows)
    t = fitted.tensors
    hidden = np.maximum(seen @ t["w1"] + t["b1"], 0)
    values = (np.maximum(hidden @ t["w2"] + t["b2"], 0) @ t["w3"] + t["b3"])[:, 0]
    assert 6 / 3 - 0.1 < np.median(values) < 7 / 3 + 0.1
    assert t["low"][0] < seen[:, 0].min() and t["high"][0] > seen[:, 0].max()


def test_a_file_that_is_no_policy_is_named(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.safetensors"
    nothing.write_bytes(b"no")
    with pytest.raises(ScenarioError, match="safetensors"):
        foreseen.collect(TINY, 0, nothing)
