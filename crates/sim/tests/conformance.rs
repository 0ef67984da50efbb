//! Every scheduler of the registry, over every stack and controller: the run ends, breaks no rule, and asking a
//! question three times changes nothing, and a copy of the scheduler goes on as it would.

use std::fmt::Write;
use std::sync::{Arc, LazyLock, Mutex};

use crate::setup::{answer, bulk, down, drive, lossy, path, stacks};
use weftway_path::{Bytes, Context, Decision, Event, Health, Instant, Path, Span};
use weftway_scenario::config::{MessageSize, SimConfig, TransportConfig, Workload};
use weftway_scenario::stack::Stack;
use weftway_sched::{Needs, Scheduler, TransportRules};
use weftway_sim::{Host, Listener, Note, Pause, Sim, Verdict};
use weftway_vectors::testing::Bandit;

/// The names of all controllers.
fn controllers() -> impl ExactSizeIterator<Item = &'static str> {
    weftway_cc::all().iter().map(|entry| entry.name)
}

/// FNV-1a over everything that is noted.
struct Digest {
    hash: u64,
    line: String,
}

impl Default for Digest {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, line: String::new() }
    }
}

impl Listener for Digest {
    fn note(&mut self, now: Instant, conn: u8, note: &Note) {
        self.line.clear();
        write!(self.line, "{now} {conn} {note:?}").unwrap();
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A scheduler whose entry does not say that its rule waits: it never does with new data at hand and an open path that
/// may serve them. All paths of these runs are active.
#[derive(Clone)]
struct Prompt(Box<dyn Scheduler>, String);

impl Scheduler for Prompt {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let decision = self.0.select(cx);
        let is_open = |path: &Path| path.is_open() && path.health == Health::Good;
        let is_served = cx.packet.is_some_and(|packet| !packet.reinjection) && cx.paths.iter().any(is_open);
        assert!(decision != Decision::Wait || !is_served, "{}: waits beside an open path at {}", self.1, cx.now);
        decision
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.0.observe(cx, event);
    }

    fn wake(&self) -> Option<Instant> {
        self.0.wake()
    }
}

/// Runs, checks what holds for every run, and returns the digest of what happened. In place of a scheduler that is
/// asked several `times`, a copy goes on after every hundredth stop of the simulation.
fn digest(what: &str, config: &SimConfig, scheduler: &str, cc: &str, times: usize) -> u64 {
    let mut sim = Sim::new(config, cc, 7).unwrap();
    sim.host(0, Host::of(scheduler).unwrap());
    let digest = Arc::new(Mutex::new(Digest::default()));
    sim.listen(Box::new(digest.clone()));
    let waits = weftway_sched::find(scheduler).unwrap().waits;
    let built = weftway_sched::build(scheduler).unwrap();
    let mut scheduler = if waits { built } else { Box::new(Prompt(built, what.to_owned())) };
    let mut stops = 0u32;
    let verdict = loop {
        match sim.advance() {
            Pause::Decide(_) => answer(&mut sim, scheduler.as_mut(), times),
            Pause::Observe(_) => sim.tell(0, scheduler.as_mut()),
            Pause::Done(verdict) => break verdict,
        }
        stops += 1;
        if times > 1 && stops.is_multiple_of(100) {
            scheduler = scheduler.clone();
        }
    };
    let counts = &sim.connection(0).host().counts;
    assert_eq!(verdict, Verdict::Finished, "{what}: {:?} at {} {counts:?}", verdict, sim.now());
    assert_eq!(counts.faults, 0, "{what}: {counts:?}");
    digest.lock().unwrap().hash
}

/// The worlds that the runs are spread over.
#[derive(Clone, Copy)]
enum World {
    TwoLossyPaths,
    FourLossyPaths,
    SixtyFourPaths,
    FailingPath,
    SmallReceiveBuffer,
}

const WORLDS: usize = 5;

/// Returns true if this entry meets this controller in this world. Each world takes its turn: over any one stack, an
/// entry meets every controller in exactly one of the worlds, and two or three controllers in each. With
/// `WEFTWAY_TESTS=full`, which `./test nightly` sets, it meets all of them everywhere.
fn meets(world: World, entry: usize, stack: usize, controller: usize) -> bool {
    static FULL: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("WEFTWAY_TESTS").is_some_and(|value| value == "full"));
    *FULL || (entry + stack + controller) % WORLDS == world as usize
}

