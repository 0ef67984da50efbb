//! Where one path settles under each controller: how much of it is used, and how long its queue is. Shares are of the
//! payload that the link can bring. `cargo test --release -p weftway-sim --test all steady:: -- --nocapture` prints
//! them.

use std::sync::{Arc, Mutex};

use crate::setup::{self, bulk, lossy, path};
use weftway_cc::{Entry, all, parse};
use weftway_link::Limit;
use weftway_path::{Bytes, Instant, Span};
use weftway_scenario::config::{AppLimited, Buffer, TransportConfig};
use weftway_sim::run::{Job, transport_rules};
use weftway_sim::{Listener, Note};

/// Of the path, both ways.
const RTT: Span = Span::from_millis(40);
/// Slow start, DRAIN and the first probes are over by then, and wVegas has filled the path.
const SETTLED: Instant = Instant::from_millis(8000);

/// The stacks of the other tests, and TCP.
fn stacks() -> [(&'static str, TransportConfig); 4] {
    let [v09x, v1, quic] = setup::stacks();
    [v09x, v1, quic, ("tcp", TransportConfig::tcp())]
}

/// A path with a round trip of 40 ms.
#[derive(Clone, Copy)]
struct World {
    mbps: u64,
    /// Number of packets that it queues; none: what is sent in a round trip.
    queue: Option<u32>,
    loss: f64,
    seed: u64,
}

const CLEAN: World = World { mbps: 50, queue: None, loss: 0.0, seed: 1 };
const LOSSY: World = World { loss: 0.01, ..CLEAN };
/// The queue of 100 packets takes 120 ms.
const SLOW: World = World { mbps: 10, queue: Some(100), ..CLEAN };

impl World {
    /// Full packets that are sent in a round trip.
    fn product(&self, transport: &TransportConfig) -> f64 {
        self.mbps as f64 * 1e6 / 8.0 * RTT.as_secs_f64() / transport.packet.get() as f64
    }

    /// What the link can bring of payload, in bytes a second.
    fn goodput(&self, transport: &TransportConfig) -> f64 {
        self.product(transport) * transport.mss.get() as f64 / RTT.as_secs_f64()
    }
}

/// What a run shows once it has settled.
#[derive(Default)]
struct Watch {
    /// Below this window, in bytes, a path is in PROBE_RTT; zero where there is none.
    low: u64,
    last: Option<Instant>,
    skip: Option<Instant>,
    bytes: f64,
    /// Seconds outside PROBE_RTT, and in it.
    time: f64,
    skipped: f64,
    srtt_sum: f64,
    acks: f64,
}

impl Listener for Watch {
    fn note(&mut self, now: Instant, _: u8, note: &Note) {
        if now < SETTLED {
            return;
        }
        match note {
            Note::Arrived { bytes, .. } => {
                let span = self.last.replace(now).map_or(0.0, |last| now.since(last).as_secs_f64());
                if self.skip.is_some_and(|until| now < until) {
                    self.skipped += span;
                } else {
                    self.time += span;
                    self.bytes += f64::from(*bytes);
                }
            }
            Note::Acked { srtt_us, cwnd, .. } => {
                self.srtt_sum += *srtt_us as f64 / 1e3;
                self.acks += 1.0;
                if *cwnd < self.low {
                    self.skip = Some(now + RTT * 2);
                }
            }
            _ => {}
        }
    }
}

struct Steady {
    /// Payload that arrived outside PROBE_RTT, as a share of what the link can bring.
    used: f64,
    /// How much longer than the path's own the round trip is, in ms, PROBE_RTT included.
    queue_ms: f64,
    /// The share of the time that PROBE_RTT takes, with two round trips to fill the path again.
    probing: f64,
}

/// A transfer that takes 20 s at the path's rate. PROBE_RTT shows where nothing else makes a window small: without
/// loss, and under controllers that pace. It leaves half the product or less in a window of twice the product.
fn settle(transport: &TransportConfig, cc: &str, world: World) -> Steady {
    let mut only = path("only", world.mbps * 1000, 20);
    only.data.queue.limit = Limit::Packets(world.queue.map_or(world.product(transport) as u64, u64::from));
    let only = if world.loss > 0.0 { lossy(only, world.loss) } else { only };
    let config = bulk(transport, vec![only], world.mbps * 2_500_000);
    let shows = parse(cc).unwrap().0.paced && world.loss == 0.0;
    let low = if shows { world.product(transport) as u64 * 3 / 4 * transport.mss.get() } else { 0 };
    let watch = Arc::new(Mutex::new(Watch { low, ..Watch::default() }));
    let job = Job { config: &config, cc, seed: world.seed, timing: None };
    let mut scheduler = weftway_sched::build("min-rtt").unwrap();
    job.run(scheduler.as_mut(), transport_rules("min-rtt").unwrap(), vec![Box::new(watch.clone())]).unwrap();
    let Watch { bytes, time, skipped, srtt_sum, acks, .. } = std::mem::take(&mut *watch.lock().unwrap());
    Steady {
        used: bytes / time / world.goodput(transport),
        queue_ms: srtt_sum / acks - RTT.as_secs_f64() * 1e3,
        probing: skipped / (time + skipped),
    }
}

/// Runs `cc` over every stack, and asks `judge`.
fn each(cc: &str, world: World, judge: impl Fn(&TransportConfig, &Steady) -> bool) {
    for (stack, transport) in stacks() {
        let steady = settle(&transport, cc, world);
        let (World { mbps, loss, .. }, Steady { used, queue_ms, probing }) = (world, &steady);
        let text = format!(
            "{cc} over {stack}, {mbps} Mbit/s, loss {loss}: {used:.4} used, queue {queue_ms:.2} ms, PROBE_RTT {probing:.3}"
        );
        println!("{text}");
        assert!(judge(&transport, &steady), "{text}");
    }
}

/// What BBR paces by while it cruises, as a share of its estimate: 99 %, and over MPTCP 1.4 % more, with Linux v1 1.7
/// %.
fn pace(transport: &TransportConfig) -> f64 {
    let mss = transport.mss.get() as f64;
    0.99 * (mss + transport.rules.dss_option.get() as f64) / mss
}

/// With a queue of the product, half a window still fills the path (Appenzeller et al., SIGCOMM 2004), and so do
/// CUBIC's seven tenths. wVegas adds a packet each round trip until ten wait, and is past the product at 3 s or soon
/// after, over QUIC at 7 s: there the first packet is acknowledged alone, and slow start ends at half the product.
fn fills(entry: &Entry) {
    each(entry.name, CLEAN, |transport, steady| {
        // BBR cruises at its pace, and its probes fill the link. PROBE_RTT comes every 5 s at most: a round trip to
        // drain, 200 ms, a round trip, and the two until the path is full again.
        let least = if entry.paced { pace(transport).min(1.0) - 0.005 } else { 0.97 };
        let probing = if entry.paced { 0.36 / 5.0 } else { 0.0 };
        (least..1.001).contains(&steady.used) && steady.probing <= probing
    });
}

#[test]
fn controllers_that_do_not_pace_fill_a_clean_path() {
    all().iter().filter(|entry| !entry.paced).for_each(|entry| fills(entry));
}

#[test]
fn controllers_that_pace_fill_a_clean_path() {
    all().iter().filter(|entry| entry.paced).for_each(|entry| fills(entry));
}

/// What Reno's sqrt(3/(2p)) packets a round trip bring, as a share of what the link can bring.
fn reno(transport: &TransportConfig, steady: &Steady, loss: f64) -> f64 {
    let rounds = 1.0 + steady.queue_ms / 1e3 / RTT.as_secs_f64();
    (1.5 / loss).sqrt() / rounds / World::product(&LOSSY, transport)
}

/// A loss in a hundred, each by chance. Reno's mean window lies between 12.25 packets, if losses come evenly (Mathis et
/// al. 1997), and 13.1, if they come by chance (1.31 / sqrt(p): Ott et al. 1996), less by what timeouts take: 12 % in
/// the formula of Padhye et al. (1998), which knows no SACK. Alone, LIA, OLIA and BALIA are Reno. So is wVegas: outside
/// the open state it grows as NewReno does, and in it by a packet a round trip while the path is not full.
#[test]
fn random_loss_leaves_reno_its_square_root() {
    for cc in ["newreno", "lia:count=packets", "olia:count=packets", "balia:count=packets", "wvegas"] {
        each(cc, LOSSY, |transport, steady| (0.85..1.1).contains(&(steady.used / reno(transport, steady, 0.01))));
    }
}

/// The kernel's modules of the coupled controllers count acknowledgements. A receiver acknowledges every second packet,
/// so that a window of w grows by a packet in 2 w acknowledged, and by comparing before it counts in 2 (w + 1): with w
/// near 9, the root of 9/10 · 1/2, 0.67 of Reno's window. QUIC has no such module and counts bytes.
#[test]
fn random_loss_leaves_what_counts_acknowledgements_less() {
    for cc in ["lia", "olia", "balia"] {
        each(cc, LOSSY, |transport, steady| {
            let expected = if transport.packet.get() == 1280 { 1.0 } else { (0.9f64 / 2.0).sqrt() };
            (0.85..1.1).contains(&(steady.used / reno(transport, steady, 0.01) / expected))
        });
    }
}

/// RFC 9438 §5.1: 1.054 · (RTT/p)^(3/4) is 3 packets here, so that CUBIC does as Reno does (§4.3), whose increase is
/// 8/15 of a packet with a cut to 0.7, or a packet once the last window is reached: between the same mean and sqrt(1.7
/// / (0.6 p)), 1.37 of it, if it were there all the time. Linux counts in whole packets, of twelve.
#[test]
fn random_loss_leaves_cubic_what_it_leaves_reno() {
    each("cubic", LOSSY, |transport, steady| (0.8..1.15).contains(&(steady.used / reno(transport, steady, 0.01))));
}

/// A loss leaves a half at least, and nine tenths at most: (2 − b) / (2 b p) with b the share that is cut, from Reno's
/// mean window to 2.5 times as much. What is left follows the windows at the losses; where they come by chance two
/// thirds are left or more, and windows are 1.29 times Reno's or more. Linux cuts to whole percents and whole packets.
#[test]
fn random_loss_leaves_d_lia_more() {
    each("dlia:count=packets", LOSSY, |transport, steady| {
        let least = if transport.packet.get() == 1280 { 1.2 } else { 1.0 };
        (least..1.6).contains(&(steady.used / reno(transport, steady, 0.01)))
    });
}

/// The model ignores losses: of each hundred packets 99 arrive, and a recovery costs its first round of packet
/// conservation, which sends what is delivered.
#[test]
fn random_loss_leaves_bbr1_nine_tenths() {
    for cc in ["bbr1", "coupled-bbr", "mptcp-bbr"] {
        each(cc, LOSSY, |_, steady| (0.9..0.995).contains(&steady.used));
    }
}

/// The mean of `rounds` rounds, each of which leaves `kept` of the one before; no more than `most`.
fn declining(kept: f64, rounds: i32, most: f64) -> f64 {
    (1..=rounds).map(|round| kept.powi(round).min(most)).sum::<f64>() / f64::from(rounds)
}

/// Two losses in a hundred are too many, and one is not, but any lowers `bw_lo`, to the best sample of a round: what
/// was paced, less what that sample lost. So a round leaves at least 0.99 of the pace, for 63 rounds at most, after
/// which a probe finds the rate again; a probe that lost too much by chance leaves 85 % of what was in flight, of which
/// the rounds after it leave their 0.99 of the pace. And it may keep more: a round begins anew with its first loss,
/// which comes 1/(pN) of a round later, a round where the flight N is 100 packets; and 50 rounds, of 2 s, pass until
/// the next probe, whose REFILL and two rounds of UP are at the rate. Paced above its estimate, over MPTCP, it does not
/// fall where a sample lost nothing.
fn holds_out(cc: &str, world: World) {
    each(cc, world, |transport, steady| {
        let least = 0.85 * declining(pace(transport) * 0.99, 63, 1.0);
        let most = (declining(pace(transport), 50 / 2, 0.99) * 50.0 + 3.0) / 53.0;
        (least..most).contains(&steady.used)
    });
}

#[test]
fn random_loss_leaves_bbr2_and_bbr3_what_one_cut_a_round_leaves() {
    for cc in ["bbr2", "bbr3"] {
        holds_out(cc, LOSSY);
        holds_out(cc, World { seed: 2, ..LOSSY });
    }
}

/// Every controller has its bounds above; one that is new must do as well as Reno until it has.
#[test]
fn random_loss_leaves_no_controller_less_than_reno() {
    for entry in all() {
        let (_, tcp) = &stacks()[3];
        // What counts acknowledgements has its own bound above.
        let counts = entry.params.iter().any(|param| param.name == "count");
        let name = if counts { format!("{}:count=packets", entry.name) } else { entry.name.to_owned() };
        let steady = settle(tcp, &name, LOSSY);
        assert!(steady.used > 0.8 * reno(tcp, &steady, 0.01), "{}: {:.4} used", entry.name, steady.used);
    }
}

/// Of 166 packets 2 % are more than 3. With one loss in 500 that is one flight in 3000, so that whoever waits for it
/// keeps its pace. Any loss comes once in 3 rounds, and cuts one in four: twelve times by 1 % until the next probe,
/// eight or more where PROBE_RTT shortens the wait.
#[test]
fn waiting_for_two_percent_helps_where_one_loss_is_none() {
    let (_, tcp) = &stacks()[3];
    let rare = World { loss: 0.002, ..LOSSY };
    for cc in ["bbr2", "bbr3"] {
        let [any, many] = ["", ":lossy=many"].map(|switch| settle(tcp, &format!("{cc}{switch}"), rare).used);
        println!("{cc}: any {any:.3}, many {many:.3} used");
        assert!(many > 0.96 && any < declining(0.99, 8, 1.0), "{cc}: any {any:.3}, many {many:.3}");
        assert!(any > declining(0.99, 63, 1.0), "{cc}: any {any:.3}");
    }
}

/// Alone each of them is Reno or close to it. The queue of 100 packets, 120 ms, is more than the 35
/// packets of the path, so that half the window still fills it; it is on average between half full
/// and full. D-LIA gives up less, and keeps more.
#[test]
fn coupled_controllers_alone_fill_the_path_and_the_queue() {
    for cc in ["newreno", "lia", "olia", "balia", "dlia"] {
        each(cc, SLOW, |_, steady| steady.used > 0.98 && (60.0..120.0).contains(&steady.queue_ms));
    }
    for (_, transport) in stacks() {
        let queue = |cc| settle(&transport, cc, SLOW).queue_ms;
        assert!(queue("dlia") > queue("lia"));
    }
}

/// Ten packets queued take 12 ms, one or two more while the window moves.
#[test]
fn wvegas_fills_the_path_and_queues_ten_packets() {
    each("wvegas", SLOW, |_, steady| steady.used > 0.98 && (8.0..18.0).contains(&steady.queue_ms));
}

/// Draining every queue that has doubled empties a path that has none yet.
#[test]
fn draining_any_queue_leaves_the_path_half_empty() {
    each("wvegas:drain=kernel", SLOW, |_, steady| steady.used < 0.8 && steady.queue_ms < 10.0);
}

/// A probe comes each 33 round trips, as many as the path has packets. UP queues a quarter of the product, and that is
/// there for four rounds at most. What is paced below the estimate adds nothing; over MPTCP each round adds 0.4 % of a
/// round trip, and DOWN takes it back. A burst of two packets waits for itself, and a third packet is acknowledged
/// late.
#[test]
fn bbr2_and_bbr3_queue_what_their_pace_exceeds_the_rate_by() {
    for cc in ["bbr2", "bbr3"] {
        each(cc, SLOW, |transport, steady| {
            let (rtt, rounds) = (RTT.as_secs_f64() * 1e3, SLOW.product(transport));
            let (packet, excess) = (rtt / rounds, (pace(transport) - 1.0).max(0.0) * rounds * rtt);
            let probe = rtt / 4.0 * 4.0 / (rounds + 4.0);
            (packet + excess / 2.0..3.0 * packet + excess + probe).contains(&steady.queue_ms)
        });
    }
}

/// Phases end by what is in flight, for which three bursts of two packets are allowed, two more while probing: eight
/// packets, and the three of a burst and a late acknowledgement. Over MPTCP six of eight rounds add 0.4 % of a round
/// trip each, and nothing takes that back until PROBE_RTT after 10 s: 187 rounds of 0.15 ms, half of it in the mean at
/// least, and never more than the window of two products leaves.
#[test]
fn bbr1_queues_its_bursts_and_over_mptcp_up_to_a_product() {
    each("bbr1", SLOW, |transport, steady| {
        let rtt = RTT.as_secs_f64() * 1e3;
        let packet = rtt / SLOW.product(transport);
        let excess = (pace(transport) - 1.0).max(0.0) * 187.0 * rtt;
        let most = if excess > 0.0 { rtt } else { 11.0 * packet };
        (packet + excess / 2.0..most).contains(&steady.queue_ms)
    });
}

/// The largest window after the path has settled.
#[derive(Default)]
struct Largest(u64);

impl Listener for Largest {
    fn note(&mut self, now: Instant, _: u8, note: &Note) {
        if let (true, Note::Acked { cwnd, .. }) = (now >= SETTLED, note) {
            self.0 = self.0.max(*cwnd);
        }
    }
}

/// The peer's window is 125 kB, half of what the clean path holds in a round trip of 40 ms, and moves on when half of
/// it is used. So the rate stays the same from round to round, and a BBR that believes its samples leaves STARTUP: its
/// window is twice what it brings in a round trip, and room for bursts; before, it is 2.885 times. The application
/// always has more to send, so no sample is limited by it (the draft, Linux, XQUIC). noq marks them, as the path is
/// given nothing while the peer's window is shut.
#[test]
fn a_small_window_of_the_peer_is_not_the_application() {
    const BYTES: u64 = 20_000_000;
    let gain = |app_limited| {
        let receive_buffer = Buffer::Fixed(Bytes::new(125_000));
        let transport = TransportConfig { receive_buffer, app_limited, ..TransportConfig::mpquic() };
        let config = bulk(&transport, vec![path("only", CLEAN.mbps * 1000, 20)], BYTES);
        let watch = Arc::new(Mutex::new(Largest::default()));
        let job = Job { config: &config, cc: "bbr1", seed: 1, timing: None };
        let mut scheduler = weftway_sched::build("min-rtt").unwrap();
        let rules = transport_rules("min-rtt").unwrap();
        let finished = job.run(scheduler.as_mut(), rules, vec![Box::new(watch.clone())]).unwrap();
        let Largest(cwnd) = *watch.lock().unwrap();
        let per_round_trip = BYTES as f64 / finished.sim.now().since(Instant::ZERO).as_secs_f64() * RTT.as_secs_f64();
        cwnd as f64 / per_round_trip
    };
    let (no_data, path) = (gain(AppLimited::NoData), gain(AppLimited::Path));
    assert!((2.0..2.885).contains(&no_data) && path > 2.885, "{no_data} and {path}");
    assert_eq!([TransportConfig::mpquic(), TransportConfig::tcp()].map(|it| it.app_limited), [AppLimited::NoData; 2]);
}
