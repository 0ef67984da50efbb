"""Experience: delayed rewards bound to their decisions, and the memory that a learner draws from.

A decision of a place becomes a transition when both halves are known: what it earned (rewards come late, and not in
the order of the decisions) and what was seen at the place's next decision. A decision that an episode ended with has
no next one. Of a decision whose episode ended before its reward was known nothing is learned.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weftway.vector import Closed, Flags, Floats, Numbers, Vector

WINDOW = 4096
"""So many decisions of a place may wait for their rewards; older ones are forgotten."""


class Transitions(NamedTuple):
    """One row per decision."""

    seen: Floats
    action: Numbers
    reward: Floats
    following: Floats
    """What was seen at the next decision."""
    open: Flags
    """Which choices were open there."""
    ended: Flags
    """There was none: the episode was over."""


class Delayed:
    """The decisions of every place whose transitions are not complete, in a ring per place.

    Each decision has the slot of its number modulo the ring's length, so nothing is searched for.
    """

    def __init__(self, places: int, inputs: int, choices: int, window: int = WINDOW) -> None:
        self._window = window
        self._seen = np.zeros((places, window, inputs), np.float32)
        self._open = np.zeros((places, window, choices), np.bool_)
        self._action = np.zeros((places, window), np.int64)
        self._reward = np.zeros((places, window), np.float32)
        self._number = np.full((places, window), -1, np.int64)
        self._is_paid = np.zeros((places, window), np.bool_)
        self._is_followed = np.zeros((places, window), np.bool_)
        self._ended = np.zeros((places, window), np.bool_)
        self._places = np.arange(places)
        self._now = np.zeros(places, np.int64)

    def see(self, seen: Floats, open_: Flags, numbers: Numbers) -> None:
        """Every place waits for the decision of its number, and sees this."""
        at = (self._places, numbers % self._window)
        self._seen[at], self._open[at], self._number[at] = seen, open_, numbers
        self._reward[at] = 0.0
        for flag in (self._is_paid, self._is_followed, self._ended):
            flag[at] = False
        self._now = numbers.copy()

    def step(self, actions: Numbers, closed: Closed, ended: Flags, then: tuple[Floats, Flags, Numbers]) -> Transitions:
        """Every place took its action; `then` is what `see` is told next. What is complete by now.

        The order is that of the places and of the slots: it does not depend on when rewards came.
        """
        before, after = self._now, then[2]
        at = (self._places, before % self._window)
        self._action[at] = actions
        # An answer that was not carried out has made no decision, and the next question has its number. If the
        # episode is over, what the decision before led to is not known: the slot is the next episode's.
        moved = after != before
        self._is_followed[at], self._ended[at] = moved, moved & ended
        cut = ended & ~moved
        self._number[self._places[cut], (before[cut] - 1) % self._window] = -1
        self.see(*then)
        slots = closed.decision % self._window
        known = self._number[closed.place, slots] == closed.decision
        place, slot = closed.place[known].astype(np.int64), slots[known]
        np.add.at(self._reward, (place, slot), closed.reward[known])
        self._is_paid[place, slot] = True
        return self._complete(place * self._window + slot, (self._places * self._window + at[1])[moved])

    def _complete(self, paid: Numbers, followed: Numbers) -> Transitions:
        """The complete ones among those that something happened to."""
        at = np.divmod(np.unique(np.concatenate([paid, followed])), self._window)
        ready = self._is_paid[at] & self._is_followed[at]
        place, slot = at[0][ready], at[1][ready]
        self._number[place, slot] = -1
        following = (place, (slot + 1) % self._window)
        return Transitions(
            self._seen[place, slot],
            self._action[place, slot],
            self._reward[place, slot],
            self._seen[following],
            self._open[following],
            self._ended[place, slot],
        )


class Memory:
    """The newest transitions, to draw batches from."""

    def __init__(self, capacity: int, inputs: int, choices: int) -> None:
        self.capacity = capacity
        self.added = 0
        """How many there have been; the memory holds the last of them."""
        self._rows = Transitions(
            np.zeros((capacity, inputs), np.float32),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.float32),
            np.zeros((capacity, inputs), np.float32),
            np.zeros((capacity, choices), np.bool_),
            np.zeros(capacity, np.bool_),
        )

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, rows: Transitions) -> None:
        """Adds transitions; the oldest make room."""
        count = len(rows.reward)
        kept = range(max(0, count - self.capacity), count)
        at = (self.added + np.asarray(kept, np.int64)) % self.capacity
        pairs: Any = zip(self._rows, rows, strict=True)
        for mine, new in pairs:
            mine[at] = new[kept.start :]
        self.added += count

    def draw(self, rng: np.random.Generator, batches: int, size: int) -> Transitions:
        """Batches (batches, size, …) of equally likely transitions, with repetition."""
        at = rng.integers(0, len(self), (batches, size))
        rows: list[Any] = [rows[at] for rows in self._rows]
        return Transitions(*rows)


BINS = 2048
"""Of the histogram that ranges are read from."""


class Ranges:
    """Where the inputs lay in training: a histogram of each between the bounds that its task states."""

    def __init__(self, low: Floats, high: Floats) -> None:
        self._low, self._width = low, np.maximum(high - low, 1e-6)
        self._counts = np.zeros((len(low), BINS), np.int64)
        self._inputs = np.arange(len(low))

    def add(self, seen: Floats) -> None:
        """Counts rows (…, inputs)."""
        bins = ((seen - self._low) / self._width * BINS).astype(np.int64).clip(0, BINS - 1)
        np.add.at(self._counts, (np.broadcast_to(self._inputs, bins.shape), bins), 1)

    def merge(self, other: "Ranges") -> None:
        """Counts what the other has counted."""
        self._counts += other._counts

    def bounds(self) -> tuple[Floats, Floats]:
        """From the 0.1 to the 99.9 percentile, wider by a tenth on either side and by 1 % of the stated range.

        The hundredth is what an input has that was the same throughout.
        """
        share = self._counts.cumsum(1) / np.maximum(self._counts.sum(1, keepdims=True), 1)
        least = (share > 0.001).argmax(1) / BINS
        most = ((share >= 0.999).argmax(1) + 1) / BINS
        margin = 0.1 * (most - least) + 0.01
        low, high = self._low + (least - margin) * self._width, self._low + (most + margin) * self._width
        return low.astype(np.float32), high.astype(np.float32)


class Practice:
    """A vector environment with its bookkeeping: what it has come to follows from its actions alone.

    So a training is resumed by taking the same actions again, which a simulation does faster than it learned.
    """

    def __init__(self, vector: Vector, capacity: int) -> None:
        self.vector = vector
        self.memory = Memory(capacity, vector.inputs, vector.choices)
        self.ranges = Ranges(vector.low, vector.high)
        self.steps = 0
        """Of every place."""
        self._delayed = Delayed(vector.envs, vector.inputs, vector.choices)
        self._taken: list[npt.NDArray[np.uint8]] = []
        self.seen = vector.reset()
        self.open = vector.masks()
        vector.closed()
        vector.episodes()
        self._delayed.see(self.seen, self.open, vector.decisions())

    def step(self, actions: Numbers) -> tuple[int, Floats]:
        """Takes the actions: how many transitions became complete, and the rewards that became known."""
        self._taken.append(np.asarray(actions, np.uint8))
        self.ranges.add(self.seen)
        step = self.vector.step(actions)
        self.seen, self.open, closed = step.seen, self.vector.masks(), self.vector.closed()
        then = (self.seen, self.open, self.vector.decisions())
        found = self._delayed.step(actions, closed, step.terminated | step.truncated, then)
        self.memory.add(found)
        self.steps += 1
        return len(found.reward), closed.reward

    @property
    def taken(self) -> npt.NDArray[np.uint8]:
        """The actions so far: (steps, places)."""
        return np.array(self._taken, np.uint8).reshape(self.steps, self.vector.envs)

    def retrace(self, taken: npt.NDArray[np.uint8]) -> None:
        """Takes these actions again, from the beginning."""
        for actions in taken:
            self.step(actions.astype(np.int64))
        self.vector.episodes()
