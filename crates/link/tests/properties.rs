//! Properties of every link, whatever happens to it.

use std::sync::Arc;

use proptest::prelude::*;
use weftway_link::{
    Arq, Change, Common, Discipline, Distribution, Ecn, Fade, Jitter, Limit, Link, LinkConfig, Loss, Queue, Rate,
    Redraw, Set, Trace,
};
use weftway_path::{BitRate, Bytes, Instant, Span};

/// Something that happens to a link.
#[derive(Clone, Debug)]
enum Op {
    Push(u64),
    Wait(u64),
    Set(Set),
}

/// An arrival: when, and which packet.
type Arrival = (Instant, usize);

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

fn constant() -> impl Strategy<Value = Rate> {
    prop_oneof![9 => 1_000..200_000_000_u64, 1 => Just(0)].prop_map(|bps| Rate::Constant(BitRate::from_bps(bps)))
}

fn trace() -> impl Strategy<Value = Rate> {
    prop::collection::vec(0..200_u32, 1..20).prop_map(|mut times| {
        times.sort_unstable();
        times.push(times[times.len() - 1] + 1);
        Rate::Trace(Arc::new(Trace::new(times).expect("sorted, with a positive end")))
    })
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![constant(), trace()]
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        (0.0..1.0).prop_map(Loss::Bernoulli),
        Just(Loss::GilbertElliott { to_bad: 0.2, to_good: 0.3, loss_good: 0.01, loss_bad: 0.6 }),
        prop::collection::vec(0..30_u64, 0..9).prop_map(Loss::Packets),
    ]
}

fn set() -> impl Strategy<Value = Set> {
    prop_oneof![
        rate().prop_map(Set::Rate),
        (0..100_u64).prop_map(|delay| Set::Delay(ms(delay))),
        loss().prop_map(Set::Loss),
        Just(Set::Down),
        Just(Set::Up),
    ]
}

fn queue() -> impl Strategy<Value = Queue> {
    let limit = prop_oneof![
        Just(Limit::Unlimited),
        (0..20_u64).prop_map(Limit::Packets),
        (0..20_000_u64).prop_map(|bytes| Limit::Bytes(Bytes::new(bytes))),
    ];
    let discipline =
        prop_oneof![Just(Discipline::DropTail), Just(Discipline::CoDel { target: ms(5), interval: ms(20) })];
    (limit, discipline).prop_map(|(limit, discipline)| Queue { limit, discipline })
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let distribution = prop_oneof![
        Just(Distribution::Normal { sd: ms(5) }),
        Just(Distribution::Uniform { half_width: ms(20) }),
        Just(Distribution::Correlated { sd: ms(5), over: ms(30) }),
    ];
    (distribution, any::<bool>()).prop_map(|(distribution, reorder)| Jitter { distribution, reorder })
}

fn redraw() -> impl Strategy<Value = Redraw> {
    let common = prop::option::of(Just(Common { group: 3, correlation: 0.4 }));
    (0..50_u64, any::<bool>(), common).prop_map(|(every, loses, common)| Redraw {
        every: ms(every),
        rate: Some((BitRate::ZERO, BitRate::from_mbps(20))),
        delay: Some((ms(1), ms(40))),
        loss: loses.then_some((0.0, 0.5)),
        common,
    })
}

fn fade() -> impl Strategy<Value = Fade> {
    (1..100_u64, 0..300_u64).prop_map(|(percent, most)| Fade {
        share: percent as f64 / 100.0,
        median: ms(10),
        sigma: most as f64 / 100.0,
        floor: (BitRate::ZERO, BitRate::from_mbps(most)),
        group: 1,
    })
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (0..300_u64, set()).prop_map(|(at, set)| Change { at: Instant::from_millis(at), set });
    prop::collection::vec(change, 0..5)
}

fn config() -> impl Strategy<Value = LinkConfig> {
    let arq = Just(Arq { hides: 0.5, delay: ms(8), retry_loss: 0.3 });
    let ecn = prop_oneof![Just(Ecn::CoDel), Just(Ecn::Above(Limit::Packets(3)))];
    let host_jitter = prop_oneof![Just(Span::ZERO), Just(ms(3))];
    let rare = (
        prop::option::of(arq),
        prop::option::of(ecn),
        changes(),
        prop::option::of(redraw()),
        prop::option::of(fade()),
        host_jitter,
    );
    (rate(), 0..100_u64, prop::option::of(jitter()), loss(), queue(), rare).prop_map(
        |(rate, delay, jitter, loss, queue, (arq, ecn, changes, redraw, fade, host_jitter))| LinkConfig {
            rate,
            delay: ms(delay),
            jitter,
            host_jitter,
            loss,
            arq,
            queue,
            ecn,
            changes,
            redraw,
            fade,
        },
    )
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (40..3_000_u64).prop_map(Op::Push),
        3 => (0..20_000_000_u64).prop_map(Op::Wait),
        1 => set().prop_map(Op::Set),
    ];
    prop::collection::vec(op, 0..120)
}

