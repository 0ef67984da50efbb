"""When probes leave: in each step a train of full packets back to back, then single small ones."""

STEP_NS = 500_000_000
"""From one line of the drive to the next: as in the drives that Weftway comes with."""

TRAIN = 4
"""Packets of a train. Two tell the least about a rate, many are load."""

SINGLES_NS = (100_000_000, 200_000_000, 300_000_000, 400_000_000)
"""When in a step the single ones leave."""

PER_STEP = TRAIN + len(SINGLES_NS)

SINGLE_BYTES = 64


def due_ns(number: int) -> int:
    """When the probe with this number leaves, from the path's begin.

    >>> [due_ns(number) // 1_000_000 for number in range(10)]
    [0, 0, 0, 0, 100, 200, 300, 400, 500, 500]
    """
    step, place = divmod(number, PER_STEP)
    return step * STEP_NS + (0 if place < TRAIN else SINGLES_NS[place - TRAIN])


def in_train(number: int) -> int | None:
    """The number of the train that the probe belongs to.

    >>> [in_train(number) for number in (0, 3, 4, 7, 8)]
    [0, 0, None, None, 1]
    """
    step, place = divmod(number, PER_STEP)
    return step if place < TRAIN else None


def between(begin_ns: int, end_ns: int) -> range:
    """The probes that leave from `begin_ns` on and before `end_ns`.

    >>> between(100_000_000, 500_000_000), between(0, 1)
    (range(4, 8), range(0, 4))
    """
    return range(_from(begin_ns), _from(end_ns))


def _from(time_ns: int) -> int:
    """The first probe that leaves at this time or later."""
    if time_ns <= 0:
        return 0
    step, rest = divmod(time_ns, STEP_NS)
    return step * PER_STEP + (0 if rest == 0 else TRAIN + sum(rest > one for one in SINGLES_NS))
