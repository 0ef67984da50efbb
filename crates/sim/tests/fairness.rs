//! Connections that share a bottleneck: what they take of it from one another. `cargo test --release -p weftway-sim
//! --test all fairness:: -- --nocapture` prints what is measured.
//!
//! Twenty seeds, each with a start of the rival of its own, break phase effects. The figure is what the connection
//! under test took over what the rival took, after a quarter of the run, as the geometric mean of the seeds.

use crate::setup;
use weftway_link::{Limit, LinkConfig};
use weftway_path::{BitRate, Bytes, Instant, Role, Span};
use weftway_scenario::config::{Bottlenecks, Buffer, PathConfig, Rival, SimConfig, TransportConfig, Workload};
use weftway_scenario::mix;
use weftway_sim::measure::Singles;
use weftway_sim::run::Job;
use weftway_sim::{Host, Pause, Sim};

const SEEDS: u64 = 20;
const SECONDS: u64 = 60;

/// What a connection is for a test: its controller and the links that its paths cross, by number.
#[derive(Clone, Copy)]
struct User<'a> {
    cc: &'a str,
    links: &'a [usize],
}

/// The shared links' rates in Mbit/s, and the packets that each of them queues.
#[derive(Clone, Copy)]
struct World<'a> {
    mbps: &'a [u64],
    queue: u64,
}

/// One link of 20 Mbit/s; 100 packets are 1.5 times what fits into its round trip of 40 ms.
const ONE: World<'static> = World { mbps: &[20], queue: 100 };

fn transport(bottlenecks: Bottlenecks) -> TransportConfig {
    let (send_buffer, receive_buffer) = (Buffer::Fixed(Bytes::new(16 << 20)), Buffer::Fixed(Bytes::new(64 << 20)));
    TransportConfig { send_buffer, receive_buffer, bottlenecks, ..TransportConfig::mptcp_linux_v1() }
}

/// Paths that are bounded by the shared links alone, with a round trip of 40 ms.
fn paths(name: &str, links: &[usize]) -> Vec<PathConfig> {
    let wide = setup::link(1_000_000, 20);
    let path = |(at, &via)| PathConfig {
        name: format!("{name}{at}"),
        role: Role::Active,
        data: wide.clone(),
        acks: wide.clone(),
        via: Some(via),
        presence: Vec::new(),
    };
    links.iter().enumerate().map(path).collect()
}

fn config(world: World<'_>, user: User<'_>, rival: Option<User<'_>>, known: Bottlenecks, seed: u64) -> SimConfig {
    let mut config = SimConfig::new(transport(known), paths("user", user.links), Bytes::ZERO);
    config.workload = Workload::Duration { span: Span::from_secs(SECONDS) };
    config.shared = world.mbps.iter().map(|mbps| shared(*mbps, world.queue)).collect();
    config.rival = rival.map(|rival| Rival {
        transport: transport(Bottlenecks::None),
        paths: paths("rival", rival.links),
        cc: rival.cc.to_owned(),
        scheduler: "min-rtt".to_owned(),
        start: Instant::ZERO + Span::from_micros(mix(seed, 1) % 2_000_000),
    });
    config
}

fn shared(mbps: u64, queue: u64) -> LinkConfig {
    let mut link = LinkConfig { rate: BitRate::from_mbps(mbps).into(), ..LinkConfig::default() };
    link.queue.limit = Limit::Packets(queue);
    link
}

/// Bytes that each path of the connection under test brought, and those of the rival's, after a quarter of the run.
fn taken(config: &SimConfig, cc: &str, seed: u64) -> [Vec<f64>; 2] {
    let mut sim = Sim::new(config, cc, seed).unwrap();
    let mut schedulers: Vec<_> = (0..sim.connections()).map(|_| weftway_sched::build("min-rtt").unwrap()).collect();
    (0..sim.connections()).for_each(|at| sim.host(at, Host::of("min-rtt").unwrap()));
    let counts = |sim: &Sim| {
        let of = |at: usize| match at < sim.connections() {
            true => sim.connection(at).path_tallies.iter().map(|path| path.delivered as f64).collect(),
            false => Vec::new(),
        };
        [of(0), of(1)]
    };
    let quarter = Instant::ZERO + Span::from_secs(SECONDS) / 4;
    let mut before: Option<[Vec<f64>; 2]> = None;
    loop {
        let until = if before.is_none() { quarter } else { Instant::NEVER };
        match sim.advance_until(until) {
            None => before = Some(counts(&sim)),
            Some(Pause::Decide(at)) => sim.ask(at, schedulers[at].as_mut()),
            Some(Pause::Observe(at)) => sim.tell(at, schedulers[at].as_mut()),
            Some(Pause::Done(_)) => break,
        }
    }
    let (before, mut after) = (before.unwrap(), counts(&sim));
    for (after, before) in after.iter_mut().flatten().zip(before.iter().flatten()) {
        *after -= before;
    }
    after
}

