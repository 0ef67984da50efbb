//! BBR over a toy pipe: 10 Mbit/s of payload, a 40 ms round trip, an unbounded queue, an ACK for
//! each packet of 1250 B. A packet takes 1 ms, the pipe holds 40.

use std::collections::VecDeque;

use super::*;

const MSS: Bytes = Bytes::new(1250);
const RATE: BitRate = BitRate::from_mbps(10);
const RTT: Span = Span::from_millis(40);

struct Packet {
    sent: Instant,
    acked: Instant,
    delivered: Bytes,
    delivered_at: Instant,
    first_sent: Instant,
}

struct Pipe {
    bbr: Bbr1,
    now: Instant,
    in_flight: VecDeque<Packet>,
    free: Instant,
    release: Instant,
    delivered: Bytes,
    delivered_at: Instant,
    first_sent: Instant,
    /// By how much the round trip grows each second.
    drift: Span,
}

impl Pipe {
    fn new(seed: u64, drift: Span) -> Self {
        let setup = Setup {
            path: PathId::new(0),
            mss: MSS,
            initial_window: Bytes::new(10 * 1250),
            flavour: Flavour::Linux,
            seed,
            now: Instant::ZERO,
            rtt: Some(RTT),
        };
        Self {
            bbr: Bbr1::new(LINUX, &setup),
            now: Instant::ZERO,
            in_flight: VecDeque::new(),
            free: Instant::ZERO,
            release: Instant::ZERO,
            delivered: Bytes::ZERO,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            drift,
        }
    }

    fn outstanding(&self) -> Bytes {
        Bytes::new(self.in_flight.len() as u64 * MSS.get())
    }

    /// Sends or acknowledges one packet, whichever comes first.
    fn step(&mut self) {
        let send = if self.outstanding() < self.bbr.cwnd() { self.release.max(self.now) } else { Instant::NEVER };
        let ack = self.in_flight.front().map_or(Instant::NEVER, |packet| packet.acked);
        self.now = send.min(ack);
        if send < ack { self.send() } else { self.acknowledge() }
    }

    fn send(&mut self) {
        if self.in_flight.is_empty() {
            (self.delivered_at, self.first_sent) = (self.now, self.now);
        }
        self.free = self.free.max(self.now) + RATE.transmission_time(MSS);
        let rtt = RTT + self.drift.mul_div(self.now.as_nanos(), 1_000_000_000);
        self.in_flight.push_back(Packet {
            sent: self.now,
            // The time on the link is part of the round trip.
            acked: self.free + rtt.saturating_sub(RATE.transmission_time(MSS)),
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
        });
        self.release = self.now + self.bbr.pacing.transmission_time(MSS);
    }

    fn acknowledge(&mut self) {
        let prior_in_flight = self.outstanding();
        let packet = self.in_flight.pop_front().expect("an ACK was due");
        self.delivered += MSS;
        (self.delivered_at, self.first_sent) = (self.now, packet.sent);
        let interval = packet.sent.since(packet.first_sent).max(self.now.since(packet.delivered_at));
        let rtt = self.now.since(packet.sent);
        let sample = Bytes::new(self.delivered.get() - packet.delivered.get());
        let acked = Acked {
            prior_in_flight,
            bytes_in_flight: self.outstanding(),
            rtt: Some(rtt),
            srtt: rtt,
            newest_sent: packet.sent,
            delivered: self.delivered,
            prior_delivered: packet.delivered,
            rate: (interval >= RTT).then(|| BitRate::of(sample, interval)),
            interval,
            ..blank(self.now)
        };
        self.bbr.on_acked(&acked, &[]);
    }

    fn run_until(&mut self, end: Instant) {
        while self.now < end {
            self.step();
        }
    }
}

#[test]
fn it_finds_the_rate_and_holds_twice_the_product() {
    let mut pipe = Pipe::new(1, Span::ZERO);
    pipe.run_until(Instant::from_millis(3000));
    let before = pipe.delivered;
    pipe.run_until(Instant::from_millis(8000));
    assert_eq!(pipe.bbr.mode, Mode::ProbeBw);
    let found = pipe.bbr.max_bw().as_mbps_f64();
    assert!((9.9..=10.0).contains(&found), "{found} Mbit/s");
    // 2 · 40 packets, three bursts of at most two, one of aggregation, two when probing: 80 to 90.
    assert!((80..=90).contains(&pipe.bbr.cwnd), "{} packets", pipe.bbr.cwnd);
    // Pacing stays a hundredth below the rate, and half of the 3/4 phase may be lost: 97 %.
    let goodput = BitRate::of(Bytes::new(pipe.delivered.get() - before.get()), Span::from_secs(5));
    assert!(goodput.as_mbps_f64() > 9.7, "{goodput}");
}

