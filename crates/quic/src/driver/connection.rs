//! A connection of noq without a socket, whose paths bear our numbers.
//!
//! It takes datagrams and the time, and gives datagrams out. What it adds to noq's own connection: which of noq's paths
//! is which of ours, on which path a datagram leaves, and the path on which an acknowledgement returns.
//!
//! noq sends acknowledgements that are due on the available path with the lowest number. [`QuicConnection::answer`]
//! therefore keeps all other paths quiet while it asks for what a path owes. It cannot do so for a path whose number is
//! not known yet, nor before a path has sent its first full packet; what is left then leaves as noq has it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use bytes::Bytes;
use noq_proto::{
    ConnectionError, ConnectionEvent, ConnectionHandle, Endpoint, Event, FourTuple, PathEvent, PathStatus,
};
use weftway_path::{Instant, PathId, PathSet, Span};

use super::observer::{ObserverState, Report, observer_number};
use crate::null_crypto::NoKeys;

mod control;
mod sending;
mod validation;

pub use control::CloseReason;
use validation::Validation;

/// Both clocks: noq's, and ours, which begins with the run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: StdInstant,
}

impl Clock {
    /// Our time begins at `base`.
    pub fn new(base: StdInstant) -> Self {
        Self { base }
    }

    /// noq's time.
    pub fn theirs(self, at: Instant) -> StdInstant {
        self.base + Duration::from_nanos(at.as_nanos())
    }

    /// Our time.
    pub fn ours(self, at: StdInstant) -> Instant {
        let nanos = at.saturating_duration_since(self.base).as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A datagram to be sent.
#[derive(Debug)]
pub struct Outgoing {
    /// The path that it takes. None: noq asks whether the peer is still where it was before its address changed.
    pub path: Option<PathId>,
    /// Addresses of both ends.
    pub route: FourTuple,
    /// Its payload.
    pub bytes: Vec<u8>,
    /// True if it is ECN-capable.
    pub ecn: bool,
    /// Number of bytes of the data it carries.
    pub payload: u32,
}

/// A client sends at most so many datagrams between the end of the handshake and its confirmation. noq updates its keys
/// after 10 to 1000 packets (10 is the least of its draws), even before the handshake is confirmed, which RFC 9001 §6.1
/// forbids. A server that has not seen the end of the handshake follows it, and updates its keys once more when it has
/// (see [`Event::Connected`]): both ends have other keys for good. A session without keys needs no such care.
const EARLY: u32 = 8;

/// Events of a connection, beside what its observers tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuicEvent {
    /// The handshake is done.
    Connected,
    /// A path can carry data.
    PathUp(PathId),
    /// A path goes on at another address of the peer's. noq tells nothing more of what is in flight on it.
    PathMoved(PathId),
    /// A path was closed by either side, or never opened.
    PathClosed(PathId),
    /// The connection is over, for this reason.
    Lost(String),
}

/// The connection.
#[derive(Debug)]
pub struct QuicConnection {
    inner: noq_proto::Connection,
    handle: ConnectionHandle,
    clock: Clock,
    observer_state: Arc<ObserverState>,
    /// The address pair of each of our paths, as this side sees it; `None` until the peer opens one.
    routes: Vec<Option<FourTuple>>,
    /// noq's number of each of our paths.
    numbers: Vec<Option<noq_proto::PathId>>,
    /// noq's paths that were met. One is met once: noq lists it for a while after another one took its place.
    met: Vec<noq_proto::PathId>,
    /// The observer that watches each of our paths.
    observers: Vec<Option<u32>>,
    /// The observers before this one are known: each watches a path, or did.
    next_observer: u32,
    /// The path that the connection was opened on.
    first: PathId,
    connected: bool,
    /// True if the peer is known to have finished the handshake (RFC 9001 §4.1.2).
    confirmed: bool,
    /// Datagrams that were sent while it was not.
    early: u32,
    /// True if updates of keys do harm: not where there are none.
    has_keys: bool,
    /// Paths that noq has validated.
    up: PathSet,
    /// Paths that a client keeps open.
    kept: PathSet,
    /// Times to try again to open paths that were closed.
    open_at: Vec<Instant>,
    /// Validation of each path.
    validations: Vec<Validation>,
    reopen_after: Span,
    /// Datagrams that leave next.
    pub outgoing: VecDeque<Outgoing>,
    events: VecDeque<QuicEvent>,
    /// Memory for datagrams.
    spare: Vec<Vec<u8>>,
    next_timeout: Option<StdInstant>,
    last_call: Instant,
    /// The stream on which both ends talk beside the data.
    control: Option<noq_proto::StreamId>,
    /// Why the connection is over, as noq told first.
    over: Option<ConnectionError>,
}

impl QuicConnection {
    /// Takes over a connection that was opened on path `first`.
    pub fn new(
        inner: noq_proto::Connection,
        handle: ConnectionHandle,
        clock: Clock,
        observer_state: Arc<ObserverState>,
        routes: Vec<FourTuple>,
        first: PathId,
    ) -> Self {
        let mut numbers = vec![None; routes.len()];
        numbers[first.index()] = Some(noq_proto::PathId::ZERO);
        let mut observers = vec![None; routes.len()];
        observers[first.index()] = Some(0);
        observer_state.set_in_use(1);
        Self {
            first,
            connected: false,
            confirmed: false,
            early: 0,
            has_keys: true,
            up: PathSet::EMPTY,
            kept: PathSet::EMPTY,
            open_at: vec![Instant::ZERO; routes.len()],
            validations: vec![Validation::default(); routes.len()],
            reopen_after: Span::from_secs(1),
            inner,
            handle,
            clock,
            observer_state,
            numbers,
            met: vec![noq_proto::PathId::ZERO],
            observers,
            next_observer: 1,
            routes: routes.into_iter().map(Some).collect(),
            control: None,
            over: None,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            spare: Vec::new(),
            next_timeout: None,
            last_call: Instant::ZERO,
        }
    }

