//! Redundancy on line: a bandit learns which share of each path's packets should repeat what the
//! other paths have in flight.
//!
//! Bandit: arms are the shares 1, ½ and 0. Paths are served as in min-RTT; of each quota of
//! `max(12, packets delivered in the last interval)` a path's share are copies of the oldest
//! unacknowledged data that it has not carried, while there are such, and the rest is new. After
//! `max(40 ms, 2·srtt)` and 30 packets delivered, or after three times that time, the arm is paid
//! `bytes acknowledged in order / Σ largest throughput of each path`, at most 1. The next arm has
//! the largest `mean + √(2·ln n/n_j)` (UCB1), each once at first; or Exp3 draws it.
//! A reward further above its arm's mean than three mean deviations, unless the arm is the best, or so far below it,
//! unless it is the worst, is an outlier. Four in a row on one side make all arms begin anew, the last reward being the
//! first of its arm. After 25 rounds of each arm outliers no longer count in the deviation.
//! Reference: Xing et al.: on-line learning assisted multipath TCP scheduling, 2023, author's code (constants and
//! idea).
//! State: arms, the interval, per path: the packets of the quota, the copying pointer, throughput.
//! Departs from print: copies are spread evenly over the quota. The code's quota is always 12, because a comparison is
//! the wrong way round. Its interval ends when each path has sent for that long and all of it is acknowledged; its
//! least number of packets is commented out. A largest throughput is forgotten by 1 % in a second; there it is taken
//! anew after 2 s while all is redundant. A deviation counts as 0.005 at least. Exp3 has the monitor of UCB1; there it
//! goes by smoothed rewards and weights.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BitRate, Context, Counters, Decision, Event, Flow, Instant, Offset, Path, PathId, PathSet};
use weftway_path::{Packet, Receipt, SendKind, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Learning, Needs, Provenance};
use crate::shared::choose;
use crate::shared::norm::Peak;
use crate::shared::per_path::PerPath;
use crate::shared::rng::{PolicyRng, SEED};

mod arms;

use arms::{Arms, Bandit};

pub(crate) static ENTRY: Entry = Entry {
    name: "ucb1-redundancy",
    aliases: &["xing", "online-redundancy"],
    version: 2,
    summary: "a bandit learns how much of the other paths' data each path repeats",
    reference: "Xing et al.: on-line learning assisted multipath TCP scheduling, 2023, author's code",
    provenance: Provenance::Secondary,
    goal: "latency at little redundancy",
    application: "short messages",
    inputs: &[Input::Rtt, Input::Rate],
    needs: Needs { flow: true, copies: true, events: true, ..Needs::NONE },
    learning: Some(Learning {
        year: 2023,
        learner: "bandit (UCB1 or EXP3), on line",
        state: "none",
        reward: "data in order in each interval, of what the paths have brought at most",
        actions: "a path's share of copies: all, half, none",
    }),
    params: &[
        Param {
            name: "learner",
            default: "ucb1",
            values: "ucb1 | exp3",
            doc: "the arm of largest upper bound, or one drawn by weights; the author's code has both",
        },
        Param {
            name: "arms",
            default: "three",
            values: "three | four",
            doc: "shares 1, 1/2 and 0, or those of an older version: 1, 2/3, 1/3 and 0",
        },
        Param {
            name: "monitor",
            default: "true",
            values: "true | false",
            doc: "whether an arm that has changed makes all arms begin anew",
        },
        SEED,
    ],
    build,
    ..Entry::NEW
};

const LEAST_INTERVAL: Span = Span::from_millis(40);
const LEAST_PACKETS: u64 = 30;
const LEAST_QUOTA: u64 = 12;

/// Shares of copies in sixths.
const SHARES: [&[u64]; 2] = [&[6, 3, 0], &[6, 4, 2, 0]];

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let shares = params.choice("arms", &[("three", SHARES[0]), ("four", SHARES[1])])?;
    let rule = params.choice("learner", &[("ucb1", Bandit::Ucb1), ("exp3", Bandit::Exp3)])?;
    Ok(Box::new(Redundancy {
        shares,
        arms: Arms::new(shares.len(), rule, params.get("monitor")?),
        rng: PolicyRng::new(params.get("seed")?),
        arm: 0,
        interval: None,
        paths: PerPath::default(),
        newest: [None; 2],
        asked: None,
    }))
}

