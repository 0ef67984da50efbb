//! A scheduler inside an application that uses noq, in one line of its `TransportConfig`.
//!
//! noq sends on the lowest path whose congestion window has room. A [`Gate`] is a `ControllerFactory` whose windows are
//! shut except on the path that a scheduler chose for the next packet; behind each stands one of the project's
//! congestion controllers. Nothing else of the application changes.
//!
//! ```
//! use std::sync::Arc;
//! use weftway_quic::gate::Gate;
//!
//! let mut transport = noq_proto::TransportConfig::default();
//! transport.max_concurrent_multipath_paths(4);
//! transport.congestion_controller_factory(Arc::new(Gate::new("min-rtt")?));
//! # Ok::<(), weftway_quic::gate::GateError>(())
//! ```
//!
//! That serves one connection. An endpoint with many connections gives each its own, and so does a client that
//! reconnects:
//!
//! ```
//! # use weftway_quic::gate::Gate;
//! # let transport = noq_proto::TransportConfig::default();
//! let gates = Gate::new("round-robin:num_segments=10")?.with_controller("bbr3")?;
//! let (transport, gate) = gates.connection(&transport);
//! // ClientConfig::transport_config(transport), Endpoint::connect_with(…); a server: Incoming::accept_with(…).
//! assert_eq!(gate.counts().faults, 0);
//! # Ok::<(), weftway_quic::gate::GateError>(())
//! ```
//!
//! # What it offers
//!
//! A gate opens a path (`Send`) or none (`Wait`), tells events, and wakes ([`OFFERS`]). It does not see the data, and
//! cannot copy or reorder. A scheduler that needs more is refused with one line that says what, unless its rule has a
//! part that only sends ([`Report::sending_part`](weftway_sched::Report::sending_part)): then that part runs, and
//! [`Gate::name`] is the part's.
//!
//! It has no timer. A wake-up comes with the first question after it is due: while data flow, with the next packet or
//! acknowledgement; while none do, when the application writes again. Schedulers that decide anew at intervals have
//! longer ones then.
//!
//! # How noq asks
//!
//! noq goes over the paths in the order of their numbers and reads a path's window before each datagram. The gate asks
//! its scheduler at the first of these reads and keeps the answer until something happens. As long as the answers are
//! equal the same window stays open, and the datagrams leave in one piece (GSO).
//!
//! - **Until its first acknowledgement** a path is open and not shown to the scheduler: it must be validated first.
//!   Beside other paths it may have [`UNPROVEN`] packets in flight; the first path has its whole window for the
//!   handshake.
//! - **Wait** shuts everything, acknowledgements too where data wait. So one packet leaves on the fastest open path all
//!   the same, after a quarter of its round-trip time (1 to 25 ms) at the earliest: [`Counts::escapes`]. Nothing wakes
//!   noq for it, so it is about one for each round trip and the peer's delay of acknowledgements. A wait while nothing
//!   is in flight is a fault, and overruled at once, also if it has asked to be woken.
//! - **noq's pacer** may hold a path that was chosen. The gate learns that when noq goes on to another path; the
//!   scheduler then sees the path as [`Pacing`](weftway_path::BlockedReason::Pacing), and its window stays open, so
//!   that noq's own timer lets it go on. If the path was the last in noq's round, the others get their turn when noq's
//!   next round begins.
//! - **Probes** after a timeout leave without asking. So does everything that is not acknowledged.
//! - **A path that the application makes a backup**, or opens as one, must be made one here as well:
//!   [`Gate::set_role`]. If it is not, noq goes past the path that was chosen, though it has data. The gate learns that
//!   in noq's next round, for which nothing wakes noq ([`Counts::passed`]); the scheduler then sees the path as held by
//!   the [`Transport`](weftway_path::BlockedReason::Transport), until noq reads its window.
//! - **A path that either end closes** stays here until noq drops its controller, three probe timeouts later. noq tells
//!   a controller nothing of it, but comes to the path no more in its rounds. The gate compares them: a path to which
//!   noq did not come in a whole round is held by the Transport, too, until noq comes to it again.
//! - Another scheduler can take over at any time: [`Gate::switch`].
//!
//! # What it costs
//!
//! A factory hands out controllers that must be `Send + Sync` and share one scheduler: a lock is the only way in safe
//! Rust. It is taken when a packet leaves, once for its decision and once for each acknowledgement, always by the
//! thread that holds the connection: nobody ever waits for it, unless a snapshot is taken at that moment. A window that
//! is read again before something happened takes no lock.

