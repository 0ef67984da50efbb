"""The draws of a link's losses, worked out from their description and without the library's generator.

A seed and a path's name give the seeds of its two links (`path_seeds` in `crates/sim/src/sim.rs`); a link's losses are
a stream of PCG32 (`crates/link/src/lib.rs`), one number a packet.
"""

from collections.abc import Iterator

WORD = (1 << 64) - 1
GOLDEN = 0x9E37_79B9_7F4A_7C15
LOSS = 1
"""The number of the component that loses packets."""


def split_mix(z: int) -> int:
    """The output function of SplitMix64."""
    z = (z ^ (z >> 30)) * 0xBF58_476D_1CE4_E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D0_49BB_1331_11EB & WORD
    return z ^ (z >> 31)


def component(seed: int, number: int) -> int:
    """The seed of a component: SplitMix64, so many steps on."""
    return split_mix((seed + (number + 1) * GOLDEN) & WORD)


def fnv1a(name: str) -> int:
    value = 0xCBF2_9CE4_8422_2325
    for byte in name.encode():
        value = (value ^ byte) * 0x100_0000_01B3 & WORD
    return value


def link_seeds(seed: int, path: str) -> tuple[int, int]:
    """Seeds of the link that carries data and the one that carries acknowledgements."""
    data = component(seed ^ fnv1a(path), 0x1000)
    return data, component(data, 1)


def pcg32(state: int, stream: int) -> Iterator[int]:
    """PCG-XSH-RR with 64 bits of state, after O'Neill's `pcg_basic`."""
    increment = stream << 1 | 1
    current = (increment + state) * 6_364_136_223_846_793_005 + increment & WORD
    while True:
        shifted = ((current >> 18) ^ current) >> 27 & 0xFFFF_FFFF
        turn = current >> 59
        yield (shifted >> turn | shifted << (32 - turn)) & 0xFFFF_FFFF
        current = current * 6_364_136_223_846_793_005 + increment & WORD


def losses(link_seed: int, probability: float, packets: int) -> list[bool]:
    """Which of the first packets of a link are lost."""
    draws = pcg32(split_mix((link_seed + LOSS * GOLDEN) & WORD), LOSS)
    threshold = round(probability * (1 << 32))
    return [next(draws) < threshold for _ in range(packets)]
