"""End of a training: the margin, if it is to be cautious, and the policy's file."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from weftway.learn.train import caution
from weftway.learn.train.curve import Point
from weftway.learn.train.export import Policy, write_policy
from weftway.learn.train.session import Trained, TrainingArgs


def finish(
    args: TrainingArgs,
    card: Mapping[str, str],
    tensors: Mapping[str, ArrayLike],
    results: tuple[list[Point], dict[str, Any]],
) -> Trained:
    """Writes the policy if a folder is named; `results` are the curve and the held-out figures."""
    single = {name: np.asarray(value, np.float32) for name, value in tensors.items()}
    if args.cautious:
        card = {**card, **caution.margin(args, card, single)}
    file = args.file("safetensors")
    if file:
        write_policy(file, card, single)
    return Trained(Policy(dict(card), single), *results, file)
