"""An agent of one's own as a scheduler: it sees and does what it would see and do in the environment."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weftway
from test_env import EASY
from weftway import Scenario
from weftway.agent import Agent
from weftway.state import State, numbers
from weftway.vector import VectorEnv

SCENARIOS = {
    "easy": EASY,
    "lossy": EASY.replace('delay = "10 ms"', 'delay = "40 ms"\nloss = "2 %"', 1),
}


def chosen(state: State) -> Any:
    """A rule with both answers, often: the slower path is worth it while much is left, and not after an even offset."""
    enough = state["unsent"] > 200_000
    return (enough & (state["una"].astype(int) // 1000 % 3 > 0)).astype(int)


class Chosen(Agent):
    """Agent as a scheduler; it notes what it saw."""

    seen: list[Any] = []  # noqa: RUF012  the instance is made by the run

    def act(self, state: State) -> int:
        self.seen.append(numbers(state)[0].copy())
        return int(chosen(state)[0])


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_agent_sees_and_does_what_it_does_in_the_environment(tmp_path: Path, name: str) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIOS[name])
    vector = VectorEnv("wait-or-send", Scenario.load(str(file)).variants(), ["cubic"], 1, seed=5)
    vector.reset()
    (drawn,) = vector.drawn()
    seen: list[Any] = []
    answers: list[int] = []
    rows: list[dict[str, Any]] = []
    while not rows:
        state = vector.state()
        seen.append(numbers(state)[0].copy())
        answers.append(int(chosen(state)[0]))
        vector.step([answers[-1]])
        rows = vector.episodes()
    assert {0, 1} == set(answers)
    Chosen.seen.clear()
    table = weftway.compare(file, scheduler=Chosen, cc="cubic", seeds=[drawn["seed"]])
    assert len(Chosen.seen) == len(seen)
    assert np.array_equal(np.array(Chosen.seen), np.array(seen), equal_nan=True)
    for column in ("fct_ms", "ooo_packets", "retransmissions"):
        assert table[column][0] == rows[0][column]


def test_an_agent_that_does_not_answer_says_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "easy.toml"
    file.write_text(EASY)
    with pytest.raises(weftway.SimulationError, match="a subclass of Agent says in"):
        weftway.compare(file, scheduler=Agent, cc="cubic", seeds=range(1))


@pytest.mark.parametrize("answer", [2, None, math.nan, 0.5])
def test_an_answer_that_is_none_is_refused(tmp_path: Path, answer: Any) -> None:
    (tmp_path / "easy.toml").write_text(EASY, encoding="utf-8")
    rule = type("Mine", (Agent,), {"act": lambda self, state: answer})
    with pytest.raises(weftway.SimulationError, match="expected 0 to wait or 1 to send"):
        weftway.compare(tmp_path / "easy.toml", scheduler=rule, seeds=range(1))
