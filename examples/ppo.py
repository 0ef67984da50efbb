"""PPO in one file, with numpy alone: an agent with a reward of its own learns when to wait for the fast path.

    ./weft python examples/ppo.py                         # mine.safetensors, mine.svg, and a table
    ./weft compare short-chunks --scheduler mine.safetensors,min-rtt,ecf

Whenever the fast path is full and the slow one has room, the agent waits (0) or sends on the slow one (1). It observes
the eighteen numbers of the task `wait-or-send:state=controller`. Its reward is its own, a function of the raw state:
what arrives in order, less the time that passes. The style is CleanRL's: everything is here, top to bottom.
Schulman et al. 2017, "Proximal Policy Optimization Algorithms"; the generalised advantage of Schulman et al. 2015.
"""

import argparse
import json
import time
from pathlib import Path

import altair
import gymnasium
import numpy as np
import polars

import weftway
import weftway.env

TASK = "wait-or-send:state=controller"

parser = argparse.ArgumentParser(description="Trains a scheduler with PPO.")
parser.add_argument("--scenario", default="short-chunks", help="a file, or one of ours by its name")
parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the scenario")
parser.add_argument("--out", type=Path, default=Path("mine.safetensors"))
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--steps", type=int, default=1_000_000, help="decisions of all environments together")
parser.add_argument("--envs", type=int, default=32)
parser.add_argument("--rollout", type=int, default=128, help="steps of each environment between two updates")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--minibatch", type=int, default=512)
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--gae-lambda", type=float, default=0.98)
parser.add_argument("--clip", type=float, default=0.2)
parser.add_argument("--entropy", type=float, default=0.03)
parser.add_argument("--hidden", type=int, default=32)
parser.add_argument("--seeds", default="0..10", help="of the comparison at the end; training draws others")
args = parser.parse_args()


def progress(before, actions, after):
    """One for each 10 kB that arrive in order, less one for each 10 ms that pass: positive above 8 Mbit/s.

    The arguments are raw states, a row per environment. Time alone would be no good reward: decisions are not evenly
    spaced, and a discounted agent would rather decide often than be done soon.
    """
    return (after["una"] - before["una"]) / 1e4 - (after["now_ms"] - before["now_ms"]) / 10


class Network:
    """Dense layers with tanh between them, and Adam."""

    def __init__(self, sizes, rng, last):
        scales = [*(1 / np.sqrt(n) for n in sizes[:-2]), last]
        shapes = zip(sizes[:-1], sizes[1:], scales, strict=True)
        self.layers = [[rng.normal(0, scale, (n, m)), np.zeros(m)] for n, m, scale in shapes]
        self.moments = [[np.zeros_like(part) for part in layer] for layer in [*self.layers, *self.layers]]
        self.updates = 0

    def __call__(self, x):
        """The outputs; what each layer was given is kept for `descend`."""
        self.given = [x]
        for w, b in self.layers[:-1]:
            self.given.append(np.tanh(self.given[-1] @ w + b))
        w, b = self.layers[-1]
        return self.given[-1] @ w + b

    def descend(self, slope, rate):
        """One step of Adam, from the slope of the loss by the outputs of the last call."""
        grads = []
        for (w, _), x in zip(reversed(self.layers), reversed(self.given), strict=True):
            grads.append([x.T @ slope, slope.sum(0)])
            slope = (slope @ w.T) * (1 - x**2)
        grads.reverse()
        norm = np.sqrt(sum((part**2).sum() for layer in grads for part in layer))
        self.updates += 1
        for number, layer in enumerate(self.layers):
            first, second = self.moments[number], self.moments[number + len(self.layers)]
            for at, grad in enumerate(grads[number]):
                grad = grad * min(1, 0.5 / (norm + 1e-8))
                first[at] += 0.1 * (grad - first[at])
                second[at] += 0.001 * (grad**2 - second[at])
                unbiased = (first[at] / (1 - 0.9**self.updates), second[at] / (1 - 0.999**self.updates))
                layer[at] -= rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


scenario = weftway.scenario.load(args.scenario, args.set)
envs = gymnasium.make_vec(
    "weftway/Packet-v0",
    args.envs,
    "vector_entry_point",
    scenario=scenario,
    task=TASK,
    seed=args.seed,
    reward=progress,
)
rng = np.random.default_rng(args.seed)
(inputs,) = envs.single_observation_space.shape
actor = Network([inputs, args.hidden, 2], rng, last=0.01)
critic = Network([inputs, args.hidden, 1], rng, last=1.0)
# It begins by waiting mostly: what one packet more on the slow path brings shows only where few are sent there.
actor.layers[-1][1][:] = [1, -1]