mod opening;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noq_proto::TransportConfig;
use noq_proto::congestion::{Controller, ControllerFactory};
use portable_atomic::AtomicU64;
use weftway_host::mismatch;
use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Instant, Offset, Path, Receipt};
pub use weftway_path::{PathId, Role};
use weftway_sched::{Needs, Scheduler};

use crate::controller::{Controllers, Hook};
pub use opening::open_paths;
use state::State;
pub use state::{Counts, UNPROVEN};

/// Offers of a gate to a scheduler beyond paths and the packet at hand. Wake-ups are late: see "What it offers".
pub const OFFERS: Needs = Needs { wake: true, events: true, ..Needs::NONE };

/// noq's clock.
type Clock = std::time::Instant;

/// Why there is no such gate.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// There is no such scheduler or controller, or it does not have such a switch.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The scheduler needs what a gate does not offer.
    #[error("scheduler {name}: {why}")]
    Refused {
        /// The scheduler.
        name: String,
        /// Need of the scheduler.
        why: String,
    },
}

/// Opens the window of the path that a scheduler chooses. Copies are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    prototype: Arc<Unasked>,
    name: String,
    controllers: Arc<Controllers>,
    shared: Arc<Shared>,
}

/// A scheduler that nobody has asked yet. The lock makes it one that may be shared.
struct Unasked(Mutex<Box<dyn Scheduler>>);

impl Unasked {
    fn scheduler(&self) -> Box<dyn Scheduler> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unasked")
    }
}

impl Gate {
    /// A gate for the scheduler that `spec` names, with CUBIC on every path.
    pub fn new(spec: &str) -> Result<Self, GateError> {
        Self::with_scheduler(spec, build(spec)?)
    }

    /// A gate for a scheduler of your own, called `name`, or for the part of it that only sends.
    ///
    /// If it panics, that is a fault, and `min-rtt` decides from then on ([`Gate::name`]). In a program that is built
    /// with `panic = "abort"` it ends the program.
    pub fn with_scheduler(name: &str, scheduler: Box<dyn Scheduler>) -> Result<Self, GateError> {
        let (name, scheduler) = fitting(name, scheduler)?;
        let prototype = Arc::new(Unasked(Mutex::new(scheduler)));
        let controllers = Arc::new(Controllers::new("cubic")?);
        Ok(Self::assemble(prototype, name, &controllers, Clock::now))
    }

    /// Gate with the congestion controller that `spec` names, for a new connection.
    pub fn with_controller(&self, spec: &str) -> Result<Self, GateError> {
        let controllers = Controllers::new(spec)?;
        Ok(Self::assemble(Arc::clone(&self.prototype), self.name.clone(), &controllers, self.shared.clock))
    }

    /// Gate with another clock: for connections in virtual time.
    #[must_use]
    pub fn with_clock(&self, clock: fn() -> Clock) -> Self {
        Self::assemble(Arc::clone(&self.prototype), self.name.clone(), &self.controllers, clock)
    }

    /// For one more connection: its transport configuration, which is `base` with a gate of its own, and that gate.
    pub fn connection(&self, base: &TransportConfig) -> (Arc<TransportConfig>, Self) {
        let gate = Self::assemble(Arc::clone(&self.prototype), self.name.clone(), &self.controllers, self.shared.clock);
        let mut transport = base.clone();
        transport.congestion_controller_factory(Arc::new(gate.clone()));
        (Arc::new(transport), gate)
    }

