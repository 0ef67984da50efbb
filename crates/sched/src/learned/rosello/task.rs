//! Which of the two paths for this packet?
//!
//! Asked for every new packet while both paths of the pair have room; with one open path that one
//! takes it, without any one waits, and data sent before go where min-RTT sends them. The pair is F
//! and S, in the order of their numbers. Actions: 0 is the path of smaller number, 1 the other. An
//! answer is kept until its packet is sent.
//! Seen, path after path, each within [0, 4] (`state`): `6`: free share of the window, srtt over
//! D0, bytes in flight over W0; `12`: free share, share of packets sent again, loss, srtt,
//! deviation and retransmission timeout over D0, where RTO = srtt + 4·rttvar (RFC 6298, no floor). With
//! `scale=least`, times and bytes are logarithms of ratios to the shorter time and the smaller window.
//! Earned when the packet's record closes (acknowledged, lost, or after max(2·srtt_F, srtt_S)):
//!   `thr/(10 Mbit/s) − 0.1·max(0, unacked − 64)/64 − 0.1·again`,
//! thr what the connection delivered since the decision over the time since (0 for a lost packet),
//! unacked and again packets of all paths, outstanding and sent again since the decision. The last
//! decision also earns goodput over capacity at the end: bytes in order over the sum of the paths'
//! peak delivery rates, which is all that a sender knows of capacity.
//! Reference: Rosello, 2019; MPQUIC comparison of min-RTT, ECF, BLEST, Q-learning, DQN and UCB,
//! section 3.2.4 and Table 1; public forks of the author's code.
//! Departs from print: the text has "best path or wait", Table 1 and the code path 1 or path 2.
//! Which six inputs, the thresholds and the weights are not printed; these are ours.

use std::collections::VecDeque;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Instant, Offset, Path, PathId, Receipt, SendKind};

use crate::learned::pair::meters::Meters;
use crate::learned::pair::records::{Action, Choice, Fate, OpenRecords, Outcome};
use crate::learned::pair::roles::Roles;
use crate::learned::pair::scale::{SCALE, Scaling, Units};
use crate::learned::task::{Actions, Input, Ledger, Shape, Task, TaskEntry};
use crate::shared::choose;
use crate::shared::norm;
use crate::{Needs, Scheduler};

pub(crate) static TASK: TaskEntry = TaskEntry {
    name: "pick",
    summary: "the path of smaller number (0) or the other (1), for every packet while both have room",
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    params: &[
        Param {
            name: "state",
            default: "6",
            values: "6 | 12",
            doc: "the observation: three numbers of each path, or six; two forks of the author's code differ",
        },
        Param {
            name: "w0_kb",
            default: "1000",
            values: "kB, 1 to 1000000",
            doc: "the bytes in flight that count as 1; 100 suits paths below 20 Mbit/s",
        },
        Param {
            name: "d0_ms",
            default: "250",
            values: "milliseconds, 1 to 10000",
            doc: "the round-trip time that counts as 1",
        },
        SCALE,
    ],
    build,
};

const SIX: &[&str] = &["free", "srtt", "in_flight"];
const TWELVE: &[&str] = &["free", "again", "loss", "srtt", "rttvar", "rto"];

/// Answered packets that have not been seen to be sent; older ones are forgotten.
const PENDING: usize = 64;

/// The throughput that earns 1, in Mbit/s.
const THROUGHPUT: f64 = 10.0;
/// Outstanding packets that cost nothing; as many again cost [`PENALTY`].
const FREE_PACKETS: f64 = 64.0;
/// Cost of a packet sent again.
const PENALTY: f64 = 0.1;
/// A loss of one packet in ten counts as 1.
const LOSS_SCALE: f64 = 0.1;

