//! Controllers against the laws that their papers derive, with the arithmetic done by hand.

use weftway_cc::{Acked, Congestion, Controller, Flavour, Sent, Setup, Share, Signal, build};
use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

/// Large, so that rounding to bytes does not show.
const MSS: u64 = 100_000;

fn setup(flavour: Flavour, path: u8, window: f64) -> Setup {
    Setup {
        path: PathId::new(path),
        mss: Bytes::new(MSS),
        initial_window: bytes(window),
        flavour,
        seed: 1,
        now: Instant::ZERO,
        rtt: None,
    }
}

fn bytes(packets: f64) -> Bytes {
    Bytes::new((packets * MSS as f64) as u64)
}

fn packets(controller: &dyn Controller) -> f64 {
    controller.cwnd().get() as f64 / MSS as f64
}

/// An ACK of one packet at `now`, which left an rtt before; the path lets 10 Mbit/s through.
fn acked(now: Instant, rtt: Span) -> Acked {
    Acked {
        now,
        bytes: Bytes::new(MSS),
        lost: Bytes::ZERO,
        prior_in_flight: Bytes::new(MSS),
        bytes_in_flight: Bytes::new(MSS),
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        newest_sent: now - rtt,
        delivered: Bytes::ZERO,
        prior_delivered: Bytes::ZERO,
        rate: None,
        interval: rtt,
        app_limited: false,
        cwnd_limited: true,
        recovery: Recovery::Open,
        reducing: false,
    }
}

fn loss(now: Instant, rtt: Span) -> Congestion {
    let lost = Bytes::new(MSS);
    Congestion { now, signal: Signal::Loss, bytes_in_flight: lost, lost, lost_sent: now - rtt, srtt: rtt }
}

/// The mean window, over rounds, of a path that loses each `period`th packet. Flights are sent at
/// once, and a loss is repaired at once: no round is spent in recovery.
fn mean_window(name: &str, flavour: Flavour, period: u64, rtt: Span) -> f64 {
    let mut controller = build(name, &setup(flavour, 0, 10.0)).unwrap();
    let (mut now, mut sent, mut rounds, mut windows) = (Instant::ZERO, 0u64, 0u32, 0.0);
    // The first losses end slow start; then two hundred periods count.
    while sent < 250 * period {
        // Just after the last round, so that what it lost does not concern this one.
        now += rtt + Span::from_micros(1);
        let window = packets(&*controller);
        if sent > 50 * period {
            (rounds, windows) = (rounds + 1, windows + window);
        }
        for _ in 0..window as u64 {
            sent += 1;
            if sent.is_multiple_of(period) {
                controller.on_congestion(&loss(now, rtt), &[]);
                // Linux: the engine brings the window to the threshold.
                controller.set_cwnd(controller.ssthresh());
            } else {
                controller.on_acked(&acked(now, rtt), &[]);
            }
        }
    }
    windows / f64::from(rounds)
}

/// Between losses the window climbs from W/2 to W in W/2 round trips, during which 3/8 W² = 1/p packets
/// pass: 3/4 W = sqrt(3/(2p)) on average, 38.7, 12.2 and 7.0. In whole rounds both ends of the climb
/// are flown, 3/8 W² + 3/4 W packets in W/2 + 1 rounds, which is 3/4 packet less; half windows are
/// cut to whole packets: together at most a packet and a half.
#[test]
fn reno_follows_the_square_root_of_the_loss_rate() {
    for flavour in [Flavour::Linux, Flavour::Quic] {
        for period in [1000, 100, 33] {
            let law = (1.5 * period as f64).sqrt();
            let mean = mean_window("newreno", flavour, period, Span::from_millis(100));
            println!("newreno {flavour:?} 1/{period}: {mean:.2}, law {law:.2}");
            assert!((law - 1.5..law + 0.5).contains(&mean), "{flavour:?}, 1/{period}: {mean} for {law}");
        }
    }
}

