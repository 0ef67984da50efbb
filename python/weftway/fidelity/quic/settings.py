"""Settings that both stacks run: our scenarios as Multipath QUIC, and cells drawn from a seed."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weftway._native import Scenario, Variant
from weftway.files import reading
from weftway.sample.quantities import rounded
from weftway.sample.stream import Stream
from weftway.scenario import HOME

from ..cells import Link, block, expected_mbps, link, link_keys, size

SCHEDULERS = ("min-rtt", "round-robin", "ecf", "blest", "earliest-delivery", "redundant")
CONTROLLERS = ("cubic", "newreno", "bbr1", "bbr2")
TRANSPORT = "mpquic"
MSS = 1200

PATHS = (2, 4)
BUFFER_KIB = (256, 4096)
"""The receive buffer. Buffers that grow by themselves are not run on QUIC."""
WORKLOADS = ("bulk", "messages", "deadline")
BULK_S = 5.0
"""Time that a transfer is sized for."""
CUT_OFF_S = 15
"""After which our own scenarios cut off a transfer that has no end, and a stream over a measured drive: they have up to
a minute, at up to 220 Mbit/s."""
MESSAGES = 600
"""Messages of a cell: six of them are slower than the 99th percentile."""
MESSAGE_KB = (1.0, 60.0)
LOAD = (0.2, 0.6)
"""Share of what the paths carry that the messages ask for."""
LEAST_PERIOD_MS = 2.0
DEADLINE_RTTS = 2.0
"""In round trips of the longest path."""


@dataclass(frozen=True)
class Setting:
    """A variant of a scenario under one controller. Its schedulers are compared with each other."""

    name: str
    workload: str
    cc: str
    drawn: bool
    variant: Variant

    @property
    def scenario(self) -> Scenario:
        return self.variant.scenario

    @property
    def key(self) -> tuple[str, str]:
        """Hash and controller that its rows have in common."""
        return self.variant.hash, self.cc


def ours(folder: Path = HOME / "scenarios", sets: Sequence[str] = ()) -> list[Setting]:
    """Every scenario of the repository, with the controllers that it names, carried by Multipath QUIC."""
    files = sorted(folder.glob("*.toml"))
    return [setting for file in files for setting in settings(as_quic(file, sets), drawn=False)]


def as_quic(file: Path, more: Sequence[str] = ()) -> Scenario:
    """The scenario with the transport that both stacks have. A transfer that is cut off is cut off sooner."""
    given = tomllib.loads(reading.text(file))
    sets = [] if given.get("transport") == TRANSPORT else [f"transport={TRANSPORT}"]
    workload = given.get("workload", {})
    if workload.get("kind") == "duration" or ("drive" in given and "duration" in workload):
        sets.append(f"workload.duration={CUT_OFF_S} s")
    return Scenario.load(str(file), [*sets, *more])


def settings(scenario: Scenario, drawn: bool) -> list[Setting]:
    workload = tomllib.loads(scenario.text).get("workload", {})
    kind = "deadline" if drawn and "deadline" in workload else workload.get("kind", "")
    variants = scenario.variants()
    return [
        Setting(titled(scenario, variant, len(variants)), kind, cc, drawn, variant)
        for variant in variants
        for cc in scenario.controllers
    ]


def titled(scenario: Scenario, variant: Variant, variants: int) -> str:
    """The scenario's name, and what was chosen where it varies."""
    if variants == 1:
        return scenario.name
    return f"{scenario.name} {', '.join(str(value) for value in variant.values.values())}"


def drawn(seed: int, count: int, folder: Path, sets: Sequence[str] = ()) -> list[Setting]:
    """The first `count` cells of a seed, written into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[Setting] = []
    for number in range(count):
        file = folder / f"drawn-{seed}-{number:03}.toml"
        file.write_text(text(seed, number), encoding="utf-8")
        drawn += settings(Scenario.load(str(file), list(sets)), drawn=True)
    return drawn


def text(seed: int, number: int) -> str:
    """Cell `number` of a seed as a scenario file: the same among few and among many."""
    stream = Stream(f"quic/{seed}/{number}")
    cc = CONTROLLERS[number % len(CONTROLLERS)]
    workload = stream.one_of(WORKLOADS)
    links = [link(stream) for _ in range(stream.count(*PATHS))]
    buffer = round(rounded(stream.log(BUFFER_KIB)))
    message, load = stream.log(MESSAGE_KB), stream.log(LOAD)
    rate = sum(expected_mbps(link, "bbr1" if cc.startswith("bbr") else cc, MSS) for link in links)
    head = [("title", f"cell {number} of seed {seed}"), ("transport", TRANSPORT), ("direction", "upload")]
    head.append(("cc", cc))
    work = bulk(rate) if workload == "bulk" else messages(rate * load, message, links, workload == "deadline")
    return "\n".join(
        [
            block(head),
            f"[options]\n{block([('receive_buffer', f'{buffer} KiB')])}",
            *(f"[path.p{k}]\n{block(link_keys(link))}" for k, link in enumerate(links, start=1)),
            f"[workload]\n{work}",
        ]
    )


def bulk(mbps: float) -> str:
    return block([("kind", "bulk"), ("bytes", size(max(round(rounded(mbps * 1e6 / 8 * BULK_S)), 100_000)))])


def messages(mbps: float, kilobytes: float, links: list[Link], late: bool) -> str:
    """Messages of one size at one period, which ask for `mbps`; with a deadline, or without."""
    count = round(rounded(kilobytes * 1e3))
    period = max(rounded(count * 8 / 1e3 / mbps), LEAST_PERIOD_MS)
    keys = [("kind", "messages"), ("size", f"{count} B"), ("period", f"{period:g} ms")]
    if late:
        keys.append(("deadline", f"{rounded(DEADLINE_RTTS * 2 * max(link.delay_ms for link in links)):g} ms"))
    return block(keys) + f"count = {MESSAGES}\n"
