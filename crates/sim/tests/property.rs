//! Whatever the world does to the links, a connection keeps its promises: every byte arrives once
//! and in order, windows are respected, time moves forward, and once the links are well again the
//! transfer ends. A clone taken on the way ends like its original.

use std::sync::{Arc, Mutex};

use crate::setup::{self, link};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use weftway_link::{Distribution, Jitter, Limit, LinkConfig, Loss, Set};
use weftway_path::{BitRate, Bytes, Decision, Instant, Offset, PathId, Role, Span};
use weftway_scenario::config::{
    AckPath, Buffer, Direction, MessageSize, Opening, PathConfig, PathManager, SimConfig, TransportConfig, WebObject,
    Workload,
};
use weftway_scenario::stack::Stack;
use weftway_sched::Scheduler;
use weftway_sim::{Host, Listener, Note, Pause, Sim, Verdict};

/// Something that happens to the links, or time that passes.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// So many milliseconds pass.
    Pass(u64),
    /// A path's links fail.
    Fail(usize),
    /// They return.
    Heal(usize),
    /// Their rate, in kbit/s.
    Rate(usize, u64),
    /// Their delay, in ms.
    Delay(usize, u64),
    /// Their loss, in percent.
    Loss(usize, u8),
}

#[derive(Clone, Debug)]
struct Line {
    kbps: u64,
    delay: u64,
    queue: u64,
    loss: u8,
    ack_loss: u8,
    /// Uniform jitter of so many ms that may reorder.
    jitter: u64,
    /// Times at which the path is removed and added again, in ms; the first path always exists.
    presence: Vec<u64>,
    backup: bool,
}

#[derive(Clone, Debug)]
struct World {
    stack: Stack,
    lines: Vec<Line>,
    scheduler: usize,
    cc: usize,
    seed: u64,
    receive: u64,
    send: Option<u64>,
    upload: bool,
    manager: PathManager,
    race: bool,
    acks: AckPath,
    credit_late: bool,
    rules: Option<bool>,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    Bulk(u64),
    Messages { bytes: u64, period: u64, count: u64 },
    Answers { bytes: u64, think: u64, count: u64 },
    Limited { kbps: u64, bytes: u64 },
    Page { bytes: u64, think: u64, count: u64 },
}

const CONTROLLERS: [&str; 11] =
    ["newreno", "cubic", "lia", "olia", "balia", "dlia", "wvegas", "bbr1", "bbr2", "bbr3", "bdp"];
/// Time that a healed world may take. Backed-off timers reach two minutes, and a path that was given up may need
/// several.
const PATIENCE: u64 = 2_000;

impl Work {
    fn total(&self) -> u64 {
        match *self {
            Self::Bulk(bytes) | Self::Limited { bytes, .. } => bytes,
            Self::Messages { bytes, count, .. } | Self::Answers { bytes, count, .. } => bytes * count,
            Self::Page { bytes, count, .. } => bytes * (count + 2),
        }
    }

    fn workload(&self) -> Workload {
        match *self {
            Self::Bulk(bytes) => Workload::Bulk { bytes: Bytes::new(bytes) },
            Self::Messages { bytes, period, count } => Workload::Messages {
                sizes: vec![MessageSize::of(Bytes::new(bytes))],
                period: Span::from_millis(period),
                count,
                deadline: None,
            },
            Self::Answers { bytes, think, count } => {
                Workload::RequestResponse { bytes: Bytes::new(bytes), think: Span::from_millis(think), count }
            }
            Self::Limited { kbps, bytes } => {
                Workload::Limited { rate: BitRate::from_bps(kbps * 1000), bytes: Bytes::new(bytes) }
            }
            // A document that names so many objects, the first of which names one more.
            Self::Page { bytes, think, count } => {
                let object = |children| WebObject { bytes: Bytes::new(bytes), children };
                let mut objects = vec![object(0); count as usize + 2];
                (objects[0], objects[1]) = (object(count), object(1));
                Workload::Web { objects, think: Span::from_millis(think) }
            }
        }
    }
}

impl Line {
    fn path(&self, at: usize) -> PathConfig {
        let half_width = Span::from_millis(self.jitter);
        let jitter = Jitter { distribution: Distribution::Uniform { half_width }, reorder: true };
        let mut data = LinkConfig {
            jitter: (self.jitter > 0).then_some(jitter),
            loss: percent(self.loss),
            ..link(self.kbps, self.delay)
        };
        data.queue.limit = Limit::Packets(self.queue);
        let acks = LinkConfig { loss: percent(self.ack_loss), ..data.clone() };
        let role = if self.backup { Role::Backup } else { Role::Active };
        let away = if at == 0 { &[][..] } else { &self.presence[..] };
        let mut presence: Vec<_> = away.iter().map(|&ms| Instant::from_millis(ms)).collect();
        presence.sort();
        PathConfig { name: format!("p{at}"), role, data, acks, via: None, presence }
    }
}

