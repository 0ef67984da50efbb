"""What the command prints: goals and groups, then the cases that differ most and the pairs in another order."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from ..tables import PERCENT, SHARE, plain
from .cases import APART, FAR, NEAR, Agreement, Case, Goal, Group, Pair
from .runs import Measured

MOST = 15
"""Cases and pairs that are listed; `--json` and the page have all."""


def tables(measured: Measured, found: Agreement) -> list[Table | Text]:
    """All parts, in order; without a case to compare, only what was left out."""
    last: list[Table | Text] = [Text("\n".join(facts(measured, found)))]
    if not found.cases:
        return last
    parts: list[Table | Text] = [verdicts(found.goals), group_table(found.groups), case_table(found.cases[:MOST])]
    if swapped := misordered(found):
        parts.append(pair_table(swapped[:MOST]))
    return [*parts, *last]


def misordered(found: Agreement) -> list[Pair]:
    """The pairs that the simulator does not have in QUIC's order; the farthest apart first."""
    return sorted(
        (pair for pair in found.pairs if pair.sign < 1), key=lambda pair: -pair.slower.quic_ms / pair.faster.quic_ms
    )


def verdicts(goals: Sequence[Goal]) -> Table:
    table = plain("goals")
    for head in ("", "asked", "measured", ""):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for goal in goals:
        verdict = Text("met", style="bold green") if goal.met else Text("missed", style="bold red")
        table.add_row(goal.name, goal.asked, goal.found, verdict)
    return table


def group_table(found: Sequence[Group]) -> Table:
    table = plain("difference of the times: sim over quic, less one")
    heads = ("cases", "median\n%", "signed\n%", "p95\n%", f"within\n{100 * NEAR:.0f} %", f"within\n{100 * FAR:.0f} %")
    for head in ("", *heads):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for one in found:
        percents = [SHARE.number(one.middle), SHARE.signed(one.signed), SHARE.number(one.p95)]
        table.add_row(one.name, str(one.cases), *percents, *(PERCENT.value(part) for part in (one.near, one.far)))
    return table


def case_table(cases: Sequence[Case]) -> Table:
    table = plain("the cases that differ most: medians over the seeds")
    for head in ("%", "sim ms", "quic ms", "resent\nsim", "resent\nquic"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("scheduler", "cc", "setting"):
        table.add_column(head, no_wrap=head != "setting", overflow="fold")
    for one in cases:
        times = [f"{one.sim_ms:.1f}", f"{one.quic_ms:.1f}"]
        resent = [
            f"{known:.0f}" if known is not None else "" for known in (one.sim_retransmissions, one.quic_retransmissions)
        ]
        table.add_row(SHARE.signed(one.difference), *times, *resent, one.scheduler, one.cc, one.setting)
    return table


def pair_table(pairs: Sequence[Pair]) -> Table:
    table = plain("schedulers in another order: the first is faster on quic")
    for head in ("quic ms", "sim ms"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("schedulers", "cc", "setting"):
        table.add_column(head, no_wrap=head == "cc", overflow="fold")
    for pair in pairs:
        both = (pair.faster, pair.slower)
        times = [
            " / ".join(f"{value:.1f}" for value in some)
            for some in zip(*((b.quic_ms, b.sim_ms) for b in both), strict=True)
        ]
        table.add_row(*times, f"{pair.faster.scheduler} / {pair.slower.scheduler}", pair.faster.cc, pair.faster.setting)
    return table


def facts(measured: Measured, found: Agreement) -> list[str]:
    """How much was run, what was left out and why; a line each."""
    settings = len({(one.setting, one.cc) for one in found.cases})
    lines = [
        f"{len(found.cases)} cases in {settings} settings, {len(measured.rows)} runs, {measured.seconds:.0f} s",
        f"pairs differ by more than {100 * APART:.0f} % on quic",
    ]
    lines += [
        f"{one.name} beside itself, one half of the seeds against the other: "
        f"median {PERCENT.value(one.middle)}, 95th percentile {PERCENT.value(one.p95)}"
        for one in found.halves
    ]
    lines += [measured.others] if measured.others else []
    if found.unfinished:
        lines.append(f"{found.unfinished} seeds left out: one of the stacks did not finish within the time limit")
    return [*lines, *(f"{name}: not run: {reason}" for name, reason in measured.skipped.items())]