/// RFC 9438 §5.1: ((C · (3 + β)) / (4 · (1 − β)))^(1/4) · (rtt / p)^(3/4) = 1.054 · (rtt / p)^(3/4), which is 187
/// packets at 100 ms and one loss in 10 000; and as Reno, 38.7, where that is more, at one in 1000. The law is for
/// windows that change at every instant; a window that is updated over a round trip of 0.1 s lags behind a cubic whose
/// period, (W(1 − β)/C)^(1/3), is 5.4 s: a tenth covers it. Near Reno the window grows by a whole packet, not by α =
/// 0.53, once the last window is reached. Fast convergence is no part of the law. Linux counts whole packets: within
/// (1/C)^(1/3) = 1.4 s of its middle the curve is flat, so that a loss may come that much before K and find the same
/// window again. With a window of 263 at the loss K is 5.8 s, and 4.2 s bring the 10 000 packets: a mean of 237, 1.27
/// times the law.
#[test]
fn cubic_follows_its_response_function() {
    for flavour in [Flavour::Linux, Flavour::Quic] {
        for (period, law) in [(10_000u64, 1.054 * 1000f64.powf(0.75)), (1000, 1500f64.sqrt())] {
            let mean = mean_window(
                "cubic:slow_start=standard:fast_convergence=false",
                flavour,
                period,
                Span::from_millis(100),
            );
            println!("cubic {flavour:?} 1/{period}: {mean:.1}, law {law:.1}");
            let most = if flavour == Flavour::Linux { 1.3 } else { 1.1 };
            assert!((0.9..most).contains(&(mean / law)), "{flavour:?}, 1/{period}: {mean} for {law}");
        }
    }
}

/// W_max = 100 and β = 0.7 leave 70; K = cbrt(30 / 0.4) = 4.217 s. At K the window is back at 100, at 2K it is
/// as far above as it was below: 130; at 1 s it is 0.4 · (1 − 4.217)³ + 100 = 86.7. An ACK aims at
/// where the curve is a round trip later, and reaches it within one. At 200 ms Reno's line stays below:
/// 70 + 0.53 · 8.4 / 0.2 = 92.
#[test]
fn cubic_is_back_after_k() {
    let rtt = Span::from_millis(200);
    let curve = |t: f64| 0.4 * (t - (30.0f64 / 0.4).cbrt()).powi(3) + 100.0;
    assert!((curve(1.0) - 86.68).abs() < 0.01 && (curve(2.0 * 4.217) - 130.0).abs() < 0.01);
    let mut cubic = build("cubic", &setup(Flavour::Quic, 0, 100.0)).unwrap();
    cubic.on_congestion(&loss(Instant::from_millis(1000), rtt), &[]);
    assert!((packets(&*cubic) - 70.0).abs() < 0.001);
    let start = Instant::from_millis(1300);
    let mut now = start;
    while now.since(start) < Span::from_millis(8400) {
        let t = now.since(start).as_secs_f64();
        let window = packets(&*cubic);
        for _ in 0..window as u64 {
            cubic.on_acked(&acked(now, rtt), &[]);
        }
        let after = packets(&*cubic);
        // What one round's ACKs reach is no more than the curve a round trip later, and at least the
        // curve at their time.
        assert!((curve(t) - 1.0..=curve(t + 0.2) + 0.01).contains(&after), "{t} s: {after}, {}", curve(t));
        now += rtt;
    }
    // At 2K it climbs by 3 · 0.4 · K² = 21 packets/s, a fifth of which in a round trip.
    assert!((packets(&*cubic) - 130.0).abs() < 4.5);
}