    /// Room for `spare` more paths, whose addresses the peer decides: a server cannot know them before.
    pub fn with_spare_paths(mut self, spare: usize) -> Self {
        let count = self.routes.len() + spare;
        self.routes.resize(count, None);
        self.numbers.resize(count, None);
        self.observers.resize(count, None);
        self.open_at.resize(count, Instant::ZERO);
        self.validations.resize(count, Validation::default());
        self
    }

    /// All paths that it may have.
    pub fn paths(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.routes.len() as u8).map(PathId::new)
    }

    /// The addresses of a path, once they are known.
    pub fn route(&self, path: PathId) -> Option<FourTuple> {
        self.routes.get(path.index()).copied().flatten()
    }

    /// Which path has these addresses.
    pub fn path_at(&self, route: FourTuple) -> Option<PathId> {
        let at = self.routes.iter().position(|&known| known == Some(route))?;
        Some(PathId::new(at as u8))
    }

    /// noq's name for it.
    pub fn handle(&self) -> ConnectionHandle {
        self.handle
    }

    /// Takes a datagram of this connection.
    pub fn handle_event(&mut self, now: Instant, endpoint: &mut Endpoint, event: ConnectionEvent) {
        self.inner.handle_event(event);
        self.settle(now, endpoint);
    }

    /// Lets timers that are due fire.
    pub fn handle_timeout(&mut self, now: Instant, endpoint: &mut Endpoint) {
        self.inner.handle_timeout(self.clock.theirs(now));
        // A path is back where it was, if the peer did not answer at its new address.
        self.follow_migration();
        self.return_to_sockets(now);
        self.settle(now, endpoint);
    }

    /// Returns true if the handshake is done.
    pub fn is_established(&self) -> bool {
        self.connected
    }

    /// Returns true if the peer is known to have finished the handshake.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// A client makes the key update that noq will make at some time, while there is one path (see [`Event::Connected`]):
    /// for a server of another stack. The handshake has to be confirmed.
    pub fn update_keys(&mut self) {
        self.inner.force_key_update();
    }

    /// Time at which a timer is due.
    pub fn timeout(&self) -> Instant {
        let own = self.next_timeout.map_or(Instant::NEVER, |at| self.clock.ours(at));
        let opening = self.next_opening();
        // One that is due and cannot be opened waits for what the peer sends.
        if opening > self.last_call { own.min(opening) } else { own }
    }

    /// Events since the last time.
    pub fn poll_event(&mut self) -> Option<QuicEvent> {
        self.events.pop_front()
    }

    /// Reports that the observers were told since the last time, each with our path.
    pub fn take_reports(&mut self, into: &mut Vec<Report>) {
        into.clear();
        self.observer_state.take(into);
    }

    /// Which of our paths an observer watches.
    #[inline]
    pub fn watched(&self, observer: u32) -> Option<PathId> {
        let at = self.observers.iter().position(|&watching| watching == Some(observer))?;
        Some(PathId::new(at as u8))
    }

