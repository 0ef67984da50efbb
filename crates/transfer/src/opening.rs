//! How the end that connects opens a connection: handshakes over all its paths at once, and the first that is done stays.
//! Where the other end's name has several addresses, they are tried one shortly after the other (RFC 8305).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use noq_proto::FourTuple;
use weftway_path::{Instant, PathId, PathSet, Span};
use weftway_quic::driver::connection::QuicConnection;
use weftway_quic::driver::observer::ObserverState;
use weftway_quic::udp::tls::{self, Pairing};

use super::control_stream::{AcceptedConnection, ControlStream};
use super::options::{Failure, code};
use super::session::{REOPEN, Session, Target, lost};
use super::wire::{MAX_MESSAGE, Message, Role, VERSION};

/// When no handshake is done by then, others begin beside them: the other end may have come only now, and a handshake asks
/// ever more seldom.
const AGAIN: Span = Span::from_secs(3);
/// A handshake is given up after so long: so is it at the other end.
const PATIENCE: Span = Span::from_secs(10);
/// When the next address is tried, too (RFC 8305 §5).
const NEXT_ADDRESS: Span = Span::from_millis(250);

/// A handshake over one path.
struct Attempt {
    connection: QuicConnection,
    address: SocketAddr,
    since: Instant,
    /// Whether the other end showed another certificate than the pairing has.
    mismatch: Arc<AtomicBool>,
}

/// When which address is tried.
struct Plan {
    next: VecDeque<(Instant, SocketAddr)>,
    /// How many were never tried.
    untried: usize,
}

impl Plan {
    fn new(now: Instant, addresses: &[SocketAddr]) -> Self {
        let mut at = now;
        let mut next = VecDeque::new();
        for &address in addresses {
            next.push_back((at, address));
            at += NEXT_ADDRESS;
        }
        Self { untried: next.len(), next }
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

    /// The addresses so far lead nowhere: another one is due now. False if there is none.
    fn hurry(&mut self, now: Instant) -> bool {
        if let Some((at, _)) = self.next.front_mut().filter(|_| self.untried > 0) {
            *at = now;
        }
        self.untried > 0
    }
}

impl Session<'_> {
    /// Connects to the other end.
    pub fn connect(&mut self, target: &Target, role: Role) -> Result<Box<AcceptedConnection>, Failure> {
        let connection = self.race(target)?;
        self.greet(connection, &target.pairing, role)
    }

    /// Begins a handshake with `address` over each path that is there.
    fn begin_handshakes(
        &mut self,
        address: SocketAddr,
        pairing: &Pairing,
        attempts: &mut Vec<Attempt>,
    ) -> Result<(), Failure> {
        let routes = self.net.routes(address);
        let usable: Vec<usize> = (0..routes.len()).filter(|&at| routes[at].1).collect();
        let routes: Vec<FourTuple> = routes.into_iter().map(|(route, _)| route).collect();
        let paths = (0..routes.len()).fold(PathSet::EMPTY, |set, at| set.with(PathId::new(at as u8)));
        for at in usable {
            let now = self.net.now();
            let observers = ObserverState::new();
            let (config, mismatch) = tls::client(pairing, observers.clone())?;
            let theirs = self.net.clock().theirs(now);
            let opened = self.net.endpoint.connect(theirs, config, address, "weftway");
            let (handle, inner) = opened.map_err(|error| Failure::Lost(error.to_string()))?;
            let (clock, first) = (self.net.clock(), PathId::new(at as u8));
            let mut connection = QuicConnection::new(inner, handle, clock, observers, routes.clone(), first);
            connection.keep(now, paths, REOPEN);
            attempts.push(Attempt { connection, address, since: now, mismatch });
        }
        Ok(())
    }

    /// Shakes hands over all paths; the connection whose handshake was done first.
    fn race(&mut self, target: &Target) -> Result<QuicConnection, Failure> {
        let begin = self.net.now();
        let mut plan = Plan::new(begin, &target.addresses);
        let mut attempts = Vec::new();
        let outcome = loop {
            match self.step(target, &mut plan, &mut attempts, begin + self.give_up_after) {
                Ok(None) => {}
                Ok(Some(at)) => break Ok(attempts.swap_remove(at).connection),
                Err(failure) => break Err(failure),
            }
        };
        attempts.into_iter().for_each(|attempt| self.abandon(attempt));
        outcome
    }

    /// One round: the number of a handshake that is done.
    fn step(
        &mut self,
        target: &Target,
        plan: &mut Plan,
        attempts: &mut Vec<Attempt>,
        deadline: Instant,
    ) -> Result<Option<usize>, Failure> {
        let now = self.net.now();
        while let Some(address) = plan.take_due(now) {
            self.begin_handshakes(address, &target.pairing, attempts)?;
        }
        self.advance(attempts);
        if let Some(at) = attempts.iter().position(|attempt| attempt.connection.is_established()) {
            return Ok(Some(at));
        }
        // One path may lead to a host that refuses; it is over when all do.
        let all_closed = !attempts.is_empty() && attempts.iter().all(|attempt| attempt.connection.is_closed());
        if (all_closed && !plan.hurry(now)) || now >= deadline {
            return Err(why_none(attempts, target, all_closed));
        }
        while let Some(old) = attempts.iter().position(|attempt| attempt.since + PATIENCE <= now) {
            let old = attempts.swap_remove(old);
            self.abandon(old);
        }
        self.tick(now)?;
        let due = attempts.iter().map(|attempt| attempt.connection.timeout());
        self.wait(due.min().unwrap_or(deadline).min(deadline).min(plan.due()), None);
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
    ) -> Result<Box<AcceptedConnection>, Failure> {
        let mut control = ControlStream::new(MAX_MESSAGE);
        let transfer = self.id.clone();
        control.send(&Message::Hello { version: VERSION, token: pairing.token.text(), role, transfer })?;
        connection.open_control();
        loop {
            let now = self.net.now();
            if connection.timeout() <= now {
                connection.handle_timeout(now, &mut self.net.endpoint);
            }
            if connection.is_closed() {
                return Err(lost(&mut connection));
            }
            control.exchange(&mut connection)?;
            match control.receive()? {
                Some(Message::Welcome { version: VERSION }) => {
                    return Ok(Box::new(AcceptedConnection { connection, control, id: self.id.clone() }));
                }
                Some(_) => return Err(Failure::Protocol("it does not greet".to_owned())),
                None => {}
            }
            connection.flush(now);
            self.net.send(&mut connection);
            self.tick(now)?;
            self.wait(connection.timeout(), None);
            let whose = connection.handle();
            self.receive(whose, |now, net, event, _| connection.handle_event(now, &mut net.endpoint, event));
        }
    }
}

/// Why no handshake was done.
fn why_none(attempts: &mut [Attempt], target: &Target, all_closed: bool) -> Failure {
    if let Some(other) = attempts.iter().find(|attempt| attempt.mismatch.load(Ordering::Relaxed)) {
        return Failure::OtherIdentity(other.address);
    }
    match attempts.first_mut().filter(|_| all_closed) {
        Some(attempt) => lost(&mut attempt.connection),
        None => {
            let addresses: Vec<String> = target.addresses.iter().map(ToString::to_string).collect();
            Failure::NoAnswer(addresses.join(", "))
        }
    }
}
