//! Properties of every controller of the registry, whatever happens to it.

use proptest::collection::vec;
use proptest::prelude::*;
use weftway_cc::{Acked, Congestion, Controller, Flavour, Sent, Setup, Share, Signal, all};
use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

const MSS: u64 = 1200;

/// Event that may happen.
#[derive(Clone, Copy, Debug)]
enum Op {
    Ack { bytes: u64, lost: u64, rtt: u64, rate: Option<u64>, flags: u8, recovery: u8 },
    Sent { bytes: u64, after_idle: bool },
    Congestion { signal: u8, ago: u64 },
    Set { bytes: u64 },
    Pass { ns: u64 },
    Spurious,
    Recovered,
    Penalty,
}

/// Ordinary values, and the edges.
fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..100_000u64, 1 => Just(0), 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (amount(), amount(), amount(), proptest::option::of(amount()), any::<u8>(), 0..5u8)
            .prop_map(|(bytes, lost, rtt, rate, flags, recovery)| Op::Ack { bytes, lost, rtt: rtt.saturating_mul(1000), rate, flags, recovery }),
        4 => (1..MSS, any::<bool>()).prop_map(|(bytes, after_idle)| Op::Sent { bytes, after_idle }),
        2 => (0..4u8, amount()).prop_map(|(signal, ago)| Op::Congestion { signal, ago }),
        1 => amount().prop_map(|bytes| Op::Set { bytes }),
        1 => amount().prop_map(|us| Op::Pass { ns: us.saturating_mul(1000) }),
        1 => Just(Op::Spurious),
        1 => Just(Op::Recovered),
        1 => Just(Op::Penalty),
    ]
}

/// Packet size, initial window, flavour, seed.
fn start() -> impl Strategy<Value = Setup> {
    (prop_oneof![Just(MSS), 1..65_536u64], amount(), any::<bool>(), any::<u64>()).prop_map(
        |(mss, window, linux, seed)| Setup {
            mss: Bytes::new(mss),
            initial_window: Bytes::new(window),
            ..setup(if linux { Flavour::Linux } else { Flavour::Quic }, seed)
        },
    )
}

fn sibling() -> impl Strategy<Value = (u64, u64, u64, bool)> {
    (amount(), amount(), amount(), any::<bool>())
}

fn setup(flavour: Flavour, seed: u64) -> Setup {
    Setup {
        path: PathId::new(0),
        mss: Bytes::new(MSS),
        initial_window: Bytes::new(10 * MSS),
        flavour,
        seed,
        now: Instant::ZERO,
        rtt: None,
    }
}

/// The connection around one controller.
struct World {
    controller: Box<dyn Controller>,
    siblings: Vec<Share>,
    now: Instant,
    delivered: Bytes,
}

impl World {
    fn new(controller: Box<dyn Controller>, siblings: &[(u64, u64, u64, bool)]) -> Self {
        let siblings = (0..).zip(siblings).map(|(path, &(cwnd, srtt, inter_loss, usable))| Share {
            path: PathId::new(path),
            cwnd: Bytes::new(cwnd),
            mss: Bytes::new(MSS),
            srtt: Span::from_nanos(srtt),
            inter_loss: Bytes::new(inter_loss),
            bandwidth: BitRate::from_bps(cwnd),
            link_rate: BitRate::ZERO,
            steady: true,
            bottleneck: usable.then_some(0),
            contended: usable,
            usable,
        });
        Self { controller, siblings: siblings.collect(), now: Instant::ZERO, delivered: Bytes::ZERO }
    }

    fn apply(&mut self, op: Op) {
        self.now += Span::from_millis(1);
        match op {
            Op::Ack { .. } => self.ack(op),
            Op::Sent { bytes, after_idle } => self.controller.on_sent(&Sent {
                now: self.now,
                bytes: Bytes::new(bytes),
                bytes_in_flight: Bytes::new(bytes),
                after_idle,
                app_limited: after_idle,
            }),
            Op::Congestion { signal, ago } => self.congestion(signal, ago),
            Op::Pass { ns } => self.now += Span::from_nanos(ns),
            Op::Set { bytes } => self.controller.set_cwnd(Bytes::new(bytes)),
            Op::Spurious => self.controller.on_spurious(self.now),
            Op::Recovered => self.controller.on_recovered(self.now),
            Op::Penalty => self.controller.on_penalty(),
        }
    }