    fn assemble(prototype: Arc<Unasked>, name: String, controllers: &Controllers, clock: fn() -> Clock) -> Self {
        let fresh = controllers.fresh();
        let shared = Arc::new(Shared {
            open: AtomicU64::new(UNDECIDED),
            turn: AtomicU8::new(NOBODY),
            step: AtomicU8::new(ELSEWHERE),
            refused: AtomicU8::new(NOBODY),
            unread: AtomicU8::new(NOBODY),
            passed: AtomicU64::new(0),
            round: AtomicU64::new(0),
            whole: AtomicU64::new(EVERY),
            absent: AtomicU64::new(0),
            last: AtomicU8::new(NOBODY),
            read: AtomicU8::new(NOBODY),
            state: Mutex::new(State::new(name.clone(), prototype.scheduler())),
            time: fresh.clone(),
            clock,
        });
        let hook: Arc<dyn Hook> = Arc::clone(&shared) as Arc<dyn Hook>;
        Self { prototype, name, controllers: Arc::new(fresh.with_hook(hook)), shared }
    }

    /// The paths as its scheduler sees them, those left out that have acknowledged nothing yet. noq's own statistics
    /// show a window of 0 for a path that is shut.
    pub fn paths(&self) -> Vec<Path> {
        self.shared.state().paths().to_vec()
    }

    /// Counters of the gate.
    pub fn counts(&self) -> Counts {
        self.shared.state().counts()
    }

    /// The name of the scheduler that runs, as it was given, or that of its part which runs.
    pub fn name(&self) -> String {
        self.shared.state().name().to_owned()
    }

    /// Lets the scheduler that `spec` names decide from now on, while data are under way. If it is refused the one
    /// before goes on. Connections that are made from this gate later begin with the scheduler that the gate was made
    /// for.
    pub fn switch(&self, spec: &str) -> Result<(), GateError> {
        self.switch_to(spec, build(spec)?)
    }

    /// Lets a scheduler of your own decide from now on, called `name`.
    pub fn switch_to(&self, name: &str, scheduler: Box<dyn Scheduler>) -> Result<(), GateError> {
        let (name, scheduler) = fitting(name, scheduler)?;
        self.shared.state().switch(name, scheduler);
        self.shared.forget();
        Ok(())
    }

    /// Says what `path` is for. noq does not tell its controllers what `Path::set_status` and `open_path` were given,
    /// and sends no data on a backup while another path lives: a gate that does not know chooses it all the same.
    ///
    /// The number is the gate's own, of [`Gate::paths`]: that of noq's only until a path moves or the 65th is made.
    pub fn set_role(&self, path: PathId, role: Role) {
        if path.index() >= PathId::MAX_PATHS {
            return;
        }
        self.shared.state().set_role(path, role);
        self.shared.trust(path);
        self.shared.forget();
    }
}

/// The scheduler that `spec` names.
fn build(spec: &str) -> Result<Box<dyn Scheduler>, SpecError> {
    let (entry, parsed) = weftway_sched::parse(spec)?;
    entry.make(&parsed.given)
}

/// `scheduler`, or the part of it that only sends, if a gate can serve it; and its name.
fn fitting(name: &str, scheduler: Box<dyn Scheduler>) -> Result<(String, Box<dyn Scheduler>), GateError> {
    let Some(why) = mismatch(scheduler.needs(), OFFERS, "a gate") else { return Ok((name.to_owned(), scheduler)) };
    let part = scheduler.report().sending_part.filter(|(_, part)| part.needs().union(OFFERS) == OFFERS);
    let (name, part) = part.ok_or_else(|| GateError::Refused { name: name.to_owned(), why })?;
    Ok((name.to_owned(), part))
}

impl ControllerFactory for Gate {
    fn build(self: Arc<Self>, now: Clock, current_mtu: u16) -> Box<dyn Controller> {
        Arc::clone(&self.controllers).build(now, current_mtu)
    }
}

/// Value that stands for no decision. (Were 64 paths open at once the question would be asked again: no harm.)
const UNDECIDED: u64 = u64::MAX;

// Where noq is in its round over the paths. With the number of a path: it found the window open; then it asked its
// pacer.
const ELSEWHERE: u8 = 0;
const ASKED: u8 = 0x40;
const PACER: u8 = 0x80;

// In the place of a path's number.
const WAITS: u8 = 0x40;
const NOBODY: u8 = 0x41;

/// Bit beside the number in [`Shared::last`]: noq has looked at that path twice.
const TWICE: u8 = 0x80;

