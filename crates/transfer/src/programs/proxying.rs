//! `weft proxy` and `weft tunnel`: what local programs send over several links, to an end that relays it.

use std::os::fd::BorrowedFd;
use std::path::Path;

use weftway_mux::Side;
use weftway_path::{Instant, Span};
use weftway_relay::{Accounts, Classes, Front, PortAddress, Proxy, ProxyLimits};

use crate::connection::control_stream::AcceptedConnection;
use crate::connection::opening::Meanwhile;
use crate::connection::session::peer;
use crate::connection::session::{Session, Target};
use crate::connection::switching::take_over;
use crate::failure::Failure;
use crate::options::ProxyOptions;
use crate::programs::carried::{Carried, SavedStreams};
use crate::programs::memory::limits;
use crate::programs::pipe_seconds::{Carrying, PipeSeconds};
use crate::progress::{State, Watch};
use crate::seen::Connections;
use crate::setting::{RECORD, Scheduling, build};
use crate::wire::{Role, SessionState};

/// The streams of a connection that was lost are kept for so long, at both ends.
pub(crate) const KEPT_FOR: Span = Span::from_secs(60);
/// The bytes that have arrived and wait for programs may have this part of the machine's memory: an eighth.
const MEMORY_PARTS: u64 = 8;
/// After a connection that failed the next one is tried so much later: sooner where streams wait for it.
const PAUSE: Span = Span::from_secs(1);
const SHORT_PAUSE: Span = Span::from_millis(50);

/// Listens at `ports` for local programs, and has their connections relayed, until the user stops it. `classes` say how
/// urgent each is. A connection to the relay that is lost is made again, for ever; the first one has to succeed.
/// `accounts` say who may use the ports.
pub fn proxy(
    ports: &[PortAddress],
    classes: Classes,
    accounts: Accounts,
    options: ProxyOptions,
    watch: Watch<'_>,
) -> Result<(), Failure> {
    let limits = ProxyLimits { record: RECORD as usize, ..ProxyLimits::default() };
    carry(|| Proxy::listen(ports, limits, classes, accounts).map_err(Failure::Socket), options, watch)
}

/// Has what local programs send to a front end relayed.
pub(crate) fn carry<F: Front>(
    front: impl FnOnce() -> Result<F, Failure>,
    options: ProxyOptions,
    watch: Watch<'_>,
) -> Result<(), Failure> {
    let ProxyOptions { relay, links, scheduling, times } = options;
    scheduling.check()?;
    let front = front()?;
    let (mut session, target) = Session::connecting(relay, links, times, (Role::Proxy, Path::new(".")), watch)?;
    session.progress.ports = front.addresses();
    session.progress.scheduler = Some(scheduling.scheduler.clone());
    session.progress.cc = Some(scheduling.cc.clone());
    let (late, mut pipes): (_, PipeSeconds) = Default::default();
    session.progress.pipes = pipes.see(session.net.now(), &front, &Carrying::default(), |_| Vec::new());
    Proxying { front, target, scheduling, was_connected: false, waiting: None, late, pipes }.run(&mut session)
}

/// The streams of a connection that was lost.
struct WaitingStreams {
    /// Their session at the relay.
    id: String,
    kept: SavedStreams,
    until: Instant,
}

/// The front end while a connection is opened: streams that wait take what they hold, and other programs are told in
/// time that there is no connection.
struct Serving<'a, F> {
    front: &'a mut F,
    waiting: &'a mut Option<WaitingStreams>,
}

impl<F: Front> Meanwhile for Serving<'_, F> {
    fn turn(&mut self, now: Instant) -> Result<(), Failure> {
        self.front.turn(now, self.waiting.as_mut().map(|waiting| &mut waiting.kept.mux));
        check(self.front)
    }

    fn next_event(&self) -> Instant {
        self.front.next_event()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.front.fd())
    }
}

/// Datagrams that had passed their deadlines before they left.
#[derive(Default)]
struct Late {
    /// Count of the muxes before.
    before: u64,
    /// Count of the mux that is there.
    now: u64,
}