fn pushes() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![3 => (40..3_000_u64).prop_map(Op::Push), 1 => (0..20_000_000_u64).prop_map(Op::Wait)];
    prop::collection::vec(op, 0..120)
}

/// A link and what was seen of it.
struct Drive {
    link: Link<usize>,
    now: Instant,
    /// Each packet: when pushed, its bytes.
    pushed: Vec<(Instant, u64)>,
    arrivals: Vec<Arrival>,
    /// True if arrivals are fetched when they are due, false if only at the end.
    prompt: bool,
}

impl Drive {
    fn new(config: &LinkConfig, prompt: bool) -> Self {
        let link = Link::new(config, 1);
        Self { link, now: Instant::ZERO, pushed: Vec::new(), arrivals: Vec::new(), prompt }
    }

    fn run(config: &LinkConfig, ops: &[Op], prompt: bool) -> Self {
        let mut drive = Self::new(config, prompt);
        ops.iter().for_each(|op| drive.step(op));
        drive.fetch(Instant::from_millis(3_600_000));
        drive
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Push(bytes) => {
                let _ = self.link.push(self.now, Bytes::new(*bytes), self.pushed.len());
                self.pushed.push((self.now, *bytes));
            }
            Op::Wait(nanos) => {
                self.now += Span::from_nanos(*nanos);
                if self.prompt {
                    self.fetch(self.now);
                }
            }
            Op::Set(set) => self.link.set(self.now, set),
        }
    }

    fn fetch(&mut self, until: Instant) {
        while self.link.next_event() <= until {
            let at = self.link.next_event();
            if let Some(delivery) = self.link.pop(at) {
                self.arrivals.push((at, delivery.item));
            }
            self.check();
        }
    }

    /// Packets are conserved, and nothing is both inside and forgotten.
    fn check(&self) {
        let counts = self.link.counts();
        let gone = counts.delivered + counts.dropped_queue + counts.dropped_down + counts.lost;
        assert_eq!(counts.pushed, gone + self.link.pending(), "{counts:?}");
        assert_eq!(counts.delivered, self.arrivals.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_are_conserved_and_time_goes_forward(config in config(), ops in ops()) {
        let mut drive = Drive::new(&config, true);
        for op in &ops {
            drive.step(op);
            drive.check();
        }
        drive.fetch(Instant::from_millis(3_600_000));
        prop_assert!(drive.arrivals.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        // Only a trace can have an opportunity at the instant at which a packet comes.
        let is_trace = |set: &Set| matches!(set, Set::Rate(Rate::Trace(_)));
        let at_once = matches!(config.rate, Rate::Trace(_))
            || config.changes.iter().any(|change| is_trace(&change.set))
            || ops.iter().any(|op| matches!(op, Op::Set(set) if is_trace(set)));
        let least = Span::from_nanos(u64::from(!at_once));
        prop_assert!(drive.arrivals.iter().all(|(at, packet)| *at >= drive.pushed[*packet].0 + least));
        let bytes: u64 = drive.arrivals.iter().map(|(_, packet)| drive.pushed[*packet].1).sum();
        prop_assert_eq!(drive.link.counts().delivered_bytes, Bytes::new(bytes));
    }

    #[test]
    fn nothing_arrives_twice_and_only_jitter_reorders(config in config(), ops in ops()) {
        let drive = Drive::run(&config, &ops, true);
        let mut packets: Vec<usize> = drive.arrivals.iter().map(|(_, packet)| *packet).collect();
        let in_order = packets.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert!(in_order || config.jitter.is_some_and(|jitter| jitter.reorder));
        packets.sort_unstable();
        packets.dedup();
        prop_assert_eq!(packets.len(), drive.arrivals.len());
    }

    /// Behaviour does not depend on when the link is asked.
    #[test]
    fn late_questions_get_the_same_answers(config in config(), ops in ops()) {
        let prompt = Drive::run(&config, &ops, true);
        let late = Drive::run(&config, &ops, false);
        prop_assert_eq!(prompt.arrivals, late.arrivals);
        prop_assert_eq!(prompt.link.counts(), late.link.counts());
    }

    #[test]
    fn a_clone_has_the_same_future(config in config(), ops in ops(), more in ops()) {
        let mut drive = Drive::new(&config, true);
        ops.iter().for_each(|op| drive.step(op));
        let copy = Drive {
            link: drive.link.clone(), now: drive.now, pushed: drive.pushed.clone(),
            arrivals: drive.arrivals.clone(), prompt: true,
        };
        let futures = [drive, copy].map(|mut drive| {
            more.iter().for_each(|op| drive.step(op));
            drive.fetch(Instant::from_millis(3_600_000));
            drive.arrivals
        });
        prop_assert_eq!(&futures[0], &futures[1]);
    }

    /// Without jitter, nothing arrives sooner than transmission and delay allow.
    #[test]
    fn the_delay_is_a_lower_bound(rate in rate(), delay in 0..100_u64, loss in loss(), queue in queue(), ops in pushes()) {
        let config = LinkConfig { rate, delay: ms(delay), loss, queue, ..LinkConfig::default() };
        let drive = Drive::run(&config, &ops, true);
        prop_assert!(drive.arrivals.iter().all(|(at, packet)| *at >= drive.pushed[*packet].0 + ms(delay)));
    }

    /// If every neighbouring pair is at least one transmission time apart, no window of any length
    /// holds more than the rate allows.
    #[test]
    fn a_constant_rate_is_never_exceeded(bps in 1_000..200_000_000_u64, queue in queue(), ops in pushes()) {
        let rate = BitRate::from_bps(bps);
        let config = LinkConfig { rate: rate.into(), queue, ..LinkConfig::default() };
        let drive = Drive::run(&config, &ops, true);
        for pair in drive.arrivals.windows(2) {
            let bytes = Bytes::new(drive.pushed[pair[1].1].1);
            prop_assert!(pair[1].0.since(pair[0].0) >= rate.transmission_time(bytes));
        }
    }

    /// Between two departures, both included, at most 1500 bytes depart for each opportunity, besides
    /// the first packet, whose beginning may have gone before.
    #[test]
    fn a_trace_is_never_exceeded(rate in trace(), queue in queue(), ops in pushes()) {
        let Rate::Trace(trace) = rate.clone() else { unreachable!("a trace was asked for") };
        let config = LinkConfig { rate, queue, ..LinkConfig::default() };
        let drive = Drive::run(&config, &ops, true);
        for (first, (from, _)) in drive.arrivals.iter().enumerate() {
            let mut bytes = 0;
            for (to, packet) in &drive.arrivals[first + 1..] {
                bytes += drive.pushed[*packet].1;
                let before = trace.opportunities_before(*from);
                let opportunities = trace.opportunities_before(*to + Span::from_nanos(1)) - before;
                prop_assert!(bytes <= 1500 * opportunities, "{} B in {} opportunities", bytes, opportunities);
            }
        }
    }

    /// Scheduled changes and the same changes made from outside come to the same.
    #[test]
    fn a_schedule_is_changes_from_outside(rate in constant(), changes in changes(), bytes in prop::collection::vec(40..3_000_u64, 1..60)) {
        let config = LinkConfig { rate, delay: ms(10), ..LinkConfig::default() };
        let mut ordered = changes.clone();
        ordered.sort_by_key(|change| change.at);
        let ops: Vec<Op> = bytes.into_iter().map(Op::Push).collect();
        let scheduled = Drive::run(&LinkConfig { changes, ..config.clone() }, &ops, true);

        let mut driven = Drive::new(&config, true);
        let at_once = ordered.iter().take_while(|change| change.at == Instant::ZERO).count();
        let (at_once, later) = ordered.split_at(at_once);
        at_once.iter().for_each(|change| driven.step(&Op::Set(change.set.clone())));
        ops.iter().for_each(|op| driven.step(op));
        for change in later {
            driven.step(&Op::Wait(change.at.since(driven.now).as_nanos()));
            driven.step(&Op::Set(change.set.clone()));
        }
        driven.fetch(Instant::from_millis(3_600_000));
        prop_assert_eq!(scheduled.arrivals, driven.arrivals);
    }

    /// A link to which nothing happens takes a shorter way, until something does: the same as one whose change lies
    /// beyond the end.
    #[test]
    fn a_link_without_changes_is_one_whose_changes_never_come(
        rate in rate(), delay in 0..100_u64, queue in queue(), loss in loss(), ops in ops(), prompt in any::<bool>(),
    ) {
        let config = LinkConfig { rate, delay: ms(delay), queue, loss, ..LinkConfig::default() };
        let far = Instant::from_millis(1 << 40);
        let changes = vec![Change { at: far, set: Set::Up }];
        let general = LinkConfig { changes, ..config.clone() };
        let mut drives = [&config, &general].map(|config| Drive::new(config, prompt));
        for op in &ops {
            drives.iter_mut().for_each(|drive| drive.step(op));
            let [short, long] = drives.each_ref().map(|Drive { link, now, arrivals, .. }| {
                let waiting = (link.backlog(*now), link.queueing_delay(*now), link.pending());
                let ahead: Vec<Arrival> = link.arrivals().map(|(at, &item)| (at, item)).collect();
                (link.next_event().min(far), link.counts(), waiting, ahead, arrivals.clone())
            });
            prop_assert_eq!(short, long);
        }
    }
}