    fn ack(&mut self, op: Op) {
        let Op::Ack { bytes, lost, rtt, rate, flags, recovery } = op else { return };
        let bit = |n: u8| flags >> n & 1 == 1;
        let before = self.delivered;
        self.delivered += Bytes::new(bytes);
        self.controller.on_acked(
            &Acked {
                now: self.now,
                bytes: Bytes::new(bytes),
                lost: Bytes::new(lost),
                prior_in_flight: self.controller.cwnd(),
                bytes_in_flight: Bytes::new(bytes / 2),
                rtt: bit(0).then_some(Span::from_nanos(rtt)),
                srtt: Span::from_nanos(rtt),
                min_rtt: Span::from_nanos(rtt),
                newest_sent: self.now - Span::from_nanos(rtt),
                delivered: self.delivered,
                prior_delivered: if bit(1) { before } else { Bytes::ZERO },
                rate: rate.map(BitRate::from_bps),
                interval: Span::from_nanos(rtt),
                app_limited: bit(2),
                cwnd_limited: !bit(3),
                recovery: [Recovery::Open, Recovery::Disorder, Recovery::Cwr, Recovery::Recovery, Recovery::Loss]
                    [usize::from(recovery)],
                reducing: bit(4) && bit(5),
            },
            &self.siblings,
        );
    }

    fn congestion(&mut self, signal: u8, ago: u64) {
        self.controller.on_congestion(
            &Congestion {
                now: self.now,
                signal: [Signal::Loss, Signal::Ecn, Signal::Timeout, Signal::Persistent][usize::from(signal)],
                bytes_in_flight: self.controller.cwnd(),
                lost: Bytes::new(ago),
                lost_sent: self.now - Span::from_nanos(ago),
                srtt: Span::from_nanos(ago),
            },
            &self.siblings,
        );
    }

    /// Everything that a host can see of the controller.
    fn seen(&self) -> (Bytes, Bytes, Option<BitRate>, Bytes, String) {
        let controller = &self.controller;
        let share = controller.share();
        let shown = format!("{} {share:?}", controller.snapshot());
        (controller.cwnd(), controller.ssthresh(), controller.pacing_rate(), controller.send_quantum(), shown)
    }
}

