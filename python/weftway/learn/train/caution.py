"""Margin by which a choice has to lead before it is taken.

A policy that is better on the average may still lose often: where it hardly prefers its choice, the choice is as good
as chance. The card's `margin` says how far the best output has to lead the next; below it the fallback decides. It is
found on the training's own scenarios: the smallest quantile of the leads that occur with which no more than `LOSES`
of these are finished later than under min-RTT, by more than 5 %. These are the first of the distribution's training
part, whatever numbers of paths STSGAT's `counts` leaves out.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from weftway._native import Policy
from weftway.evaluate import Request, run
from weftway.learn.train import export
from weftway.learn.train.session import ChooseActions, TrainingArgs, evaluate
from weftway.sample import distribution
from weftway.stats.pairs import summary
from weftway.vector import Flags, Floats

INSTANCES = 120
"""Scenarios of the training on which margins are compared."""

LOSES = 0.05
"""The share of them that a policy may lose: half of what is asked of it where it is evaluated."""

QUANTILES = (0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.97, 0.99)
"""Quantiles of the leads: the margins that are tried; after them one that no lead reaches."""


def leads(outputs: Floats) -> Floats:
    """Lead of the best output of each row (…, choices) over the next; infinite where there is no other."""
    none = np.full((*outputs.shape[:-1], 1), -np.inf, np.float32)
    ordered = np.sort(np.concatenate([outputs, none], -1))
    lead: Floats = ordered[..., -1] - ordered[..., -2]
    return lead


class Watched:
    """Decides as `crates/sched/src/learned/deployed.rs` does with a policy file, and remembers the leads."""

    def __init__(self, file: Path, head: str, seed: int) -> None:
        self._policy, self._head, self._rng = Policy(file), head, np.random.default_rng(seed)
        self.leads: list[Floats] = []

    def choose(self, obs: Floats, mask: Flags) -> Floats | npt.NDArray[np.intp]:
        """Actions of every place."""
        rows = np.ascontiguousarray(obs, np.float32)
        out = np.zeros((len(rows), self._policy.outputs), np.float32)
        self._policy.forward(rows, out)
        # An answer may be several indices, each of as many choices. Of these the least lead counts.
        each = np.where(mask[:, None], out.reshape(len(rows), -1, mask.shape[1]), np.float32(-np.inf))
        if self._head in ("sample", "shares"):
            each = np.exp(each - each.max(-1, keepdims=True))
            each /= each.sum(-1, keepdims=True)
        self.leads.append(leads(each).min(-1))
        if self._head == "shares":
            shares: Floats = each[:, 0]
            return shares
        if self._head == "sample":
            passed = self._rng.random((*each.shape[:-1], 1)) >= each.cumsum(-1)
            drawn: npt.NDArray[np.intp] = passed.sum(-1).clip(max=each.shape[-1] - 1)
            return drawn
        largest: npt.NDArray[np.intp] = each.argmax(-1)
        return largest


def margins(args: TrainingArgs, file: Path, card: Mapping[str, str]) -> list[float]:
    """Margins to try, smallest first."""
    variants = distribution.load(args.distribution).pool(args.seed, args.held_out)
    watched = Watched(file, card["head"], args.seed)
    decide: ChooseActions = watched.choose
    evaluate(args.held_out_env(card["task"], variants), decide)
    every = np.concatenate(watched.leads)
    every = every[np.isfinite(every)]
    quantiles = [0.0]
    if len(every):
        quantiles += [*np.quantile(every, QUANTILES[1:]).tolist(), float(every.max()) * 1.01]
    return sorted({float(f"{margin:.6g}") for margin in quantiles})


def margin(args: TrainingArgs, card: Mapping[str, str], tensors: Mapping[str, npt.ArrayLike]) -> dict[str, str]:
    """Entries of the card for the margin, and for how it was found."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "0.safetensors"
        export.write_policy(file, card, tensors)
        tried = margins(args, file, card)
        files = [Path(folder) / f"{place}.safetensors" for place in range(len(tried))]
        for tried_margin, place in zip(tried, files, strict=True):
            export.write_policy(place, {**card, "margin": f"{tried_margin:.6g}"}, tensors)
        request = Request(
            ",".join(f"at-{place}={file}" for place, file in enumerate(files)),
            args.distribution,
            "min-rtt",
            args.cc,
            INSTANCES,
            args.seed,
            split="train",
        )
        frame = run(request, args.threads, None).frame
        lines = summary(frame).unique("scheduler", keep="first", maintain_order=True).to_dicts()
        shares = {line["scheduler"]: line["lost_share"] for line in lines}
    lost = [shares[f"at-{place}"] for place in range(len(tried))]
    best = next((at for at, share in enumerate(lost) if share <= LOSES), len(tried) - 1)
    without, with_it = 100 * lost[0], 100 * lost[best]
    sentence = (
        f"lost {without:.1f} % of {INSTANCES} training instances by more than 5 % without it, {with_it:.1f} % with it"
    )
    return {"margin": f"{tried[best]:.6g}", "margin_found": sentence}