    /// The smoothed round-trip time of a path.
    pub fn srtt(&self, path: PathId) -> Option<Span> {
        let rtt = self.inner.rtt(self.numbers[path.index()]?)?;
        Some(Span::from_nanos(u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The round trip of the path's validation, once after each. noq's own estimate may by then have begun with an
    /// acknowledgement that came on another path: the peer has not validated this one, and must not use it (RFC 9000
    /// §8.2).
    pub fn take_validation_rtt(&mut self, path: PathId) -> Option<Span> {
        self.validations[path.index()].take()
    }

    /// The next record that arrived.
    pub fn receive(&mut self) -> Option<Bytes> {
        self.inner.datagrams().recv()
    }

    /// The largest record.
    pub fn largest_record(&mut self) -> usize {
        self.inner.datagrams().max_size().unwrap_or(0)
    }

    /// The number of a path that both ends know; another one each time it is opened.
    pub fn number(&self, path: PathId) -> Option<u32> {
        // noq shows its numbers in no other way.
        self.numbers[path.index()]?.to_string().parse().ok()
    }

    /// Returns true if noq knows this path now.
    pub fn has_path(&self, path: PathId) -> bool {
        self.numbers[path.index()].is_some()
    }

    /// Which paths a client keeps open: it opens them as soon as the handshake is done and the peer has sent what it
    /// takes, and again after a while when one was closed.
    pub fn keep(&mut self, now: Instant, paths: PathSet, reopen_after: Span) {
        self.reopen_after = reopen_after;
        let gone = self.kept.iter().filter(|&path| !paths.contains(path));
        gone.collect::<Vec<_>>().into_iter().for_each(|path| self.close_path(now, path));
        self.kept = paths;
        self.open_kept(now);
    }

    fn open_kept(&mut self, now: Instant) {
        for path in self.kept.iter() {
            if !self.connected || self.has_path(path) || self.open_at[path.index()] > now {
                continue;
            }
            let Some(route) = self.routes[path.index()] else { continue };
            let opened = self.inner.open_path(route, PathStatus::Available, self.clock.theirs(now));
            let Ok(number) = opened else { return };
            self.meet(number, path);
        }
    }

    /// Time at which a closed path is tried again.
    fn next_opening(&self) -> Instant {
        let closed = self.kept.iter().filter(|&path| self.connected && !self.has_path(path));
        closed.map(|path| self.open_at[path.index()]).min().unwrap_or(Instant::NEVER)
    }

    /// Closes a path, if another one can carry what says so. Else it stays as it is.
    pub fn close_path(&mut self, now: Instant, path: PathId) {
        if self.up.without(path).is_empty() {
            return;
        }
        if let Some(number) = self.numbers[path.index()] {
            let closed = self.inner.close_path(self.clock.theirs(now), number, 0u32.into());
            if closed.is_ok() {
                self.numbers[path.index()] = None;
                self.up = self.up.without(path);
            }
        }
    }

    /// Returns true if no data may leave until the handshake is confirmed.
    pub fn is_early_spent(&self) -> bool {
        !self.confirmed && self.has_keys && self.early >= EARLY
    }

    /// noq's path `number` is our `path` from now on.
    fn meet(&mut self, number: noq_proto::PathId, path: PathId) {
        // A number is used once: one that noq does not list any more never comes again.
        let listed = self.inner.paths();
        self.met.retain(|known| listed.contains(known));
        self.met.push(number);
        self.numbers[path.index()] = Some(number);
        self.validations[path.index()] = Validation::Open;
        self.watch(number, path);
    }

    /// The observer that noq's path `number` has now watches `path`.
    fn watch(&mut self, number: noq_proto::PathId, path: PathId) {
        let Some(observer) = self.inner.congestion_state(number).and_then(observer_number) else { return };
        if self.observers[path.index()] == Some(observer) {
            return;
        }
        if let Some(before) = self.watched(observer) {
            self.observers[before.index()] = None;
        }
        // What an earlier path over the same addresses still tells is of no use.
        self.observers[path.index()] = Some(observer);
        self.next_observer = self.next_observer.max(observer + 1);
        let taken = self.observers.iter().flatten();
        self.observer_state.set_in_use(taken.fold(0, |bits, observer| bits | 1 << (observer & 63)));
    }

    /// After a call into noq: what the endpoint has to know, what happened, paths that can be opened now.
    fn settle(&mut self, now: Instant, endpoint: &mut Endpoint) {
        self.last_call = now;
        while let Some(event) = self.inner.poll_endpoint_events() {
            if let Some(answer) = endpoint.handle_event(self.handle, event) {
                self.inner.handle_event(answer);
            }
        }
        if self.next_observer < self.observer_state.observers() {
            self.meet_new_paths();
        }
        while let Some(event) = self.inner.poll() {
            self.on_event(now, event);
        }
        self.open_kept(now);
    }

    /// The peer opened a path: its addresses say which of ours it is.
    fn meet_new_paths(&mut self) {
        for number in self.inner.paths() {
            if self.met.contains(&number) {
                continue;
            }
            let Ok(route) = self.inner.network_path(number) else { continue };
            if let Some(at) = self.place_of(route) {
                self.routes[at] = Some(route);
                self.meet(number, PathId::new(at as u8));
            }
        }
    }

    /// Which of our paths has these addresses, or could take them: one that never had any, or one that is closed.
    fn place_of(&self, route: FourTuple) -> Option<usize> {
        let known = self.routes.iter().position(|&ours| ours == Some(route));
        let unused = || self.routes.iter().position(Option::is_none);
        let closed = || {
            let dynamic = self.kept.is_empty();
            (0..self.routes.len()).find(|&at| dynamic && self.numbers[at].is_none())
        };
        known.or_else(unused).or_else(closed)
    }

    /// The peer's address changed (RFC 9000 §9): a path goes on under other addresses. Only a server sees this; it
    /// calls it when a datagram comes from where no path is known.
    pub fn follow_migration(&mut self) {
        if self.inner.side().is_client() {
            return;
        }
        for at in 0..self.numbers.len() {
            let Some(number) = self.numbers[at] else { continue };
            let Ok(route) = self.inner.network_path(number) else { continue };
            if self.routes[at] == Some(route) {
                continue;
            }
            self.routes[at] = Some(route);
            // At another host's address noq has another observer.
            self.watch(number, PathId::new(at as u8));
            self.events.push_back(QuicEvent::PathMoved(PathId::new(at as u8)));
        }
    }

    /// A client's path begins at a socket of its own. noq lets it go on at another one when a datagram of it comes
    /// there, as from a NAT that took one path for another: then the path is closed, and opened again later.
    fn return_to_sockets(&mut self, now: Instant) {
        for path in self.kept.iter() {
            let own = self.routes[path.index()].and_then(|route| route.local_ip());
            let Some(number) = self.numbers[path.index()] else { continue };
            let theirs = self.inner.network_path(number).ok().and_then(|route| route.local_ip());
            if theirs.is_some() && theirs != own {
                self.close_path(now, path);
                self.open_at[path.index()] = now + self.reopen_after;
            }
        }
    }

    fn path_of(&self, number: noq_proto::PathId) -> Option<PathId> {
        let at = self.numbers.iter().position(|&known| known == Some(number))?;
        Some(PathId::new(at as u8))
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Connected => {
                self.connected = true;
                self.up = self.up.with(self.first);
                // noq makes one key update early, and compares the packet numbers of different paths then: packets in
                // flight on another path would not be readable. While there is one path it does no harm. The server
                // makes it: for it the handshake is confirmed now, and a client must not update its keys before (RFC
                // 9001 §6.1).
                let session = self.inner.crypto_session().handshake_data();
                self.has_keys = session.is_none_or(|session| !session.is::<NoKeys>());
                if self.inner.side().is_server() {
                    self.confirmed = true;
                    if self.has_keys {
                        self.inner.force_key_update();
                    }
                }
                self.events.extend([QuicEvent::Connected, QuicEvent::PathUp(self.first)]);
            }
            Event::HandshakeConfirmed => self.confirmed = true,
            // noq tells it again when a stateless reset comes behind the peer's last word: the first reason is the
            // cause.
            Event::ConnectionLost { reason } if self.over.is_none() => {
                self.events.push_back(QuicEvent::Lost(reason.to_string()));
                self.over = Some(reason);
            }
            Event::Path(PathEvent::Established { id, .. }) => {
                if let Some(path) = self.path_of(id) {
                    self.up = self.up.with(path);
                    self.validations[path.index()].end(now);
                    self.events.push_back(QuicEvent::PathUp(path));
                }
            }
            Event::Path(PathEvent::Abandoned { id, .. }) => {
                if let Some(path) = self.path_of(id) {
                    self.numbers[path.index()] = None;
                    self.up = self.up.without(path);
                    self.open_at[path.index()] = now + self.reopen_after;
                    self.events.push_back(QuicEvent::PathClosed(path));
                }
            }
            _ => {}
        }
    }

    /// Returns true if the connection is over.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}