fn percent(loss: u8) -> Loss {
    if loss == 0 { Loss::None } else { Loss::Bernoulli(f64::from(loss) / 100.0) }
}

impl World {
    fn transport(&self) -> TransportConfig {
        let base = TransportConfig::of(self.stack);
        TransportConfig {
            receive_buffer: Buffer::Fixed(Bytes::new(self.receive)),
            send_buffer: self.send.map_or(base.send_buffer, |bytes| Buffer::Fixed(Bytes::new(bytes))),
            direction: if self.upload { Direction::Upload } else { Direction::Download },
            path_manager: self.manager,
            open: if self.race { Opening::Race } else { Opening::Primary },
            ack_path: if self.stack == Stack::Mpquic { self.acks } else { AckPath::Same },
            credit_late_acks: self.credit_late,
            opportunistic: self.rules,
            penalise: self.rules,
            // A receiver that drops what it took keeps no promise of the witness: every other world has one.
            subflow_windows: base.subflow_windows && self.seed % 2 == 1,
            ..base
        }
    }

    fn config(&self) -> SimConfig {
        let paths = self.lines.iter().enumerate().map(|(at, line)| line.path(at)).collect();
        let mut config = SimConfig::new(self.transport(), paths, Bytes::ZERO);
        config.workload = self.work.workload();
        config.time_limit = Span::from_secs(2 * PATIENCE);
        config
    }

    fn entry(&self) -> &'static weftway_sched::Entry {
        let all = weftway_sched::all();
        all[self.scheduler % all.len()]
    }
}

/// A receiver of its own, byte by byte, held against the engine's.
struct Witness {
    arrived: Vec<bool>,
    in_order: usize,
    last: Instant,
    packets: u64,
    /// True if nothing that arrived may be dropped.
    is_exact: bool,
}

impl Witness {
    fn new(total: u64, is_exact: bool) -> Self {
        Self { arrived: vec![false; total as usize], in_order: 0, last: Instant::ZERO, packets: 0, is_exact }
    }

    fn arrive(&mut self, offset: Offset, bytes: u32, in_order_to: Offset, held: u64) {
        let start = offset.get() as usize;
        self.arrived[start..start + bytes as usize].fill(true);
        self.packets += 1;
        while self.arrived.get(self.in_order) == Some(&true) {
            self.in_order += 1;
        }
        if !self.is_exact {
            assert!(in_order_to.get() <= self.in_order as u64, "what is in order has arrived");
            return;
        }
        assert_eq!(in_order_to.get(), self.in_order as u64, "what is in order");
        let above = self.arrived[self.in_order..].iter().filter(|&&byte| byte).count();
        assert_eq!(held, above as u64, "what is held out of order");
    }
}

impl Listener for Witness {
    fn note(&mut self, now: Instant, _: u8, note: &Note) {
        assert!(now >= self.last, "time never goes back");
        self.last = now;
        if let Note::Arrived { offset, bytes, in_order_to, held, .. } = note {
            self.arrive(*offset, *bytes, *in_order_to, *held);
        }
    }
}

/// A simulation under test, and who answers it.
#[derive(Clone)]
struct Trial {
    sim: Sim,
    scheduler: Box<dyn Scheduler>,
    stack: Stack,
    /// The bytes that the receiver's buffer takes.
    buffer: Bytes,
    verdict: Option<Verdict>,
}

impl Trial {
    fn new(world: &World) -> Self {
        let entry = world.entry();
        let mut sim = Sim::new(&world.config(), CONTROLLERS[world.cc], world.seed).unwrap();
        sim.host(0, Host::of(entry.name).unwrap());
        let scheduler = weftway_sched::build(entry.name).unwrap();
        let transport = world.transport();
        let buffer = setup::largest_window(&transport, Bytes::new(world.receive));
        Self { sim, scheduler, stack: world.stack, buffer, verdict: None }
    }

    /// Goes on until `until`, or to the end.
    fn run(&mut self, until: Instant) {
        while self.verdict.is_none() {
            let before = self.sim.now();
            match self.sim.advance_until(until) {
                Some(Pause::Decide(_)) => self.decide(),
                Some(Pause::Observe(_)) => self.sim.tell(0, self.scheduler.as_mut()),
                Some(Pause::Done(verdict)) => self.verdict = Some(verdict),
                None => break,
            }
            assert!(self.sim.now() >= before, "time never goes back");
        }
    }

