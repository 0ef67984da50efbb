//! Sockets, the other end, and the user: what both sides of a transfer share.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use noq_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, FourTuple};
use weftway_path::{Instant, PathId, Span};
use weftway_quic::driver::connection::{QuicConnection, QuicEvent};
use weftway_quic::driver::{Sender, Source};
use weftway_udp::settings::MAX_PATHS;
use weftway_udp::socket::Socket;
use weftway_udp::tls::{Identity, Pairing};
use weftway_udp::token::Token;
use weftway_udp::{Local, Net, settings};

use crate::connection::control_stream::AcceptedConnection;
use crate::connection::listener::{CurrentTransfer, Listener, WRONG_TOKEN};
use crate::connection::whereabouts::Whereabouts;
use crate::failure::{Failure, code};
use crate::links::metering::{Metering, is_opened};
use crate::links::terms::Link;
use crate::links::usage::Usage;
use crate::options::{Connect, Links, Listen, OtherEnd, Times};
use crate::progress::{Progress, State, Watch};
use crate::seen::PathProgress;
use crate::wire::{Role, SessionState, TransferId};

/// Time that an end waits for the other one to confirm that the connection is closed.
const CLOSE_TIMEOUT: Span = Span::from_millis(500);
/// A closed path is tried again after so long.
pub(crate) const REOPEN: Span = Span::from_secs(1);
/// A path that brings nothing for so long, while another one does, is closed where something waits for it.
const SILENCE: Span = Span::from_secs(3);
/// Wrong tokens are told so often at most: who guesses must not fill the screen.
const TELL_TOKENS: Span = Span::from_secs(60);

/// The other end, where this one connects.
pub(crate) struct Target {
    pub whereabouts: Whereabouts,
    pub pairing: Pairing,
}

/// Wrong tokens of which the user was told.
struct ToldTokens {
    count: u64,
    /// Instant from which others may be told.
    next: Instant,
}

/// Sockets, other end and user of a program.
pub(crate) struct Session<'a> {
    pub net: Net,
    pub listener: Option<Listener>,
    pub progress: Progress,
    watch: Watch<'a>,
    tick_at: Instant,
    /// Intervals and timeouts.
    pub times: Times,
    /// The session that the next connection is to go on with.
    pub going_on: Option<SessionState>,
    /// Since when connections have brought nothing.
    pub fruitless_since: Option<Instant>,
    told_tokens: ToldTokens,
    /// Whose transfer this end wants, if it connects.
    pub id: TransferId,
    /// Whose transfer is under way.
    current: TransferId,
    /// Instant at which each path brought something last.
    heard: [Instant; MAX_PATHS],
    /// Metering of the links, where a policy says what they may carry.
    pub metering: Option<Metering>,
}

/// Links that may be opened: all but those that are never to be used.
fn opened(links: &[Link]) -> Result<Vec<Local>, Failure> {
    let is_unused = |link: &Link| link.terms.as_ref().is_some_and(|terms| !is_opened(terms));
    let opened: Vec<Local> = links.iter().filter(|link| !is_unused(link)).map(|link| link.local.clone()).collect();
    if opened.is_empty() && !links.is_empty() {
        return Err(Failure::Spec("every --path has tier=never: there is nothing to send over".to_owned()));
    }
    check_count(&opened)?;
    Ok(opened)
}

fn check_count(locals: &[Local]) -> Result<(), Failure> {
    let count = locals.len();
    if count > MAX_PATHS {
        let why = format!("{count} times --path: a connection has {MAX_PATHS} paths at most; leave some out");
        return Err(Failure::Spec(why));
    }
    Ok(())
}

/// Metering of the links at `locals`, where some have terms.
fn metering(links: Links, locals: &[Local], role: Role) -> Result<Option<Metering>, Failure> {
    if links.all.iter().all(|link| link.terms.is_none()) {
        return Ok(None);
    }
    // The other end is told of all links: one of which nothing is said is primary.
    let opened = links.all.into_iter().filter(|link| locals.contains(&link.local));
    let terms = opened.map(|link| (link.local, link.terms.unwrap_or_default())).collect();
    Metering::new(terms, links.usage.map(Usage::at), role == Role::Proxy).map(Some)
}

