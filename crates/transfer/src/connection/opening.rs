//! Opening of a connection by the end that connects: handshakes over all its paths at once, and the first that is done
//! stays. Where the other end's name has several addresses, they are tried one shortly after the other (RFC 8305).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use noq_proto::{Endpoint, FourTuple};
use weftway_path::{Instant, PathId, PathSet, Span};
use weftway_quic::driver::connection::QuicConnection;
use weftway_quic::driver::observer::ObserverState;
use weftway_udp::tls::{self, Pairing};
use weftway_udp::token::KnownToken;

use crate::connection::control_stream::{AcceptedConnection, ControlStream};
use crate::connection::session::{REOPEN, Session, Target, lost};
use crate::failure::{Failure, code};
use crate::wire::{MAX_MESSAGE, Message, Role, SessionState, VERSION};

/// Time after which other handshakes begin beside those that are not done: the other end may have come only now, and a
/// handshake asks ever more seldom.
const AGAIN: Span = Span::from_secs(3);
/// A handshake is given up after so long: so is it at the other end.
const PATIENCE: Span = Span::from_secs(10);
/// Time after which the next address is tried, too (RFC 8305 §5).
const NEXT_ADDRESS: Span = Span::from_millis(250);
/// The other end had no room: it is asked again after so long.
const ROOM: Span = Span::from_secs(1);

/// Work that goes on while a connection is opened.
pub trait Meanwhile {
    /// Does what can be done without waiting. An error ends the attempt.
    fn turn(&mut self, now: Instant) -> Result<(), Failure>;

    /// Instant of the next turn.
    fn next_event(&self) -> Instant;

    /// Readable when a turn is due.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// No work.
pub struct NoWork;

impl Meanwhile for NoWork {
    fn turn(&mut self, _: Instant) -> Result<(), Failure> {
        Ok(())
    }

    fn next_event(&self) -> Instant {
        Instant::NEVER
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A handshake over one path.
struct Attempt {
    connection: QuicConnection,
    address: SocketAddr,
    since: Instant,
    /// True if the other end showed another certificate than the pairing has.
    mismatch: Arc<AtomicBool>,
}

/// Instants at which addresses are tried.
struct AddressPlan {
    next: VecDeque<(Instant, SocketAddr)>,
    /// Number of addresses that were never tried.
    untried: usize,
}

impl AddressPlan {
    fn new(now: Instant, addresses: &[SocketAddr]) -> Self {
        let mut at = now;
        let mut next = VecDeque::new();
        for &address in addresses {
            next.push_back((at, address));
            at += NEXT_ADDRESS;
        }
        Self { untried: next.len(), next }
    }

    /// Adds those of `addresses` that are not planned yet, from now on: before others that are due at the same time.
    fn add(&mut self, now: Instant, addresses: &[SocketAddr]) {
        let is_new = |address: &&SocketAddr| self.next.iter().all(|(_, known)| known != *address);
        let new: Vec<SocketAddr> = addresses.iter().filter(is_new).copied().collect();
        let mut added = Self::new(now, &new);
        self.untried += added.untried;
        added.next.append(&mut self.next);
        self.next = added.next;
        self.next.make_contiguous().sort_by_key(|(at, _)| *at);
    }

    /// The address that is due, if one is; its turn comes again.
    fn take_due(&mut self, now: Instant) -> Option<SocketAddr> {
        let (_, address) = *self.next.front().filter(|(at, _)| *at <= now)?;
        self.next.pop_front();
        self.untried = self.untried.saturating_sub(1);
        self.next.push_back((now + AGAIN, address));
        Some(address)
    }

    fn due(&self) -> Instant {
        self.next.front().map_or(Instant::NEVER, |(at, _)| *at)
    }

    /// The address is tried again soon: there was no room.
    fn retry(&mut self, now: Instant, address: SocketAddr) {
        for (at, _) in self.next.iter_mut().filter(|(_, known)| *known == address) {
            *at = (*at).min(now + ROOM);
        }
        self.next.make_contiguous().sort_by_key(|(at, _)| *at);
    }

    /// The addresses so far lead nowhere: another one is due now. False if there is none.
    fn hurry(&mut self, now: Instant) -> bool {
        if let Some((at, _)) = self.next.front_mut().filter(|_| self.untried > 0) {
            *at = now;
        }
        self.untried > 0
    }
}

/// The handshakes of one attempt to connect.
struct Race<'a> {
    target: &'a mut Target,
    plan: AddressPlan,
    attempts: Vec<Attempt>,
    /// Here somebody else answers.
    stranger: Option<SocketAddr>,
    /// True if one of them found no room.
    full: bool,
    /// Why the handshake failed that ended last.
    failed: Option<Failure>,
}

impl Race<'_> {
    /// Takes out the attempts that are over, and keeps why.
    fn settle(&mut self, now: Instant, endpoint: &mut Endpoint) {
        while let Some(at) = self.attempts.iter().position(|attempt| attempt.connection.is_closed()) {
            let mut attempt = self.attempts.swap_remove(at);
            match lost(&mut attempt.connection) {
                _ if attempt.mismatch.load(Ordering::Relaxed) => self.stranger = Some(attempt.address),
                Failure::Full => {
                    self.full = true;
                    self.plan.retry(now, attempt.address);
                }
                failure => self.failed = Some(failure),
            }
            attempt.connection.forget(endpoint);
        }
    }