    fn decide(&mut self) {
        self.sim.tell(0, self.scheduler.as_mut());
        self.check();
        let before: Vec<Bytes> = self.sim.context(0).paths.iter().map(|path| path.bytes_in_flight).collect();
        let decision = self.sim.answer(0, self.scheduler.as_mut());
        self.sim.apply(0, decision);
        for (path, before) in self.sim.context(0).paths.iter().zip(before) {
            // Probes and the first retransmission after a timeout pass the window; decisions never do.
            assert!(
                path.bytes_in_flight <= path.cwnd.max(before),
                "{decision:?} overfills {:?}: {:?} of {:?}",
                path.id,
                path.bytes_in_flight,
                path.cwnd
            );
        }
        if let Decision::Send(id) = decision {
            assert!(self.sim.context(0).path(id).is_some(), "the path exists");
        }
    }

    /// What holds whenever a scheduler is asked.
    fn check(&self) {
        let cx = self.sim.context(0);
        let flow = cx.flow.unwrap();
        assert!(flow.una <= flow.next && flow.next <= flow.end, "{flow:?}");
        assert!(flow.next <= flow.edge, "beyond the window: {flow:?}");
        // A packet fits, also one of plain TCP, which is larger.
        let most = cx.paths.iter().map(|path| path.mss).fold(self.buffer, Bytes::max);
        assert!(flow.window() <= most, "{:?} of a buffer of {most:?}: {flow:?}", flow.window());
        assert!(flow.una.get() <= self.sim.connection(0).delivered().get(), "acknowledged before it arrived");
        for path in cx.paths {
            assert!(!path.is_open() || path.unacked() + path.mss <= path.cwnd, "{path:?} is not open");
            assert!(path.acked.bytes <= path.sent.bytes, "{path:?}");
            let in_flight = path.bytes_in_flight.packets(path.mss);
            if self.stack != Stack::Mpquic {
                assert!(path.acked.packets + in_flight <= path.sent.packets, "{path:?}");
            } else {
                assert!(path.acked.bytes + path.bytes_in_flight <= path.sent.bytes, "{path:?}");
                let settled = path.acked.bytes + path.lost.bytes + path.bytes_in_flight;
                assert!(path.sent.bytes <= settled, "{path:?}");
            }
        }
    }

    fn apply(&mut self, op: Op, paths: usize) {
        let mut set = |path: usize, set| self.sim.disturb(PathId::new((path % paths) as u8), &set);
        match op {
            Op::Pass(ms) => {
                let until = self.sim.now() + Span::from_millis(ms);
                self.run(until);
            }
            Op::Fail(path) => set(path, Set::Down),
            Op::Heal(path) => set(path, Set::Up),
            Op::Rate(path, kbps) => set(path, Set::Rate(BitRate::from_bps(kbps * 1000).into())),
            Op::Delay(path, ms) => set(path, Set::Delay(Span::from_millis(ms))),
            Op::Loss(path, loss) => set(path, Set::Loss(percent(loss))),
        }
    }

    /// All links are well again; the transfer must end.
    fn heal(&mut self, paths: usize) {
        for path in 0..paths {
            for op in [Op::Heal(path), Op::Rate(path, 2_000), Op::Delay(path, 10), Op::Loss(path, 0)] {
                self.apply(op, paths);
            }
        }
        let until = self.sim.now() + Span::from_secs(PATIENCE);
        self.run(until);
    }

    fn summary(&self) -> String {
        let conn = self.sim.connection(0);
        format!("{:?} {} {:?} {:?}", self.verdict, self.sim.now(), conn.tally, conn.path_tallies)
    }
}

/// Plays `ops` in `world` and checks everything.
fn play(world: &World, ops: &[Op]) {
    let paths = world.lines.len();
    let mut trial = Trial::new(world);
    let witness = Arc::new(Mutex::new(Witness::new(world.work.total(), !world.transport().subflow_windows)));
    trial.sim.listen(Box::new(witness.clone()));
    ops.iter().for_each(|&op| trial.apply(op, paths));
    let mut twin = trial.clone();
    trial.heal(paths);
    let conn = trial.sim.connection(0);
    assert_eq!(trial.verdict, Some(Verdict::Finished), "stuck at {}: {}", trial.sim.now(), trial.summary());
    assert_eq!(conn.delivered(), Bytes::new(world.work.total()), "all bytes arrive");
    assert_eq!(conn.host().counts.faults, 0, "{:?}", conn.host().counts);
    let (arrived, delivered) =
        conn.path_tallies.iter().fold((0, 0), |sum, path| (sum.0 + path.arrived, sum.1 + path.delivered));
    assert_eq!((arrived, arrived), (conn.tally.arrived, witness.lock().unwrap().packets), "packets");
    assert_eq!(delivered, world.work.total(), "every byte counts for one path");
    assert!(conn.path_tallies.iter().all(|path| path.arrived <= path.packets), "nothing arrives unsent");
    twin.heal(paths);
    assert_eq!(twin.summary(), trial.summary(), "a clone ends like its original");
}