/// All paths, one bit each.
const EVERY: u64 = u64::MAX;

/// What the paths of a connection share.
struct Shared {
    /// The paths that are open, one bit each, or [`UNDECIDED`].
    open: AtomicU64,
    /// The path that was chosen, [`WAITS`] or [`NOBODY`].
    turn: AtomicU8,
    step: AtomicU8,
    /// A path on which noq wants to send and that is shut. Noted until noq comes to it again.
    refused: AtomicU8,
    /// The path that was chosen, if noq came to it after that and did not read its window: to noq it is a backup.
    unread: AtomicU8,
    /// Such paths, one bit each, until noq reads their windows.
    passed: AtomicU64,
    /// Paths to which noq has come in this round, one bit each.
    round: AtomicU64,
    /// Paths of the round before, or [`EVERY`] if a packet ended it: it may have gone on to more.
    whole: AtomicU64,
    /// Paths to which noq did not come in a whole round, one bit each, until it does: they are closed, or have no
    /// connection ID of the peer's. A packet off the path (after a rebinding) ends a round unseen: then others may be here
    /// for a window.
    absent: AtomicU64,
    /// The path to which noq came last, or with [`TWICE`] the one that it looked at twice since: its pacer did, or a
    /// round over one path ended.
    last: AtomicU8,
    /// The path whose window was the last to be read, until noq goes on.
    read: AtomicU8,
    state: Mutex<State>,
    time: Controllers,
    clock: fn() -> Clock,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.time.at((self.clock)())
    }

    /// The decision no longer holds.
    fn forget(&self) {
        self.open.store(UNDECIDED, Ordering::Relaxed);
    }

    /// The paths that are open, one bit each.
    fn decided(&self) -> u64 {
        let mut open = self.open.load(Ordering::Relaxed);
        if open == UNDECIDED {
            let mut state = self.state();
            let skipped = self.passed.load(Ordering::Relaxed) | self.absent.load(Ordering::Relaxed);
            open = state.decide(self.now(), skipped);
            self.open.store(open, Ordering::Relaxed);
            self.turn.store(state.turn(), Ordering::Relaxed);
        }
        if self.turn.load(Ordering::Relaxed) == WAITS {
            open |= self.state().escape(self.now());
        }
        open
    }

    /// noq sends, and does not want to send on another path first.
    fn agree(&self) {
        self.refused.store(NOBODY, Ordering::Relaxed);
        self.unread.store(NOBODY, Ordering::Relaxed);
    }

    /// noq does not go past `path`.
    fn trust(&self, path: PathId) {
        self.passed.fetch_and(!(1 << path.get()), Ordering::Relaxed);
    }

    /// noq begins a round, and nothing is known of the one before.
    fn restart(&self) {
        self.round.store(0, Ordering::Relaxed);
        self.whole.store(EVERY, Ordering::Relaxed);
        self.last.store(NOBODY, Ordering::Relaxed);
    }

    /// noq comes to `path`: in this round, or as the first of the next one.
    fn come(&self, path: PathId) {
        if self.last.load(Ordering::Relaxed) & !TWICE == path.get() {
            self.last.store(path.get() | TWICE, Ordering::Relaxed);
            return;
        }
        self.last.store(path.get(), Ordering::Relaxed);
        let (round, bit) = (self.round.load(Ordering::Relaxed), 1 << path.get());
        if round & bit == 0 {
            self.round.store(round | bit, Ordering::Relaxed);
        } else {
            self.wrap(round, path);
        }
        if self.absent.load(Ordering::Relaxed) & bit != 0 {
            self.absent.fetch_and(!bit, Ordering::Relaxed);
            self.forget();
        }
    }

    /// noq begins its next round at `path`.
    fn wrap(&self, round: u64, path: PathId) {
        self.whole.store(round, Ordering::Relaxed);
        self.round.store(1 << path.get(), Ordering::Relaxed);
    }

    /// noq reads the window of `path`. Notes which paths it no longer comes to. Its pacer looks at a path as if noq came
    /// to it again, but then it reads no window before a packet has left.
    fn miss(&self, path: PathId) {
        if self.last.load(Ordering::Relaxed) == path.get() | TWICE {
            self.last.store(path.get(), Ordering::Relaxed);
            self.wrap(self.round.load(Ordering::Relaxed), path);
        }
        let absent = !(self.whole.load(Ordering::Relaxed) | self.round.load(Ordering::Relaxed));
        let known = self.absent.load(Ordering::Relaxed);
        let new = absent & !known;
        if new == 0 {
            return;
        }
        self.absent.store(known | new, Ordering::Relaxed);
        let turn = self.turn.load(Ordering::Relaxed);
        if turn < WAITS && new >> turn & 1 == 1 {
            self.state().pass();
            self.forget();
        }
    }
}