/// The geometric mean over all seeds of what `figure` makes of a run.
fn mean(what: &str, figure: impl Fn(u64) -> f64) -> f64 {
    let figures: Vec<f64> = (0..SEEDS).map(figure).collect();
    let mean = (figures.iter().map(|figure| figure.ln()).sum::<f64>() / SEEDS as f64).exp();
    let (least, most) = figures.iter().fold((f64::MAX, 0f64), |(least, most), x| (least.min(*x), most.max(*x)));
    println!("{what:<44} {mean:.3} [{least:.3}, {most:.3}]");
    mean
}

/// What `user` takes of [`ONE`] link over what `rival` takes.
fn ratio(cc: &str, subflows: usize, rival: &str, known: Bottlenecks) -> f64 {
    ratio_at(ONE, cc, subflows, rival, known)
}

/// What `user` takes of the link of `world` over what `rival` takes.
fn ratio_at(world: World<'_>, cc: &str, subflows: usize, rival: &str, known: Bottlenecks) -> f64 {
    let (user, rival) = (User { cc, links: &[0; 4][..subflows] }, User { cc: rival, links: &[0] });
    mean(&format!("{subflows} × {cc} / {}, queue {}", rival.cc, world.queue), |seed| {
        let [user, rival] = taken(&config(world, user, Some(rival), known, seed), cc, seed);
        user.iter().sum::<f64>() / rival.iter().sum::<f64>()
    })
}

fn within(value: f64, least: f64, most: f64) {
    assert!((least..=most).contains(&value), "{value:.3} is not within {least} and {most}");
}

/// A row has what the rival brought in the same time: both together fill the link, less headers and a start of some
/// seconds. Without a rival there is no such column.
#[test]
fn a_row_has_the_bytes_of_the_rival() {
    let user = User { cc: "newreno", links: &[0] };
    let row = |rival: Option<User<'_>>| {
        let config = config(ONE, user, rival, Bottlenecks::None, 1);
        let finished = Job { config: &config, cc: user.cc, seed: 1, timing: None }.run_named("min-rtt").unwrap();
        finished.measurement(&config, &Singles::default()).row(&config)
    };
    let beside = row(Some(user));
    let [own, other] = ["delivered_bytes", "rival_delivered_bytes"].map(|name| beside[name].as_f64().unwrap());
    within((own + other) * 8.0 / 1e6 / SECONDS as f64, 18.0, 20.0);
    within(own / other, 0.5, 2.0);
    assert!(!row(None).contains_key("rival_delivered_bytes"));
}

/// The yardstick: flows that do not know of one another share by their number.
#[test]
fn uncoupled_subflows_take_a_share_each() {
    within(ratio("newreno", 1, "newreno", Bottlenecks::None), 0.9, 1.1);
    within(ratio("newreno", 2, "newreno", Bottlenecks::None), 1.7, 2.2);
}

/// With two equal windows each of the three rules is a packet for each 4 w acknowledged, a quarter of Reno's increase,
/// and a half is cut. At equal losses a window goes with the root of its increase: half of Reno's each.
#[test]
fn two_subflows_of_lia_olia_or_balia_take_the_share_of_one_flow() {
    for cc in ["lia:count=packets", "olia:count=packets", "balia:count=packets"] {
        within(ratio(cc, 2, "newreno", Bottlenecks::None), 0.85, 1.15);
    }
}

/// As the kernel counts, an acknowledgement adds what a packet should; with one for every two packets the increase is
/// half, and a window goes with its root: 0.71 of the share.
#[test]
fn counted_in_acknowledgements_they_take_less() {
    for cc in ["lia", "olia", "balia"] {
        within(ratio(cc, 2, "newreno", Bottlenecks::None), 0.55, 0.85);
    }
}