fn op() -> impl Strategy<Value = Op> {
    let path = 0usize..4;
    prop_oneof![
        6 => (1u64..2_000).prop_map(Op::Pass),
        1 => (2_000u64..40_000).prop_map(Op::Pass),
        2 => path.clone().prop_map(Op::Fail),
        2 => path.clone().prop_map(Op::Heal),
        1 => (path.clone(), prop_oneof![Just(0u64), 50u64..20_000]).prop_map(|(path, kbps)| Op::Rate(path, kbps)),
        1 => (path.clone(), 0u64..900).prop_map(|(path, ms)| Op::Delay(path, ms)),
        1 => (path, 0u8..=100).prop_map(|(path, loss)| Op::Loss(path, loss)),
    ]
}

fn line() -> impl Strategy<Value = Line> {
    let presence = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(0u64..20_000, 1..4)];
    let jitter = prop_oneof![2 => Just(0u64), 1 => 1u64..40];
    let losses = (prop_oneof![Just(0u8), 1u8..20], prop_oneof![Just(0u8), 1u8..20]);
    (100u64..30_000, 0u64..400, 2u64..200, losses, jitter, presence, prop::bool::weighted(0.2)).prop_map(
        |(kbps, delay, queue, (loss, ack_loss), jitter, presence, backup)| Line {
            kbps,
            delay,
            queue,
            loss,
            ack_loss,
            jitter,
            presence,
            backup,
        },
    )
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        4 => (1u64..200_000).prop_map(Work::Bulk),
        2 => (1u64..20_000, 0u64..500, 1u64..12)
            .prop_map(|(bytes, period, count)| Work::Messages { bytes, period, count }),
        1 => (1u64..30_000, 0u64..400, 1u64..6).prop_map(|(bytes, think, count)| Work::Answers { bytes, think, count }),
        1 => (50u64..5_000, 1u64..60_000).prop_map(|(kbps, bytes)| Work::Limited { kbps, bytes }),
        1 => (1u64..20_000, 0u64..200, 1u64..6).prop_map(|(bytes, think, count)| Work::Page { bytes, think, count }),
    ]
}