#[derive(Clone)]
struct Redundancy {
    shares: &'static [u64],
    arms: Arms,
    rng: PolicyRng,
    arm: usize,
    interval: Option<Interval>,
    paths: PerPath<Turn>,
    /// The end of the newest data, and of the newest that another path sent.
    newest: [Option<(PathId, Offset)>; 2],
    /// The copy that was asked for, and where data ended then.
    asked: Option<(PathId, Offset)>,
}

/// Bytes acknowledged when the interval began.
#[derive(Clone, Copy)]
struct Interval {
    began: Instant,
    una: Offset,
}

/// Progress of a path in its quota, and its measurements.
#[derive(Clone)]
struct Turn {
    fresh: u64,
    copies: u64,
    quota: u64,
    /// Everything before it has been repeated, is its own, or is not worth asking for.
    pointer: Offset,
    /// Acknowledged when the interval began.
    acked: Counters,
    /// The largest throughput, in bit/s.
    peak: Peak,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            fresh: 0,
            copies: 0,
            quota: LEAST_QUOTA,
            pointer: Offset::ZERO,
            acked: Counters::default(),
            peak: Peak::new(0.0),
        }
    }
}

impl Turn {
    fn owes_copy(&self, sixths: u64) -> bool {
        6 * self.copies < sixths * (self.copies + self.fresh + 1)
    }

    fn close_quota(&mut self) {
        if self.fresh + self.copies >= self.quota {
            (self.fresh, self.copies) = (0, 0);
        }
    }

    fn delivered(&self, path: &Path) -> Counters {
        Counters {
            bytes: path.acked.bytes.saturating_sub(self.acked.bytes),
            packets: path.acked.packets.saturating_sub(self.acked.packets),
        }
    }
}

impl Redundancy {
    /// Returns the offset at which `path`'s copies go on.
    fn pointer(&self, path: &Path, flow: &Flow) -> Offset {
        self.paths.get(path.id).map_or(Offset::ZERO, |turn| turn.pointer).max(flow.una)
    }

    /// The end of the newest data that a path other than `path` has sent.
    fn frontier(&self, path: PathId) -> Offset {
        let other = self.newest.iter().flatten().find(|(sender, _)| *sender != path);
        other.map_or(Offset::ZERO, |(_, end)| *end)
    }

    fn copy(&self, path: &Path, flow: &Flow) -> Option<Decision> {
        let pointer = self.pointer(path, flow);
        let owes = self.paths.get(path.id).is_some_and(|turn| turn.owes_copy(self.shares[self.arm]));
        (owes && pointer < self.frontier(path.id)).then_some(Decision::Repeat(path.id, pointer))
    }

    /// The open paths, by srtt, until one has something to send.
    fn serve(&self, cx: &Context<'_>, packet: Option<&Packet>, flow: &Flow) -> Option<Decision> {
        let mut passed = PathSet::EMPTY;
        loop {
            let left = choose::candidates(cx).filter(|path| !passed.contains(path.id));
            let path = choose::least(left, |path| path.srtt)?;
            let fresh = || packet.map(|_| Decision::Send(path.id));
            if let Some(decision) = self.copy(path, flow).or_else(fresh) {
                return Some(decision);
            }
            passed = passed.with(path.id);
        }
    }

    fn note_sent(&mut self, receipt: &Receipt, kind: SendKind) {
        let end = receipt.offset + receipt.bytes;
        let turn = self.paths.at(receipt.path);
        match kind {
            SendKind::Duplicate => (turn.copies, turn.pointer) = (turn.copies + 1, end),
            SendKind::Fresh | SendKind::Ahead => {
                turn.fresh += 1;
                if turn.pointer == receipt.offset {
                    turn.pointer = end;
                }
                self.note_newest(receipt.path, end);
            }
            SendKind::Reinjection => {}
        }
        self.paths.at(receipt.path).close_quota();
    }

