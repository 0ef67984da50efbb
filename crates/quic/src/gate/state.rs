//! State that a gate keeps of one connection, and how it decides.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weftway_host::{Carried, Host, Refusal, Transport, ask};
use weftway_path::{
    BlockedReason, Bytes, Context, Decision, Event, Instant, Offset, Packet, Path, PathId, PathSet, Receipt, Role,
    SendKind, Span,
};
use weftway_sched::{Scheduler, TransportRules};

use super::{NOBODY, WAITS, build};

/// Number of packets that a path may have in flight before its first acknowledgement, while others serve.
pub const UNPROVEN: u64 = 3;

/// Time that a waiting scheduler may hold acknowledgements back: a quarter of a round trip in these bounds.
const ESCAPE: (Span, Span) = (Span::from_millis(1), Span::from_millis(25));

/// Scheduler that decides in the place of one that panicked.
const INSTEAD: &str = "min-rtt";

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Decisions of the scheduler.
    pub decisions: u64,
    /// Decisions to wait.
    pub waits: u64,
    /// Decisions that broke a rule, and a panic: the fastest open path carried the packet.
    pub faults: u64,
    /// Packets that left although the scheduler waits, so that acknowledgements are not held back.
    pub escapes: u64,
    /// Times that noq's pacer held the path that was chosen.
    pub paced: u64,
    /// Times that noq went past the path that was chosen, as past a backup or a closed one.
    pub passed: u64,
    /// Packets that left.
    pub packets: u64,
    /// Of these, those on another path than the one that was chosen: before its first acknowledgement, probes, and
    /// while noq's pacer decides.
    pub unasked: u64,
}

/// Last answer of the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// No answer yet, or there was nothing to ask.
    None,
    /// This path carries the next packet.
    Open(PathId),
    /// None does.
    Wait,
}

/// The connection, to its host.
struct Gated {
    host: Host,
    now: Instant,
    packet: Packet,
    has_packet: bool,
    /// Paths that have acknowledged something, in the order of their numbers.
    paths: Vec<Path>,
    turn: Turn,
}

impl Transport for Gated {
    fn host(&self) -> &Host {
        &self.host
    }

    fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    fn context(&self) -> Context<'_> {
        let packet = self.has_packet.then_some(&self.packet);
        Context::new(self.now, &self.paths, packet, None)
    }

    fn carry(&mut self, decision: Decision) -> Result<Carried, Refusal> {
        let Decision::Send(id) = decision else { return Err(Refusal::Unsupported) };
        if !self.paths.iter().any(|path| path.id == id && path.is_open()) {
            return Err(Refusal::Path);
        }
        self.turn = Turn::Open(id);
        Ok(Carried::Packet)
    }

    fn pause(&mut self) {
        self.turn = Turn::Wait;
    }
}

/// The whole.
pub(super) struct State {
    gated: Gated,
    name: String,
    scheduler: Box<dyn Scheduler>,
    /// Paths that have acknowledged nothing yet.
    unproven: Vec<Path>,
    /// Events of paths that the scheduler has not been shown: the scheduler is told when it is shown the path.
    early: Vec<(PathId, Event)>,
    /// Paths of which the application said that they are backups.
    backups: PathSet,
    /// Paths that noq's pacer holds.
    pacing: PathSet,
    /// Time at which a packet last left.
    last_sent: Instant,
    /// The path that may send although the scheduler waits.
    escape: Option<PathId>,
    total: Bytes,
    counts: Counts,
}

impl State {
    pub(super) fn new(name: String, scheduler: Box<dyn Scheduler>) -> Self {
        let (carried, avoid) = (PathSet::EMPTY, PathSet::EMPTY);
        let packet = Packet { offset: Offset::ZERO, bytes: Bytes::ZERO, reinjection: false, carried, avoid };
        let host = Host::serving(scheduler.as_ref(), TransportRules::NONE);
        let gated = Gated { host, now: Instant::ZERO, packet, has_packet: false, paths: Vec::new(), turn: Turn::None };
        Self {
            gated,
            name,
            scheduler,
            unproven: Vec::new(),
            early: Vec::new(),
            backups: PathSet::EMPTY,
            pacing: PathSet::EMPTY,
            last_sent: Instant::ZERO,
            escape: None,
            total: Bytes::ZERO,
            counts: Counts::default(),
        }
    }

    /// Another scheduler takes over. It is told which paths it sees.
    pub(super) fn switch(&mut self, name: String, scheduler: Box<dyn Scheduler>) {
        let gated = &mut self.gated;
        gated.host = Host::serving(scheduler.as_ref(), TransportRules::NONE).following(&gated.host);
        for path in &gated.paths {
            gated.host.events.push_rare(Event::PathUp(path.id));
        }
        (gated.turn, self.escape) = (Turn::None, None);
        (self.name, self.scheduler) = (name, scheduler);
    }