fn world() -> impl Strategy<Value = World> {
    let stack = prop_oneof![Just(Stack::MptcpV09x), Just(Stack::MptcpLinuxV1), Just(Stack::Mpquic)];
    let manager = prop_oneof![
        3 => Just(PathManager::FullMesh),
        1 => Just(PathManager::PrimaryFirst),
        1 => Just(PathManager::Backup)
    ];
    let buffers = (
        prop_oneof![1u64..20_000, 20_000u64..2_000_000],
        prop_oneof![1 => Just(None), 1 => (1u64..500_000).prop_map(Some)],
    );
    let acks = prop_oneof![Just(AckPath::Same), Just(AckPath::Fastest), Just(AckPath::Picoquic)];
    let switches = (any::<bool>(), acks, any::<bool>(), any::<Option<bool>>(), any::<bool>());
    let roles = (stack, 0usize..64, 0usize..CONTROLLERS.len(), any::<u64>());
    (roles, prop::collection::vec(line(), 1..5), buffers, switches, manager, work()).prop_map(
        |((stack, scheduler, cc, seed), lines, (receive, send), switches, manager, work)| {
            let (upload, acks, credit_late, rules, race) = switches;
            let scheduler = scheduler % weftway_sched::all().len();
            World {
                stack,
                lines,
                scheduler,
                cc,
                seed,
                receive,
                send,
                upload,
                manager,
                // A path manager that keeps to the first path has nothing to race.
                race: race && manager != PathManager::PrimaryFirst,
                acks,
                credit_late,
                rules,
                work,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        max_shrink_iters: 4_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/property.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn promises_are_kept(world in world(), ops in prop::collection::vec(op(), 0..25)) {
        play(&world, &ops);
    }
}

/// One plain path, to which the cases below that were once found and shrunk add what they need.
fn plain(stack: Stack, kbps: u64, delay: u64, work: Work) -> World {
    let line = Line { kbps, delay, queue: 3, loss: 0, ack_loss: 0, jitter: 0, presence: vec![], backup: false };
    World {
        stack,
        lines: vec![line],
        scheduler: 0,
        cc: 0,
        seed: 0,
        receive: 20_000,
        send: None,
        upload: false,
        manager: PathManager::FullMesh,
        race: false,
        acks: AckPath::Same,
        credit_late: false,
        rules: None,
        work,
    }
}

/// The last byte of data was lost while the pacer held the path, and nobody asked for its release.
#[test]
fn a_loss_under_pacing_is_sent_again() {
    let work = Work::Answers { bytes: 26_401, think: 0, count: 1 };
    let mut world = World { receive: 10_800, upload: true, cc: 4, ..plain(Stack::Mpquic, 929, 0, work) };
    world.seed = 14_043_948_824_817_893_066;
    (world.lines[0].loss, world.lines[0].ack_loss, world.lines[0].queue) = (11, 3, 2);
    play(&world, &[Op::Delay(0, 683), Op::Pass(8_185)]);
}

/// Losses that were found in the same acknowledgement that took an episode back began no new one.
#[test]
fn what_is_lost_after_an_undo_is_recovered() {
    let work = Work::Answers { bytes: 21_421, think: 0, count: 2 };
    let world = World { cc: 4, ..plain(Stack::MptcpLinuxV1, 195, 19, work) };
    play(&world, &[Op::Pass(1_014), Op::Rate(0, 0), Op::Pass(3_479), Op::Heal(0), Op::Pass(7)]);
}

/// The window was smaller than two packets, and a short message left less than one of it.
#[test]
fn a_window_of_one_packet_opens_again() {
    let work = Work::Messages { bytes: 6_001, period: 0, count: 2 };
    play(&World { receive: 1, ..plain(Stack::Mpquic, 100, 0, work) }, &[]);
}

/// Half of a buffer is less than a packet, and a subflow of Linux v1 begins with that.
#[test]
fn half_of_a_tiny_buffer_takes_a_packet() {
    play(&World { receive: 1, ..plain(Stack::MptcpLinuxV1, 100, 0, Work::Bulk(2)) }, &[]);
}

/// A path that returned had a smaller send buffer than before it failed.
#[test]
fn a_send_buffer_that_shrinks_keeps_its_data() {
    let mut world = World { receive: 87_108, ..plain(Stack::MptcpV09x, 623, 23, Work::Bulk(147_017)) };
    world.scheduler = 6;
    play(&world, &[Op::Pass(115), Op::Fail(0), Op::Pass(15_716)]);
}

/// A send buffer of one packet, in which a message's last byte left the next message less than a packet of room.
#[test]
fn a_send_buffer_of_one_packet_takes_the_next_message() {
    let work = Work::Messages { bytes: 1_429, period: 0, count: 2 };
    play(&World { receive: 1, send: Some(1), ..plain(Stack::MptcpV09x, 100, 0, work) }, &[]);
}

/// The send buffer took a packet and held everything that was in flight; when that was acknowledged, the pacer held the
/// path, and nobody asked for its release.
#[test]
fn what_a_full_send_buffer_kept_out_waits_for_the_pacer() {
    let mut world =
        World { receive: 91_202, send: Some(1), cc: 7, ..plain(Stack::Mpquic, 534, 140, Work::Bulk(46_801)) };
    (world.scheduler, world.seed) = (8, 1_664_553_116_133_805_823);
    (world.lines[0].queue, world.lines[0].ack_loss) = (2, 9);
    play(&world, &[Op::Pass(14_281), Op::Loss(0, 35), Op::Pass(508)]);
}

/// The last packet arrived behind a hole of its subflow and was acknowledged selectively; then the subflow was given
/// up. MPTCP acknowledges data only in order of the subflow, so that they must be sent again on another.
#[test]
fn what_waited_behind_a_hole_of_a_closed_subflow_is_sent_again() {
    let base = plain(Stack::MptcpLinuxV1, 100, 0, Work::Bulk(7_322));
    let mut world = World { receive: 5_931, upload: true, manager: PathManager::Backup, ..base };
    (world.scheduler, world.seed) = (4, 12_593_281_585_304_413_557);
    let line = Line { queue: 2, ..world.lines[0].clone() };
    world.lines = vec![Line { delay: 152, queue: 3, loss: 1, backup: true, ..line.clone() }, line.clone(), line];
    play(&world, &[Op::Fail(1), Op::Loss(0, 52), Op::Pass(22_968)]);
}
