"""Foreseen: a network learns from the simulator when packets arrive, and corrects what `earliest-delivery` predicts.

Supervised, so there is no reward and no exploration: in runs over drawn scenarios, at every few decisions, each path
that holds data gives a row: what a sender sees of it, and by how much the rule's own estimate of a packet's arrival is
off, which the links know. Round by round the network of the round before decides, so that it learns from where it
leads itself. Of what may come the network learns a quantile: it is asked how long to count on, not for the mean.

    python -m weftway.learn.train.foreseen --out foreseen-1 --seed 1

Reference: ours. Ancestors: Sprout (Winstein et al., NSDI 2013), which forecasts what a cellular link delivers by a
model of how rates change; DAgger (Ross et al., AISTATS 2011), for the rounds.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from weftway import _native
from weftway.learn.train import command, limits
from weftway.learn.train.export import Policy, write_policy
from weftway.learn.train.limits import Count, Pattern, Rate, Seed, SettingError, Share
from weftway.learn.train.session import UNRELATED, Progress, quiet
from weftway.rank import cells
from weftway.runs import plan, specs
from weftway.runs.job import Job
from weftway.terminal.console import PlainConsole
from weftway.terminal.progress import Bar

PROGRAM = "python -m weftway.learn.train.foreseen"
RULE = "earliest-delivery"
MOST_ROWS = 3000
"""Rows of one run, at most: long runs do not outweigh the others."""
LEAST_WEIGHT = 300
"""A run weighs as one, whatever its rows, but for runs with fewer than these."""
FARTHEST = 4.0
"""No label is larger, as a binary logarithm."""
MARGIN = 0.02
"""Share by which the ranges are wider than those of training, on either side."""
VALIDATED = 8
"""One run of so many is left out, and tells which epoch was the best."""
AT_ONCE = 8
"""Runs for each thread between two reports of how far it is."""
PART = r"[^:,]+:[1-9]\d*:[1-9]\d*"

Floats = NDArray[np.float32]
Weights = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Args:
    """Settings and their defaults."""

    seed: Seed = 1
    """Seed of the scenarios, the first weights and the order of the rows."""
    on: Annotated[
        str,
        Pattern(
            rf"{PART}(,{PART})*", "NAME:SCENARIOS:RUNS, several joined by commas, such as drives:250:2,world:200:1"
        ),
    ] = "drives:250:2,world:200:1"
    """Distributions, each with how many scenarios and runs of each; their training parts."""
    rounds: Count = 3
    """Rounds: in the first the rule decides, in each later one the network of the round before."""
    every: Count = 8
    """Decisions between two rows of a path."""
    epochs: Count = 20
    """Passes over all rows in each round."""
    batch: Count = 1024
    """Rows in a step of the optimiser."""
    learning_rate: Rate = 0.003
    """Learning rate of AdamW at its start; it falls to 0 (cosine)."""
    quantile: Share = 0.7
    """Share of arrivals like this one that come no later than is said."""
    width: Count = 32
    """Width of both hidden layers."""
    threads: Count = 1
    """Threads that run the simulations; the policy does not depend on it."""
    out: Path = Path("foreseen")
    """Folder for the policy of each round; the last one is `foreseen.safetensors`."""

    def __post_init__(self) -> None:
        """Checks all."""
        limits.check(self)

    def command(self) -> str:
        """The command that trains the same policy."""
        return shlex.join([*PROGRAM.split(), *limits.options(self, UNRELATED)])


@dataclass(frozen=True)
class Rows:
    """Observations, the right answers to them, and their runs."""

    seen: Floats
    off: Floats
    run: NDArray[np.int64]

    def joined(self, more: "Rows") -> "Rows":
        """Joins both, as different runs."""
        runs = np.concatenate([self.run, more.run + self.run.max() + 1])
        return Rows(np.concatenate([self.seen, more.seen]), np.concatenate([self.off, more.off]), runs)


def jobs(args: Args, number: int) -> Iterator[Job]:
    """The runs of a round: other scenarios in each."""
    [rule] = specs.parse(RULE)
    for part in args.on.split(","):
        name, count, runs = part.split(":")
        for cell in cells.read([name], int(count), args.seed * 1000 + number, "train"):
            for seed in range(int(runs)):
                yield plan.simulated(cell.variant, rule, cell.cc, seed)


def collect(args: Args, number: int, policy: Path | None, progress: Progress = quiet) -> Rows:
    """A round's rows, decided by the rule or by a policy. `progress` is told how many runs of how many are finished."""
    rng = np.random.default_rng([args.seed, number])
    seen: list[Floats] = []
    runs: list[NDArray[np.int64]] = []
    todo, at_once = list(jobs(args, number)), AT_ONCE * args.threads
    for begin in range(0, len(todo), at_once):
        for text in _native.arrivals(todo[begin : begin + at_once], args.threads, args.every, policy):
            rows = np.frombuffer(text, np.float32).reshape(-1, len(_native.arrival_inputs()) + 1)
            if len(rows) > MOST_ROWS:
                rows = rows[np.sort(rng.choice(len(rows), MOST_ROWS, replace=False))]
            runs.append(np.full(len(rows), len(seen)))
            seen.append(rows)
        progress(len(seen), len(todo))
    whole = np.concatenate(seen)
    return Rows(whole[:, :-1], np.clip(whole[:, -1], -FARTHEST, FARTHEST), np.concatenate(runs))


