//! BBR over a toy pipe (`bbr/pipe.rs`): 10 Mbit/s of payload, 40 ms, 40 packets.

use super::*;
use crate::Controller;
use crate::bbr::Pacing;
use crate::bbr::pipe::{self, MSS, RATE, blank};

type Pipe = pipe::Pipe<Bbr1<Alone>>;

/// BBR on the pipe, whose round trip grows by `drift` each second.
fn pipe(seed: u64, drift: Span) -> Pipe {
    let mut pipe = Pipe::new(Bbr1::new(LINUX, Cycles::Alike, Alone, &pipe::setup(seed)));
    pipe.drift = drift;
    pipe
}

#[test]
fn it_finds_the_rate_and_holds_twice_the_product() {
    let mut pipe = pipe(1, Span::ZERO);
    pipe.run_until(Instant::from_millis(3000));
    let used = pipe.used_until(Instant::from_millis(8000));
    assert_eq!(pipe.bbr.mode, Mode::ProbeBw);
    let found = pipe.bbr.max_bw().as_mbps_f64();
    assert!((9.9..=10.0).contains(&found), "{found} Mbit/s");
    // 2 · 40 packets, three bursts of at most two, one of aggregation, two when probing: 80 to 90.
    assert!((80..=90).contains(&pipe.bbr.core.cwnd), "{} packets", pipe.bbr.core.cwnd);
    // Pacing stays a hundredth below the rate while it cruises, six phases of eight, and what the
    // probe queues keeps the link busy meanwhile.
    assert!((0.985..=1.001).contains(&used), "{used}");
}

#[test]
fn startup_ends_soon_after_the_pipe_is_full() {
    let mut pipe = pipe(1, Span::ZERO);
    while pipe.bbr.mode == Mode::Startup {
        pipe.step();
    }
    // The rate of 10 packets in 40 ms doubles twice to fill the pipe of 40. Another round measures
    // that, three show no growth, and queues stretch rounds to 2.9 times 40 ms at most.
    assert!(pipe.now < Instant::from_millis(3 * 40 + 4 * 116), "{}", pipe.now);
    assert!(pipe.bbr.core.full.reached && pipe.bbr.max_bw() > BitRate::from_bps(9_900_000));
}

#[test]
fn a_path_whose_rtt_never_falls_is_probed_every_ten_seconds() {
    // The round trip grows by 0.1 ms each second: no sample equals the smallest one.
    let mut pipe = pipe(1, Span::from_micros(100));
    let mut entered = Vec::new();
    let mut probing = false;
    while pipe.now < Instant::from_millis(45_000) {
        pipe.step();
        let now_probing = pipe.bbr.mode == Mode::ProbeRtt;
        if now_probing && !probing {
            entered.push(pipe.now);
        }
        probing = now_probing;
    }
    assert_eq!(entered.len(), 4, "{entered:?}");
    for pair in entered.windows(2) {
        // 10 s after the last probe ended, which took 200 ms and up to three round trips.
        let apart = pair[1].since(pair[0]);
        assert!((Span::from_millis(10_200)..Span::from_millis(10_350)).contains(&apart), "{apart}");
    }
}

#[test]
fn probe_rtt_leaves_four_packets_in_flight() {
    let mut pipe = pipe(1, Span::from_micros(100));
    let mut least = u64::MAX;
    while pipe.now < Instant::from_millis(11_000) {
        pipe.step();
        if pipe.bbr.mode == Mode::ProbeRtt {
            assert_eq!(pipe.bbr.core.cwnd, LEAST);
            least = least.min(pipe.in_flight.len() as u64);
        }
    }
    // Just after an ACK, before the next packet leaves, one fewer.
    assert_eq!(least, LEAST - 1);
    assert!(pipe.bbr.core.cwnd > 80, "the window comes back");
}

#[test]
fn the_gains_of_a_cycle_average_one() {
    assert_eq!(CYCLE.iter().sum::<u64>(), CYCLE.len() as u64 * UNIT);
    let mut pipe = pipe(1, Span::ZERO);
    pipe.run_until(Instant::from_millis(2000));
    let (mut weighted, mut total) = (0, 0);
    while pipe.now < Instant::from_millis(9000) {
        let (before, gain) = (pipe.now, pipe.bbr.core.pacing_gain);
        pipe.step();
        let span = pipe.now.since(before).as_nanos();
        weighted += gain * span;
        total += span;
    }
    let mean = weighted as f64 / (total * UNIT) as f64;
    // Phases last a round trip and the ACK that ends them; the outer two may differ by a few ACKs.
    assert!((0.98..=1.02).contains(&mean), "{mean}");
}