#[test]
fn startup_ends_soon_after_the_pipe_is_full() {
    let mut pipe = Pipe::new(1, Span::ZERO);
    while pipe.bbr.mode == Mode::Startup {
        pipe.step();
    }
    // The rate of 10 packets in 40 ms doubles twice to fill the pipe of 40. Another round measures
    // that, three show no growth, and queues stretch rounds to 2.9 times 40 ms at most.
    assert!(pipe.now < Instant::from_millis(3 * 40 + 4 * 116), "{}", pipe.now);
    assert!(pipe.bbr.full.reached && pipe.bbr.max_bw() > BitRate::from_bps(9_900_000));
}

#[test]
fn a_path_whose_rtt_never_falls_is_probed_every_ten_seconds() {
    // The round trip grows by 0.1 ms each second: no sample equals the smallest one.
    let mut pipe = Pipe::new(1, Span::from_micros(100));
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
    let mut pipe = Pipe::new(1, Span::from_micros(100));
    let mut least = u64::MAX;
    while pipe.now < Instant::from_millis(11_000) {
        pipe.step();
        if pipe.bbr.mode == Mode::ProbeRtt {
            assert_eq!(pipe.bbr.cwnd, LEAST);
            least = least.min(pipe.in_flight.len() as u64);
        }
    }
    // Just after an ACK, before the next packet leaves, one fewer.
    assert_eq!(least, LEAST - 1);
    assert!(pipe.bbr.cwnd > 80, "the window comes back");
}

#[test]
fn the_gains_of_a_cycle_average_one() {
    assert_eq!(CYCLE.iter().sum::<u64>(), CYCLE.len() as u64 * UNIT);
    let mut pipe = Pipe::new(1, Span::ZERO);
    pipe.run_until(Instant::from_millis(2000));
    let (mut weighted, mut total) = (0, 0);
    while pipe.now < Instant::from_millis(9000) {
        let (before, gain) = (pipe.now, pipe.bbr.pacing_gain);
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
        let mut pipe = Pipe::new(seed, Span::ZERO);
        pipe.bbr.enter_probe_bw(Instant::ZERO);
        begun[pipe.bbr.cycle.index] = true;
    }
    assert_eq!(begun, [true, false, true, true, true, true, true, true]);
}

#[test]
fn restarting_from_idle_paces_at_the_estimate() {
    let mut pipe = Pipe::new(1, Span::ZERO);
    pipe.run_until(Instant::from_millis(2000));
    while pipe.bbr.pacing_gain <= UNIT {
        pipe.step();
    }
    let now = pipe.now;
    pipe.bbr.on_sent(&Sent { now, bytes: MSS, bytes_in_flight: MSS, after_idle: true, app_limited: true });
    assert_eq!(pipe.bbr.pacing, pipe.bbr.max_bw().mul_div(99, 100));
}

/// In PROBE_BW, in phase `index`, with a product of 40 packets.
fn cruising(index: usize) -> Pipe {
    let mut pipe = Pipe::new(1, Span::ZERO);
    pipe.run_until(Instant::from_millis(2000));
    pipe.bbr.bw = MaxFilter::new(BW_ROUNDS);
    pipe.bbr.bw.add(pipe.bbr.round.count, RATE.as_bps());
    pipe.bbr.mode = Mode::ProbeBw;
    pipe.bbr.cycle = Cycle { index, began: pipe.now };
    pipe.bbr.update_gains();
    pipe.bbr.pacing = RATE;
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

fn blank(now: Instant) -> Acked {
    Acked {
        now,
        bytes: MSS,
        lost: Bytes::ZERO,
        prior_in_flight: Bytes::ZERO,
        bytes_in_flight: Bytes::ZERO,
        rtt: Some(RTT),
        srtt: RTT,
        min_rtt: RTT,
        newest_sent: now - RTT,
        delivered: Bytes::ZERO,
        prior_delivered: Bytes::ZERO,
        rate: None,
        interval: RTT,
        app_limited: false,
        cwnd_limited: true,
        recovery: Recovery::Open,
        reducing: false,
    }
}
