//! BDP where round trips vary and links lose packets at random. `cargo test --release -p weftway-sim --test all bdp::
//! -- --nocapture` prints what is measured.

use crate::setup::{self, bulk, down, drive, lossy, path};
use weftway_host::Host;
use weftway_link::{Distribution, Jitter};
use weftway_path::{BitRate, Bytes, Context, Decision, Span};
use weftway_scenario::config::{Buffer, MessageSize, PathConfig, SimConfig, TransportConfig, Workload};
use weftway_sched::Scheduler;
use weftway_sim::measure::Singles;
use weftway_sim::run::{Job, transport_rules};
use weftway_sim::{Sim, Verdict};

fn run(config: &SimConfig, cc: &str, scheduler: &str, seed: u64, column: &str) -> f64 {
    let job = Job { config, cc, seed, timing: None };
    let row = job.row(&job.run_named(scheduler).unwrap(), &Singles::default());
    row[column].as_f64().unwrap_or(f64::INFINITY)
}

fn varying(mut path: PathConfig, sd: u64) -> PathConfig {
    let distribution = Distribution::Correlated { sd: Span::from_millis(sd), over: Span::from_millis(100) };
    path.data.jitter = Some(Jitter { distribution, reorder: false });
    path.acks.jitter = path.data.jitter;
    path
}

/// Payload of 35 Mbit/s is left of 40 with 1 % of random losses, and more than half if round trips vary by 3 ms, too.
/// CUBIC has 3.
#[test]
fn random_losses_cost_little() {
    for (stack, transport) in setup::stacks() {
        let transport = TransportConfig { receive_buffer: Buffer::Fixed(Bytes::new(16 << 20)), ..transport };
        let goodput = |paths, cc| {
            let mut config = SimConfig::new(transport.clone(), paths, Bytes::ZERO);
            config.workload = Workload::Duration { span: Span::from_secs(20) };
            (0..3).map(|seed| run(&config, cc, "min-rtt", seed, "goodput_mbps")).sum::<f64>() / 3.0
        };
        let link = || lossy(path("only", 40_000, 20), 0.01);
        let found = [goodput(vec![link()], "bdp"), goodput(vec![varying(link(), 3)], "bdp")];
        println!("{stack}: {found:.1?} Mbit/s");
        assert!(found[0] >= 35.0 && found[1] >= 20.0, "{stack}: {found:?}");
        assert!(goodput(vec![link()], "cubic") < 5.0);
    }
}

/// 2 kB each ms, over two links whose round trips vary by more than their queues: an acknowledgement that comes late is
/// none of a packet that waited, and the application's rate is not the link's. One link is down for 1.5 s on the way.
#[test]
fn messages_over_varying_round_trips_do_not_wait_for_seconds() {
    let transport = TransportConfig { receive_buffer: Buffer::Fixed(Bytes::new(2 << 20)), ..TransportConfig::mpquic() };
    let wifi = down(varying(lossy(path("wifi", 30_000, 10), 0.01), 3), 4000, Some(5500));
    let lte = varying(lossy(path("lte", 20_000, 25), 0.005), 6);
    let mut config = SimConfig::new(transport, vec![wifi, lte], Bytes::ZERO);
    let sizes = vec![MessageSize::of(Bytes::new(2000))];
    config.workload = Workload::Messages { sizes, period: Span::from_millis(1), count: 12_000, deadline: None };
    let p99 = |cc| {
        let mut found: Vec<_> =
            (0..5).map(|seed| run(&config, cc, "earliest-delivery", seed, "message_p99_ms")).collect();
        found.sort_by(f64::total_cmp);
        println!("{cc}: {found:.0?} ms");
        found
    };
    let (bdp, cubic) = (p99("bdp"), p99("cubic"));
    assert!(bdp[2] < 1000.0 && bdp[4] < 2000.0, "{bdp:?}");
    assert!(bdp[4] < cubic[0], "{cubic:?}");
}

/// A receiver that acknowledges each 32 packets keeps the first flight of ten for 25 ms: that is neither a queue nor a
/// rate. 1 % of random losses on 40 Mbit/s.
#[test]
fn thinned_acknowledgements_cost_little() {
    let goodput = |every| {
        let transport = TransportConfig { ack_every: every, ..TransportConfig::mpquic() };
        let mut config = SimConfig::new(transport, vec![lossy(path("only", 40_000, 20), 0.01)], Bytes::ZERO);
        config.workload = Workload::Duration { span: Span::from_secs(6) };
        run(&config, "bdp", "min-rtt", 0, "goodput_mbps")
    };
    let [each, thinned] = [2, 32].map(goodput);
    println!("{each:.1}, {thinned:.1} Mbit/s");
    assert!(thinned > 0.9 * each, "{each}, {thinned}");
}

/// Sends on the first path, and notes the rate that its controller says.
#[derive(Clone, Default)]
struct Listener {
    rate: BitRate,
}

impl Scheduler for Listener {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.rate = cx.paths[0].link_rate;
        cx.open.iter().next().map_or(Decision::Wait, Decision::Send)
    }
}

/// Forty packets each 200 ms are 2 Mbit/s, which is what delivery rates show. The link brings 20, and BDP says so.
#[test]
fn schedulers_see_the_rate_that_the_controller_knows() {
    let size = MessageSize::of(Bytes::new(40 * TransportConfig::mpquic().mss.get()));
    let workload = Workload::Messages { sizes: vec![size], period: Span::from_millis(200), count: 30, deadline: None };
    let config = SimConfig { workload, ..bulk(&TransportConfig::mpquic(), vec![path("only", 20_000, 20)], 0) };
    let said = |cc| {
        let mut sim = Sim::new(&config, cc, 1).unwrap();
        let mut scheduler = Listener::default();
        sim.host(0, Host::serving(&scheduler, transport_rules("min-rtt").unwrap()));
        assert_eq!(drive(&mut sim, &mut scheduler, 1), Verdict::Finished);
        scheduler.rate
    };
    let rate = said("bdp");
    assert!(rate > BitRate::from_mbps(17) && rate < BitRate::from_mbps(23), "{rate:?}");
    assert_eq!([said("cubic"), said("bbr3")], [BitRate::ZERO; 2]);
}
