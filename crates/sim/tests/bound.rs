//! No run is better than the capacity bound: every scheduler, in worlds that are drawn. And the bound is no empty one.

use crate::setup::drawn::{Draws, drawn_link, kbps, ms};
use crate::setup::{self, path, stacks};
use weftway_link::Limit;
use weftway_path::{Bytes, Span};
use weftway_scenario::bound::Bound;
use weftway_scenario::config::{
    Buffer, Direction, MessageSize, Opening, PathConfig, SimConfig, TransportConfig, WebObject, Workload,
};
use weftway_scenario::measurement;
use weftway_sim::Verdict;
use weftway_sim::measure::Singles;
use weftway_sim::run::{Finished, Job};

fn workload(draws: &mut Draws) -> Workload {
    let bytes = Bytes::new(draws.between(500, 40_000));
    match draws.below(7) {
        0 | 1 => Workload::Bulk { bytes: Bytes::new(draws.between(20_000, 600_000)) },
        2 => Workload::Duration { span: ms(draws.between(300, 1_500)) },
        3 => Workload::RequestResponse { bytes, think: ms(draws.below(40)), count: 8 },
        4 => Workload::Limited { rate: kbps(draws.between(500, 20_000)), bytes: Bytes::new(200_000) },
        5 => {
            let object = |children, bytes| WebObject { bytes: Bytes::new(bytes), children };
            let mut objects = vec![object(4, 20_000), object(2, 8_000), object(0, 30_000), object(1, 4_000)];
            objects.extend([object(0, draws.between(1, 60_000)); 4]);
            Workload::Web { objects, think: ms(draws.below(20)) }
        }
        _ => {
            let large = MessageSize { weight: 1, bytes: Bytes::new(draws.between(5_000, 80_000)), class: 1 };
            let sizes = vec![MessageSize { weight: 3, ..MessageSize::of(bytes) }, large];
            Workload::Messages { sizes, period: ms(draws.between(0, 60)), count: 25, deadline: Some(ms(150)) }
        }
    }
}

fn transport(draws: &mut Draws) -> TransportConfig {
    let base = stacks()[draws.below(3) as usize].1.clone();
    let buffers = [Buffer::Fixed(Bytes::new(draws.between(8_000, 60_000))), base.receive_buffer, base.receive_buffer];
    TransportConfig {
        receive_buffer: buffers[draws.below(3) as usize],
        direction: if draws.one_in(2) { Direction::Upload } else { Direction::Download },
        open: if draws.one_in(3) { Opening::Race } else { Opening::Primary },
        ..base
    }
}

fn world(seed: u64) -> SimConfig {
    let mut draws = Draws::of(seed);
    let transport = transport(&mut draws);
    let count = draws.between(1, 4);
    let paths = (0..count).map(|at| {
        let (data, acks) = (drawn_link(&mut draws), drawn_link(&mut draws));
        PathConfig { data, acks, ..path(&format!("p{at}"), 1, 1) }
    });
    let mut config = SimConfig::new(transport, paths.collect(), Bytes::ZERO);
    if draws.one_in(3) {
        config.shared = vec![drawn_link(&mut draws)];
        config.paths.iter_mut().for_each(|path| path.via = (!draws.one_in(3)).then_some(0));
    }
    config.workload = workload(&mut draws);
    config.time_limit = Span::from_secs(60);
    config
}

fn bound(job: &Job<'_>) -> Bound {
    job.bound().expect("the controller is known")
}

/// What is better in a run than the bound allows: a message's delay, or a figure of its row.
fn beaten(config: &SimConfig, finished: &Finished, bound: &Bound) -> Option<String> {
    let measured = finished.measurement(config, &Singles::default());
    let delays = measured.messages.delays.iter().zip(&bound.delays).enumerate();
    let early = |(_, (delay, least)): &(usize, (&Span, &Span))| delay < least;
    if let Some((at, (delay, least))) = { delays }.find(early) {
        return Some(format!("message {at} after {delay}, at least {least}"));
    }
    let (row, least) = (measured.row(config), measurement::bound(bound, config));
    if bound.delivered.is_some_and(|most| measured.delivered > most) {
        return Some(format!("{} B delivered, at most {}", row["delivered_bytes"], least["bound_bytes"]));
    }
    let pairs = [
        ("fct_ms", "bound_fct_ms"),
        ("message_p50_ms", "bound_p50_ms"),
        ("message_p95_ms", "bound_p95_ms"),
        ("message_p99_ms", "bound_p99_ms"),
    ];
    let finished = measured.verdict == Verdict::Finished && bound.delivered.is_none();
    let better = pairs.into_iter().filter(|_| finished).find(|(of_run, of_bound)| {
        let (of_run, of_bound) = (row[*of_run].as_f64(), least[*of_bound].as_f64());
        // What has ended can end. A row has six decimals.
        of_run.is_some_and(|value| of_bound.is_none_or(|least| value < least - 1e-6))
    });
    better.map(|(of_run, of_bound)| format!("{of_run} {}, at least {}", row[of_run], least[of_bound]))
}