/// RFC 9438 §5.8: time in which the application sends nothing does not count. One second after the loss the curve is at
/// 86.7 of 100; twenty seconds later, in which nothing was sent, it goes on from there: a controller that is told of
/// the pause has the same window ten round trips on as one without a pause. One that is not told is far above.
#[test]
fn cubic_leaves_out_the_time_in_which_nothing_is_sent() {
    let (rtt, pause) = (Span::from_millis(200), Span::from_secs(20));
    for flavour in [Flavour::Quic, Flavour::Linux] {
        let play = |pause: Option<Span>, is_told: bool| {
            let mut cubic = build("cubic", &setup(flavour, 0, 100.0)).unwrap();
            cubic.on_congestion(&loss(Instant::from_millis(1000), rtt), &[]);
            // Linux: the engine brings the window to the threshold.
            cubic.set_cwnd(cubic.ssthresh());
            let mut now = Instant::from_millis(1300);
            let sent = |now, after_idle| Sent {
                now,
                bytes: Bytes::new(MSS),
                bytes_in_flight: Bytes::new(MSS),
                after_idle,
                app_limited: false,
            };
            for round in 0..15 {
                if round == 5 {
                    now += pause.unwrap_or_default();
                }
                cubic.on_sent(&sent(now - rtt, round == 5 && is_told));
                for _ in 0..packets(&*cubic) as u64 {
                    cubic.on_acked(&acked(now, rtt), &[]);
                }
                now += rtt;
            }
            packets(&*cubic)
        };
        let (without, told, untold) = (play(None, false), play(Some(pause), true), play(Some(pause), false));
        // The pause is counted from the last packet before it, a round trip earlier: at 1.7 packets/s less than one
        // packet, and Linux grows by whole ones.
        assert!((without - told).abs() <= 3.0, "{flavour:?}: {without} without a pause, {told} with one");
        assert!(untold > told + 30.0, "{flavour:?}: {untold} if nobody tells of the pause, {told}");
    }
}

/// A connection's paths, which see each other.
struct Bundle {
    paths: Vec<Box<dyn Controller>>,
    shares: Vec<Share>,
}

impl Bundle {
    /// `paths` are windows in packets, and round-trip times in ms; all are past slow start.
    fn new(name: &str, paths: &[(f64, u64)]) -> Self {
        let mut bundle = Self { paths: Vec::new(), shares: Vec::new() };
        for (number, (window, rtt)) in (0..).zip(paths) {
            let mut controller = build(name, &setup(Flavour::Quic, number, 4.0)).unwrap();
            controller.on_congestion(&loss(Instant::from_millis(500), Span::from_millis(1)), &[]);
            controller.set_cwnd(bytes(*window));
            // What OLIA ranks by: a thousand packets since the loss on the first path, two on the second. They
            // do not grow the window.
            let since = bytes(1000.0 * f64::from(number + 1));
            let unused = acked(Instant::from_millis(1000), Span::from_millis(*rtt));
            controller.on_acked(&Acked { bytes: since, cwnd_limited: false, ..unused }, &[]);
            bundle.shares.push(Share { srtt: Span::from_millis(*rtt), ..controller.share() });
            bundle.paths.push(controller);
        }
        bundle
    }

    /// Growth of the window of each path by an ACK of one packet, in packets.
    fn increases(&mut self) -> Vec<f64> {
        let now = Instant::from_millis(5000);
        let shares = &self.shares;
        let grow = |(controller, share): (&mut Box<dyn Controller>, &Share)| {
            let before = packets(&**controller);
            controller.on_acked(&acked(now, share.srtt), shares);
            packets(&**controller) - before
        };
        self.paths.iter_mut().zip(shares).map(grow).collect()
    }
}

/// n equal paths: (w / rtt²) / (n · w / rtt)² = 1 / (n² w) for each packet of n windows: together 1/n packet a
/// round trip. With w/2 lost at each loss that balances at w = sqrt(2/p) / n: all of them together
/// hold what one Reno flow would.
#[test]
fn equal_paths_share_the_increase_of_one() {
    for name in ["lia:form=rfc", "dlia:form=rfc", "olia", "balia"] {
        for n in 1..=8u32 {
            let mut bundle = Bundle::new(name, &vec![(20.0, 50); n as usize]);
            let sum: f64 = bundle.increases().iter().map(|increase| 20.0 * increase).sum();
            assert!((sum * f64::from(n) - 1.0).abs() < 0.01, "{name}, {n} paths: {sum}");
        }
    }
}

type Law = fn(&[(f64, f64)], usize) -> f64;

/// Windows in packets, round-trip times in s.
fn rates(paths: &[(f64, f64)]) -> (f64, f64) {
    let rates = paths.iter().map(|(w, rtt)| w / rtt);
    (rates.clone().sum(), rates.fold(0.0, f64::max))
}