fn build(params: &Params) -> Result<Box<dyn Task>, SpecError> {
    let features = params.choice("state", &[("6", SIX), ("12", TWELVE)])?;
    let w0 = 1e3 * f64::from(params.within::<u32>("w0_kb", 1..=1_000_000)?);
    let d0 = 1e-3 * f64::from(params.within::<u32>("d0_ms", 1..=10_000)?);
    let scaling = Scaling::new(params, w0, d0)?;
    let of = |place: &'static str| features.iter().map(move |name| input(scaling, name, place));
    let inputs = ["first", "second"].into_iter().flat_map(of).collect();
    Ok(Box::new(Pick {
        shape: Shape { inputs, actions: Actions::Discrete(2), interval: None },
        has_six: features.len() == SIX.len(),
        scaling,
        meters: Meters::default(),
        pending: VecDeque::new(),
        records: OpenRecords::new(),
        delivered: Bytes::ZERO,
        began: None,
        ledger: Ledger::default(),
    }))
}

/// The input `name` of the path at `place`.
fn input(scaling: Scaling, name: &str, place: &str) -> Input {
    let called = format!("{name}.{place}");
    match name {
        "free" | "again" | "loss" => Input::normalised(called),
        _ => scaling.input(called),
    }
}

#[derive(Clone)]
struct Pick {
    shape: Shape,
    has_six: bool,
    scaling: Scaling,
    meters: Meters,
    /// Answered and not sent yet, oldest first.
    pending: VecDeque<(Offset, Choice<AtDecision>)>,
    records: OpenRecords<AtDecision>,
    /// Acknowledged since the beginning.
    delivered: Bytes,
    /// Time of the first question, and what had arrived by then.
    began: Option<(Instant, Offset)>,
    ledger: Ledger,
}

/// A decision, and what had been delivered and sent again by then.
#[derive(Clone, Copy)]
struct AtDecision {
    decision: u64,
    delivered: Bytes,
    again: u64,
}

/// F and S in the order of their numbers, while both have room.
fn pair<'a>(roles: &Roles<'a>) -> Option<[&'a Path; 2]> {
    let (fast, slow) = (roles.fast.filter(|fast| fast.is_open())?, roles.slow?);
    Some(if slow.id < fast.id { [slow, fast] } else { [fast, slow] })
}

/// Packets sent again so far.
fn again(cx: &Context<'_>) -> u64 {
    cx.paths.iter().map(|path| path.retransmitted.packets).sum()
}