#[test]
fn probe_bw_begins_in_any_phase_but_the_draining_one() {
    let mut begun = [false; CYCLE.len()];
    for seed in 0..200 {
        let mut pipe = pipe(seed, Span::ZERO);
        pipe.bbr.enter_probe_bw(Instant::ZERO);
        begun[pipe.bbr.cycle.index] = true;
    }
    assert_eq!(begun, [true, false, true, true, true, true, true, true]);
}

#[test]
fn restarting_from_idle_paces_at_the_estimate() {
    let mut pipe = pipe(1, Span::ZERO);
    pipe.run_until(Instant::from_millis(2000));
    while pipe.bbr.core.pacing_gain <= UNIT {
        pipe.step();
    }
    let now = pipe.now;
    pipe.bbr.on_sent(&Sent { now, bytes: MSS, bytes_in_flight: MSS, after_idle: true, app_limited: true });
    assert_eq!(pipe.bbr.core.pacing.rate, pipe.bbr.max_bw().mul_div(99, 100));
}

/// In PROBE_BW, in phase `index`, with a product of 40 packets.
fn cruising(index: usize) -> Pipe {
    let mut pipe = pipe(1, Span::ZERO);
    pipe.run_until(Instant::from_millis(2000));
    pipe.bbr.bw = MaxFilter::new(BW_ROUNDS);
    pipe.bbr.bw.add(pipe.bbr.core.round.count, RATE.as_bps());
    pipe.bbr.mode = Mode::ProbeBw;
    pipe.bbr.cycle = Cycle { index, phases: CYCLE.len(), began: pipe.now };
    pipe.bbr.update_gains();
    pipe.bbr.core.pacing = Pacing::new(RATE, pipe.bbr.core.mss);
    pipe
}

#[test]
fn the_probing_phase_may_hold_two_packets_more() {
    // Bursts at 10 Mbit/s are two packets: 40 + 3 · 2 = 46.
    assert_eq!(cruising(2).bbr.target_in_flight(UNIT), 46);
    assert_eq!(cruising(0).bbr.target_in_flight(UNIT), 48);
}

#[test]
fn phases_end_by_time_or_by_what_is_in_flight() {
    let over = |index: usize, ms: u64, packets: u64, lost: u64| {
        let pipe = cruising(index);
        let mut acked = blank(pipe.now + Span::from_millis(ms));
        acked.prior_in_flight = Bytes::new(packets * MSS.get());
        acked.lost = Bytes::new(lost * MSS.get());
        pipe.bbr.is_phase_over(&acked)
    };
    // Cruising ends by time alone.
    assert!(!over(2, 39, 0, 0) && over(2, 41, 100, 0));
    // Draining ends by time, or once 46 packets or fewer are in flight.
    assert!(!over(1, 10, 47, 0) && over(1, 10, 46, 0) && over(1, 41, 47, 0));
    // Probing wants 1.25 · 40 + 3 · 2 + 2 = 58 in flight, the burst of two about to leave among
    // them, unless packets are lost; never before its time.
    assert!(!over(0, 41, 55, 0) && over(0, 41, 56, 0) && over(0, 41, 55, 1) && !over(0, 39, 60, 1));
}

/// 1250 B at a hundredth of the path's rate: the product is 500 B, and with it three bursts of two packets 8 in all.
#[test]
fn startup_grows_whatever_the_target_until_ten_packets_have_arrived() {
    let mut bbr = Bbr1::new(LINUX, Cycles::Alike, Alone, &pipe::setup(1));
    let mut ack = |packets: u64| {
        let mut acked = blank(Instant::from_millis(40 + packets));
        acked.delivered = Bytes::new(packets * MSS.get());
        acked.rate = Some(BitRate::from_bps(100_000));
        bbr.on_acked(&acked, &[]);
        bbr.core.cwnd
    };
    assert_eq!((ack(1), ack(9), ack(10), ack(11)), (11, 12, 12, 12));
}

#[test]
fn the_pipe_is_full_below_a_quarter_of_growth_or_a_tenth() {
    for (form, least) in [(LINUX, 1250), (XQUIC, 1100)] {
        let is_full = |bw| {
            let mut full = crate::bbr::FullPipe::default();
            full.judge(1000, form.full_growth);
            (0..3).for_each(|_| full.judge(bw, form.full_growth));
            full.reached
        };
        // In 256ths, rounded down.
        assert!(is_full(least - 10) && !is_full(least));
    }
}