fn lia(paths: &[(f64, f64)], own: usize) -> f64 {
    let best = paths.iter().map(|(w, rtt)| w / (rtt * rtt)).fold(0.0, f64::max);
    (best / rates(paths).0.powi(2)).min(1.0 / paths[own].0)
}

/// (Path number + 1) · 1000 packets were acknowledged.
fn olia(paths: &[(f64, f64)], own: usize) -> f64 {
    let (w, rtt) = paths[own];
    let largest = paths.iter().map(|path| path.0).fold(0.0, f64::max);
    let merit = |n: usize| (n + 1) as f64 / paths[n].1.powi(2);
    let best = (0..paths.len()).max_by(|a, b| merit(*a).total_cmp(&merit(*b))).unwrap();
    let collects = paths[best].0 < largest;
    let epsilon = match collects {
        true if own == best => 1.0 / paths.len() as f64,
        true if w == largest => -1.0 / paths.len() as f64,
        _ => 0.0,
    };
    w / (rtt * rtt) / rates(paths).0.powi(2) + epsilon / w
}

fn balia(paths: &[(f64, f64)], own: usize) -> f64 {
    let (w, rtt) = paths[own];
    let (sum, largest) = rates(paths);
    let a = largest / (w / rtt);
    w / (rtt * rtt) / (sum * sum) * (1.0 + a) / 2.0 * (4.0 + a) / 5.0
}

/// The integer arithmetic of the controllers against the formulas, over bundles of two to four paths.
#[test]
fn coupled_increases_are_those_of_the_formulas() {
    let laws: [(&str, Law); 4] = [("lia:form=rfc", lia), ("dlia:form=rfc", lia), ("olia", olia), ("balia", balia)];
    // Windows and round-trip times that share no factors, so that no two rates are equal.
    let all = [(10.0, 20), (20.0, 100), (7.0, 13), (100.0, 300), (3.0, 50), (41.0, 41), (64.0, 9)];
    for (name, law) in laws {
        for paths in (2..=4).flat_map(|n| all.windows(n)) {
            let seconds: Vec<(f64, f64)> = paths.iter().map(|(w, rtt)| (*w, *rtt as f64 / 1000.0)).collect();
            for (own, found) in Bundle::new(name, paths).increases().into_iter().enumerate() {
                let expected = law(&seconds, own);
                // Rounded to a byte, a hundred-thousandth of a packet.
                assert!((found - expected).abs() < 2e-5, "{name} {paths:?}, path {own}: {found} for {expected}");
            }
        }
    }
}

/// 10 Mbit/s in packets of 1250 B: one each ms. Over 40 ms the pipe holds 40.
const BBR_MSS: u64 = 1250;
const BBR_RTT: u64 = 40;

/// Runs a BBR over a fluid pipe for `ms`; returns the pacing gains, in hundredths, and for how many ms
/// each held, from when the pipe was first drained.
fn gains(name: &str, ms: u64) -> Vec<(u64, u64)> {
    let setup =
        Setup { mss: Bytes::new(BBR_MSS), rtt: Some(Span::from_millis(BBR_RTT)), ..setup(Flavour::Linux, 0, 0.001) };
    let mut bbr = build(name, &setup).unwrap();
    let (mut in_flight, mut found): (f64, Vec<(u64, u64)>) = (40.0, Vec::new());
    for now in BBR_RTT..ms {
        let delivered = Bytes::new(now * BBR_MSS);
        let sent = now - BBR_RTT;
        let rate = BitRate::from_mbps(10);
        let bytes_in_flight = Bytes::new(in_flight as u64 * BBR_MSS);
        let rtt = Span::from_millis(BBR_RTT);
        let ack = Acked {
            bytes: Bytes::new(BBR_MSS),
            prior_in_flight: bytes_in_flight + Bytes::new(BBR_MSS),
            bytes_in_flight,
            delivered,
            prior_delivered: Bytes::new(sent * BBR_MSS),
            rate: Some(rate),
            ..acked(Instant::from_millis(now), rtt)
        };
        bbr.on_acked(&ack, &[]);
        // The margin of 1 % is no gain.
        let gain = bbr.pacing_rate().unwrap().as_bps() as f64 / rate.as_bps() as f64 / 0.99;
        // What is sent beyond what leaves stays in flight; a full window stops that.
        in_flight = (in_flight + gain - 1.0).clamp(1.0, bbr.cwnd().get() as f64 / BBR_MSS as f64);
        let gain = (gain * 100.0).round() as u64;
        match found.last_mut().filter(|last| last.0 == gain) {
            Some(last) => last.1 += 1,
            None => found.push((gain, 1)),
        }
    }
    // The last one goes on.
    found.pop();
    found
}

