"""Training of learned schedulers: one file per algorithm, and the pieces that they share.

JAX, Equinox and Optax are imported in the files of this folder only: `pip install "weftway[train]"`.

| file | what it has |
|---|---|
| `networks.py` | MLP and LSTM, in the layout of a policy file |
| `graph/` | graph networks over paths, and supervised training of them |
| `export.py` | policy files |
| `checkpoint.py` | the state of an interrupted training |
| `curve.py` | learning curves |
| `session.py` | settings and results of every training; the validation set, and the checkpoint that is exported |
| `limits.py` | what each setting may be |
| `input_ranges.py` | where the inputs lay in training |
| `dqn.py` | deep Q-learning from start to end; with other settings and tasks `rlds`, `rosello`, `lee_yoo`, `falcon` |
| `a3c.py` | advantage actor-critic from start to end, one worker or several: `pdaa3c`, `reles`, `gaps` |
| `action_distributions.py` | what an actor-critic draws its actions from |
| `completion.py` | the networks of four schedulers trained for completion time: `--objective completion` |
| `imitation.py` | a network learns to answer as another scheduler would; where `completion.py` begins |
| `foreseen.py` | when packets arrive, by regression; a program of its own: `python -m weftway.learn.train.foreseen` |
| `command.py` | `weft train` |
"""

ALGORITHMS = {
    "dqn": "weftway.learn.train.dqn",
    "rosello": "weftway.learn.train.rosello",
    "lee-yoo": "weftway.learn.train.lee_yoo",
    "evolved": "weftway.learn.train.evolved",
    "falcon": "weftway.learn.train.falcon",
    "rlds": "weftway.learn.train.rlds",
    "pdaa3c": "weftway.learn.train.pdaa3c",
    "reles": "weftway.learn.train.reles",
    "gaps": "weftway.learn.train.gaps",
    "stsgat": "weftway.learn.train.stsgat",
    "stsgat-study": "weftway.learn.train.study",
}
"""Modules of the algorithms, each with `Args` and `train`."""

REPLACED = "weftway.learn.train.completion"
"""The training that `--objective completion` means: the same networks, trained for the time until data have arrived."""

FOR_COMPLETION = ("dqn", "falcon", "lee-yoo", "evolved")
"""The schedulers whose networks it trains."""

ALIASES = {"a3c": "pdaa3c", "pdastsgat": "stsgat"}
"""Other names that people type."""