impl Hook for Shared {
    fn opened(&self, now: Instant, path: &Path) {
        self.state().opened(now, path);
        self.absent.fetch_and(!(1 << path.id.get()), Ordering::Relaxed);
        self.restart();
        self.forget();
    }

    fn closed(&self, path: PathId) {
        self.state().closed(path);
        self.trust(path);
        self.forget();
    }

    fn is_open(&self, path: PathId) -> bool {
        self.read.store(path.get(), Ordering::Relaxed);
        self.miss(path);
        let (mut open, bit) = (self.decided(), 1 << path.get());
        let turn = self.turn.load(Ordering::Relaxed);
        if open & bit == 0 && turn < WAITS && turn == self.unread.load(Ordering::Relaxed) {
            self.agree();
            self.passed.fetch_or(1 << turn, Ordering::Relaxed);
            self.state().pass();
            self.forget();
            open = self.decided();
        }
        let is_open = open & bit != 0;
        if is_open {
            self.step.store(ASKED | path.get(), Ordering::Relaxed);
            self.agree();
            // After a rebinding noq reads a window of which it does not make use.
            if self.passed.load(Ordering::Relaxed) & bit != 0 && self.state().shows(path) {
                self.trust(path);
            }
        } else {
            self.refused.store(path.get(), Ordering::Relaxed);
        }
        is_open
    }

    fn visited(&self, path: PathId) {
        // Else it is for noq's pacer, or for statistics.
        let read = self.read.load(Ordering::Relaxed);
        self.read.store(NOBODY, Ordering::Relaxed);
        if read != path.get() {
            self.come(path);
        }
        let refused = self.refused.load(Ordering::Relaxed);
        if refused == path.get() {
            self.refused.store(NOBODY, Ordering::Relaxed);
        } else if self.turn.load(Ordering::Relaxed) == path.get() {
            self.unread.store(if refused == NOBODY { NOBODY } else { path.get() }, Ordering::Relaxed);
        }
        let step = self.step.load(Ordering::Relaxed);
        if step == ELSEWHERE {
            return;
        }
        let next = if step == ASKED | path.get() { PACER | path.get() } else { ELSEWHERE };
        self.step.store(next, Ordering::Relaxed);
        // noq asked its pacer about another path, sent nothing there, and went on.
        if step & PACER != 0 && step != PACER | path.get() {
            self.state().hold(PathId::new(step & !PACER), self.now());
            self.forget();
        }
    }

    fn limited(&self, _path: PathId) {
        self.read.store(NOBODY, Ordering::Relaxed);
    }

    fn sent(&self, now: Instant, path: &Path, bytes: Bytes) -> (u64, Offset) {
        self.step.store(ELSEWHERE, Ordering::Relaxed);
        self.restart();
        self.agree();
        let named = self.state().sent(now, path, bytes);
        self.forget();
        named
    }

    fn flushed(&self, _path: PathId) {
        self.step.store(ELSEWHERE, Ordering::Relaxed);
        self.read.store(NOBODY, Ordering::Relaxed);
        self.restart();
    }

    fn acked(&self, now: Instant, receipt: Receipt) {
        self.state().acked(now, receipt);
        self.forget();
    }

    fn lost(&self, now: Instant, receipt: Receipt) {
        self.state().lost(now, receipt);
        self.forget();
    }

    fn updated(&self, now: Instant, path: &Path, reduced: bool) {
        self.state().updated(now, path, reduced);
        self.forget();
    }
}