def forward(weights: Weights, x: Any) -> Any:
    """The network's answers, one number a row."""
    hidden = jax.nn.relu(x @ weights["w1"] + weights["b1"])
    hidden = jax.nn.relu(hidden @ weights["w2"] + weights["b2"])
    return (hidden @ weights["w3"] + weights["b3"])[:, 0]


def loss(weights: Weights, x: Any, y: Any, weight: Any, quantile: float) -> Any:
    """The pinball loss, whose least value is the quantile."""
    off = y - forward(weights, x)
    return (weight * jnp.maximum(quantile * off, (quantile - 1) * off)).mean()


def first_weights(inputs: int, width: int, seed: int) -> Weights:
    """The last layer says nothing, so that training begins as the rule."""
    first, second = jax.random.split(jax.random.PRNGKey(seed))
    return {
        "w1": jax.random.normal(first, (inputs, width)) * np.sqrt(2 / inputs),
        "b1": jnp.zeros(width),
        "w2": jax.random.normal(second, (width, width)) * np.sqrt(2 / width),
        "b2": jnp.zeros(width),
        "w3": jnp.zeros((width, 1)),
        "b3": jnp.zeros(1),
    }


@dataclass(frozen=True)
class Fitted:
    """A network, and what it is worth on the runs that were left out: mean errors as binary logarithms."""

    tensors: dict[str, Floats]
    rule_error: float
    error: float


