"""Tables that the command prints: goals and groups, then the cases that differ most and the pairs in another order."""

from collections.abc import Sequence

from rich.text import Text

from weftway.report.numbers import whole_percent
from weftway.terminal.table import Cells, Column, Table, Value, numbers, plain, texts, wrapped

from ..tables import PERCENT, SHARE, percent, percents
from .cases import APART, FAR, NEAR, Agreement, Case, Goal, Group, Pair
from .runs import Measured

MOST = 15
"""Cases and pairs that are listed; `--json` and the page have all."""


def tables(measured: Measured, agreement: Agreement) -> list[Table | Text]:
    """All parts, in order; without a case to compare, only what was left out."""
    last: list[Table | Text] = [Text("\n".join(facts(measured, agreement)))]
    if not agreement.cases:
        return last
    parts: list[Table | Text] = [
        verdicts(agreement.goals),
        group_table(agreement.groups),
        case_table(agreement.cases[:MOST]),
    ]
    if swapped := misordered(agreement):
        parts.append(pair_table(swapped[:MOST]))
    return [*parts, *last]


def misordered(agreement: Agreement) -> list[Pair]:
    """The pairs that the simulator does not have in QUIC's order; the farthest apart first."""
    return sorted(
        (pair for pair in agreement.pairs if pair.sign < 1), key=lambda pair: -pair.slower.quic_ms / pair.faster.quic_ms
    )


def verdicts(goals: Sequence[Goal]) -> Table:
    marks = {True: Value("met", mark="best"), False: Value("missed", mark="bad")}
    rows = [(goal.name, goal.asked, goal.found, marks[goal.met]) for goal in goals]
    return plain("goals", [Column(), *numbers("asked", "measured"), Column()], rows)


def group_table(groups: Sequence[Group]) -> Table:
    within = [Column("within", part, right=True, title=f"within {part}") for part in map(whole_percent, (NEAR, FAR))]
    columns = [Column(), *numbers("cases"), percents("median"), percents("signed"), percents("p95"), *within]
    rows: list[Cells] = [
        (
            group.name,
            str(group.cases),
            percent(group.middle),
            percent(group.signed, is_signed=True),
            percent(group.p95),
            *(PERCENT.value(part) for part in (group.near, group.far)),
        )
        for group in groups
    ]
    return plain("difference of the times: sim over quic, less one", columns, rows)


def case_table(cases: Sequence[Case]) -> Table:
    rows = []
    for case in cases:
        times = [SHARE.signed(case.difference), f"{case.sim_ms:.1f}", f"{case.quic_ms:.1f}"]
        resent = ["" if n is None else f"{n:.0f}" for n in (case.sim_retransmissions, case.quic_retransmissions)]
        rows.append([*times, *resent, case.scheduler, case.cc, case.setting])
    heads = numbers("%", "sim ms", "quic ms", "resent\nsim", "resent\nquic")
    title = "the cases that differ most: medians over the seeds"
    return plain(title, [*heads, *texts("scheduler", "cc"), *wrapped("setting")], rows)


def pair_table(pairs: Sequence[Pair]) -> Table:
    rows = []
    for pair in pairs:
        first, second = pair.faster, pair.slower
        times = [f"{a:.1f} / {b:.1f}" for a, b in ((first.quic_ms, second.quic_ms), (first.sim_ms, second.sim_ms))]
        rows.append([*times, f"{first.scheduler} / {second.scheduler}", first.cc, first.setting])
    columns = [*numbers("quic ms", "sim ms"), *wrapped("schedulers"), *texts("cc"), *wrapped("setting")]
    return plain("schedulers in another order: the first is faster on quic", columns, rows)


def facts(measured: Measured, agreement: Agreement) -> list[str]:
    """Lines that say how much was run, what was left out, and why."""
    settings = len({(case.setting, case.cc) for case in agreement.cases})
    lines = [
        f"{len(agreement.cases)} cases in {settings} settings, {len(measured.rows)} runs, {measured.seconds:.0f} s",
        f"pairs differ by more than {100 * APART:.0f} % on quic",
    ]
    lines += [
        f"{group.name} beside itself, one half of the seeds against the other: "
        f"median {PERCENT.value(group.middle)}, 95th percentile {PERCENT.value(group.p95)}"
        for group in agreement.halves
    ]
    lines += [measured.others] if measured.others else []
    if agreement.unfinished:
        lines.append(f"{agreement.unfinished} seeds left out: one of the stacks did not finish within the time limit")
    return [*lines, *(f"{name}: not run: {reason}" for name, reason in measured.skipped.items())]
