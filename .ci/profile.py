"""What a release is compiled for: `.ci/package` runs this with a package that counts, and compiles again by the counts.

The simulator with several rules, controllers and stacks; environments of both kinds; QUIC in virtual time.
"""

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from weftway import Scenario
from weftway.vector import VectorEnv

COMMANDS = (
    "rank --on world --cells 16 --seeds 0..2 --schedulers min-rtt,blest,round-robin,earliest-delivery,foreseen,dqn",
    "compare wifi-lte --backend quic --scheduler min-rtt,earliest-delivery --seeds 0..2",
)
SCENARIOS = Path(__file__).parent.parent / "scenarios"
ENVIRONMENTS = (("path:action=direct", "four-paths", "bbr1"), ("wait-or-send", "wifi-lte", "cubic"))
ENVS, STEPS = 16, 5000


def main() -> None:
    """Runs all."""
    with tempfile.TemporaryDirectory(prefix="weftway-") as folder:
        for number, command in enumerate(COMMANDS):
            out = Path(folder) / str(number)
            subprocess.run(["weft", *command.split(), "--out", out], check=True, stdout=subprocess.DEVNULL)
    for task, scenario, cc in ENVIRONMENTS:
        vector = VectorEnv(task, Scenario.load(str(SCENARIOS / f"{scenario}.toml")).variants(), [cc], envs=ENVS, seed=1)
        vector.reset()
        choices = np.random.default_rng(1).integers(0, vector.choices, (STEPS, ENVS))
        for actions in choices:
            vector.step(actions)


if __name__ == "__main__":
    main()