impl Pick {
    /// The pair that there is to choose from for the packet at hand.
    fn asks<'a>(&self, cx: &Context<'a>) -> Option<([&'a Path; 2], Offset)> {
        let packet = cx.packet.filter(|packet| !packet.reinjection && packet.carried.is_empty())?;
        let roles = Roles::of(cx);
        if roles.unprobed.is_some() || self.kept(cx, packet.offset).is_some() {
            return None;
        }
        pair(&roles).map(|pair| (pair, packet.offset))
    }

    /// Returns the answer for the packet at `at`, while that path has room.
    fn kept(&self, cx: &Context<'_>, at: Offset) -> Option<PathId> {
        let (_, choice) = self.pending.iter().rev().find(|(offset, _)| *offset == at)?;
        choose::candidates(cx).map(|path| path.id).find(|id| *id == choice.path())
    }

    fn see(&self, pair: [&Path; 2], observation: &mut [f32]) {
        let units = self.scaling.units(pair);
        let (first, second) = observation.split_at_mut(self.shape.inputs.len() / 2);
        for (path, observation) in pair.into_iter().zip([first, second]) {
            let six = self.features(path, &units);
            let three = [six[0], six[3], units.bytes(path.unacked())];
            let values = if self.has_six { &three[..] } else { &six[..] };
            observation.copy_from_slice(values);
        }
    }

    fn features(&self, path: &Path, units: &Units) -> [f32; 6] {
        let share = |value: f64, scale: f64| norm::ratio(value, scale) as f32;
        [
            share(path.space().get() as f64, path.cwnd.get() as f64),
            share(path.retransmitted.packets as f64, path.sent.packets as f64),
            share(self.meters.of(path.id).loss, LOSS_SCALE),
            units.time(path.srtt),
            units.time(path.rttvar),
            units.time(path.srtt + path.rttvar * 4),
        ]
    }

    fn note_sent(&mut self, receipt: &Receipt) {
        let at = self.pending.iter().position(|(offset, _)| *offset == receipt.offset);
        if let Some((_, choice)) = at.and_then(|at| self.pending.remove(at)) {
            self.records.open(&choice, receipt);
        }
    }

    fn note_fate(&mut self, cx: &Context<'_>, receipt: &Receipt, fate: Fate) {
        if let Some(path) = cx.path(receipt.path) {
            self.meters.update(cx.now, path);
        }
        if fate == Fate::Acked {
            self.delivered += receipt.bytes;
        }
        if let Some(outcome) = self.records.settle(receipt, fate, cx.now, false) {
            self.pay(cx, &outcome);
        }
    }

    /// Closes the records whose time is up at `deadline`.
    fn expire(&mut self, cx: &Context<'_>, deadline: Instant) {
        while let Some(outcome) = self.records.expire(deadline) {
            self.pay(cx, &outcome);
        }
    }

    fn pay(&mut self, cx: &Context<'_>, outcome: &Outcome<AtDecision>) {
        if !self.ledger.is_open() {
            return;
        }
        let at_decision = outcome.choice.observation;
        let seconds = cx.now.since(outcome.choice.at).as_secs_f64();
        let bytes = self.delivered.saturating_sub(at_decision.delivered).get() as f64;
        let mbps = if seconds > 0.0 && outcome.fate != Fate::Lost { 8e-6 * bytes / seconds } else { 0.0 };
        let unacked: u64 = cx.paths.iter().map(|path| path.unacked().packets(path.mss)).sum();
        let excess = (unacked as f64 - FREE_PACKETS).max(0.0) / FREE_PACKETS;
        let again = again(cx).saturating_sub(at_decision.again) as f64;
        self.ledger.earn(at_decision.decision, mbps / THROUGHPUT - PENALTY * excess - PENALTY * again);
    }

    /// Bytes in order over time, against the sum of the peak rates.
    fn use_of_capacity(&self, cx: &Context<'_>) -> f64 {
        let Some(((since, una), flow)) = self.began.zip(cx.flow) else { return 0.0 };
        let capacity: f64 = cx.paths.iter().map(|path| self.meters.of(path.id).peak_rate()).sum();
        norm::ratio(flow.una.since(una).get() as f64, capacity * cx.now.since(since).as_secs_f64())
    }
}

impl Scheduler for Pick {
    fn needs(&self) -> Needs {
        TASK.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let Some(packet) = cx.packet else { return Decision::Wait };
        if packet.reinjection || !packet.carried.is_empty() {
            return choose::send_or_wait(cx, choose::min_rtt(cx));
        }
        let given = Roles::of(cx).unprobed.map(|path| path.id).or_else(|| self.kept(cx, packet.offset));
        given.map_or_else(|| choose::send_or_wait(cx, choose::min_rtt(cx)), Decision::Send)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match event {
            Event::Sent(_, SendKind::Duplicate) => {}
            Event::Sent(receipt, _) => self.note_sent(receipt),
            Event::Acked(receipt) => self.note_fate(cx, receipt, Fate::Acked),
            Event::Lost(receipt) => self.note_fate(cx, receipt, Fate::Lost),
            Event::PathUp(path) | Event::PathDown(path) => self.meters.reset(*path),
            _ => {}
        }
        self.expire(cx, cx.now);
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let kept = cx.packet.and_then(|packet| self.kept(cx, packet.offset));
        Some(format!("pair {:?}, answered {kept:?}", pair(&Roles::of(cx))?.map(|path| path.id)))
    }
}

impl Task for Pick {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn question(&mut self, cx: &Context<'_>, observation: &mut [f32]) -> bool {
        let Some((pair, _)) = self.asks(cx) else { return false };
        self.began = self.began.or(cx.flow.map(|flow| (cx.now, flow.una)));
        self.see(pair, observation);
        true
    }

