//! What a path's queue gives back to the connection is sent once, in order, and counted.

use crate::setup::{bulk, down, drive, lossy, path, run, stacks};
use weftway_host::Decided;
use weftway_link::Limit;
use weftway_path::{BlockedReason, Bytes, Context, Decision, Event, Offset, Path, PathId};
use weftway_scenario::config::{PathConfig, TransportConfig};
use weftway_sched::{Needs, Scheduler, TransportRules};
use weftway_sim::{Host, Note, Sim, Verdict};
use weftway_vectors::testing::{Bandit, Ledger};

/// Queues packets, and takes back what any path's queue holds, both as its own random numbers say.
#[derive(Clone)]
struct Fickle {
    state: u64,
    taken: u64,
    bandit: Bandit,
}

impl Fickle {
    fn new(seed: u64) -> (Self, Ledger) {
        let (bandit, ledger) = Bandit::new();
        (Self { state: seed, taken: 0, bandit }, ledger)
    }

    fn roll(&self, sides: u64) -> u64 {
        (self.state.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % sides
    }
}

impl Scheduler for Fickle {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let among = |mut paths: Vec<&Path>| {
            let at = self.roll(paths.len().max(1) as u64) as usize;
            (at < paths.len()).then(|| paths.swap_remove(at).id)
        };
        let (recalls, copies) = (self.roll(16) == 0, self.roll(11) == 0);
        let full = |path: &&Path| path.queued > Bytes::ZERO;
        let roomy =
            |path: &&Path| path.is_open() || path.queue_room >= path.mss && path.blocked == BlockedReason::Congestion;
        match among(cx.paths.iter().filter(full).collect()) {
            Some(path) if recalls || cx.packet.is_none() => return Decision::Recall(path),
            _ => {}
        }
        match (among(cx.paths.iter().filter(roomy).collect()), cx.packet) {
            (Some(path), Some(_)) if copies => Decision::Repeat(path, Offset::ZERO),
            (Some(path), Some(_)) => Decision::Send(path),
            _ => Decision::Wait,
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.taken += u64::from(matches!(event, Event::Recalled(_)));
        self.bandit.observe(cx, event);
    }
}

fn worlds() -> [Vec<PathConfig>; 3] {
    [
        vec![path("fast", 20_000, 10), path("slow", 4_000, 50)],
        vec![lossy(path("fast", 20_000, 10), 0.01), lossy(path("slow", 5_000, 40), 0.02), path("third", 8_000, 25)],
        vec![path("lasts", 4_000, 20), down(path("fails", 8_000, 10), 150, Some(900))],
    ]
}

#[test]
fn whatever_is_taken_back_arrives_once_and_in_order() {
    const BYTES: u64 = 1_000_000;
    for (stack, transport) in stacks() {
        for (world, paths) in worlds().into_iter().enumerate() {
            for seed in 0..20 {
                let what = format!("{stack}, world {world}, seed {seed}");
                let (mut fickle, ledger) = Fickle::new(seed);
                let mut sim = Sim::new(&bulk(&transport, paths.clone(), BYTES), "cubic", seed).unwrap();
                let needs =
                    Needs { queueing: true, copies: true, recall: true, events: true, flow: true, ..Needs::NONE };
                sim.host(0, Host::new(needs, TransportRules::NONE));
                assert_eq!(drive(&mut sim, &mut fickle, 1), Verdict::Finished, "{what}");
                assert_eq!(sim.connection(0).delivered(), Bytes::new(BYTES), "{what}");
                let audit = ledger.audit();
                assert_eq!(audit.faults, Vec::<String>::new(), "{what}");
                assert_eq!(audit.recalled as u64, fickle.taken, "{what}");
                assert!(fickle.taken > 0, "{what}: nothing was taken back");
            }
        }
    }
}

/// Without loss each byte is on the wire once, however often it was taken back.
#[test]
fn nothing_is_sent_twice() {
    const BYTES: u64 = 2_000_000;
    for (stack, mut transport) in stacks() {
        transport.opportunistic = Some(false);
        let mut config = bulk(&transport, worlds()[0].clone(), BYTES);
        config.paths.iter_mut().for_each(|path| path.data.queue.limit = Limit::Packets(10_000));
        let run = run(&config, "sttf-kernel", "newreno");
        assert_eq!((run.verdict, run.sim.connection(0).host().counts.faults), (Verdict::Finished, 0), "{stack}");
        assert_eq!(run.sim.connection(0).delivered(), Bytes::new(BYTES), "{stack}");
        let recalls = run
            .notes
            .iter()
            .filter(|(_, note)| matches!(note, Note::Decided(Decided { decision: Decision::Recall(_), .. })));
        assert!(recalls.count() > 0, "{stack}: nothing was taken back");
        let sent: u64 = run.sent().iter().map(|(.., bytes)| u64::from(*bytes)).sum();
        // What the meta timer of Linux v1 repeats on an idle subflow is in the other's queue all the same.
        let most = if stack == "linux-v1" { BYTES / 50 } else { 0 };
        assert!((BYTES..=BYTES + most).contains(&sent), "{stack}: {sent}");
    }
}

/// A scheduler that takes back all the time ends its turn all the same.
#[test]
fn taking_back_for_ever_is_waiting() {
    #[derive(Clone)]
    struct Mad;
    impl Scheduler for Mad {
        fn select(&mut self, cx: &Context<'_>) -> Decision {
            match cx.paths.iter().find(|path| path.queued > Bytes::ZERO) {
                Some(path) => Decision::Recall(path.id),
                None if cx.packet.is_some() => Decision::Send(cx.paths[0].id),
                None => Decision::Recall(PathId::new(0)),
            }
        }
    }
    let mut sim =
        Sim::new(&bulk(&TransportConfig::mptcp_v09x(), vec![path("only", 10_000, 10)], 300_000), "cubic", 1).unwrap();
    let needs = Needs { queueing: true, recall: true, ..Needs::NONE };
    sim.host(0, Host::new(needs, TransportRules::NONE));
    assert_eq!(drive(&mut sim, &mut Mad, 1), Verdict::Finished);
}