/// STARTUP at 2.89, DRAIN at 0.34, and then for eight round trips 1.25, 0.75 and six at 1: on average 1. A phase
/// lasts for an rtt and the ACK that finds it over.
#[test]
fn bbr1_probes_drains_and_cruises_in_eight_round_trips() {
    let gains = gains("bbr1", 5000);
    println!("bbr1 {gains:?}");
    assert_eq!((gains[0].0, gains[1].0), (289, 34));
    let first = gains.iter().position(|gain| gain.0 == 125).unwrap();
    for cycle in gains[first..].chunks_exact(3).skip(1) {
        assert_eq!(cycle.iter().map(|phase| phase.0).collect::<Vec<_>>(), [125, 75, 100]);
        for (phase, length) in cycle.iter().zip([1, 1, 6]) {
            let rtts = phase.1 as f64 / BBR_RTT as f64;
            // A ms for each ACK that ends one of `length` phases, and two where the queue drains early.
            assert!((rtts - f64::from(length)).abs() < 0.06 * f64::from(length), "{cycle:?}");
        }
    }
}

/// DOWN, CRUISE and REFILL, UP. UP lasts an rtt and until a quarter of the 40 packets is queued, at a
/// quarter of the rate an rtt as well, and two packets more; DOWN drains that at its own deficit.
/// From DOWN to the next UP Reno would take 40 round trips, of which up to one is counted in advance,
/// and REFILL one: 1560 to 1640 ms, and what a round trip rounds to.
#[test]
fn bbr2_and_bbr3_probe_when_reno_would_be_back() {
    for (name, start, drain, down) in [("bbr2", 289, 34, 75), ("bbr3", 277, 50, 90)] {
        let gains = gains(name, 12_000);
        println!("{name} {gains:?}");
        assert_eq!((gains[0].0, gains[1].0), (start, drain), "{name}");
        let first = gains.iter().position(|gain| gain.0 == 125).unwrap();
        let cycles: Vec<_> = gains[first..].chunks_exact(3).collect();
        assert!(cycles.len() >= 4, "{name}: {gains:?}");
        for cycle in cycles {
            assert_eq!(cycle.iter().map(|phase| phase.0).collect::<Vec<_>>(), [125, down, 100], "{name}");
            let [up, down_for, rest] = [cycle[0].1, cycle[1].1, cycle[2].1];
            assert!((40..=56).contains(&up), "{name}: {cycle:?}");
            let queued = up as f64 / 4.0;
            let deficit = 1.0 - down as f64 / 100.0;
            assert!((down_for as f64 - queued / deficit).abs() <= 3.0 / deficit, "{name}: {cycle:?}");
            assert!((1550..=1690).contains(&(down_for + rest)), "{name}: {cycle:?}");
        }
    }
}

/// By hand from `tcp_tso_autosize`: 40 Mbit/s carry 4 882 bytes in 1/1024 s; the largest burst of 65 215 bytes, halved
/// three times for 2 ms, is 8 151. Together nine packets of 1448 bytes, where the rate alone is three.
#[test]
fn bursts_are_longer_where_the_round_trip_is_short() {
    let (rate, mss) = (BitRate::from_mbps(40), Bytes::new(1448));
    let packets = |min_rtt| weftway_cc::lengthened_quantum(rate, mss, 2, min_rtt).get() / 1448;
    assert_eq!(weftway_cc::send_quantum(rate, mss, 2), Bytes::new(3 * 1448));
    assert_eq!(
        [0, 400, 2_000, 2_047, 2_048, 20_000].map(|micros| packets(Span::from_micros(micros))),
        [3, 45, 9, 9, 6, 3]
    );
}