def fit(args: Args, rows: Rows, progress: Progress = quiet) -> Fitted:
    """Trains a network; the best epoch counts. `progress` is told how many batches of how many it has learned from."""
    rng = np.random.default_rng(args.seed)
    runs = rng.permutation(np.unique(rows.run))
    if len(runs) < 2:
        raise SettingError(
            f"--on {args.on}, --every {args.every}: expected at least two runs with rows, one to learn from and one to "
            f"be left out; there {'is one' if len(runs) else 'are none'}"
        )
    out = np.isin(rows.run, runs[: max(len(runs) // VALIDATED, 1)])
    mean, spread = rows.seen.mean(0), rows.seen.std(0) + 1e-6
    x = ((rows.seen - mean) / spread).astype(np.float32)
    weight = 1 / np.maximum(np.bincount(rows.run)[rows.run], LEAST_WEIGHT)
    weight = (weight / weight.mean()).astype(np.float32)
    taught, left = (x[~out], rows.off[~out], weight[~out]), (x[out], rows.off[out], weight[out])
    batch = min(args.batch, len(taught[0]))
    steps = args.epochs * (len(taught[0]) // batch)
    optimiser = optax.adamw(optax.cosine_decay_schedule(args.learning_rate, steps), weight_decay=1e-4)

    @jax.jit
    def step(weights: Weights, state: Any, x: Any, y: Any, weight: Any) -> tuple[Weights, Any]:
        gradients = jax.grad(loss)(weights, x, y, weight, args.quantile)
        updates, state = optimiser.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state

    measure = jax.jit(lambda weights: loss(weights, *left, args.quantile))
    weights = first_weights(x.shape[1], args.width, args.seed)
    state = optimiser.init(weights)
    best = (float(measure(weights)), weights)
    done = 0
    for _ in range(args.epochs):
        order = rng.permutation(len(taught[0]))
        for start in range(0, len(order) - batch + 1, batch):
            at = order[start : start + batch]
            weights, state = step(weights, state, *(part[at] for part in taught))
            done += 1
            progress(done, steps)
        if (now := float(measure(weights))) < best[0]:
            best = (now, weights)
    tensors = {name: np.asarray(value, np.float64) for name, value in best[1].items()}
    errors = [
        np.average(np.abs(left[1] - prediction), weights=left[2])
        for prediction in (0, np.asarray(forward(best[1], left[0])))
    ]
    # The scales of the inputs go into the first layer: the scheduler gives what it sees as it is.
    tensors["b1"] = tensors["b1"] - (mean / spread) @ tensors["w1"]
    tensors["w1"] = tensors["w1"] / spread[:, None]
    low, high = rows.seen.min(0), rows.seen.max(0)
    tensors |= {"low": low - MARGIN * (high - low) - 1e-6, "high": high + MARGIN * (high - low) + 1e-6}
    return Fitted({name: value.astype(np.float32) for name, value in tensors.items()}, *map(float, errors))


def card(args: Args, fitted: Fitted, rows: int) -> dict[str, str]:
    """Card of the policy's file."""
    return {
        "algorithm": "quantile regression",
        "task": "arrival",
        "network": "mlp",
        "head": "values",
        "inputs": ",".join(_native.arrival_inputs()),
        "fallback": "off",
        "trained_on": f"{args.on} (name:scenarios:runs, training parts), {args.rounds} rounds of seed {args.seed}",
        "cc": "as drawn",
        "seed": str(args.seed),
        "steps": str(rows),
        "code": _native.CODE,
        "command": args.command(),
        "evaluation": f"mean error of arrivals on runs left out, as a binary logarithm: {fitted.error:.3f}; "
        f"the rule's own {fitted.rule_error:.3f}",
    }


def train(args: Args) -> Policy:
    """All rounds; the policy of each is in the folder, the last one as `foreseen.safetensors`."""
    args.out.mkdir(parents=True, exist_ok=True)
    console = PlainConsole(stderr=True, highlight=False, soft_wrap=True)
    rows: Rows | None = None
    policy: Path | None = None
    for number in range(1, args.rounds + 1):
        with Bar(console, "runs", f"of round {number} finished") as bar:
            more = collect(args, number - 1, policy, bar.tell)
        rows = rows.joined(more) if rows else more
        with Bar(console, "batches", f"of round {number} learned from") as bar:
            fitted = fit(args, rows, bar.tell)
        about = card(args, fitted, len(rows.run))
        policy = args.out / (f"round-{number}.safetensors" if number < args.rounds else "foreseen.safetensors")
        write_policy(policy, about, fitted.tensors)
        print(f"round {number} of {args.rounds}: {len(rows.run)} rows; {about['evaluation']}", flush=True)
    return Policy(about, dict(fitted.tensors))


def main(words: Sequence[str] | None = None) -> None:
    """Trains as the options say. A mistake is one line and the status that `weft` has for it."""
    with command.failures("foreseen", "interrupted; the policies of finished rounds are in the folder"):
        train(Args(**vars(command.parser(PROGRAM, Args).parse_args(words))))


if __name__ == "__main__":
    main()