    /// The failure, if no handshake can succeed any more: one path may lead to a host that refuses; the race is over
    /// when all do and the other end's name is not being looked up.
    fn is_over(&mut self, now: Instant, deadline: Instant) -> Option<Failure> {
        let is_late = now >= deadline;
        let has_failed = self.failed.is_some() || self.stranger.is_some();
        let may_find = self.target.whereabouts.is_asked();
        let waits = !self.attempts.is_empty() || self.full || may_find || !has_failed;
        if !is_late && (waits || self.plan.hurry(now)) {
            return None;
        }
        if let Some(stranger) = self.stranger {
            return Some(Failure::OtherIdentity(stranger));
        }
        if self.full {
            return Some(Failure::Full);
        }
        let mut addresses: Vec<String> = self.plan.next.iter().map(|(_, address)| address.to_string()).collect();
        addresses.sort_unstable();
        let failed = self.failed.take().filter(|_| self.attempts.is_empty());
        Some(failed.unwrap_or_else(|| Failure::NoAnswer(addresses.join(", "))))
    }
}

impl Session<'_> {
    /// Connects to the other end. Where it has no room, it is asked again until the time is over.
    pub fn connect(
        &mut self,
        target: &mut Target,
        role: Role,
        meanwhile: &mut dyn Meanwhile,
    ) -> Result<Box<AcceptedConnection>, Failure> {
        let deadline = self.net.now() + self.times.give_up_after;
        target.whereabouts.begin();
        self.open_links()?;
        loop {
            let connection = self.race(target, deadline, meanwhile)?;
            match self.greet(connection, &target.pairing, role, meanwhile) {
                Err(Failure::Full) if self.net.now() + ROOM < deadline => self.wait_for_room(meanwhile)?,
                result => return result,
            }
        }
    }

    /// Opens the links whose caps are not used up.
    fn open_links(&mut self) -> Result<(), Failure> {
        let Some(metering) = &mut self.metering else { return Ok(()) };
        let notes = metering.open(&mut self.net)?;
        let is_closed = metering.is_closed();
        if !notes.is_empty() {
            self.say(notes.join("; "));
            self.tell()?;
        }
        if is_closed { Err(Failure::NoLink) } else { Ok(()) }
    }

    /// The other end had no room: tells the user, and waits.
    fn wait_for_room(&mut self, meanwhile: &mut dyn Meanwhile) -> Result<(), Failure> {
        self.tell_full()?;
        let until = self.net.now() + ROOM;
        while self.net.now() < until {
            self.receive_for(|_| false, |_, _, _, _, _| {});
            self.wait_beside(until, meanwhile)?;
        }
        Ok(())
    }

