//! With what share do packets go on path 1 in the next 50 ms?
//!
//! One decision every 50 ms, and a fresh one at each new chunk (message); the slots' clock is not
//! moved by it, so that a run has ⌈duration/50 ms⌉ decisions and one for each chunk that begins
//! within a slot.
//! Path 1 is the one of smaller number of the two fastest paths, full or not; path 2 the other.
//! Actions (`actions`): `split7`: 0 to 4 send each packet on path 1 with probability 0.1, 0.25,
//! 0.5, 0.75, 0.9, else on path 2; 5 uses path 1; 6 is min-RTT. `table1`: 0 waits for the fastest
//! path, 1 sends on the fastest with room. The coin is drawn once per packet, before it is needed.
//! Seen, each within [0, 4]: srtt over 100 ms, cwnd and bytes in flight over 100 kB, of path 1 and
//! path 2; then the peer's window left, the chunk's bytes not sent and not acknowledged, over 100 kB. With
//! `scale=least`, logarithms of ratios to the shorter time and the smaller window.
//! Earned: packets acknowledged from one question to the next, over 100; the decision that holds
//! when a chunk is through also earns `(1000 ms − T)/100 ms`, T the chunk's time from being written
//! less half a round trip of the path that completed it and less the acknowledgement delay. At the
//! end of a connection, chunks that have been sent whole count as through.
//! Reference: Lee and Yoo, 2022, whose public code has these nine inputs and seven actions; MPQUIC
//! comparison of min-RTT, ECF, BLEST, Q-learning, DQN and UCB, section 3.2.3 and Table 1.
//! Departs from print: the comparison counts ten inputs, and its text calls exploration the action.
//! What a full path means is not said: the others send (`mode=preferred`), or one waits. A sender
//! is not told how long an acknowledgement was held back: `ack_delay_ms` is taken off every chunk.

use std::collections::VecDeque;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Flow, Instant, Offset, Path, PathId, SendKind, Span};

use crate::learned::intervals::slots;
use crate::learned::intervals::task::{IntervalTask, Rule};
use crate::learned::pair::roles;
use crate::learned::pair::scale::{SCALE, Scaling};
use crate::learned::task::{Actions, Ledger, Shape, Task, TaskEntry};
use crate::shared::choose;
use crate::shared::epochs::{self, Epochs};
use crate::shared::rng::{PolicyRng, SEED};
use crate::{Mode, Needs};

pub(crate) static TASK: TaskEntry = TaskEntry {
    name: "split",
    summary: "the probability of path 1 in the next slot, path 1 alone, or min-RTT",
    needs: Needs { flow: true, wake: true, events: true, ..Needs::NONE },
    params: &[
        Param {
            name: "actions",
            default: "split7",
            values: "split7 | table1",
            doc: "seven ways to split, as in public code; or wait for the fastest path or not, as Table 1 of the comparison says",
        },
        Param {
            name: "interval_ms",
            default: "50",
            values: "milliseconds, 1 to 60000",
            doc: "from one question to the next",
        },
        Param { name: "w0_kb", default: "100", values: "kB, 1 to 1000000", doc: "the bytes that count as 1" },
        Param {
            name: "d0_ms",
            default: "100",
            values: "milliseconds, 1 to 10000",
            doc: "the round-trip time that counts as 1",
        },
        Param {
            name: "ack_delay_ms",
            default: "25",
            values: "milliseconds, 0 to 1000",
            doc: "taken off a chunk's time; 25 is QUIC's max_ack_delay",
        },
        SCALE,
        epochs::MODE,
        SEED,
    ],
    build,
};

/// Chunks under way; older ones are forgotten.
const CHUNKS: usize = 64;
/// The packets of a slot that earn 1, and the milliseconds.
const REWARD_SCALE: f64 = 100.0;
/// A chunk that takes so many milliseconds earns nothing.
const PAR_MS: f64 = 1000.0;