/// Every entry over every stack, with the controllers that it meets there, on the paths that `paths` gives for a stack.
fn everywhere(world: World, paths: impl Fn(&TransportConfig) -> SimConfig) {
    for (s, (stack, transport)) in stacks().into_iter().enumerate() {
        let config = paths(&transport);
        for (e, entry) in weftway_sched::all().iter().enumerate() {
            for (_, cc) in controllers().enumerate().filter(|(c, _)| meets(world, e, s, *c)) {
                let what = format!("{} over {stack} with {cc}", entry.name);
                let once = digest(&what, &config, entry.name, cc, 1);
                let thrice = digest(&what, &config, entry.name, cc, 3);
                assert_eq!(once, thrice, "{what}: asked three times, and copied, it behaves otherwise");
            }
        }
    }
}

/// The rotation leaves no scheduler, stack and controller without a common run.
#[test]
fn the_worlds_share_out_the_product() {
    let worlds = [
        World::TwoLossyPaths,
        World::FourLossyPaths,
        World::SixtyFourPaths,
        World::FailingPath,
        World::SmallReceiveBuffer,
    ];
    let (entries, stacks) = (weftway_sched::all().len(), stacks().len());
    for at in 0..entries * stacks * controllers().len() {
        let (entry, stack, controller) = (at % entries, at / entries % stacks, at / entries / stacks);
        let met = worlds.iter().filter(|world| meets(**world, entry, stack, controller)).count();
        assert!(met == 1 || met == WORLDS, "entry {entry}, stack {stack}, controller {controller}: {met} runs");
    }
}

#[test]
fn two_lossy_paths() {
    everywhere(World::TwoLossyPaths, |transport| {
        let paths = vec![lossy(path("fast", 20_000, 10), 0.01), lossy(path("slow", 5_000, 40), 0.02)];
        bulk(transport, paths, 300_000)
    });
}

#[test]
fn four_lossy_paths() {
    everywhere(World::FourLossyPaths, |transport| {
        let path = |n: u64| lossy(path(&format!("p{n}"), 2_000 * (n + 1), 5 + 15 * n), 0.03);
        bulk(transport, (0..4).map(path).collect(), 300_000)
    });
}

#[test]
fn sixty_four_paths() {
    everywhere(World::SixtyFourPaths, |transport| {
        let path = |n: u64| path(&format!("p{n}"), 1_000 + 100 * n, 5 + n);
        bulk(transport, (0..64).map(path).collect(), 300_000)
    });
}

#[test]
fn a_path_that_fails_for_good() {
    everywhere(World::FailingPath, |transport| {
        let paths = vec![path("lasts", 4_000, 20), down(path("fails", 8_000, 10), 150, None)];
        bulk(transport, paths, 500_000)
    });
}

#[test]
fn a_small_receive_buffer() {
    everywhere(World::SmallReceiveBuffer, |transport| {
        let mut transport = transport.clone();
        transport.receive_buffer = weftway_scenario::config::Buffer::Fixed(Bytes::new(30_000));
        bulk(&transport, vec![path("fast", 20_000, 5), lossy(path("slow", 2_000, 60), 0.02)], 300_000)
    });
}

/// 200 kB over lossy paths, and ten seconds later one byte: by then every packet of the first
/// message has its outcome, and only the byte's is open.
fn two_messages(transport: &TransportConfig) -> SimConfig {
    let paths = vec![lossy(path("fast", 20_000, 10), 0.02), lossy(path("slow", 5_000, 40), 0.02)];
    let mut config = bulk(transport, paths, 0);
    config.workload = Workload::Messages {
        sizes: vec![MessageSize::of(Bytes::new(200_000))],
        period: Span::from_secs(10),
        count: 2,
        deadline: None,
    };
    config.time_limit = Span::from_secs(9);
    config
}

/// A scheduler that binds rewards to serials: each decision is paid once, and all of them are
/// paid when the path has nothing in flight any more.
#[test]
fn every_decision_finds_its_outcome() {
    for (stack, transport) in stacks() {
        for cc in controllers() {
            let what = format!("{stack} with {cc}");
            let (mut bandit, ledger) = Bandit::new();
            let mut sim = Sim::new(&two_messages(&transport), cc, 3).unwrap();
            let needs = Needs { events: true, ..Needs::NONE };
            sim.host(0, Host::new(needs, TransportRules::NONE));
            assert_eq!(drive(&mut sim, &mut bandit, 1), Verdict::TimeLimit, "{what}");
            let audit = ledger.audit();
            assert_eq!(sim.connection(0).delivered(), Bytes::new(200_000), "{what}");
            assert_eq!(audit.pending, 0, "{what}: {audit:?}");
            // What a subflow lost it repairs itself; a QUIC packet stays lost.
            assert!(transport.stack == Stack::Mpquic || audit.lost == 0, "{what}: {audit:?}");
            assert!(audit.sent as u64 >= 200_000 / transport.mss.get(), "{what}: {audit:?}");
            assert_eq!(audit.faults, Vec::<String>::new(), "{what}");
        }
    }
}