fn config() -> ProptestConfig {
    let rng_seed = prop::test_runner::RngSeed::Fixed(7);
    ProptestConfig { cases: 256, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn windows_stay_in_their_limits(setup in start(), ops in vec(op(), 1..200), siblings in vec(sibling(), 1..=64)) {
        let mss = setup.mss.get();
        let least = if setup.flavour == Flavour::Quic { 2 * mss } else { mss };
        for entry in all() {
            let mut world = World::new(entry.make(&[], &setup).unwrap(), &siblings);
            for op in &ops {
                world.apply(*op);
                let controller = &world.controller;
                prop_assert!(controller.cwnd().get() >= least, "{}: {}", entry.name, controller.cwnd());
                prop_assert!(controller.ssthresh().get() >= 2 * mss, "{}: {}", entry.name, controller.ssthresh());
                prop_assert!(controller.send_quantum().get() >= mss, "{}", entry.name);
                prop_assert_eq!(controller.pacing_rate().is_some(), entry.paced);
            }
        }
    }

    #[test]
    fn a_clone_and_a_second_run_behave_alike(
        setup in start(),
        ops in vec(op(), 1..100),
        more in vec(op(), 1..100),
        siblings in vec(sibling(), 1..8),
    ) {
        for entry in all() {
            let make = || World::new(entry.make(&[], &setup).unwrap(), &siblings);
            let (mut first, mut second) = (make(), make());
            for op in &ops {
                first.apply(*op);
                second.apply(*op);
            }
            prop_assert_eq!(first.seen(), second.seen());
            let mut copy = World { controller: first.controller.clone(), siblings: first.siblings.clone(), ..first };
            for op in &more {
                copy.apply(*op);
                second.apply(*op);
            }
            prop_assert_eq!(copy.seen(), second.seen());
        }
    }
}

/// Every switch of `values = "a | b"` builds with each choice, and with nothing else.
#[test]
fn every_choice_of_every_switch_builds() {
    for entry in all() {
        for param in entry.params.iter().filter(|param| param.values.contains('|')) {
            for value in param.values.split(" | ").chain([param.default]) {
                let given = [(param.name.to_owned(), value.to_owned())];
                for flavour in [Flavour::Linux, Flavour::Quic] {
                    assert!(entry.make(&given, &setup(flavour, 0)).is_ok(), "{}:{}={value}", entry.name, param.name);
                }
            }
            let wrong = [(param.name.to_owned(), "no-such-choice".to_owned())];
            assert!(entry.make(&wrong, &setup(Flavour::Quic, 0)).is_err(), "{}:{}", entry.name, param.name);
        }
    }
}

#[test]
fn names_are_unique_and_found() {
    for entry in all() {
        for name in entry.aliases.iter().chain([&entry.name]) {
            assert_eq!(weftway_cc::find(name).map(|found| found.name), Some(entry.name));
        }
    }
    assert!(weftway_cc::find("no-such-controller").is_none());
}

/// A window that nobody limits and nothing disturbs doubles once before it could have trebled.
#[test]
fn every_controller_grows_from_its_start() {
    for (entry, flavour) in all().iter().flat_map(|entry| [(entry, Flavour::Linux), (entry, Flavour::Quic)]) {
        let mut world = World::new(entry.make(&[], &setup(flavour, 1)).unwrap(), &[]);
        let start = world.controller.cwnd();
        for _ in 0..10 {
            world.apply(Op::Ack {
                bytes: MSS,
                lost: 0,
                rtt: 40_000_000,
                rate: Some(100_000_000),
                flags: 1,
                recovery: 0,
            });
        }
        let grown = world.controller.cwnd().get();
        assert_eq!(grown, 2 * start.get(), "{} {flavour:?}", entry.name);
    }
}

/// A controller with a window of 20 packets, under RFC 9002.
fn wide(entry: &weftway_cc::Entry) -> World {
    let start = Setup { initial_window: Bytes::new(20 * MSS), ..setup(Flavour::Quic, 1) };
    World::new(entry.make(&[], &start).unwrap(), &[])
}

/// A loss takes a tenth to a half of the window of whoever does not pace, and leaves the threshold there. That the loss
/// was none gives everything back.
#[test]
fn a_loss_reduces_and_a_spurious_one_is_taken_back() {
    for entry in all() {
        let mut world = wide(entry);
        world.apply(Op::Congestion { signal: 0, ago: 0 });
        let (cwnd, ssthresh) = (world.controller.cwnd().get(), world.controller.ssthresh());
        if !entry.paced {
            assert!((10 * MSS..=18 * MSS).contains(&cwnd), "{}: {cwnd}", entry.name);
            assert_eq!(ssthresh.get(), cwnd, "{}", entry.name);
        }
        world.apply(Op::Spurious);
        assert_eq!(world.controller.cwnd().get(), 20 * MSS, "{}", entry.name);
        assert_eq!(world.controller.ssthresh(), Bytes::MAX, "{}", entry.name);
    }
}

/// RFC 9002 §7.6.2: persistent congestion leaves the least window, two packets; of BBR four (`bbr_cwnd_min_target`).
#[test]
fn persistent_congestion_leaves_the_least_window() {
    for entry in all() {
        let mut world = wide(entry);
        world.apply(Op::Congestion { signal: 3, ago: 0 });
        let least = if entry.paced { 4 } else { 2 };
        assert_eq!(world.controller.cwnd().get(), least * MSS, "{}", entry.name);
    }
}

#[test]
fn a_penalty_halves_the_window_and_a_set_window_is_taken() {
    for entry in all() {
        let mut world = wide(entry);
        world.apply(Op::Penalty);
        assert_eq!(world.controller.cwnd().get(), 10 * MSS, "{}", entry.name);
        world.apply(Op::Set { bytes: 14 * MSS });
        assert_eq!(world.controller.cwnd().get(), 14 * MSS, "{}", entry.name);
    }
}

/// An estimate of a path's start is none that siblings may divide by.
#[test]
fn no_estimate_is_steady_before_the_path_was_full() {
    for entry in all().iter().filter(|entry| entry.paced) {
        assert!(!wide(entry).controller.share().steady, "{}", entry.name);
    }
}

proptest! {
    #![proptest_config(config())]

    /// Without a bottleneck that is known to be shared MPTCP-BBR is BBRv1, in everything that a host can see.
    #[test]
    fn mptcp_bbr_alone_is_bbr1(setup in start(), ops in vec(op(), 1..100)) {
        let make = |name| World::new(weftway_cc::build(name, &setup).unwrap(), &[]);
        let (mut coupled, mut alone) = (make("mptcp-bbr"), make("bbr1"));
        for op in &ops {
            coupled.apply(*op);
            alone.apply(*op);
            prop_assert_eq!(coupled.seen(), alone.seen());
            let host = |world: &World| (world.controller.owns_recovery(), world.controller.send_memory_windows());
            prop_assert_eq!(host(&coupled), host(&alone));
        }
    }
}

/// `bbr_sndbuf_expand` grants three windows; who does not pace has two.
#[test]
fn send_memory_holds_two_windows_or_three() {
    for entry in all() {
        let windows = if entry.paced { 3 } else { 2 };
        assert_eq!(wide(entry).controller.send_memory_windows(), windows, "{}", entry.name);
        // A window that follows a rate has nothing to reduce to in proportion.
        let owns = entry.paced || entry.name == "bdp";
        assert_eq!(wide(entry).controller.owns_recovery(), owns, "{}", entry.name);
    }
}