    fn note_newest(&mut self, path: PathId, end: Offset) {
        if self.newest[0].is_some_and(|(newest, _)| newest != path) {
            self.newest[1] = self.newest[0];
        }
        self.newest[0] = Some((path, end));
    }

    /// Ends the interval if it is over.
    fn move_on(&mut self, cx: &Context<'_>, flow: &Flow) {
        let Some(interval) = self.interval else { return self.begin(cx, flow) };
        let longest = cx.paths.iter().map(|path| path.srtt).max().unwrap_or_default();
        let (elapsed, least) = (cx.now.since(interval.began), (longest * 2).max(LEAST_INTERVAL));
        if elapsed < least {
            return;
        }
        let delivered = |path: &Path| self.paths.get(path.id).map_or(0, |turn| turn.delivered(path).packets);
        let packets: u64 = cx.paths.iter().map(delivered).sum();
        if packets < LEAST_PACKETS && elapsed < least * 3 {
            return;
        }
        if let Some(reward) = self.reward(cx, flow.una.since(interval.una), elapsed) {
            self.arms.learn(self.arm, reward);
            self.arm = self.arms.choose(&mut self.rng);
        }
        self.begin(cx, flow);
    }

    /// Returns what came through in order, against what the paths can carry.
    fn reward(&mut self, cx: &Context<'_>, in_order: weftway_path::Bytes, elapsed: Span) -> Option<f64> {
        let mut sum = 0.0;
        for path in cx.paths {
            let turn = self.paths.at(path.id);
            let throughput = BitRate::of(turn.delivered(path).bytes, elapsed);
            sum += turn.peak.note(cx.now, throughput.as_bps() as f64);
        }
        (sum > 0.0).then(|| (BitRate::of(in_order, elapsed).as_bps() as f64 / sum).min(1.0))
    }

    fn begin(&mut self, cx: &Context<'_>, flow: &Flow) {
        for path in cx.paths {
            let turn = self.paths.at(path.id);
            turn.quota = turn.delivered(path).packets.max(LEAST_QUOTA);
            turn.acked = path.acked;
            (turn.fresh, turn.copies) = (0, 0);
        }
        self.interval = Some(Interval { began: cx.now, una: flow.una });
    }

    /// A copy that was asked for and not sent: there is nothing to repeat up to where data ended.
    fn note_barren(&mut self, event: &Event) {
        if let Some((path, end)) = self.asked.take()
            && !matches!(event, Event::Sent(..))
        {
            self.paths.at(path).pointer = end;
        }
    }
}