    /// The scheduler panicked: `min-rtt` takes over, and answers in its place.
    #[cold]
    fn replace(&mut self) {
        let Ok(scheduler) = build(INSTEAD) else { unreachable!("it is in the registry") };
        self.switch(INSTEAD.to_owned(), scheduler);
        self.gated.host.counts.faults += 1;
        ask(&mut self.gated, self.scheduler.as_mut());
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn paths(&self) -> &[Path] {
        &self.gated.paths
    }

    pub(super) fn counts(&self) -> Counts {
        let weftway_host::Counts { decisions, waits, faults } = self.gated.host.counts;
        Counts { decisions, waits, faults, ..self.counts }
    }

    pub(super) fn turn(&self) -> u8 {
        match self.gated.turn {
            Turn::Open(path) => path.get(),
            Turn::Wait => WAITS,
            Turn::None => NOBODY,
        }
    }

    /// noq went past the path that was chosen.
    pub(super) fn pass(&mut self) {
        self.counts.passed += 1;
    }

    pub(super) fn set_role(&mut self, path: PathId, role: Role) {
        self.backups = match role {
            Role::Backup => self.backups.with(path),
            Role::Active => self.backups.without(path),
        };
        for known in self.gated.paths.iter_mut().chain(&mut self.unproven) {
            if known.id == path {
                known.role = role;
            }
        }
    }

    pub(super) fn opened(&mut self, now: Instant, path: &Path) {
        self.gated.now = now.max(self.gated.now);
        self.remove(path.id);
        self.unproven.push(path.clone());
    }

    pub(super) fn closed(&mut self, path: PathId) {
        self.remove(path);
        self.backups = self.backups.without(path);
    }

    fn remove(&mut self, id: PathId) {
        self.unproven.retain(|path| path.id != id);
        self.early.retain(|(path, _)| *path != id);
        self.pacing = self.pacing.without(id);
        let before = self.gated.paths.len();
        self.gated.paths.retain(|path| path.id != id);
        if self.gated.paths.len() < before {
            self.gated.host.events.push_rare(Event::PathDown(id));
        }
    }

    /// The paths that are open at `now`, one bit each. noq goes past the paths of which `passed` has a bit.
    pub(super) fn decide(&mut self, now: Instant, passed: u64) -> u64 {
        let gated = &mut self.gated;
        gated.now = now.max(gated.now);
        let alone = gated.paths.is_empty() && self.unproven.len() == 1;
        let proving = |path: &&Path| alone || path.bytes_in_flight.get() < UNPROVEN * path.mss.get();
        let mut open = self.unproven.iter().filter(proving).fold(0, |open, path| open | 1 << path.id.get());
        (gated.turn, self.escape) = (Turn::None, None);
        let mut any = false;
        for path in &mut gated.paths {
            if path.release <= now {
                self.pacing = self.pacing.without(path.id);
            }
            path.blocked = match () {
                () if path.bytes_in_flight + path.mss > path.cwnd => BlockedReason::Congestion,
                () if passed >> path.id.get() & 1 == 1 => BlockedReason::Transport,
                () if self.pacing.contains(path.id) => BlockedReason::Pacing,
                () => BlockedReason::None,
            };
            any |= path.is_open();
            // noq itself, or its pacer's timer, lets it go on.
            if matches!(path.blocked, BlockedReason::Pacing | BlockedReason::Transport) {
                open |= 1 << path.id.get();
            }
        }
        if !any {
            return open;
        }
        gated.packet.offset = Offset::ZERO + self.total;
        gated.packet.bytes = gated.paths.iter().map(|path| path.mss).min().unwrap_or_default();
        gated.has_packet = true;
        gated.host.woken(gated.now);
        // noq holds the connection here: a panic would poison it.
        if catch_unwind(AssertUnwindSafe(|| ask(gated, self.scheduler.as_mut()))).is_err() {
            self.replace();
        }
        self.gated.has_packet = false;
        self.overrule();
        match self.gated.turn {
            Turn::Open(path) => open |= 1 << path.get(),
            Turn::Wait | Turn::None => {}
        }
        open
    }

    /// Ends a wait that only a wake-up would end: nothing brings noq back for it. The fastest path carries the packet.
    fn overrule(&mut self) {
        let gated = &mut self.gated;
        let returns = |path: &Path| path.unacked() > Bytes::ZERO || path.blocked == BlockedReason::Pacing;
        if gated.turn != Turn::Wait || gated.paths.iter().any(returns) {
            return;
        }
        let fastest = gated.paths.iter().filter(|path| path.is_open()).min_by_key(|path| path.srtt);
        if let Some(path) = fastest {
            gated.turn = Turn::Open(path.id);
            gated.host.counts.faults += 1;
        }
    }

    /// The path that may send at `now` although the scheduler waits: the fastest with room, as a bit.
    pub(super) fn escape(&mut self, now: Instant) -> u64 {
        self.gated.now = now.max(self.gated.now);
        let fastest = self.gated.paths.iter().filter(|path| path.is_open()).min_by_key(|path| path.srtt);
        let due = |path: &&Path| self.last_sent + (path.srtt / 4).clamp(ESCAPE.0, ESCAPE.1) <= self.gated.now;
        self.escape = fastest.filter(due).map(|path| path.id);
        self.escape.map_or(0, |path| 1 << path.get())
    }

    /// noq's pacer held `path`.
    pub(super) fn hold(&mut self, id: PathId, now: Instant) {
        let Some(path) = self.gated.paths.iter_mut().find(|path| path.id == id) else { return };
        // noq's pacer lets bursts of 2 ms go, of 10 packets at least unless that takes 10 ms.
        let burst = path.pacing_rate.transmission_time(path.mss.mul_div(10, 1));
        path.release = now.max(self.gated.now) + (burst / 2).clamp(ESCAPE.0, Span::from_millis(5));
        if !self.pacing.contains(id) {
            self.counts.paced += 1;
        }
        self.pacing = self.pacing.with(id);
    }

    pub(super) fn sent(&mut self, now: Instant, path: &Path, bytes: Bytes) -> (u64, Offset) {
        self.gated.now = now.max(self.gated.now);
        self.last_sent = now;
        self.pacing = self.pacing.without(path.id);
        let offset = Offset::ZERO + self.total;
        self.total += bytes;
        self.counts.packets += 1;
        let serial = self.gated.host.next_serial();
        let known = self.take(path);
        if self.escape.take() == Some(path.id) {
            self.counts.escapes += 1;
        } else if self.gated.turn != Turn::Open(path.id) {
            self.counts.unasked += 1;
        }
        self.gated.turn = Turn::None;
        let receipt = Receipt { path: path.id, offset, bytes, serial };
        self.note(known, path.id, Event::Sent(receipt, SendKind::Fresh));
        (serial, offset)
    }

    pub(super) fn acked(&mut self, now: Instant, receipt: Receipt) {
        self.gated.now = now.max(self.gated.now);
        self.note(self.shows(receipt.path), receipt.path, Event::Acked(receipt));
    }

    pub(super) fn lost(&mut self, now: Instant, receipt: Receipt) {
        self.gated.now = now.max(self.gated.now);
        self.note(self.shows(receipt.path), receipt.path, Event::Lost(receipt));
    }

    /// Returns true if the scheduler sees path `id`.
    pub(super) fn shows(&self, id: PathId) -> bool {
        self.gated.paths.iter().any(|path| path.id == id)
    }

    /// The scheduler is told, now if the path is `shown`, else when it is.
    fn note(&mut self, shown: bool, path: PathId, event: Event) {
        if shown {
            self.gated.host.events.push(event);
        } else if self.gated.host.needs.events && self.unproven.iter().any(|known| known.id == path) {
            self.early.push((path, event));
        }
    }

    pub(super) fn updated(&mut self, now: Instant, path: &Path, reduced: bool) {
        self.gated.now = now.max(self.gated.now);
        if !self.take(path)
            && path.rtt_samples > 0
            && let Some(at) = self.unproven.iter().position(|known| known.id == path.id)
        {
            self.unproven.swap_remove(at);
            let at = self.gated.paths.partition_point(|known| known.id < path.id);
            let role = if self.backups.contains(path.id) { Role::Backup } else { Role::Active };
            self.gated.paths.insert(at, Path { role, ..path.clone() });
            self.gated.host.events.push_rare(Event::PathUp(path.id));
            for (_, event) in self.early.extract_if(.., |(known, _)| *known == path.id) {
                self.gated.host.events.push(event);
            }
        }
        if reduced {
            self.gated.host.events.push(Event::Congestion(path.id));
        }
    }

    /// Takes over the state of `path`, but for what only the gate knows. True if schedulers see it.
    fn take(&mut self, path: &Path) -> bool {
        let copy = |known: &mut Path| {
            let Path { role, release, blocked, .. } = *known;
            known.clone_from(path);
            (known.role, known.release, known.blocked) = (role, release, blocked);
        };
        if let Some(known) = self.gated.paths.iter_mut().find(|known| known.id == path.id) {
            copy(known);
            return true;
        }
        self.unproven.iter_mut().filter(|known| known.id == path.id).for_each(copy);
        false
    }
}