const SPLIT7: &[Action] = &[
    Action::Split(0.1),
    Action::Split(0.25),
    Action::Split(0.5),
    Action::Split(0.75),
    Action::Split(0.9),
    Action::First,
    Action::MinRtt,
];
const TABLE1: &[Action] = &[Action::WaitForFast, Action::MinRtt];

/// Meaning of an action.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Action {
    /// Path 1 with this probability.
    Split(f64),
    /// Path 1.
    First,
    MinRtt,
    WaitForFast,
}

fn build(params: &Params) -> Result<Box<dyn Task>, SpecError> {
    let rules = params.choice("actions", &[("split7", SPLIT7), ("table1", TABLE1)])?;
    let length = Span::from_millis(params.within("interval_ms", 1..=60_000)?);
    let of = |place: &'static str| ["srtt", "cwnd", "in_flight"].map(|name| format!("{name}.{place}"));
    let of_chunk = ["credit", "chunk.unsent", "chunk.unacked"].map(String::from);
    let names = [of("first"), of("second"), of_chunk].concat();
    let w0 = 1e3 * f64::from(params.within::<u32>("w0_kb", 1..=1_000_000)?);
    let d0 = 1e-3 * f64::from(params.within::<u32>("d0_ms", 1..=10_000)?);
    let scaling = Scaling::new(params, w0, d0)?;
    let inputs = names.into_iter().map(|name| scaling.input(name)).collect();
    let mut rng = PolicyRng::new(params.get("seed")?);
    let shape = Shape { inputs, actions: Actions::Discrete(rules.len()), interval: Some(length) };
    let rule = Split {
        rules,
        scaling,
        ack_delay: Span::from_millis(params.within("ack_delay_ms", 0..=1000)?),
        mode: epochs::mode(params)?,
        draw: rng.unit(),
        rng,
        is_due: false,
        newest: None,
        chunks: VecDeque::with_capacity(CHUNKS),
        acked: 0,
    };
    Ok(Box::new(IntervalTask::new(shape, Epochs::new(length, Span::ZERO), rule)))
}

#[derive(Clone)]
struct Split {
    rules: &'static [Action],
    scaling: Scaling,
    ack_delay: Span,
    mode: Mode,
    rng: PolicyRng,
    /// In [0, 1): where the packet at hand falls.
    draw: f64,
    is_due: bool,
    /// Start of the newest chunk.
    newest: Option<Offset>,
    /// End of each chunk under way, and the time at which it was written.
    chunks: VecDeque<(Offset, Instant)>,
    /// Packets since the last question was due.
    acked: u64,
}

/// The two fastest paths in the order of their numbers.
fn pair<'a>(cx: &Context<'a>) -> Option<[&'a Path; 2]> {
    let fast = roles::fast(cx)?;
    let other = choose::least(choose::standing(cx).filter(|path| path.id != fast.id), |path| path.srtt)?;
    Some(if other.id < fast.id { [other, fast] } else { [fast, other] })
}

impl Split {
    /// Notes a new chunk; returns true if `flow` has come to one.
    fn begins_chunk(&mut self, flow: &Flow, now: Instant) -> bool {
        if flow.message_end <= flow.next || self.newest == Some(flow.message_start) {
            return false;
        }
        self.newest = Some(flow.message_start);
        if self.chunks.len() == CHUNKS {
            self.chunks.pop_front();
        }
        self.chunks.push_back((flow.message_end, now - flow.message_age));
        true
    }

    /// Pays the last decision for the chunks that end by `through`, of which the sender learned `back` late.
    fn pay_chunks(&mut self, now: Instant, through: Offset, back: Span, ledger: &mut Ledger) {
        while let Some((_, written)) = self.chunks.front().copied().filter(|(end, _)| *end <= through) {
            self.chunks.pop_front();
            let taken = now.since(written).saturating_sub(back).as_millis_f64();
            if let Some(decision) = ledger.decisions().checked_sub(1) {
                ledger.earn(decision, (PAR_MS - taken) / REWARD_SCALE);
            }
        }
    }