impl<'a> Session<'a> {
    /// Opens the sockets of either end of a transfer. `path` is what is sent, or where it goes.
    pub fn open(
        other: OtherEnd,
        links: Links,
        times: Times,
        (role, path): (Role, &Path),
        watch: Watch<'a>,
    ) -> Result<(Self, Option<Target>), Failure> {
        match other {
            OtherEnd::Connect(connect) => {
                let (session, target) = Self::connecting(connect, links, times, (role, path), watch)?;
                Ok((session, Some(target)))
            }
            OtherEnd::Listen(listen) => {
                Ok((Self::listening(listen, &links.locals()?, times, (role, path), watch)?, None))
            }
        }
    }

    /// Opens the sockets of an end that connects.
    pub fn connecting(
        connect: Connect,
        links: Links,
        times: Times,
        (role, path): (Role, &Path),
        watch: Watch<'a>,
    ) -> Result<(Self, Target), Failure> {
        let Connect { addresses, pairing, lookup } = connect;
        let mut locals = opened(&links.all)?;
        let metering = metering(links, &locals, role)?;
        addresses.iter().try_for_each(check_reachable).map_err(Failure::Socket)?;
        if locals.is_empty() {
            locals.push(Local::Any);
        }
        let config = Arc::new(settings::endpoint(EndpointConfig::default()));
        let net = Net::client(Endpoint::new(config, None, true), &locals, &addresses).map_err(Failure::Socket)?;
        let is_reachable = |address: &SocketAddr| !net.routes(*address).is_empty();
        let whereabouts = Whereabouts::new(addresses, is_reachable, lookup);
        let progress = Progress { state: State::Connecting, ..Progress::default() };
        let mut session = Self::over(net, progress, times, identify(role, path), watch);
        session.metering = metering;
        Ok((session, Target { whereabouts, pairing }))
    }

    /// Opens the sockets of an end that listens, and listens.
    pub fn listening(
        listen: Listen,
        locals: &[Local],
        times: Times,
        (role, path): (Role, &Path),
        watch: Watch<'a>,
    ) -> Result<Self, Failure> {
        let Listen { address, identity } = listen;
        check_count(locals)?;
        let listener = Listener::new(&identity, role)?;
        let config = Arc::new(identity.endpoint(address.port()));
        let endpoint = Endpoint::new(config, Some(Arc::new(listener.config())), true);
        let net = Net::server(endpoint, locals, address).map_err(Failure::Socket)?;
        let listening = net.sockets().first().map(Socket::address);
        let progress = Progress { state: State::Listening, listening, ..Progress::default() };
        let mut session = Self::over(net, progress, times, identify(role, path), watch);
        session.listener = Some(listener);
        Ok(session)
    }

    fn over(net: Net, progress: Progress, times: Times, id: TransferId, watch: Watch<'a>) -> Self {
        let progress = Progress { note: net.missing(), ..progress };
        Self {
            net,
            listener: None,
            progress,
            watch,
            tick_at: Instant::ZERO,
            times,
            going_on: None,
            fruitless_since: None,
            told_tokens: ToldTokens { count: 0, next: Instant::ZERO },
            id,
            current: TransferId::default(),
            heard: [Instant::ZERO; MAX_PATHS],
            metering: None,
        }
    }

    /// Has the user told something, once.
    pub fn say(&mut self, text: String) {
        self.progress.note = Some(match self.progress.note.take() {
            Some(before) => format!("{before}; {text}"),
            None => text,
        });
    }

    /// Tells the user, now and then.
    pub fn tick(&mut self, now: Instant) -> Result<(), Failure> {
        if self.tick_at > now {
            return Ok(());
        }
        self.tick_at = now + self.times.tell_every;
        self.tell()
    }

    /// Tells the user now.
    pub fn tell(&mut self) -> Result<(), Failure> {
        self.tell_wrong_tokens();
        let goes_on = (self.watch)(&self.progress);
        self.progress.note = None;
        if goes_on { Ok(()) } else { Err(Failure::Interrupted) }
    }

    fn tell_wrong_tokens(&mut self) {
        let ToldTokens { count: known, next } = self.told_tokens;
        let (now, count) = (self.net.now(), self.listener.as_ref().map_or(0, Listener::wrong_tokens));
        if count > known && (next <= now || self.progress.state == State::Done) {
            self.told_tokens = ToldTokens { count, next: now + TELL_TOKENS };
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            self.say(format!("a wrong token was shown {times}, and refused"));
        }
    }

