//! What happens in worlds that exercise loss recovery, as one line a run: when it ended, what was counted, and a digest
//! of every note. A change of any result moves a line: it is then made anew with `INSTA_UPDATE=always`, named in the
//! changelog, and reviewed as a difference. These lines prove no rule; they keep one that was proved elsewhere.

use std::fmt::Write;

use crate::setup::{self, bulk, down, path, run, stacks};
use weftway_link::{Change, Distribution, Jitter, Loss, Set};
use weftway_path::{Bytes, Instant, Span};
use weftway_scenario::config::{Buffer, MessageSize, PathConfig, SimConfig, TransportConfig, Workload};

/// Four pairs of a scheduler and a controller for each world and stack, in turn.
const SCHEDULERS: [&str; 5] = ["min-rtt", "blest", "round-robin", "redundant", "ecf"];
const CONTROLLERS: [&str; 8] = ["cubic", "newreno", "bbr1", "lia", "bbr2", "olia", "bbr3", "wvegas"];

fn pair() -> Vec<PathConfig> {
    vec![path("a", 8_000, 10), path("b", 4_000, 40)]
}

fn with_loss(loss: Loss) -> Vec<PathConfig> {
    let mut paths = pair();
    paths.iter_mut().for_each(|path| path.data.loss = loss.clone());
    paths
}

/// The delay towards the receiver grows by 400 ms for a while: timeouts that were not needed.
fn spike(from: u64, to: u64) -> Vec<PathConfig> {
    let mut paths = pair();
    let at = |ms, delay| Change { at: Instant::from_millis(ms), set: Set::Delay(Span::from_millis(delay)) };
    paths[0].data.changes = vec![at(from, 410), at(to, 10)];
    paths
}

fn jitter(mean: u64, reorder: bool) -> Vec<PathConfig> {
    let mut paths = pair();
    for path in &mut paths {
        path.data.jitter =
            Some(Jitter { distribution: Distribution::Uniform { half_width: Span::from_millis(mean) }, reorder });
    }
    paths
}

/// A message of seven packets every 60 ms: most losses are at a tail.
fn messages(transport: &TransportConfig, paths: Vec<PathConfig>) -> SimConfig {
    let size = MessageSize { weight: 1, bytes: Bytes::new(9_800), class: 0 };
    let workload = Workload::Messages { sizes: vec![size], period: Span::from_millis(60), count: 40, deadline: None };
    SimConfig { workload, ..bulk(transport, paths, 0) }
}

fn burst() -> Loss {
    Loss::GilbertElliott { to_bad: 0.005, to_good: 0.2, loss_good: 0.0, loss_bad: 0.7 }
}

/// Every world: its name and its configuration over a stack.
fn worlds(transport: &TransportConfig) -> Vec<(&'static str, SimConfig)> {
    let small = |kilobytes: u64| TransportConfig {
        receive_buffer: Buffer::Fixed(Bytes::new(kilobytes * 1000)),
        ..transport.clone()
    };
    let mut acks = pair();
    acks.iter_mut().for_each(|path| path.acks.loss = Loss::Bernoulli(0.2));
    let first = |numbers: &[u64]| {
        let mut paths = pair();
        paths[0].data.loss = Loss::Packets(numbers.to_vec());
        paths
    };
    let mut shallow = pair();
    shallow.iter_mut().for_each(|path| path.data.queue.limit = weftway_link::Limit::Packets(8));
    vec![
        ("loss of 2 %", bulk(transport, with_loss(Loss::Bernoulli(0.02)), 1_000_000)),
        ("loss of 15 %", bulk(transport, with_loss(Loss::Bernoulli(0.15)), 200_000)),
        ("bursts", bulk(transport, with_loss(burst()), 1_000_000)),
        ("reordering by 30 ms", bulk(transport, jitter(30, true), 1_000_000)),
        ("reordering by 4 ms and loss", {
            let mut config = bulk(transport, jitter(4, true), 1_000_000);
            config.paths.iter_mut().for_each(|path| path.data.loss = Loss::Bernoulli(0.01));
            config
        }),
        ("jitter in order", bulk(transport, jitter(30, false), 1_000_000)),
        ("a delay that jumps once", bulk(transport, spike(600, 900), 2_000_000)),
        ("a delay that jumps for long", bulk(transport, spike(300, 1_500), 1_500_000)),
        (
            "a path goes and returns",
            bulk(
                transport,
                {
                    let mut paths = pair();
                    paths[0] = down(paths[0].clone(), 400, Some(1_700));
                    paths
                },
                2_000_000,
            ),
        ),
        (
            "a path goes for good",
            bulk(
                transport,
                {
                    let mut paths = pair();
                    paths[1] = down(paths[1].clone(), 500, None);
                    paths
                },
                1_000_000,
            ),
        ),
        ("lost acknowledgements", bulk(transport, acks, 1_000_000)),
        ("a small receive buffer", bulk(&small(30), pair(), 400_000)),
        ("a small receive buffer and loss", bulk(&small(60), with_loss(Loss::Bernoulli(0.03)), 400_000)),
        ("short queues", bulk(transport, shallow, 1_000_000)),
        ("the first packets are lost", bulk(transport, first(&[0, 1, 2]), 100_000)),
        ("the last packets are lost", bulk(transport, first(&[4, 5, 6, 7]), 11_000)),
        ("one loss, and its repair is lost", bulk(transport, first(&[20, 31, 32, 33, 34]), 200_000)),
        ("messages and loss", messages(transport, with_loss(Loss::Bernoulli(0.08)))),
        ("messages over a jump of the delay", messages(transport, spike(700, 1_200))),
        ("messages and an outage of 250 ms", messages(transport, vec![down(path("a", 8_000, 10), 500, Some(750))])),
        ("one path", bulk(transport, vec![setup::lossy(path("only", 6_000, 25), 0.02)], 500_000)),
    ]
}

#[test]
fn every_world_ends_as_it_did() {
    for (stack, transport) in stacks() {
        let mut lines = String::new();
        for (at, (world, config)) in worlds(&transport).iter().enumerate() {
            for turn in 0..4 {
                let scheduler = SCHEDULERS[(at + 2 * turn) % SCHEDULERS.len()];
                let cc = CONTROLLERS[(3 * at + turn) % CONTROLLERS.len()];
                let run = run(config, scheduler, cc);
                let tallies = &run.sim.connection(0).path_tallies;
                let sum = |count: fn(&weftway_sim::PathTally) -> u64| tallies.iter().map(count).sum::<u64>();
                let mut digest = 0xcbf2_9ce4_8422_2325_u64;
                for byte in run.notes.iter().flat_map(|note| format!("{note:?}").into_bytes()) {
                    digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
                writeln!(
                    lines,
                    "{world}, {scheduler}, {cc}: {:?} at {:.1} ms; {} sent, {} again, {} timeouts, {} spurious; {digest:016x}",
                    run.verdict,
                    run.end_ms(),
                    sum(|path| path.packets),
                    sum(|path| path.retransmissions),
                    sum(|path| path.timeouts),
                    sum(|path| path.spurious),
                )
                .unwrap();
            }
        }
        insta::assert_snapshot!(stack.replace([' ', '.'], "-"), lines);
    }
}
