"""Ranges of a policy's inputs in training: its file's `low` and `high`, beyond which it is not asked."""

import numpy as np

from weftway.vector import Floats

BINS = 2048
"""Bins of the histogram that ranges are read from."""


class InputRanges:
    """Histogram of each input in training, between the bounds that its task states."""

    def __init__(self, low: Floats, high: Floats) -> None:
        self._low, self._width = low, np.maximum(high - low, 1e-6)
        self._counts = np.zeros((len(low), BINS), np.int64)
        self._inputs = np.arange(len(low))

    def add(self, obs: Floats) -> None:
        """Counts rows (…, inputs)."""
        bins = ((obs - self._low) / self._width * BINS).astype(np.int64).clip(0, BINS - 1)
        np.add.at(self._counts, (np.broadcast_to(self._inputs, bins.shape), bins), 1)

    def merge(self, other: "InputRanges") -> None:
        """Counts what the other has counted."""
        self._counts += other._counts

    def bounds(self) -> tuple[Floats, Floats]:
        """Range from the 0.1 to the 99.9 percentile, wider by a tenth on either side and by 1 % of the stated range.

        The hundredth is what an input has that was the same throughout.
        """
        share = self._counts.cumsum(1) / np.maximum(self._counts.sum(1, keepdims=True), 1)
        least = (share > 0.001).argmax(1) / BINS
        most = ((share >= 0.999).argmax(1) + 1) / BINS
        margin = 0.1 * (most - least) + 0.01
        low, high = self._low + (least - margin) * self._width, self._low + (most + margin) * self._width
        return low.astype(np.float32), high.astype(np.float32)