    /// Waits until then, or until something comes. The other things go on.
    pub fn wait_beside(&mut self, until: Instant, meanwhile: &mut dyn Meanwhile) -> Result<(), Failure> {
        let now = self.net.now();
        meanwhile.turn(now)?;
        self.tick(now)?;
        self.wait(until.min(meanwhile.next_event()), meanwhile.fd());
        Ok(())
    }

    fn tell_full(&mut self) -> Result<(), Failure> {
        let seconds = self.times.give_up_after.as_secs_f64();
        self.say(format!("the other end has no room for one more connection; it is asked again for {seconds:.0} s"));
        self.tell()
    }

    /// Begins a handshake with `address` over each path that is there.
    fn begin_handshakes(
        &mut self,
        address: SocketAddr,
        pairing: &Pairing,
        attempts: &mut Vec<Attempt>,
    ) -> Result<(), Failure> {
        let (routes, largest_payload) = (self.net.routes(address), self.net.largest_payload(address));
        let usable: Vec<usize> = (0..routes.len()).filter(|&at| routes[at].1).collect();
        let routes: Vec<FourTuple> = routes.into_iter().map(|(route, _)| route).collect();
        let paths = (0..routes.len()).fold(PathSet::EMPTY, |set, at| set.with(PathId::new(at as u8)));
        for at in usable {
            let now = self.net.now();
            let observers = ObserverState::new();
            let (config, mismatch) = tls::client(pairing, observers.clone(), largest_payload, self.times.lost_after)?;
            let theirs = self.net.clock().theirs(now);
            let opened = self.net.endpoint.connect(theirs, config, address, "weftway");
            let (handle, inner) = opened.map_err(|error| Failure::Socket(io::Error::other(error)))?;
            let (clock, first) = (self.net.clock(), PathId::new(at as u8));
            let mut connection = QuicConnection::new(inner, handle, clock, observers, routes.clone(), first);
            connection.keep(now, paths, REOPEN);
            attempts.push(Attempt { connection, address, since: now, mismatch });
        }
        Ok(())
    }

    /// Shakes hands over all paths; the connection whose handshake was done first.
    fn race(
        &mut self,
        target: &mut Target,
        deadline: Instant,
        meanwhile: &mut dyn Meanwhile,
    ) -> Result<QuicConnection, Failure> {
        let plan = AddressPlan::new(self.net.now(), target.whereabouts.addresses());
        let mut race = Race { target, plan, attempts: Vec::new(), stranger: None, full: false, failed: None };
        let outcome = loop {
            match self.step(&mut race, deadline, meanwhile) {
                Ok(None) => {}
                Ok(Some(at)) => break Ok(race.attempts.swap_remove(at).connection),
                Err(failure) => break Err(failure),
            }
        };
        race.attempts.into_iter().for_each(|attempt| self.abandon(attempt));
        outcome
    }

    /// Tries the other end where its name leads now, too: it may have moved.
    fn follow(&mut self, now: Instant, race: &mut Race<'_>) -> Result<(), Failure> {
        let Some(found) = race.target.whereabouts.turn(now) else { return Ok(()) };
        let named: Vec<String> = found.iter().map(ToString::to_string).collect();
        let named = named.join(", ");
        let mut reachable = found;
        reachable.retain(|address| !self.net.routes(*address).is_empty());
        if reachable.is_empty() {
            self.say(format!(
                "the other end's name leads to {named} now, and no path of this end does: start it again"
            ));
        } else {
            self.say(format!("the other end's name leads to {named} now"));
            race.plan.add(now, &reachable);
            race.target.whereabouts.set(reachable);
        }
        self.tell()
    }