/// D-LIA increases as LIA does and gives up less: a loss leaves about two thirds of the window, since its share moves
/// up with every loss that comes early and is bounded by a half below. A window that loses a third is 1.3 times one
/// that loses a half as often.
#[test]
fn two_subflows_of_d_lia_take_more_than_those_of_lia() {
    within(ratio("dlia:count=packets", 2, "newreno", Bottlenecks::None), 1.2, 1.6);
}

/// The rule makes the subflows' mean rates sum up to the best estimate, and so to no more than one flow; uncoupled they
/// take 1.5 or more. How far below depends on what the rival finds while they cruise: where windows do not bound them
/// they take 0.37 (`docs/explanation/shared-bottlenecks.md`), and less as long as what they share is not detected.
#[test]
fn two_subflows_of_coupled_bbr_take_no_more_than_one_flow() {
    within(ratio("bbr1", 2, "bbr1", Bottlenecks::None), 1.5, 2.2);
    within(ratio("coupled-bbr", 2, "bbr1", Bottlenecks::None), 0.37, 1.0);
    within(ratio("mptcp-bbr", 2, "bbr1", Bottlenecks::Given), 0.37, 1.0);
    within(ratio("mptcp-bbr", 2, "bbr1", Bottlenecks::Detected), 0.2, 1.0);
}

/// With two links of their own, paths that know it are coupled with none: not a byte differs from BBRv1.
#[test]
fn mptcp_bbr_is_bbr1_where_no_bottleneck_is_shared() {
    let world = World { mbps: &[10, 10], queue: 100 };
    for known in [Bottlenecks::None, Bottlenecks::Given] {
        let user = |cc| User { cc, links: &[0, 1] };
        let bytes = |cc| taken(&config(world, user(cc), None, known, 1), cc, 1);
        assert_eq!(bytes("mptcp-bbr"), bytes("bbr1"), "{known:?}");
    }
}

/// The share of the links' rates that arrives as payload when nobody else sends.
fn use_alone(cc: &str, world: World<'_>, links: &[usize], known: Bottlenecks) -> f64 {
    let most: u64 = world.mbps.iter().sum();
    let bytes = most as f64 * 1e6 / 8.0 * SECONDS as f64 * 0.75 * 1428.0 / 1500.0;
    mean(&format!("{} × {cc} alone over {} links", links.len(), world.mbps.len()), |seed| {
        taken(&config(world, User { cc, links }, None, known, seed), cc, seed)[0].iter().sum::<f64>() / bytes
    })
}

/// Together they keep ten packets queued, or two each at least, so that the link is never idle. As the kernel drains,
/// one subflow halves its window before it has filled the path.
#[test]
fn subflows_of_wvegas_use_their_link() {
    within(use_alone("wvegas", ONE, &[0, 0], Bottlenecks::None), 0.98, 1.001);
    within(use_alone("wvegas", World { mbps: &[5], queue: 100 }, &[0, 0], Bottlenecks::None), 0.98, 1.001);
    within(use_alone("wvegas", World { mbps: &[2], queue: 100 }, &[0], Bottlenecks::None), 0.98, 1.001);
    within(use_alone("wvegas", ONE, &[0], Bottlenecks::None), 0.98, 1.001);
    within(use_alone("wvegas:drain=kernel", ONE, &[0], Bottlenecks::None), 0.2, 0.8);
}

/// What is coupled although it shares nothing leaves half unused; that is what groups are for.
#[test]
fn coupled_bbr_needs_to_know_what_is_shared() {
    let two = World { mbps: &[10, 10], queue: 100 };
    within(use_alone("coupled-bbr", ONE, &[0, 0], Bottlenecks::None), 0.9, 1.0);
    within(use_alone("coupled-bbr", two, &[0, 1], Bottlenecks::None), 0.4, 0.7);
    within(use_alone("coupled-bbr:scope=bottleneck", two, &[0, 1], Bottlenecks::Given), 0.9, 1.0);
}

/// Khalili et al. 2013, scenario C in small: the user has a link of its own and a way through an access point at which
/// four flows contend. What it takes there over what one of the four takes.
fn at_a_crowded_link(cc: &str) -> f64 {
    let world = World { mbps: &[10, 10], queue: 100 };
    let (user, rival) = (User { cc, links: &[0, 1] }, User { cc: "newreno", links: &[1; 4] });
    mean(&format!("{cc} at a crowded link / one of its flows"), |seed| {
        let [user, rival] = taken(&config(world, user, Some(rival), Bottlenecks::None, seed), cc, seed);
        user[1] / (rival.iter().sum::<f64>() / 4.0)
    })
}

