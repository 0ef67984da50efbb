"""The search that knows what will happen: the same each time, and no worse than what never changes."""

from dataclasses import replace

import numpy as np
import pytest

from weftway._native import Variant
from weftway.learn.train import lookahead
from weftway.learn.train.limits import SettingError
from weftway.learn.train.lookahead import Args, Search
from weftway.sample import distribution
from weftway.vector import VectorEnv

TINY = Args(on="four-paths-exact", task="path:action=direct:mode=exclusive", instances=2, candidates=6, horizon=3)


def shortened(seed: int) -> Variant:
    there = distribution.load("four-paths-exact")
    return there.variant(there.sample(seed, 0, "train"), ["workload.count=300"])


@pytest.mark.parametrize("task", ["path:action=direct:mode=exclusive", "shares", "gap"])
def test_the_search_is_faster_than_the_best_action_that_never_changes(task: str) -> None:
    """Constant shares and gaps are equal shares and the formula's gaps."""
    args, seed = replace(TINY, task=task, candidates=16), 6
    plan = Search(args, shortened(2), seed, by_delay=False).run()
    constant = []
    vector = VectorEnv(task, [shortened(2)], [args.cc], 1, seed)
    middle = {"shares": 1.0, "several": 2.0}
    for action in [0, 1, 2, 3] if vector.kind == "discrete" else [middle[vector.kind]]:
        vector.reset(seed)
        vector.episodes()
        rows: list[dict[str, float]] = []
        while not rows:
            vector.step(np.full((1, vector.actions), action, np.float32))
            rows = vector.episodes()
        constant.append(rows[0]["goodput_mbps"])
        assert rows[0]["seed"] == plan["seed"]
    assert plan["goodput_mbps"] > max(constant)


def test_the_same_is_found_whatever_the_processes() -> None:
    args = replace(TINY, on="streaming", task="split", against="lee-yoo", cc="cubic", candidates=3, horizon=2)
    one, two = (lookahead.compare(replace(args, threads=threads)) for threads in (1, 2))
    assert one.equals(two)
    assert set(one["scheduler"]) == {"lookahead", "lee-yoo", "min-rtt"}
    assert set(one["cells"]) == {2}


def test_a_sequence_that_brings_data_sooner_is_worth_more_where_delays_count() -> None:
    """The third path is the fast one."""
    by_delay = Search(TINY, shortened(2), 6, by_delay=True)
    for path in (0, 1, 2, 3) * 3:
        by_delay._env.step(np.full((1, 1), path, np.float32))
    late = [np.full((1, 1), path, np.float32) for path in (0, 0, 2)]
    soon = [np.full((1, 1), path, np.float32) for path in (2, 0, 0)]
    assert by_delay._worth(soon) > by_delay._worth(late)


def test_a_mistake_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingError, match="--horizon 0: expected a whole number"):
        replace(TINY, horizon=0)
    for words, message in (
        (["--task", "paths"], "unknown task `paths`"),
        (["--on", "four"], "no distribution `four`"),
        (["--cc", "none"], "none"),
    ):
        with pytest.raises(SystemExit) as ended:
            lookahead.main(words)
        assert ended.value.code == 2
        errors = capsys.readouterr().err
        assert errors.startswith("lookahead: ") and message in errors and errors.count("\n") == 1, errors