impl Late {
    /// Takes over the count of the mux that is there. It is another one if it has counted fewer.
    fn note(&mut self, count: u64) {
        if count < self.now {
            self.before += self.now;
        }
        self.now = count;
    }

    fn total(&self) -> u64 {
        self.before + self.now
    }
}

struct Proxying<F> {
    front: F,
    target: Target,
    scheduling: Scheduling,
    /// True once there was a connection to the relay.
    was_connected: bool,
    /// Streams that wait for another connection.
    waiting: Option<WaitingStreams>,
    late: Late,
    pipes: PipeSeconds,
}

impl<F: Front> Proxying<F> {
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        loop {
            session.progress.state = State::Connecting;
            session.going_on = self.waiting.as_ref().map(|waiting| SessionState {
                id: waiting.id.clone(),
                received: Some(waiting.kept.mux.received().into()),
            });
            let mut serving = Serving { front: &mut self.front, waiting: &mut self.waiting };
            let accepted = session.connect(&mut self.target, Role::Proxy, &mut serving);
            let outcome = accepted.and_then(|accepted| self.serve(session, accepted));
            if self.waiting.is_none() {
                self.front.lost(session.net.now());
            }
            session.progress.flows = self.front.flows().count() as u64;
            self.see(session, None);
            if let Err(failure) = outcome {
                let is_over = !self.was_connected || !may_pass(&failure);
                let failure = of_relaying(failure);
                if is_over {
                    return Err(failure);
                }
                session.say(format!("{failure}; connecting again"));
                self.pause(session)?;
            }
        }
    }

    /// As long as the connection lives.
    fn serve(&mut self, session: &mut Session<'_>, accepted: Box<AcceptedConnection>) -> Result<(), Failure> {
        self.was_connected = true;
        session.progress.state = State::Relaying;
        let (now, theirs) = (session.net.now(), accepted.session.as_ref());
        let id = theirs.map(|state| state.id.clone());
        let kept = match self.go_on(now, theirs) {
            Ok(kept) => kept,
            Err(failure) => {
                session.close_because_of(accepted.connection, &failure);
                return Err(failure);
            }
        };
        let goes_on = if kept.mux.connection() > 0 { "; what was open goes on" } else { "" };
        session.say(format!("connected to the relay at {}{goes_on}", peer(&accepted.connection)));
        session.tell()?;
        let mut carried = Carried::new(now, accepted, kept, &self.scheduling)?;
        carried.begin_policy(session);
        let outcome = self.carry(session, &mut carried);
        session.progress.paths = carried.paths(session);
        let (connection, kept) = carried.into_parts();
        if let Err(failure) = &outcome {
            session.close_because_of(connection, failure);
            let until = session.net.now() + KEPT_FOR;
            self.waiting = id.filter(|_| is_loss(failure)).map(|id| WaitingStreams { id, kept, until });
        }
        outcome
    }

    /// The streams of the next connection: those that wait, if the relay has kept them, too.
    fn go_on(&mut self, now: Instant, theirs: Option<&SessionState>) -> Result<SavedStreams, Failure> {
        let Some(WaitingStreams { id, mut kept, .. }) = self.waiting.take() else {
            return SavedStreams::new(Side::Connecting, limits(MEMORY_PARTS));
        };
        match theirs.filter(|theirs| theirs.id == id).and_then(|theirs| theirs.received.clone()) {
            Some(received) => {
                kept.resume(now, &received.into())?;
                Ok(kept)
            }
            None => {
                self.front.lost(now);
                SavedStreams::new(Side::Connecting, limits(MEMORY_PARTS))
            }
        }
    }

    fn carry(&mut self, session: &mut Session<'_>, carried: &mut Carried) -> Result<(), Failure> {
        loop {
            carried.receive(session);
            let now = session.net.now();
            carried.on_timer(now, &mut session.net);
            carried.keep_policy(now, session)?;
            self.front.turn(now, Some(carried.mux()));
            while let Some(note) = self.front.take_note() {
                session.say(note);
            }
            carried.turn(now, &mut session.net)?;
            check(&self.front)?;
            if session.is_tick(now) {
                self.switch(session, Some(carried))?;
                session.progress.flows = self.front.flows().count() as u64;
                self.late.note(carried.mux().counts().datagrams_expired);
                self.see(session, Some(carried));
                carried.keep_alive(session.progress.flows > 0, session.times.lost_after);
                session.progress.paths = carried.paths(session);
                session.progress.last_packet = carried.last_packet(session);
                session.tick(now)?;
            }
            session.net.moderate(carried.trip(now).unwrap_or(Span::ZERO));
            session.wait(carried.next_event().min(self.front.next_event()), Some(self.front.fd()));
        }
    }

    /// Other schedulers take over, if the user said so: of the connection that is there, and of those to come.
    fn switch(&mut self, session: &mut Session<'_>, mut carried: Option<&mut Carried>) -> Result<(), Failure> {
        take_over(self.scheduling.switch.as_ref(), &mut self.scheduling.scheduler, session, |name| match &mut carried {
            Some(carried) => carried.switch(name),
            None => build(name).map(drop),
        })
    }

    /// Shows the connections of programs to the user.
    fn see(&mut self, session: &mut Session<'_>, carried: Option<&Carried>) {
        let mut drops = self.front.drops();
        if self.late.total() > 0 {
            *drops.entry("late").or_default() += self.late.total();
        }
        let refusals = self.front.refusals().clone();
        let paths = |_: &(), id| carried.map_or_else(Vec::new, |carried| carried.flow_paths(session, id));
        let now = session.net.now();
        let unread = |_: &(), id| carried.map_or(0, |carried| carried.left_unread(now, id));
        let mut seen = Connections::of(self.front.flows().map(|flow| ((), flow)), paths, unread);
        if let Some(carried) = carried {
            carried.add_memory(&mut seen.unread);
        }
        let carrying = carried.map_or_else(Carrying::default, |carried| carried.carrying(session));
        let pipes = self.pipes.see(now, &self.front, &carrying, |id| paths(&(), id));
        session.progress.connections = Connections { refusals, drops, ..seen };
        session.progress.pipes = pipes;
    }

    /// Waits a little before the next connection. Local programs are served all the same: their streams take what they
    /// hold, or they are told that there is no connection.
    fn pause(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        let until = session.net.now() + if self.waiting.is_some() { SHORT_PAUSE } else { PAUSE };
        loop {
            let now = session.net.now();
            if now >= until {
                return Ok(());
            }
            self.waiting.take_if(|waiting| waiting.until <= now);
            self.switch(session, None)?;
            let mut serving = Serving { front: &mut self.front, waiting: &mut self.waiting };
            session.wait_beside(until, &mut serving)?;
        }
    }
}

/// Ends when no more programs will come.
fn check(front: &impl Front) -> Result<(), Failure> {
    front.failure().map_or(Ok(()), |why| Err(Failure::Socket(std::io::Error::other(why))))
}

/// The failure as the user is told it: that of a transfer says what is kept of it, and nothing is kept here.
fn of_relaying(failure: Failure) -> Failure {
    Failure::Relaying(match failure {
        Failure::Lost(why) => format!("the connection was lost ({why})"),
        Failure::OtherInterrupted => "the relay was stopped".to_owned(),
        Failure::Stalled => "the connection was alive and brought nothing".to_owned(),
        other => return other,
    })
}

/// Returns true if the streams go on when there is another connection. What the other end has closed is over.
pub(crate) fn is_loss(failure: &Failure) -> bool {
    matches!(failure, Failure::Lost(_) | Failure::Stalled)
}

/// Returns true if another connection may do better.
fn may_pass(failure: &Failure) -> bool {
    failure.is_passing() && !matches!(failure, Failure::Refused(_))
        || matches!(failure, Failure::NoAnswer(_) | Failure::NoLink | Failure::Full)
}