    /// Returns true if the user is to be told.
    pub fn is_tick(&self, now: Instant) -> bool {
        self.tick_at <= now
    }

    /// Waits for what comes next.
    pub fn wait(&mut self, until: Instant, waker: Option<BorrowedFd<'_>>) {
        let pending = self.listener.as_ref().map_or(Instant::NEVER, Listener::next_event);
        self.net.wait(until.min(pending).min(self.tick_at), waker);
    }

    /// Receives for the connection `whose`, by `take`; the rest goes to the listener.
    pub fn receive(
        &mut self,
        whose: ConnectionHandle,
        mut take: impl FnMut(Instant, &mut Net, ConnectionEvent, FourTuple),
    ) -> bool {
        let mut any = false;
        self.receive_for(
            |handle| handle == whose,
            |now, net, _, event, route| {
                take(now, net, event, route);
                any = true;
            },
        );
        any
    }

    /// Receives for several connections.
    pub fn receive_for(
        &mut self,
        is_ours: impl Fn(ConnectionHandle) -> bool,
        mut take: impl FnMut(Instant, &mut Net, ConnectionHandle, ConnectionEvent, FourTuple),
    ) {
        self.net.receive();
        let now = self.net.now();
        while let Some(arrival) = self.net.next_arrival() {
            let route = arrival.route;
            match self.net.handle(now, arrival) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) if is_ours(handle) => {
                    take(now, &mut self.net, handle, event, route);
                }
                other => self.give_to_listener(now, other),
            }
        }
    }

    fn give_to_listener(&mut self, now: Instant, event: Option<DatagramEvent>) {
        let Some(listener) = &mut self.listener else { return };
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => listener.accept(&mut self.net, now, incoming),
            Some(DatagramEvent::ConnectionEvent(whose, event)) => listener.handle(&mut self.net, now, whose, event),
            _ => {}
        }
    }

    /// A new connection of the other end of the transfer that is under way: it was started again, or connects again.
    pub fn accept(&mut self, now: Instant) -> Option<Box<AcceptedConnection>> {
        let heard = self.heard.iter().copied().max().unwrap_or(Instant::ZERO);
        let current = CurrentTransfer { id: &self.current, heard };
        self.listener.as_mut()?.turn(&mut self.net, now, Some(current))
    }

    /// A new connection of any end that has shown the token.
    pub fn accept_any(&mut self, now: Instant) -> Option<Box<AcceptedConnection>> {
        self.listener.as_mut()?.turn(&mut self.net, now, None)
    }

    /// Begins the transfer `id`: it is the one that is under way from now on.
    pub fn begin(&mut self, id: &TransferId) {
        self.current = id.clone();
        self.heard = [Instant::ZERO; MAX_PATHS];
    }

    /// The other end came anew: its connection before is of no use any more.
    pub fn supersede(&mut self, connection: QuicConnection) {
        self.close_at_once(connection, code::SUPERSEDED, "it connected again");
    }

    /// The token of the other end is no longer valid.
    pub fn revoke(&mut self, connection: QuicConnection) {
        self.close_at_once(connection, code::REFUSED, WRONG_TOKEN);
    }

    /// Closes a connection without waiting until the other end knows.
    fn close_at_once(&mut self, mut connection: QuicConnection, code: u32, reason: &str) {
        if !connection.is_closed() {
            connection.close(self.net.now(), &mut self.net.endpoint, code, reason);
            self.net.send(&mut connection);
        }
        connection.forget(&mut self.net.endpoint);
    }

    /// Takes over what has become of the identity: whether tokens may be gone.
    pub fn take_identity(&mut self, identities: &Receiver<Identity>) -> bool {
        let (Some(identity), Some(listener)) = (identities.try_iter().last(), &mut self.listener) else { return false };
        let taken = listener.set_identity(&identity);
        self.say(match &taken {
            Ok(()) => "the pairing lines have changed".to_owned(),
            Err(error) => format!("{error}; the identity before is kept"),
        });
        taken.is_ok()
    }

    /// Returns true if this end takes connections that show `token`.
    pub fn is_valid(&self, token: &Token) -> bool {
        self.listener.as_ref().is_some_and(|listener| listener.is_valid(token))
    }

    /// Waits until a connection shows the token.
    pub fn admit(&mut self) -> Result<Box<AcceptedConnection>, Failure> {
        loop {
            self.net.receive();
            let now = self.net.now();
            while let Some(arrival) = self.net.next_arrival() {
                let event = self.net.handle(now, arrival);
                self.give_to_listener(now, event);
            }
            let accepted = self.listener.as_mut().and_then(|listener| listener.turn(&mut self.net, now, None));
            if let Some(accepted) = accepted {
                return Ok(accepted);
            }
            self.net.flush();
            self.tick(now)?;
            self.wait(Instant::NEVER, None);
        }
    }

    /// Path `path` has brought something.
    pub fn on_received(&mut self, now: Instant, path: PathId) {
        if let Some(heard) = self.heard.get_mut(path.index()) {
            *heard = now;
        }
    }

    /// Closes paths that are silent while others are not: what noq sent on them it then sends elsewhere.
    pub fn close_silent(&self, now: Instant, connection: &mut QuicConnection) {
        let lately = self.heard.iter().any(|&heard| heard + REOPEN >= now);
        for (at, &heard) in self.heard.iter().enumerate() {
            let path = PathId::new(at as u8);
            if lately && heard + SILENCE < now && connection.route(path).is_some() {
                connection.close_path(now, path);
            }
        }
    }

    /// Closes the connection, and lets the other end know.
    pub fn close(&mut self, mut connection: QuicConnection, code: u32, reason: &str) {
        let begin = self.net.now();
        connection.close(begin, &mut self.net.endpoint, code, reason);
        while !connection.is_drained() && self.net.now() < begin + CLOSE_TIMEOUT {
            let now = self.net.now();
            connection.flush(now);
            self.net.send(&mut connection);
            self.net.wait(connection.timeout().min(begin + CLOSE_TIMEOUT), None);
            let whose = connection.handle();
            self.receive(whose, |now, net, event, _| connection.handle_event(now, &mut net.endpoint, event));
            let now = self.net.now();
            if connection.timeout() <= now {
                connection.handle_timeout(now, &mut self.net.endpoint);
            }
        }
    }

    /// Closes the connection because of `failure`, if it was not the other end that closed it.
    pub fn close_because_of(&mut self, connection: QuicConnection, failure: &Failure) {
        if connection.is_closed() {
            return connection.forget(&mut self.net.endpoint);
        }
        let (code, reason) = reason(failure);
        self.close(connection, code, &reason);
    }

    /// Closes the connection because of `failure`, where others must not wait until the other end knows.
    pub fn drop_because_of(&mut self, connection: QuicConnection, failure: &Failure) {
        let (code, reason) = reason(failure);
        self.close_at_once(connection, code, &reason);
    }

    /// The links of a connection that begins carry what their policy says.
    pub fn begin_metering<S: Source>(&mut self, sender: &mut Sender<S>) {
        if let Some(metering) = &mut self.metering {
            metering.begin(&self.net, sender);
        }
    }

    /// Brings up to date what they may carry.
    pub fn meter<S: Source>(&mut self, now: Instant, sender: &mut Sender<S>) -> Result<(), Failure> {
        let Some(metering) = &mut self.metering else { return Ok(()) };
        let notes = metering.attend(now, &mut self.net, sender)?;
        notes.into_iter().for_each(|note| self.say(note));
        Ok(())
    }

    /// Name of a path.
    pub fn label(&self, connection: &QuicConnection, path: PathId) -> Option<String> {
        let route = connection.route(path)?;
        let own = self.net.local(route).filter(|_| self.listener.is_none());
        Some(own.map_or_else(|| route.remote().to_string(), Local::to_string))
    }

    /// Progress of a sender on each path.
    pub fn sent<S: Source>(&self, sender: &Sender<S>) -> Vec<PathProgress> {
        let (up, usable) = (sender.up(), sender.usable());
        self.paths(&sender.connection, |path, progress| {
            let tally = sender.tally(path);
            progress.up = up.contains(path);
            progress.policy.iter_mut().for_each(|policy| policy.open = usable.contains(path));
            (progress.bytes, progress.packets, progress.lost) = (tally.bytes, tally.packets, tally.retransmissions);
            (progress.retransmissions, progress.given_up) = (tally.reinjections, tally.given_up);
            progress.min_rtt_ms = Some(sender.view(path).min_rtt.as_millis_f64()).filter(|ms| *ms > 0.0);
            progress.away_ms = sender.away(path).as_millis_f64();
        })
    }

    /// Progress on every path of a connection. `count` adds the driver's counters.
    pub fn paths(
        &self,
        connection: &QuicConnection,
        mut count: impl FnMut(PathId, &mut PathProgress),
    ) -> Vec<PathProgress> {
        let mut paths = Vec::new();
        for path in connection.paths() {
            let Some(label) = self.label(connection, path) else { continue };
            let srtt_ms = connection.srtt(path).map(|srtt| srtt.as_millis_f64());
            let mut progress = PathProgress { path: label, srtt_ms, ..PathProgress::default() };
            let local = connection.route(path).and_then(|route| self.net.local(route));
            let relays = self.listener.is_none() && self.progress.state == State::Relaying;
            progress.carried = local.filter(|_| relays).map(|local| self.net.carried(local));
            let metered = self.metering.as_ref().zip(local);
            progress.policy = metered.and_then(|(metering, local)| metering.progress(local, self.net.carried(local)));
            count(path, &mut progress);
            paths.push(progress);
        }
        paths
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(metering) = &mut self.metering {
            self.net.receive();
            metering.settle(&self.net);
        }
    }
}