impl Scheduler for Redundancy {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        if cx.packet.is_some_and(|packet| packet.reinjection || !packet.carried.is_empty()) {
            return choose::send_or_wait(cx, choose::min_rtt(cx));
        }
        let flow = cx.flow.copied().unwrap_or_default();
        let decision = self.serve(cx, cx.packet, &flow);
        if let Some(Decision::Repeat(path, _)) = decision {
            self.asked = Some((path, flow.next));
        }
        decision.unwrap_or_else(|| choose::wait(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.note_barren(event);
        match event {
            Event::Sent(receipt, kind) => self.note_sent(receipt, *kind),
            Event::PathUp(path) => self.paths.reset(*path),
            _ => {}
        }
        self.move_on(cx, &cx.flow.copied().unwrap_or_default());
    }

    fn explain(&self, _: &Context<'_>) -> Option<String> {
        Some(format!("{} of 6 packets are copies; {}", self.shares[self.arm], self.arms.explain()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{Bench, packets, path};

    #[test]
    fn an_interval_pays_what_came_in_order() {
        let mut scheduler = ENTRY.make(&[]).unwrap();
        // 2·25 ms are longer than 40.
        let mut bench = Bench::new(vec![path(0, 25, 100, 0), path(1, 10, 100, 0)]);
        scheduler.observe(&bench.context(), &Event::Wake);
        assert!(scheduler.explain(&bench.context()).unwrap().starts_with("6 of 6"));
        for (n, delivered) in [(0, 10), (1, 30)] {
            bench.paths[n].acked = Counters { bytes: packets(delivered), packets: delivered };
        }
        bench.flow.una = Offset::ZERO + packets(20);
        for (ms, says) in [
            (49, "6 of 6 packets are copies; means none, none, none"),
            (50, "3 of 6 packets are copies; means 0.5000, none, none"),
        ] {
            bench.now = Instant::from_millis(ms);
            scheduler.observe(&bench.context(), &Event::Wake);
            // 20 packets came through in order, of the 40 that the paths carried.
            assert_eq!(scheduler.explain(&bench.context()).unwrap(), says);
        }
    }

    #[test]
    fn few_packets_stretch_an_interval_to_three_times_its_length() {
        let mut scheduler = ENTRY.make(&[]).unwrap();
        let mut bench = Bench::new(vec![path(0, 10, 100, 0)]);
        scheduler.observe(&bench.context(), &Event::Wake);
        bench.paths[0].acked = Counters { bytes: packets(29), packets: 29 };
        bench.flow.una = Offset::ZERO + packets(29);
        for (ms, says) in [(40, "6 of 6"), (119, "6 of 6"), (120, "3 of 6")] {
            bench.now = Instant::from_millis(ms);
            scheduler.observe(&bench.context(), &Event::Wake);
            assert!(scheduler.explain(&bench.context()).unwrap().starts_with(says), "at {ms} ms");
        }
    }

    #[test]
    fn a_quota_that_is_used_up_begins_anew() {
        // 12 packets, of which 5 are copies.
        for (fresh, left) in [(6, (6, 5)), (7, (0, 0))] {
            let mut turn = Turn { fresh, copies: 5, ..Turn::default() };
            turn.close_quota();
            assert_eq!((turn.fresh, turn.copies), left);
        }
    }

    #[test]
    fn thirty_packets_end_an_interval_and_one_without_any_pays_nobody() {
        for (delivered, ms, says) in
            [(30, 40, "3 of 6"), (29, 40, "6 of 6"), (0, 120, "6 of 6 packets are copies; means none")]
        {
            let mut scheduler = ENTRY.make(&[]).unwrap();
            let mut bench = Bench::new(vec![path(0, 10, 100, 0)]);
            scheduler.observe(&bench.context(), &Event::Wake);
            bench.paths[0].acked = Counters { bytes: packets(delivered), packets: delivered };
            bench.flow.una = Offset::ZERO + packets(delivered);
            bench.now = Instant::from_millis(ms);
            scheduler.observe(&bench.context(), &Event::Wake);
            let found = scheduler.explain(&bench.context()).unwrap();
            assert!(found.starts_with(says), "{delivered} packets by {ms} ms: {found}");
        }
    }

    #[test]
    fn a_copy_that_did_not_go_out_is_not_asked_for_again_and_old_data_are_no_copy() {
        // Packet 0 goes on path 0, which is full then. All of path 1's packets are copies, of which 0 is due.
        let mut scheduler = ENTRY.make(&[]).unwrap();
        let mut bench = Bench::new(vec![path(0, 10, 1, 0), path(1, 20, 10, 0)]);
        let [first, second] = [0, 1].map(PathId::new);
        assert_eq!(scheduler.select(&bench.context()), Decision::Send(first));
        let sent = bench.carry(Decision::Send(first)).unwrap();
        scheduler.observe(&bench.context(), &sent);
        let due = Decision::Repeat(second, Offset::ZERO);
        assert_eq!(scheduler.select(&bench.context()), due);
        // What is handed back goes first, though nobody carries it now; so does what was carried.
        let fresh = bench.packet.unwrap();
        for (reinjection, carried) in [(true, PathSet::EMPTY), (false, PathSet::of(first))] {
            let mut old = scheduler.clone();
            bench.packet = Some(Packet { reinjection, carried, ..fresh });
            assert_eq!(old.select(&bench.context()), Decision::Send(second));
        }
        bench.packet = Some(fresh);
        // Something else happens: nothing was there to repeat.
        scheduler.observe(&bench.context(), &Event::Wake);
        assert_eq!(scheduler.select(&bench.context()), Decision::Send(second));
    }
}