    /// The path that `rule` names for the packet at hand.
    fn target(&self, cx: &Context<'_>, rule: Action) -> Option<PathId> {
        let path = match rule {
            Action::MinRtt => None,
            Action::WaitForFast => roles::fast(cx),
            Action::First => pair(cx).map(|[first, _]| first),
            Action::Split(share) => pair(cx).map(|[first, second]| if self.draw < share { first } else { second }),
        };
        path.map(|path| path.id)
    }
}

impl Rule for Split {
    type Choice = Action;

    const NEEDS: Needs = TASK.needs;

    fn mode(&self) -> Option<Mode> {
        Some(self.mode)
    }

    fn begins(&mut self, cx: &Context<'_>) -> bool {
        cx.flow.is_some_and(|flow| self.begins_chunk(flow, cx.now))
    }

    fn end(&mut self, _: &Context<'_>, _: Span) -> f64 {
        self.is_due = true;
        core::mem::take(&mut self.acked) as f64 / REWARD_SCALE
    }

    fn asks(&self, cx: &Context<'_>, _: bool) -> bool {
        self.is_due && choose::standing(cx).next().is_some()
    }

    fn see(&self, cx: &Context<'_>, observation: &mut [f32]) {
        observation.fill(0.0);
        let pair = pair(cx).map(|pair| pair.map(Some));
        let paths = pair.unwrap_or_else(|| [choose::standing(cx).next(), None]);
        let units = self.scaling.units(paths.into_iter().flatten());
        let bytes = |bytes: Bytes| units.bytes(bytes);
        for (path, observation) in paths.into_iter().zip(observation.chunks_exact_mut(3)) {
            let Some(path) = path else { continue };
            observation.copy_from_slice(&[units.time(path.srtt), bytes(path.cwnd), bytes(path.unacked())]);
        }
        if let (Some(flow), Some(observation)) = (cx.flow, observation.get_mut(6..9)) {
            let unacked = flow.message_end.since(flow.una.max(flow.message_start));
            observation.copy_from_slice(&[flow.credit(), flow.message_end.since(flow.next), unacked].map(bytes));
        }
    }

    fn answer(&mut self, _: &Context<'_>, action: &[f32]) -> Option<Action> {
        self.is_due = false;
        let named = action.first().and_then(|action| self.rules.get(*action as usize));
        // No such action: the last one, min-RTT.
        Some(named.copied().unwrap_or(Action::MinRtt))
    }