    fn answer(&mut self, cx: &Context<'_>, action: &[f32]) {
        let Some(([first, second], at)) = self.asks(cx) else { return };
        let chosen = if action.first().is_some_and(|action| *action >= 0.5) { second } else { first };
        let (fast, slow) = if second.srtt < first.srtt { (second, first) } else { (first, second) };
        let role = if chosen.id == fast.id { Action::Fast } else { Action::Slow };
        let at_decision = AtDecision { decision: self.ledger.decide(), delivered: self.delivered, again: again(cx) };
        self.pending.retain(|(offset, _)| *offset != at);
        if self.pending.len() == PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back((at, Choice::new(cx.now, fast, slow, (role, at_decision))));
    }

    fn finish(&mut self, cx: &Context<'_>, observation: &mut [f32]) {
        self.expire(cx, Instant::NEVER);
        if let Some(last) = self.ledger.decisions().checked_sub(1) {
            self.ledger.earn(last, self.use_of_capacity(cx));
        }
        observation.fill(0.0);
        if let Some(pair) = pair(&Roles::of(cx)) {
            self.see(pair, observation);
        }
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::build_task;
    use weftway_path::Span;
    use weftway_vectors::testing::{Bench, packets, path};

    const FIRST: Decision = Decision::Send(PathId::new(0));
    const SECOND: Decision = Decision::Send(PathId::new(1));

    fn bench() -> Bench {
        Bench::new(vec![path(0, 50, 20, 5), path(1, 25, 10, 2)])
    }

    #[test]
    fn what_is_seen_by_hand() {
        // 15 of 20 and 8 of 10 packets free; 50 and 25 ms of 250; 7 and 2.8 kB of 100.
        let (_, mut task) = build_task("pick:w0_kb=100").unwrap();
        let mut observation = [9.0; 6];
        assert!(task.question(&bench().context(), &mut observation));
        let expected = [0.75, 0.2, 0.07, 0.8, 0.1, 0.028];
        assert!(observation.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{observation:?}");
        // Path 0 sent 3 of 12 packets again and varies by 10 ms: RTO = 50 + 40 ms.
        let (_, mut task) = build_task("pick:state=12").unwrap();
        let mut bench = bench();
        bench.paths[0].rttvar = Span::from_millis(10);
        (bench.paths[0].sent.packets, bench.paths[0].retransmitted.packets) = (12, 3);
        let mut observation = [9.0; 12];
        assert!(task.question(&bench.context(), &mut observation));
        let expected = [0.75, 0.25, 0.0, 0.2, 0.04, 0.36, 0.8, 0.0, 0.0, 0.1, 0.0, 0.1];
        assert!(observation.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{observation:?}");
    }

    #[test]
    fn an_answer_is_kept_until_its_packet_is_sent() {
        let (_, mut task) = build_task("pick").unwrap();
        let (mut bench, mut observation) = (bench(), [0.0; 6]);
        for (action, answer) in [(0.0, FIRST), (1.0, SECOND)] {
            assert!(task.question(&bench.context(), &mut observation));
            task.answer(&bench.context(), &[action]);
            for _ in 0..3 {
                assert!(!task.question(&bench.context(), &mut observation));
                assert_eq!(task.select(&bench.context()), answer);
                task.observe(&bench.context(), &Event::Wake);
            }
            let sent = bench.carry(answer).unwrap();
            task.observe(&bench.context(), &sent);
        }
    }

    #[test]
    fn ratios_to_the_least_by_hand() {
        // The first has a window of 20 packets, 50 ms and 5 in flight; the second 10 packets, 25 ms and 2.
        let (_, mut task) = build_task("pick:scale=least").unwrap();
        let mut observation = [-9.0; 6];
        let bench = Bench::new(vec![path(0, 50, 20, 5), path(1, 25, 10, 2)]);
        assert!(task.question(&bench.context(), &mut observation));
        let expected = [0.75, 2.0_f32.ln(), 0.5_f32.ln(), 0.8, 0.0, 0.2_f32.ln()];
        assert!(observation.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{observation:?}");
    }

    #[test]
    fn nothing_is_asked_when_there_is_no_choice() {
        let (_, mut task) = build_task("pick").unwrap();
        let mut observation = [0.0; 6];
        for (in_flight, answer) in [([20, 2], SECOND), ([5, 10], FIRST), ([20, 10], Decision::Wait)] {
            let bench = Bench::new(vec![path(0, 50, 20, in_flight[0]), path(1, 25, 10, in_flight[1])]);
            assert!(!task.question(&bench.context(), &mut observation));
            assert_eq!(task.select(&bench.context()), answer);
        }
    }

    /// Sends a packet on the second path; returns what `fate` 40 ms later made of it.
    fn earned(fate: impl Fn(Receipt) -> Event, unacked: u64, again: u64) -> f32 {
        let (_, mut task) = build_task("pick").unwrap();
        task.ledger().open();
        let (mut bench, mut observation) = (bench(), [0.0; 6]);
        assert!(task.question(&bench.context(), &mut observation));
        task.answer(&bench.context(), &[1.0]);
        let sent = bench.carry(SECOND).unwrap();
        task.observe(&bench.context(), &sent);
        let Event::Sent(receipt, _) = sent else { unreachable!() };
        bench.now = Instant::from_millis(40);
        for (path, in_flight) in bench.paths.iter_mut().zip([packets(unacked), Bytes::ZERO]) {
            path.bytes_in_flight = in_flight;
        }
        bench.paths[0].retransmitted.packets = again;
        task.observe(&bench.context(), &fate(receipt));
        let found = task.ledger().earned().clone();
        assert_eq!((found.len(), found[0].decision), (1, 0));
        found[0].reward
    }

    #[test]
    fn a_packet_earns_by_hand() {
        // 1400 B in 40 ms are 0.28 Mbit/s; 96 packets are half of 64 too many; 2 were sent again.
        assert!((earned(Event::Acked, 10, 0) - 0.028).abs() < 1e-6);
        assert!((earned(Event::Acked, 96, 2) - (0.028 - 0.05 - 0.2)).abs() < 1e-6);
        assert!((earned(Event::Lost, 96, 0) + 0.05).abs() < 1e-6);
    }

    #[test]
    fn the_end_pays_the_use_of_capacity_and_closes_every_record() {
        let (_, mut task) = build_task("pick").unwrap();
        task.ledger().open();
        let (mut bench, mut observation) = (bench(), [0.0; 6]);
        for _ in 0..2 {
            assert!(task.question(&bench.context(), &mut observation));
            task.answer(&bench.context(), &[0.0]);
            let sent = bench.carry(FIRST).unwrap();
            task.observe(&bench.context(), &sent);
        }
        bench.now = Instant::from_millis(100);
        bench.flow.una = Offset::new(12_500);
        task.finish(&bench.context(), &mut observation);
        // Nothing was delivered, 9 packets are outstanding; 12.5 kB in 0.1 s over twice 125 kB/s.
        let earned: Vec<_> = task.ledger().earned().iter().map(|earned| (earned.decision, earned.reward)).collect();
        assert_eq!(earned, [(0, 0.0), (1, 0.0), (1, 0.5)]);
    }

    #[test]
    fn a_packet_that_arrives_at_once_or_is_lost_delivers_at_no_rate() {
        // At the time of the decision itself: nothing over nothing.
        let (_, mut task) = build_task("pick").unwrap();
        task.ledger().open();
        let (mut bench, mut observation) = (bench(), [0.0; 6]);
        let mut sent = Vec::new();
        for _ in 0..3 {
            assert!(task.question(&bench.context(), &mut observation));
            task.answer(&bench.context(), &[1.0]);
            let event = bench.carry(SECOND).unwrap();
            task.observe(&bench.context(), &event);
            let Event::Sent(receipt, _) = event else { unreachable!() };
            sent.push(receipt);
        }
        task.observe(&bench.context(), &Event::Acked(sent[0]));
        // 40 ms later the second arrives, the first having arrived since: 2 packets in 40 ms, 0.56 Mbit/s; the third is
        // lost.
        bench.now = Instant::from_millis(40);
        task.observe(&bench.context(), &Event::Acked(sent[1]));
        task.observe(&bench.context(), &Event::Lost(sent[2]));
        let earned: Vec<_> = task.ledger().earned().iter().map(|earned| earned.reward).collect();
        assert!(earned.iter().zip([0.0, 0.056, 0.0]).all(|(a, b)| (a - b).abs() < 1e-6), "{earned:?}");
    }

    #[test]
    fn a_record_closes_after_two_round_trips_of_the_faster_path_or_one_of_the_other() {
        // 25 and 50 ms: 50 ms. 40 and 50 ms: 80 ms.
        for (faster_ms, closes_ms) in [(25, 50), (40, 80)] {
            let (_, mut task) = build_task("pick").unwrap();
            task.ledger().open();
            let mut bench = Bench::new(vec![path(0, 50, 20, 5), path(1, faster_ms, 10, 2)]);
            assert!(task.question(&bench.context(), &mut [0.0; 6]));
            task.answer(&bench.context(), &[1.0]);
            let sent = bench.carry(SECOND).unwrap();
            task.observe(&bench.context(), &sent);
            for (ms, closed) in [(closes_ms - 1, 0), (closes_ms, 1)] {
                bench.now = Instant::from_millis(ms);
                task.observe(&bench.context(), &Event::Wake);
                assert_eq!(task.ledger().earned().len(), closed, "{faster_ms} ms, at {ms} ms");
            }
        }
    }

    #[test]
    fn every_answer_is_kept_until_its_packet_is_sent_and_old_data_ask_nobody() {
        let (_, mut task) = build_task("pick").unwrap();
        task.ledger().open();
        let (mut bench, mut observation) = (bench(), [0.0; 6]);
        let first = bench.packet.unwrap();
        // Three answers before a paced path sends any of them.
        for n in 0..3 {
            bench.packet = Some(weftway_path::Packet { offset: first.offset + packets(n), ..first });
            assert!(task.question(&bench.context(), &mut observation));
            task.answer(&bench.context(), &[0.0]);
        }
        bench.now = Instant::from_millis(40);
        for serial in 0..3 {
            let receipt = Receipt {
                path: PathId::new(0),
                offset: first.offset + packets(serial),
                bytes: weftway_vectors::testing::MSS,
                serial,
            };
            task.observe(&bench.context(), &Event::Sent(receipt, SendKind::Fresh));
            task.observe(&bench.context(), &Event::Acked(receipt));
        }
        assert_eq!(task.ledger().earned().iter().map(|earned| earned.decision).collect::<Vec<_>>(), [0, 1, 2]);
        // Handed back, though nobody carries it now; carried, though not handed back: as in min-RTT.
        let mine = weftway_path::PathSet::of(PathId::new(0));
        for (reinjection, carried) in [(true, weftway_path::PathSet::EMPTY), (false, mine)] {
            let (_, mut task) = build_task("pick").unwrap();
            bench.packet = Some(first);
            assert!(task.question(&bench.context(), &mut observation));
            task.answer(&bench.context(), &[0.0]);
            assert_eq!(task.select(&bench.context()), FIRST);
            bench.packet = Some(weftway_path::Packet { reinjection, carried, ..first });
            assert_eq!(task.select(&bench.context()), SECOND);
            bench.packet =
                Some(weftway_path::Packet { reinjection, carried, offset: first.offset + packets(9), ..first });
            assert!(!task.question(&bench.context(), &mut observation));
        }
    }
}