/// Let s² be the loss rate of the free link over that of the crowded one. LIA's windows go with 1/p, and their sum with
/// the root of 2/p at the best path: at the crowded link s / (1 + s²) of one of its flows, and with 10 Mbit/s at each
/// link 1 / (s (1 + s²)) = 4 + s / (1 + s²): s = 0.225, 0.21 of a flow, for windows that are not cut to whole packets.
/// OLIA would take nothing; what it cannot go below is a packet or two of the 33 that one of the flows has. BALIA is
/// between LIA and one flow, which is what is taken without coupling.
#[test]
fn coupled_paths_leave_a_crowded_link() {
    let [free, lia, olia, balia] = ["newreno", "lia", "olia", "balia"].map(at_a_crowded_link);
    // The seeds' clocks set them 0.97 to 1.57 apart.
    within(free, 0.85, 1.25);
    within(lia, 0.06, 0.25);
    within(olia, 0.03, 0.15);
    within(balia, 0.1, 0.3);
    // LIA and OLIA are nearer to each other than their seeds are.
    assert!(lia.max(olia) < balia);
}

/// The draft's aim (draft-ietf-ccwg-bbr): a probe comes as often as Reno would be back, what lost a probe is left by 15
/// %, and so a flow of CUBIC keeps its half: within 30 % here, where the queue is one and a half products. With
/// `headroom=literal`, which leaves 85 %, BBR does not.
#[test]
fn bbr2_and_bbr3_share_with_cubic() {
    within(ratio("bbr2", 1, "cubic", Bottlenecks::None), 0.7, 1.4);
    within(ratio("bbr3", 1, "cubic", Bottlenecks::None), 0.7, 1.4);
    within(ratio("bbr3:headroom=literal", 1, "cubic", Bottlenecks::None), 0.0, 0.7);
}

/// BBRv1 is bound by its window of two products, over the smallest round trip that PROBE_RTT finds. If CUBIC then
/// leaves the share p of the queue of X products that it has of the link, 2 (1 + p X) = 1 + X: BBR takes 1/2 + 1/(2X)
/// (Ware et al., IMC 2019, which adds four packets). CUBIC grows into what PROBE_RTT leaves, so that this is the most;
/// in a short queue BBR has more than half, and less in each longer one.
#[test]
fn bbr1_takes_from_cubic_what_its_window_holds() {
    let queues = [100u64, 200, 400];
    let shares = queues.map(|queue| {
        let ratio = ratio_at(World { queue, ..ONE }, "bbr1", 1, "cubic", Bottlenecks::None);
        ratio / (1.0 + ratio)
    });
    for (queue, share) in queues.into_iter().zip(shares) {
        let products = queue as f64 / 66.7;
        within(share, 0.35, 0.5 + 0.5 / products + 4.0 / queue as f64);
    }
    assert!(shares[0] > 0.55 && shares[0] > shares[1] + 0.05 && shares[1] > shares[2], "{shares:?}");
}

/// In a short queue losses bound BDP as they bound CUBIC; in longer ones a probe shows that somebody else fills the
/// queue, and it behaves as CUBIC. Queues of 0.4, 1.5 and 6 products.
#[test]
fn bdp_shares_with_cubic_and_bbr3() {
    for queue in [25, 100, 400] {
        within(ratio_at(World { queue, ..ONE }, "bdp", 1, "cubic", Bottlenecks::None), 0.5, 1.3);
        within(ratio_at(World { queue, ..ONE }, "bdp", 1, "bbr3", Bottlenecks::None), 0.5, 1.5);
    }
    within(ratio("bdp", 1, "bdp", Bottlenecks::None), 0.8, 1.25);
}

/// At each of the three queues both subflows see the queue that others fill, or lose packets to it while it is full: each
/// is coupled as if the bottleneck were known to be shared. One flow of CUBIC is the measure (RFC 6356's second goal).
#[test]
fn two_subflows_of_bdp_take_no_more_than_one_flow() {
    for queue in [25, 100, 400] {
        within(ratio_at(World { queue, ..ONE }, "bdp", 2, "cubic", Bottlenecks::None), 0.2, 1.3);
    }
    within(ratio("bdp:crowd=cubic", 2, "cubic", Bottlenecks::None), 1.5, 2.5);
    within(ratio("bdp", 2, "cubic", Bottlenecks::Given), 0.5, 1.3);
}
