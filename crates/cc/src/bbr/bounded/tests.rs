//! BBR over a toy pipe (`bbr/pipe.rs`): 10 Mbit/s of payload, 40 ms, 40 packets.

use super::*;
use crate::Controller;
use crate::bbr::pipe::{self, MSS};
use crate::bbr2::LINUX;

type Pipe = pipe::Pipe<Bounded>;

fn pipe(seed: u64) -> Pipe {
    Pipe::new(Bounded::new(LINUX, &pipe::setup(seed)))
}

/// Runs on until `ms`; returns when each mode began.
fn modes(pipe: &mut Pipe, ms: u64) -> Vec<(Mode, Instant)> {
    let mut begun = Vec::new();
    while pipe.now < Instant::from_millis(ms) {
        let before = pipe.bbr.mode;
        pipe.step();
        if pipe.bbr.mode != before {
            begun.push((pipe.bbr.mode, pipe.now));
        }
    }
    begun
}

#[test]
fn it_finds_the_rate_and_leaves_no_queue() {
    let mut pipe = pipe(1);
    pipe.run_until(Instant::from_millis(1000));
    let (mut most, mut in_cruise) = (0, 0);
    while pipe.now < Instant::from_millis(9000) {
        pipe.step();
        if pipe.bbr.mode == Mode::ProbeBw(Phase::Cruise) {
            most = most.max(pipe.in_flight.len());
            in_cruise += 1;
        }
    }
    let found = pipe.bbr.max_bw().as_mbps_f64();
    assert!((9.9..=10.0).contains(&found), "{found} Mbit/s");
    // Cruising begins once 40 packets are in flight before an ACK, and sends 99 for each 100.
    assert!(in_cruise > 1000 && most <= 41, "{most} packets");
    // Pacing stays a hundredth below the rate; draining ends with the pipe full.
    let used = pipe.used_until(Instant::from_millis(14_000));
    assert!((0.985..0.995).contains(&used), "{used}");
}

#[test]
fn startup_ends_soon_after_the_pipe_is_full() {
    let mut pipe = pipe(1);
    while pipe.bbr.mode == Mode::Startup {
        pipe.step();
    }
    // As in version 1: three round trips to fill it, four of at most 2.9 · 40 ms to see that.
    assert!(pipe.now < Instant::from_millis(3 * 40 + 4 * 116), "{}", pipe.now);
    assert!(pipe.bbr.core.full.reached && pipe.bbr.bounds.inflight_hi.is_none());
}

#[test]
fn the_phases_follow_one_another() {
    let mut pipe = pipe(1);
    pipe.run_until(Instant::from_millis(1000));
    let begun = modes(&mut pipe, 12_000);
    for pair in begun.windows(2) {
        let follows = match pair[0].0 {
            Mode::ProbeBw(Phase::Down) => Phase::Cruise,
            Mode::ProbeBw(Phase::Cruise) => Phase::Refill,
            Mode::ProbeBw(Phase::Refill) => Phase::Up,
            Mode::ProbeBw(Phase::Up) => Phase::Down,
            other => panic!("{other:?} in a pipe whose RTT is found again and again"),
        };
        assert_eq!(pair[1].0, Mode::ProbeBw(follows), "{pair:?}");
    }
    let refills: Vec<_> = begun.iter().filter(|(mode, _)| *mode == Mode::ProbeBw(Phase::Refill)).collect();
    assert!(refills.len() > 5, "{begun:?}");
    for pair in refills.windows(2) {
        // A round of REFILL, one to three of UP, which takes 10 packets at a quarter of the rate,
        // and 39 or 40 rounds from DOWN on, of 40 ms and what is queued, at most 12 ms.
        let apart = pair[1].1.since(pair[0].1);
        assert!((Span::from_millis(41 * 40)..Span::from_millis(44 * 42)).contains(&apart), "{apart}");
    }
}

#[test]
fn a_probe_waits_two_to_three_seconds() {
    let (mut least, mut most, mut rounds) = (Span::MAX, Span::ZERO, [false; 2]);
    for seed in 0..500 {
        let mut bbr = Bounded::new(LINUX, &pipe::setup(seed));
        bbr.enter_down(Instant::ZERO);
        least = least.min(bbr.cycle.wait);
        most = most.max(bbr.cycle.wait);
        rounds[bbr.cycle.rounds as usize] = true;
    }
    // 500 draws of a second leave gaps of more than 50 ms at its ends with a chance of e^-25.
    assert!((Span::from_secs(2)..Span::from_millis(2050)).contains(&least), "{least}");
    assert!((Span::from_millis(2950)..Span::from_secs(3)).contains(&most), "{most}");
    assert_eq!(rounds, [true; 2]);
}

#[test]
fn a_shallow_queue_loses_little() {
    let mut pipe = pipe(1);
    // Room for 8 packets beside the 40 of the pipe: an UP of 10 loses some.
    pipe.patience = Span::from_millis(8);
    pipe.run_until(Instant::from_millis(5000));
    let (sent, delivered) = (pipe.sent, pipe.delivered);
    let used = pipe.used_until(Instant::from_millis(30_000));
    let sent = pipe.sent - sent;
    let lost = sent.saturating_sub((pipe.delivered.get() - delivered.get()) / MSS.get());
    assert!(lost * 100 < sent, "{lost} of {sent} lost");
    // CRUISE keeps 85 % of what was found safe, which is the product or more.
    assert!(used > 0.8, "{used}");
    let hi = pipe.bbr.bounds.inflight_hi.expect("STARTUP or a probe lost over 2 %");
    assert!((28..=50).contains(&hi), "{hi} packets");
}