    /// Makes a round, and returns the number of a handshake that is done.
    fn step(
        &mut self,
        race: &mut Race<'_>,
        deadline: Instant,
        meanwhile: &mut dyn Meanwhile,
    ) -> Result<Option<usize>, Failure> {
        let now = self.net.now();
        self.follow(now, race)?;
        while let Some(address) = race.plan.take_due(now) {
            self.begin_handshakes(address, &race.target.pairing, &mut race.attempts)?;
        }
        self.advance(&mut race.attempts);
        if let Some(at) = race.attempts.iter().position(|attempt| attempt.connection.is_established()) {
            return Ok(Some(at));
        }
        let was_full = race.full;
        race.settle(now, &mut self.net.endpoint);
        if let Some(failure) = race.is_over(now, deadline) {
            return Err(failure);
        }
        if !was_full && race.full {
            self.tell_full()?;
        }
        while let Some(old) = race.attempts.iter().position(|attempt| attempt.since + PATIENCE <= now) {
            let old = race.attempts.swap_remove(old);
            self.abandon(old);
        }
        let due = race.attempts.iter().map(|attempt| attempt.connection.timeout());
        self.wait_beside(due.min().unwrap_or(deadline).min(deadline).min(race.plan.due()), meanwhile)?;
        Ok(None)
    }

    fn abandon(&mut self, attempt: Attempt) {
        let mut connection = attempt.connection;
        if !connection.is_closed() {
            let now = self.net.now();
            connection.close(now, &mut self.net.endpoint, code::NOT_FIRST, "another path was faster");
            self.net.send(&mut connection);
        }
        connection.forget(&mut self.net.endpoint);
    }

    /// Takes in what came for the handshakes, and sends what they want to say.
    fn advance(&mut self, attempts: &mut [Attempt]) {
        let handles: Vec<_> = attempts.iter().map(|attempt| attempt.connection.handle()).collect();
        self.receive_for(
            |handle| handles.contains(&handle),
            |now, net, handle, event, _| {
                let whose = attempts.iter_mut().find(|attempt| attempt.connection.handle() == handle);
                if let Some(Attempt { connection, .. }) = whose {
                    connection.handle_event(now, &mut net.endpoint, event);
                }
            },
        );
        let now = self.net.now();
        for Attempt { connection, .. } in attempts {
            if connection.timeout() <= now {
                connection.handle_timeout(now, &mut self.net.endpoint);
            }
            connection.flush(now);
            self.net.send(connection);
        }
    }

    /// Shows the token.
    fn greet(
        &mut self,
        mut connection: QuicConnection,
        pairing: &Pairing,
        role: Role,
        meanwhile: &mut dyn Meanwhile,
    ) -> Result<Box<AcceptedConnection>, Failure> {
        let mut control = ControlStream::new(MAX_MESSAGE);
        match self.exchange_greetings(&mut connection, &mut control, (pairing, role), meanwhile) {
            Ok(session) => {
                let (id, shown) = (self.id.clone(), KnownToken { name: None, token: pairing.token.clone() });
                let policy = self.metering.is_some();
                Ok(Box::new(AcceptedConnection { connection, control, id, shown, policy, session }))
            }
            Err(failure) => {
                self.close_because_of(connection, &failure);
                Err(failure)
            }
        }
    }

    fn exchange_greetings(
        &mut self,
        connection: &mut QuicConnection,
        control: &mut ControlStream,
        (pairing, role): (&Pairing, Role),
        meanwhile: &mut dyn Meanwhile,
    ) -> Result<Option<SessionState>, Failure> {
        control.send(&Message::Hello {
            version: VERSION,
            token: pairing.token.text(),
            role,
            transfer: self.id.clone(),
            policy: role == Role::Proxy && self.metering.is_some(),
            session: self.going_on.clone(),
        })?;
        connection.open_control();
        let begin = self.net.now();
        loop {
            let now = self.net.now();
            if connection.timeout() <= now {
                connection.handle_timeout(now, &mut self.net.endpoint);
            }
            if connection.is_closed() {
                return Err(lost(connection));
            }
            if begin + self.times.stall_after <= now {
                return Err(Failure::Stalled);
            }
            control.exchange(connection)?;
            match control.receive()? {
                Some(Message::Welcome { version: VERSION, session }) => return Ok(session),
                Some(_) => return Err(Failure::Protocol("it does not greet".to_owned())),
                None => {}
            }
            connection.flush(now);
            self.net.send(connection);
            self.wait_beside(connection.timeout(), meanwhile)?;
            let whose = connection.handle();
            self.receive(whose, |now, net, event, _| connection.handle_event(now, &mut net.endpoint, event));
        }
    }
}