/// Refuses an address that can only be listened at.
fn check_reachable(address: &SocketAddr) -> io::Result<()> {
    let why = if address.ip().is_unspecified() {
        "no machine has this address: name the one where the other end listens"
    } else if address.port() == 0 {
        "port 0 is none: name the one where the other end listens"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{address}: {why}")))
}

/// Code and reason of `failure` for the other end.
fn reason(failure: &Failure) -> (u32, String) {
    match failure {
        Failure::Interrupted => (code::INTERRUPTED, "interrupted".to_owned()),
        Failure::Stalled => (code::STALLED, "stalled".to_owned()),
        Failure::Again(files) => (code::AGAIN, files.clone()),
        Failure::Full => (code::FULL, "too many are here".to_owned()),
        other => (code::FAILED, other.told()),
    }
}

/// Whose transfer this is: see [`TransferId`].
fn identify(role: Role, path: &Path) -> TransferId {
    let mut task = blake3::Hasher::new();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for part in [rustix::system::uname().nodename().to_bytes(), path.as_os_str().as_bytes()] {
        task.update(&(part.len() as u64).to_be_bytes()).update(part);
    }
    task.update(&[u8::from(role == Role::Send)]);
    // Each has keys of its own, from the system's random numbers.
    let run = RandomState::new().hash_one(std::process::id());
    TransferId { task: task.finalize().to_hex()[..32].to_owned(), run: format!("{run:016x}") }
}

/// The address of the other end.
pub(crate) fn peer(connection: &QuicConnection) -> String {
    let route = connection.paths().find_map(|path| connection.route(path));
    let shown = |remote: SocketAddr| SocketAddr::new(remote.ip().to_canonical(), remote.port()).to_string();
    route.map(|route| shown(route.remote())).unwrap_or_default()
}

/// Why a connection is over.
pub(crate) fn lost(connection: &mut QuicConnection) -> Failure {
    let mut why = "closed".to_owned();
    while let Some(event) = connection.poll_event() {
        if let QuicEvent::Lost(text) = event {
            why = text;
        }
    }
    ended(connection, &why)
}

/// Reason for which a connection has ended, where noq's text is known.
pub(crate) fn ended(connection: &QuicConnection, why: &str) -> Failure {
    match connection.close_reason() {
        None if connection.is_refused() => Failure::Full,
        Some(close) if close.code == u64::from(code::INTERRUPTED) => Failure::OtherInterrupted,
        Some(close) if close.code == u64::from(code::FULL) => Failure::Full,
        Some(close) if close.code == u64::from(code::AGAIN) => Failure::Again(close.reason),
        Some(close) if close.code == u64::from(code::STALLED) => Failure::Stalled,
        Some(close) if close.code == u64::from(code::BUSY) => Failure::Busy,
        Some(close) if !close.reason.is_empty() => Failure::Refused(close.reason),
        _ => Failure::Lost(why.to_owned()),
    }
}