#[test]
fn one_lost_in_a_hundred_leaves_more_than_half_and_one_in_ten_less_than_half_of_that() {
    let mean = |every| {
        let mut pipe = pipe(1);
        pipe.lost_every = Some(every);
        pipe.run_until(Instant::from_millis(3000));
        pipe.used_until(Instant::from_millis(30_000))
    };
    // With one loss in a hundred a round may shrink by that and by the hundredth of pacing; at most
    // 40 rounds later a probe finds the rate again. One loss of 40 packets is too many for a probe,
    // which leaves 0.7 of the product or more, of which CRUISE keeps 85 %: 0.595 for 26 rounds, and
    // then 0.98^26 to 0.98^40, 0.52 in the mean: 0.567 in all.
    let rare = mean(100);
    assert!(rare > 0.56, "{rare}");
    // Every flight of over ten packets loses more than 2 %.
    let frequent = mean(10);
    assert!(frequent < rare / 2.0, "{frequent}");
}

#[test]
fn a_path_whose_rtt_never_falls_is_probed_every_five_seconds() {
    let mut pipe = pipe(1);
    // The round trip grows by 0.1 ms each second: no sample equals the smallest one.
    pipe.drift = Span::from_micros(100);
    let begun = modes(&mut pipe, 26_000);
    let probes: Vec<_> = begun.iter().filter(|(mode, _)| *mode == Mode::ProbeRtt).collect();
    assert_eq!(probes.len(), 5, "{probes:?}");
    for pair in probes.windows(2) {
        // 5 s after the last probe ended, which took 200 ms and up to three round trips.
        let apart = pair[1].1.since(pair[0].1);
        assert!((Span::from_millis(5200)..Span::from_millis(5350)).contains(&apart), "{apart}");
    }
}

#[test]
fn probe_rtt_leaves_half_the_product_in_flight() {
    let mut pipe = pipe(1);
    pipe.drift = Span::from_micros(100);
    let mut least = usize::MAX;
    while pipe.now < Instant::from_millis(6000) {
        pipe.step();
        if pipe.bbr.mode == Mode::ProbeRtt {
            assert!((20..=21).contains(&pipe.bbr.core.cwnd), "{} packets", pipe.bbr.core.cwnd);
            least = least.min(pipe.in_flight.len());
        }
    }
    // Just after an ACK, before the next packet leaves, one fewer.
    assert!((19..=20).contains(&least), "{least} packets");
    assert!(pipe.bbr.core.cwnd > 70, "the window comes back");
}

#[test]
fn restarting_from_idle_paces_at_the_estimate() {
    let mut pipe = pipe(1);
    pipe.run_until(Instant::from_millis(1000));
    while pipe.bbr.mode != Mode::ProbeBw(Phase::Up) {
        pipe.step();
    }
    let now = pipe.now;
    pipe.bbr.on_sent(&Sent { now, bytes: MSS, bytes_in_flight: MSS, after_idle: true, app_limited: true });
    assert_eq!(pipe.bbr.core.pacing.rate, pipe.bbr.max_bw().mul_div(99, 100));
}

#[test]
fn rates_are_remembered_for_two_cycles() {
    let mut filter = BwFilter::default();
    filter.add(7);
    filter.advance();
    filter.add(5);
    assert_eq!(filter.get(), 7);
    filter.advance();
    assert_eq!(filter.get(), 5);
    // A cycle without samples is no reason to forget.
    filter.advance();
    assert_eq!(filter.get(), 5);
}

#[test]
fn a_timeout_outside_a_probe_bounds_what_is_in_flight() {
    let mut pipe = pipe(1);
    pipe.run_until(Instant::from_millis(1000));
    assert_eq!(pipe.bbr.mode, Mode::ProbeBw(Phase::Cruise));
    let cwnd = pipe.bbr.core.cwnd;
    pipe.bbr.on_congestion(
        &Congestion {
            now: pipe.now,
            signal: Signal::Timeout,
            bytes_in_flight: MSS,
            lost: MSS,
            lost_sent: pipe.now,
            srtt: pipe::RTT,
        },
        &[],
    );
    assert_eq!(pipe.bbr.bounds.inflight_lo, Some(cwnd));
    assert_eq!(pipe.bbr.core.recovery, Recovery::Loss);
}

/// At 10 packets in 40 ms and 2.89 times that, a burst is two packets: three of them, if the product is smaller.
#[test]
fn three_bursts_may_be_in_flight_at_least() {
    let bbr = pipe(1).bbr;
    assert_eq!(bbr.in_flight_for(BitRate::from_bps(100_000), UNIT), 6);
    assert_eq!(bbr.in_flight_for(BitRate::from_mbps(10), UNIT), 40);
}