obs, _ = envs.reset(seed=args.seed)
curve, ended, began = [], [], time.perf_counter()
updates = args.steps // (args.envs * args.rollout)
for update in range(updates):
    rate = args.learning_rate * (1 - update / updates)

    # Play: what was observed, done, earned, and whether the episode was over then.
    shape = (args.rollout, args.envs)
    seen, done = np.zeros((*shape, inputs)), np.zeros(shape)
    actions, rewards, logs = np.zeros(shape, int), np.zeros(shape), np.zeros(shape)
    for step in range(args.rollout):
        seen[step] = obs
        log = log_softmax(actor(obs))
        actions[step] = rng.random(args.envs) < np.exp(log[:, 1])
        logs[step] = log[np.arange(args.envs), actions[step]]
        obs, rewards[step], terminated, truncated, infos = envs.step(actions[step])
        done[step] = terminated | truncated
        if "final_info" in infos:
            row = infos["final_info"]["row"]
            ended += [ms for ms in row["fct_ms"][infos["final_info"]["_row"]] if ms is not None]

    # What was better than expected.
    values = critic(np.concatenate([seen, obs[None]]).reshape(-1, inputs)).reshape(args.rollout + 1, args.envs)
    advantages, ahead = np.zeros(shape), np.zeros(args.envs)
    for step in reversed(range(args.rollout)):
        goes_on = 1 - done[step]
        surprise = rewards[step] + args.gamma * goes_on * values[step + 1] - values[step]
        ahead = surprise + args.gamma * args.gae_lambda * goes_on * ahead
        advantages[step] = ahead
    returns = advantages + values[:-1]

    # Learn from it, some times over.
    flat = (seen.reshape(-1, inputs), actions.ravel(), logs.ravel(), advantages.ravel(), returns.ravel())
    for _ in range(args.epochs):
        order = rng.permutation(len(flat[1]))
        for start in range(0, len(order), args.minibatch):
            x, action, old, advantage, target = (part[order[start : start + args.minibatch]] for part in flat)
            n, rows = len(x), np.arange(len(x))
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            log = log_softmax(actor(x))
            chances = np.exp(log)
            ratio = np.exp(log[rows, action] - old)
            # The clipped objective has no slope where the ratio has left the range in the direction that it pays.
            is_free = np.where(advantage > 0, ratio < 1 + args.clip, ratio > 1 - args.clip)
            slope = chances * (is_free * advantage * ratio)[:, None]
            slope[rows, action] -= is_free * advantage * ratio
            entropy = -(chances * log).sum(1, keepdims=True)
            slope += args.entropy * chances * (log + entropy)
            actor.descend(slope / n, rate)
            critic.descend((critic(x)[:, 0] - target)[:, None] / n, rate)

    if ended and update % 10 == 9:
        played = (update + 1) * args.envs * args.rollout
        curve.append({"steps": played, "fct_ms": float(np.mean(ended)), "seed": args.seed})
        print(f"{played:8} decisions: {curve[-1]['fct_ms']:6.1f} ms over {len(ended)} episodes", flush=True)
        ended.clear()

# The actor becomes a scheduler: the same file runs in `weft compare`, on QUIC and in `weft send`.
card = {"trained_on": str(args.scenario), "cc": "cubic", "seed": str(args.seed), "steps": str(args.steps)}
weftway.export([tuple(layer) for layer in actor.layers], TASK, args.out, activation="tanh", card=card)
print(f"{args.out}: {time.perf_counter() - began:.0f} s")

args.out.with_suffix(".jsonl").write_text("".join(f"{json.dumps(point)}\n" for point in curve))
chart = altair.Chart(polars.DataFrame(curve), width=480, height=240).mark_line()
axes = chart.encode(
    x=altair.X("steps:Q", title="decisions"),
    y=altair.Y("fct_ms:Q", title="completion time in training (ms)", scale=altair.Scale(zero=False)),
)
axes.save(args.out.with_suffix(".svg"))

print(weftway.compare(scenario, scheduler=[args.out, "min-rtt", "ecf", "blest"], seeds=args.seeds))