#[test]
fn no_scheduler_is_better_than_the_bound() {
    let controllers = ["cubic", "bbr1", "newreno"];
    let mut found = Vec::new();
    for seed in 0..60 {
        let config = world(seed);
        let job = Job { config: &config, cc: controllers[seed as usize % 3], seed, timing: None };
        let bound = bound(&job);
        for entry in weftway_sched::all() {
            if entry.arity == weftway_sched::Arity::Pair && config.paths.len() < 2 {
                continue;
            }
            let finished = job.run_named(entry.name).expect("it runs");
            if let Some(what) = beaten(&config, &finished, &bound) {
                found.push(format!("world {seed}, {}: {what}", entry.name));
            }
        }
    }
    assert!(found.is_empty(), "{} runs are better than the bound:\n{}", found.len(), found.join("\n"));
}

/// 20 MB over 20 and 10 Mbit/s with large queues and windows: what the links carry, they bring within 5 %, the slow
/// start and the repair of its losses included. And messages far below capacity, on one path, arrive within 0.6 ms of
/// it: the first of them has a packet of the handshake before it, 1228 B or 0.5 ms.
#[test]
fn the_bound_is_nearly_attained_where_nothing_but_capacity_matters() {
    let roomy = |name: &str, kbps, delay| {
        let mut path = setup::path(name, kbps, delay);
        path.data.queue.limit = Limit::Packets(1000);
        path
    };
    let transport =
        TransportConfig { receive_buffer: Buffer::Fixed(Bytes::new(16 << 20)), ..TransportConfig::mpquic() };
    let mut config = setup::bulk(&transport, vec![roomy("a", 20_000, 10), roomy("b", 10_000, 15)], 20_000_000);
    let job = Job { config: &config, cc: "cubic", seed: 1, timing: None };
    let finished = job.run_named("earliest-delivery").expect("it runs");
    let elapsed = finished.sim.now().as_secs_f64();
    let least = bound(&job).completion.expect("an end").as_secs_f64();
    assert!(least <= elapsed && elapsed < least * 1.05, "{elapsed} s, at least {least}");

    let sizes = vec![MessageSize::of(Bytes::new(1_000))];
    config.paths.truncate(1);
    config.workload = Workload::Messages { sizes, period: ms(50), count: 40, deadline: None };
    let job = Job { config: &config, cc: "cubic", seed: 1, timing: None };
    let finished = job.run_named("min-rtt").expect("it runs");
    let bound = bound(&job);
    let measured = finished.measurement(&config, &Singles::default());
    for (delay, least) in measured.messages.delays.iter().zip(&bound.delays) {
        assert!(least <= delay && *delay < *least + Span::from_micros(600), "{delay}, at least {least}");
    }
    assert_eq!(bound.delays.len(), 40);
}

/// Twenty windows take 20 rounds of 40 ms and some transmission. A run needs more: its first windows are smaller, and
/// QUIC opens the window when half of it has been read.
#[test]
fn a_small_window_bounds_a_fast_path() {
    let receive_buffer = Buffer::Fixed(Bytes::new(50_000));
    for (name, stack) in stacks() {
        let transport = TransportConfig { receive_buffer, ..stack };
        let window = setup::largest_window(&transport, Bytes::new(50_000));
        let config = setup::bulk(&transport, vec![setup::path("a", 100_000, 20)], window.get() * 20);
        let job = Job { config: &config, cc: "cubic", seed: 1, timing: None };
        let finished = job.run_named("min-rtt").expect("it runs");
        let elapsed = finished.sim.now().as_secs_f64();
        let least = bound(&job).completion.expect("an end").as_secs_f64();
        assert!(least > 0.8 && least <= elapsed && elapsed < least * 1.75, "{name}: {elapsed} s, at least {least}");
    }
}