    fn select(&self, cx: &Context<'_>, chosen: Option<&Action>) -> Decision {
        match chosen {
            None | Some(Action::MinRtt) => choose::send_or_wait(cx, choose::min_rtt(cx)),
            Some(rule) => {
                let mode = if *rule == Action::WaitForFast { Mode::Exclusive } else { self.mode };
                slots::send_chosen(cx, self.target(cx, *rule), mode)
            }
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event, ledger: &mut Ledger) {
        match event {
            Event::Sent(_, SendKind::Fresh) => self.draw = self.rng.unit(),
            Event::Acked(receipt) => {
                self.acked += 1;
                let back = cx.path(receipt.path).map_or(Span::ZERO, |path| path.srtt / 2) + self.ack_delay;
                self.pay_chunks(cx.now, cx.flow.map_or(Offset::ZERO, |flow| flow.una), back, ledger);
            }
            _ => {}
        }
    }

    fn finish(&mut self, cx: &Context<'_>, ledger: &mut Ledger) {
        // A transfer ends when the last byte arrives: its last chunk is through before that is known.
        self.pay_chunks(cx.now, cx.flow.map_or(Offset::ZERO, |flow| flow.next), Span::ZERO, ledger);
    }

    fn explain(&self, cx: &Context<'_>, chosen: Option<&Action>) -> Option<String> {
        let pair = pair(cx).map(|pair| pair.map(|path| path.id));
        Some(format!("{chosen:?} of {pair:?}, draw {:.3}", self.draw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::build_task;
    use weftway_path::Instant;
    use weftway_vectors::testing::{Bench, packets, path};

    const FIRST: Decision = Decision::Send(PathId::new(0));
    const SECOND: Decision = Decision::Send(PathId::new(1));

    fn answered(spec: &str, bench: &Bench, action: f32) -> Box<dyn Task> {
        let (_, mut task) = build_task(spec).unwrap();
        assert!(task.question(&bench.context(), &mut [0.0; 9]));
        task.answer(&bench.context(), &[action]);
        assert!(!task.question(&bench.context(), &mut [0.0; 9]));
        task
    }

    /// Windows that are never full.
    fn wide() -> Bench {
        Bench::new(vec![path(0, 50, 100_000, 0), path(1, 20, 100_000, 0)])
    }

    #[test]
    fn the_nine_numbers_by_hand() {
        let mut bench = Bench::new(vec![path(0, 50, 20, 5), path(1, 20, 10, 2)]);
        // A chunk of 100 packets, 20 of them sent and 10 acknowledged; the window ends after 50.
        let at = |n| Offset::ZERO + packets(n);
        (bench.flow.una, bench.flow.next, bench.flow.edge, bench.flow.message_end) = (at(10), at(20), at(50), at(100));
        let (_, mut task) = build_task("split").unwrap();
        let mut observation = [9.0; 9];
        assert!(task.question(&bench.context(), &mut observation));
        // Over 100 ms and 100 kB; 30, 80 and 90 packets of 1400 B.
        let expected = [0.5, 0.28, 0.07, 0.2, 0.14, 0.028, 0.42, 1.12, 1.26];
        assert!(observation.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{observation:?}");
    }

    #[test]
    fn ratios_to_the_least_by_hand() {
        let mut bench = Bench::new(vec![path(0, 50, 20, 5), path(1, 20, 10, 2)]);
        let at = |n| Offset::ZERO + packets(n);
        (bench.flow.una, bench.flow.next, bench.flow.edge, bench.flow.message_end) = (at(10), at(20), at(50), at(100));
        let (_, mut task) = build_task("split:actions=table1:scale=least").unwrap();
        let mut observation = [-9.0; 9];
        assert!(task.question(&bench.context(), &mut observation));
        // Over 20 ms and 10 packets; 30, 80 and 90 packets.
        let expected = [2.5, 2.0, 0.5, 1.0, 1.0, 0.2, 3.0, 8.0, 9.0_f32].map(f32::ln);
        assert!(observation.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{observation:?}");
    }

    #[test]
    fn packets_are_split_as_the_action_says_and_asking_draws_nothing() {
        // Binomial with n = 40 000: sd √(p·(1 − p)/n) is at most 0.0025, four of them are 1 %.
        for (action, share) in [0.1, 0.25, 0.5, 0.75, 0.9].into_iter().enumerate() {
            let mut bench = wide();
            let mut task = answered("split", &bench, action as f32);
            let mut on_first = 0;
            for _ in 0..40_000 {
                let answer = task.select(&bench.context());
                assert_eq!(task.select(&bench.context()), answer);
                on_first += u32::from(answer == FIRST);
                let sent = bench.carry(answer).unwrap();
                task.observe(&bench.context(), &sent);
                // With each answer the bench looks at all that is in flight: let that be one packet, not 40 000.
                let Decision::Send(path) = answer else { unreachable!("both paths are open") };
                let acked = bench.ack(path, None).unwrap();
                task.observe(&bench.context(), &acked);
            }
            assert!((f64::from(on_first) / 40_000.0 - share).abs() < 0.01, "{on_first} for {share}");
        }
    }

    #[test]
    fn path_1_alone_leaves_path_2_to_a_full_window() {
        let mut bench = Bench::new(vec![path(0, 50, 3, 0), path(1, 20, 10, 0)]);
        let mut task = answered("split", &bench, 5.0);
        for answer in [FIRST, FIRST, FIRST, SECOND] {
            assert_eq!(task.select(&bench.context()), answer);
            let sent = bench.carry(answer).unwrap();
            task.observe(&bench.context(), &sent);
        }
        let full = Bench::new(vec![path(0, 50, 3, 3), path(1, 20, 10, 0)]);
        assert_eq!(answered("split:mode=exclusive", &full, 5.0).select(&full.context()), Decision::Wait);
        assert_eq!(answered("split", &full, 6.0).select(&full.context()), SECOND);
    }

    #[test]
    fn table_1_waits_for_the_fastest_path_or_not() {
        let full = Bench::new(vec![path(0, 50, 3, 0), path(1, 20, 10, 10)]);
        assert_eq!(answered("split:actions=table1", &full, 0.0).select(&full.context()), Decision::Wait);
        assert_eq!(answered("split:actions=table1", &full, 1.0).select(&full.context()), FIRST);
    }

    #[test]
    fn a_run_has_a_decision_per_slot_and_one_per_chunk_that_begins_within_one() {
        let mut bench = wide();
        let (_, mut task) = build_task("split").unwrap();
        // 230 ms are ⌈230/50⌉ = 5 slots; chunks begin at 0, 75 and 205 ms.
        let chunk = packets(1000);
        bench.flow.message_end = Offset::ZERO + chunk;
        for ms in 0..230 {
            bench.now = Instant::from_millis(ms);
            if ms == 75 || ms == 205 {
                bench.flow.message_start = bench.flow.message_end;
                bench.flow.message_end = bench.flow.message_start + chunk;
            }
            task.observe(&bench.context(), &Event::Wake);
            if task.question(&bench.context(), &mut [0.0; 9]) {
                task.answer(&bench.context(), &[6.0]);
            }
        }
        assert_eq!(task.ledger().decisions(), 5 + 2);
    }

    #[test]
    fn slots_earn_packets_and_a_chunk_its_time() {
        let mut bench = wide();
        bench.flow.message_end = Offset::ZERO + packets(2);
        bench.now = Instant::from_millis(300);
        bench.flow.message_age = Span::from_millis(100);
        let mut task = answered("split", &bench, 6.0);
        task.ledger().open();
        for _ in 0..2 {
            let sent = bench.carry(SECOND).unwrap();
            task.observe(&bench.context(), &sent);
        }
        bench.now = Instant::from_millis(340);
        for _ in 0..2 {
            let acked = bench.ack(PathId::new(1), None).unwrap();
            task.observe(&bench.context(), &acked);
        }
        task.finish(&bench.context(), &mut [0.0; 9]);
        // Written at 200 ms, through at 340 less 10 (half of 20) less 25: 105 ms. Two packets.
        let rewards: Vec<_> = task.ledger().earned().iter().map(|earned| (earned.decision, earned.reward)).collect();
        assert_eq!(rewards, [(0, 8.95), (0, 0.02)]);
    }

    #[test]
    fn the_end_pays_for_a_chunk_that_has_been_sent_whole() {
        for (sent, expected) in [(1, vec![0.0]), (2, vec![8.4, 0.0])] {
            let mut bench = wide();
            bench.flow.message_end = Offset::ZERO + packets(2);
            let mut task = answered("split", &bench, 6.0);
            task.ledger().open();
            for _ in 0..sent {
                let event = bench.carry(SECOND).unwrap();
                task.observe(&bench.context(), &event);
            }
            bench.now = Instant::from_millis(160);
            task.finish(&bench.context(), &mut [0.0; 9]);
            // 160 ms; no packet was acknowledged.
            let rewards: Vec<_> = task.ledger().earned().iter().map(|earned| earned.reward).collect();
            assert_eq!(rewards, expected);
        }
    }

    #[test]
    fn it_wants_to_be_asked_when_its_slot_is_over() {
        let task = answered("split", &wide(), 0.0);
        assert!(task.wake().is_some_and(|at| at > Instant::ZERO));
    }
}
