//! `weft relay`: the end with one good link, which dials for the programs of its clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::Receiver;

use noq_proto::ConnectionHandle;
use weftway_mux::Side;
use weftway_path::{Instant, Span};
use weftway_relay::{ClientId, DatagramCounts, Policy, Refusal, Relay, RelayLimits};
use weftway_udp::tls::Identity;
use weftway_udp::token::{KnownToken, Token};

use crate::connection::control_stream::AcceptedConnection;
use crate::connection::session::Session;
use crate::connection::session::peer;
use crate::connection::switching::take_over;
use crate::failure::Failure;
use crate::options::RelayOptions;
use crate::programs::carried::{Carried, SavedStreams};
use crate::programs::client_rules::{ClientRules, MOST_CLIENTS};
use crate::programs::memory::limits;
use crate::programs::proxying::{KEPT_FOR, is_loss};
use crate::progress::{State, Watch};
use crate::seen::{ClientProgress, Connections};
use crate::setting::{RECORD, Scheduling, build};
use crate::wire::{Role, SessionState};

/// Relays for all clients that show the token, until the user stops it. `policy` says which addresses they may reach,
/// `rules` how much each may have. Tunnels that ask the relay for names ask `names`, or the server that the system
/// asks.
pub fn relay(
    policy: Policy,
    rules: ClientRules,
    names: Option<SocketAddr>,
    options: RelayOptions,
    watch: Watch<'_>,
) -> Result<(), Failure> {
    let RelayOptions { listen, paths, scheduling, pipe_scheduler, pipes, identities, times } = options;
    scheduling.check()?;
    pipe_scheduler.as_deref().map(build).transpose()?;
    let limits = RelayLimits { record: RECORD as usize, ..RelayLimits::default() };
    let mut relay = Relay::new(policy, limits).map_err(Failure::Socket)?;
    relay.allow_pipes(pipes);
    if let Some(server) = names {
        relay.set_name_server(server);
    }
    let mut session = Session::listening(listen, &paths, times, (Role::Relay, Path::new(".")), watch)?;
    session.progress.scheduler = Some(scheduling.scheduler.clone());
    session.progress.cc = Some(scheduling.cc.clone());
    let mut relaying = Relaying { pipe_scheduler, ..Relaying::new(relay, rules, scheduling, identities) };
    let outcome = relaying.run(&mut session);
    relaying.close(&mut session);
    outcome
}

/// The bytes from each client that wait to be passed on may have this part of the machine's memory, unless a rule says
/// how much: as many clients as there may be have half of it together.
const MEMORY_PARTS: u64 = 128;

/// Most clients with lost connections whose streams are kept.
const MOST_WAITING: usize = 64;

/// A client.
struct Client {
    id: ClientId,
    carried: Carried,
    identity: ClientIdentity,
    session: Token,
    /// Something came from it since its last turn, or was changed.
    is_new: bool,
    /// True if the user knows that it has as many connections as it may.
    told_full: bool,
    /// The scheduler of pipes has taken over.
    is_for_pipes: bool,
}

impl Client {
    /// Returns true if it has something to do.
    fn is_due(&self, now: Instant, relay: &Relay) -> bool {
        self.is_new || self.carried.has_ready() || self.carried.next_event() <= now || relay.is_due(now, self.id)
    }

    /// It has pipes: their scheduler takes over, once.
    fn switch_for_pipes(&mut self, name: &str, session: &mut Session<'_>) -> Result<(), Failure> {
        if std::mem::replace(&mut self.is_for_pipes, true) {
            return Ok(());
        }
        session.say(self.identity.tell(&format!("has pipes: {name} schedules what goes to it")));
        self.carried.switch(name)
    }
}

/// A client whose connection was lost.
struct WaitingClient {
    id: ClientId,
    kept: SavedStreams,
    identity: ClientIdentity,
    session: Token,
    until: Instant,
}

/// Place of a session.
#[derive(Clone, Copy)]
enum SessionPlace {
    /// Among those that wait.
    Waiting(usize),
    /// Its client is here, as far as the relay knows.
    Here(ConnectionHandle),
}

/// The token that a client has shown, and the address from which it came.
struct ClientIdentity {
    shown: KnownToken,
    address: String,
}

impl ClientIdentity {
    fn of(accepted: &AcceptedConnection) -> Self {
        Self { shown: accepted.shown.clone(), address: peer(&accepted.connection) }
    }

    /// Message about it, for the user.
    fn tell(&self, what: &str) -> String {
        match &self.shown.name {
            Some(name) => format!("{name} {what} ({})", self.address),
            None => format!("{} {what}", self.address),
        }
    }
}

/// Totals of the clients of one name.
#[derive(Clone, Default)]
struct ClientTotals {
    progress: ClientProgress,
    refusals: BTreeMap<&'static str, u64>,
    datagrams: DatagramCounts,
}

impl ClientTotals {
    /// Adds what one of them has had.
    fn add(&mut self, relay: &Relay, client: ClientId) {
        let [up, down] = relay.carried(client);
        (self.progress.up, self.progress.down) = (self.progress.up + up, self.progress.down + down);
        relay.refusals(client).for_each(|(kind, count)| *self.refusals.entry(kind.name()).or_default() += count);
        self.datagrams += relay.datagrams(client);
    }
}

/// Totals of clients that are gone, by name.
#[derive(Default)]
struct ClosedClients(BTreeMap<Option<String>, ClientTotals>);

impl ClosedClients {
    /// A client is gone: what it has had is kept.
    fn add(&mut self, relay: &mut Relay, identity: &ClientIdentity, client: ClientId) {
        self.0.entry(identity.shown.name.clone()).or_default().add(relay, client);
        relay.gone(client);
    }
}

/// Room for one more client.
#[derive(Debug, PartialEq, Eq)]
enum Room<H> {
    /// There is a free place.
    Free,
    /// This client gives its place up.
    Of(H),
    /// There is none: why.
    None(String),
}

impl<H: Copy> Room<H> {
    /// Room for a client called `name`, which may have `most` of the relay's `all` places, beside the clients that are
    /// `here`. Where all places are taken, the name with the most clients gives up the place of its newest, unless it
    /// would then have fewer than `name`: so one pairing line cannot fill a relay, and two names do not take a place
    /// from each other in turns.
    fn of(here: &[(Option<&str>, ClientId, H)], name: Option<&str>, most: usize, all: usize) -> Self {
        let count = |name: Option<&str>| here.iter().filter(|(other, ..)| *other == name).count();
        let own = count(name);
        if own >= most {
            return Self::None(format!("its pairing line has the {most} that it may have"));
        }
        if here.len() < all {
            return Self::Free;
        }
        let most_of = here.iter().max_by_key(|(other, id, _)| (count(*other), *id));
        match most_of.filter(|(other, ..)| count(*other) >= own + 2) {
            Some(&(_, _, handle)) => Self::Of(handle),
            None => Self::None(format!("{all} clients are here")),
        }
    }
}

struct Relaying {
    relay: Relay,
    rules: ClientRules,
    clients: BTreeMap<ConnectionHandle, Client>,
    /// Totals of clients that are gone, by name.
    closed: ClosedClients,
    /// Clients that may come again, the longest first.
    waiting: Vec<WaitingClient>,
    scheduling: Scheduling,
    /// Scheduler that takes over for clients with pipes.
    pipe_scheduler: Option<String>,
    /// The number of the next client.
    next: u64,
    /// Rounds in which the clients had their turns.
    rounds: usize,
    /// Later states of the identity.
    identities: Option<Receiver<Identity>>,
}

impl Relaying {
    fn new(relay: Relay, rules: ClientRules, scheduling: Scheduling, identities: Option<Receiver<Identity>>) -> Self {
        let (clients, waiting, closed) = Default::default();
        let (pipe_scheduler, next, rounds) = Default::default();
        Self { relay, rules, clients, waiting, closed, scheduling, pipe_scheduler, next, rounds, identities }
    }

    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        session.progress.state = State::Relaying;
        session.tell()?;
        loop {
            self.receive(session);
            let now = session.net.now();
            while let Some(accepted) = session.accept_any(now) {
                self.admit(now, session, accepted)?;
            }
            self.serve(now, session);
            session.net.flush();
            if session.is_tick(now) {
                self.switch(session)?;
                session.progress.clients = self.clients.len() as u64;
                session.progress.flows = self.clients.values().map(|client| self.relay.streams(client.id) as u64).sum();
                self.see(session);
                self.tell_full(session);
                self.clients.values_mut().for_each(|client| client.carried.keep_alive(true, session.times.lost_after));
                session.tick(now)?;
                self.revoke(session);
            }
            let trips = self.clients.values().filter_map(|client| client.carried.trip(now));
            session.net.moderate(trips.min().unwrap_or(Span::ZERO));
            let due = self.clients.values().map(|client| client.carried.next_event());
            let due = due.min().unwrap_or(Instant::NEVER).min(self.relay.next_event());
            session.wait(due, Some(self.relay.fd()));
        }
    }

    /// A client comes, for the first time or again.
    fn admit(
        &mut self,
        now: Instant,
        session: &mut Session<'_>,
        mut accepted: Box<AcceptedConnection>,
    ) -> Result<(), Failure> {
        let identity = ClientIdentity::of(&accepted);
        let known =
            accepted.session.take().and_then(|wanted| Some((self.find(&wanted.id, &identity)?, wanted.received?)));
        let replaced = match known {
            Some((SessionPlace::Here(handle), _)) => Some(handle),
            _ => None,
        };
        match self.room(identity.shown.name.as_deref(), replaced) {
            Room::Free => {}
            Room::Of(handle) => {
                if let Some(Client { id, carried, identity, .. }) = self.clients.remove(&handle) {
                    self.closed.add(&mut self.relay, &identity, id);
                    session.say(identity.tell("gives its place to a client of another name"));
                    session.drop_because_of(carried.into_parts().0, &Failure::Full);
                }
            }
            Room::None(why) => {
                session.say(identity.tell(&format!("has no place: {why}")));
                session.drop_because_of(accepted.connection, &Failure::Full);
                return Ok(());
            }
        }
        let mut received = None;
        let (id, token, kept) = match known.and_then(|(place, theirs)| Some((self.take(session, place)?, theirs))) {
            Some(((id, token, mut kept), theirs)) => {
                received = Some(kept.mux.received().into());
                if let Err(failure) = kept.resume(now, &theirs.into()) {
                    self.closed.add(&mut self.relay, &identity, id);
                    session.say(format!("{}: {failure}", identity.tell("has failed")));
                    session.drop_because_of(accepted.connection, &failure);
                    return Ok(());
                }
                (id, token, kept)
            }
            None => {
                let no_random = || Failure::Spec("the system gives no random numbers".to_owned());
                let id = ClientId(self.next);
                self.next += 1;
                let name = identity.shown.name.as_deref();
                match self.of_name(name) {
                    Some(other) => self.relay.share(id, other),
                    None => self.relay.limit(id, self.rules.limits(name)),
                }
                (
                    id,
                    Token::generate().ok_or_else(no_random)?,
                    SavedStreams::new(Side::Listening, self.rules.memory(name, limits(MEMORY_PARTS)))?,
                )
            }
        };
        session.say(identity.tell(if received.is_some() { "is here again; what was open goes on" } else { "is here" }));
        // If it cannot be told, the connection is over, as its first turn finds.
        let _ = accepted.welcome(SessionState { id: token.text(), received });
        let carried = Carried::new(now, accepted, kept, &self.scheduling)?;
        let (handle, is_new, told_full, is_for_pipes) = (carried.handle(), true, false, false);
        let client = Client { id, carried, identity, session: token, is_new, told_full, is_for_pipes };
        self.clients.insert(handle, client);
        Ok(())
    }

    /// A client of this name, here or waiting.
    fn of_name(&self, name: Option<&str>) -> Option<ClientId> {
        let here = self.clients.values().map(|client| (client.id, &client.identity));
        let mut all = here.chain(self.waiting.iter().map(|waiting| (waiting.id, &waiting.identity)));
        all.find(|(_, identity)| identity.shown.name.as_deref() == name).map(|(id, _)| id)
    }

    /// Room for a client of this name. The connection `replaced` gives its own place up.
    fn room(&self, name: Option<&str>, replaced: Option<ConnectionHandle>) -> Room<ConnectionHandle> {
        let others = self.clients.iter().filter(|(handle, _)| Some(**handle) != replaced);
        let here = others.map(|(&handle, client)| (client.identity.shown.name.as_deref(), client.id, handle));
        Room::of(&here.collect::<Vec<_>>(), name, self.rules.places(name), MOST_CLIENTS)
    }

    /// Finds the session `wanted`, if it is that of a client with the same token. Its connection may be here: the
    /// client knows before the relay that it is lost.
    fn find(&self, wanted: &str, identity: &ClientIdentity) -> Option<SessionPlace> {
        let is_wanted = |token: &Token, other: &ClientIdentity| {
            token.is(wanted) && other.shown.token.is(&identity.shown.token.text())
        };
        let waiting = self.waiting.iter().position(|waiting| is_wanted(&waiting.session, &waiting.identity));
        let here = || self.clients.iter().find(|(_, client)| is_wanted(&client.session, &client.identity));
        waiting.map(SessionPlace::Waiting).or_else(|| here().map(|(&handle, _)| SessionPlace::Here(handle)))
    }

    /// Takes a session from its connection, if it has one still.
    fn take(&mut self, session: &mut Session<'_>, place: SessionPlace) -> Option<(ClientId, Token, SavedStreams)> {
        match place {
            SessionPlace::Waiting(at) => {
                let WaitingClient { id, session, kept, .. } = self.waiting.remove(at);
                Some((id, session, kept))
            }
            SessionPlace::Here(handle) => {
                let Client { id, carried, session: token, .. } = self.clients.remove(&handle)?;
                let (connection, kept) = carried.into_parts();
                session.supersede(connection);
                Some((id, token, kept))
            }
        }
    }

    /// The connection of a client is lost: its streams wait for another one. Of clients with the same token one waits.
    fn keep(&mut self, waiting: WaitingClient) {
        let shown = waiting.identity.shown.token.text();
        let same = self.waiting.iter().position(|other| other.identity.shown.token.is(&shown));
        let replaced = same.or((self.waiting.len() >= MOST_WAITING).then_some(0));
        if let Some(at) = replaced {
            let gone = self.waiting.remove(at);
            self.closed.add(&mut self.relay, &gone.identity, gone.id);
        }
        self.waiting.push(waiting);
    }

    /// Serves clients that wait: their sockets are read and written as far as the streams take it, for a while.
    fn serve_waiting(&mut self, now: Instant) {
        let (relay, closed) = (&mut self.relay, &mut self.closed);
        self.waiting.retain_mut(|waiting| {
            let stays = now < waiting.until;
            if stays && (relay.is_due(now, waiting.id) || waiting.kept.mux.has_ready()) {
                relay.turn(now, waiting.id, &mut waiting.kept.mux);
            } else if !stays {
                closed.add(relay, &waiting.identity, waiting.id);
            }
            stays
        });
    }

    fn receive(&mut self, session: &mut Session<'_>) {
        let handles: Vec<ConnectionHandle> = self.clients.keys().copied().collect();
        let clients = &mut self.clients;
        session.receive_for(
            |handle| handles.binary_search(&handle).is_ok(),
            |now, net, handle, event, route| {
                if let Some(client) = clients.get_mut(&handle) {
                    client.is_new = true;
                    client.carried.take(now, net, event, route);
                }
            },
        );
    }

    /// The turns of those clients that have something to do. One whose connection is over goes.
    fn serve(&mut self, now: Instant, session: &mut Session<'_>) {
        self.relay.collect(now);
        let mut over = Vec::new();
        // They take turns at being first: the first may use up what the clients of one name have together.
        let mut handles: Vec<ConnectionHandle> = self.clients.keys().copied().collect();
        self.rounds = self.rounds.wrapping_add(1);
        let first = self.rounds % handles.len().max(1);
        handles.rotate_left(first);
        for handle in handles {
            let Some(client) = self.clients.get_mut(&handle) else { continue };
            if !client.is_due(now, &self.relay) {
                continue;
            }
            client.is_new = false;
            client.carried.on_timer(now, &mut session.net);
            let kept = client.carried.keep_policy(now, session);
            self.relay.turn(now, client.id, client.carried.mux());
            let switched = match &self.pipe_scheduler {
                Some(name) if self.relay.has_pipes(client.id) => client.switch_for_pipes(name, session),
                _ => Ok(()),
            };
            let done = kept.and(switched).and_then(|()| client.carried.turn(now, &mut session.net));
            if let Err(failure) = done {
                over.push((handle, failure));
            }
        }
        for (handle, failure) in over {
            let Some(Client { id, carried, identity, session: token, .. }) = self.clients.remove(&handle) else {
                continue;
            };
            let (connection, kept) = carried.into_parts();
            session.say(match &failure {
                Failure::Lost(why) => format!("{}: {why}", identity.tell("is gone")),
                Failure::OtherInterrupted => identity.tell("has left"),
                other => format!("{}: {other}", identity.tell("has failed")),
            });
            session.drop_because_of(connection, &failure);
            if is_loss(&failure) {
                self.keep(WaitingClient { id, kept, identity, session: token, until: now + KEPT_FOR });
            } else {
                self.closed.add(&mut self.relay, &identity, id);
            }
        }
        self.serve_waiting(now);
    }

    /// Shows the connections of clients to the user.
    fn see(&mut self, session: &mut Session<'_>) {
        let here = self.clients.values().map(|client| (client.id, &client.identity, Some(&client.carried)));
        let waiting = self.waiting.iter().map(|waiting| (waiting.id, &waiting.identity, None));
        let all: Vec<_> = here.chain(waiting).collect();
        let flows = all.iter().flat_map(|&(id, _, carried)| self.relay.flows(id).map(move |flow| (carried, flow)));
        let now = session.net.now();
        let mut seen = Connections::of(
            flows,
            |carried, id| carried.map_or_else(Vec::new, |carried: &Carried| carried.flow_paths(session, id)),
            |carried, id| carried.map_or(0, |carried: &Carried| carried.left_unread(now, id)),
        );
        all.iter().filter_map(|&(_, _, carried)| carried).for_each(|carried| carried.add_memory(&mut seen.unread));
        let mut by_client = self.closed.0.clone();
        for (id, identity, carried) in all {
            let one = by_client.entry(identity.shown.name.clone()).or_default();
            one.add(&self.relay, id);
            one.progress.connections += u64::from(carried.is_some());
            one.progress.flows += self.relay.streams(id) as u64;
            one.progress.paths.extend(carried.into_iter().flat_map(|carried| carried.paths(session)));
        }
        let mut datagrams = DatagramCounts::default();
        for (name, one) in by_client {
            datagrams += one.datagrams;
            one.refusals.iter().for_each(|(kind, count)| *seen.refusals.entry(kind).or_default() += count);
            seen.by_client.push(ClientProgress { name, ..one.progress });
        }
        session.progress.connections = Connections { drops: datagrams.drops(), ..seen };
    }

    /// Tells once in each connection of a client that it has as many of its own as it may.
    fn tell_full(&mut self, session: &mut Session<'_>) {
        for client in self.clients.values_mut().filter(|client| !client.told_full) {
            client.told_full = self.relay.refusals(client.id).any(|(refusal, _)| refusal == Refusal::TooMany);
            if client.told_full {
                session.say(client.identity.tell("has as many connections as it may: further ones are refused"));
            }
        }
    }

    /// Other schedulers take over, if the user said so: one for each client that is here, and for those to come, pipes
    /// or not.
    fn switch(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Self { clients, pipe_scheduler, .. } = self;
        take_over(self.scheduling.switch.as_ref(), &mut self.scheduling.scheduler, session, |name| {
            build(name)?;
            *pipe_scheduler = None;
            clients.values_mut().try_for_each(|client| {
                client.is_new = true;
                client.carried.switch(name)
            })
        })
    }

    /// Takes over what has become of the identity, and leaves the clients whose tokens are no longer valid.
    fn revoke(&mut self, session: &mut Session<'_>) {
        if !self.identities.as_ref().is_some_and(|identities| session.take_identity(identities)) {
            return;
        }
        let is_revoked = |client: &Client| !session.is_valid(&client.identity.shown.token);
        let revoked = self.clients.iter().filter(|(_, client)| is_revoked(client)).map(|(&handle, _)| handle);
        for handle in revoked.collect::<Vec<_>>() {
            let Some(client) = self.clients.remove(&handle) else { continue };
            self.closed.add(&mut self.relay, &client.identity, client.id);
            session.say(client.identity.tell("has no valid token any more"));
            session.revoke(client.carried.into_parts().0);
        }
        let (relay, closed) = (&mut self.relay, &mut self.closed);
        self.waiting.retain(|waiting| {
            let stays = session.is_valid(&waiting.identity.shown.token);
            if !stays {
                closed.add(relay, &waiting.identity, waiting.id);
            }
            stays
        });
    }

    /// Every client learns that the relay stops.
    fn close(&mut self, session: &mut Session<'_>) {
        for (_, client) in std::mem::take(&mut self.clients) {
            self.relay.gone(client.id);
            session.drop_because_of(client.carried.into_parts().0, &Failure::Interrupted);
        }
        std::mem::take(&mut self.waiting).into_iter().for_each(|waiting| self.relay.gone(waiting.id));
    }
}

#[cfg(test)]
mod tests {
    use weftway_mux::Limits;

    use super::*;

    fn relaying() -> Relaying {
        let relay = Relay::new(Policy::default(), RelayLimits::default()).unwrap();
        Relaying::new(relay, ClientRules::default(), Scheduling::default(), None)
    }

    fn waiting(number: u64, token: &Token, until: Instant) -> WaitingClient {
        let identity =
            ClientIdentity { shown: KnownToken { name: None, token: token.clone() }, address: String::new() };
        let (kept, session) =
            (SavedStreams::new(Side::Listening, Limits::default()).unwrap(), Token::generate().unwrap());
        WaitingClient { id: ClientId(number), kept, identity, session, until }
    }

    #[test]
    fn the_name_that_has_most_makes_room_for_one_that_has_less() {
        let (phone, laptop) = (Some("phone"), Some("laptop"));
        let room = |names: &[Option<&str>], name, most| {
            let here: Vec<_> = (0..).zip(names).map(|(number, name)| (*name, ClientId(number), number)).collect();
            Room::of(&here, name, most, 4)
        };
        assert_eq!(room(&[phone; 3], phone, 64), Room::Free);
        assert!(matches!(room(&[phone; 4], phone, 64), Room::None(_)), "of its own it takes none");
        assert_eq!(room(&[phone, phone, phone, phone], None, 64), Room::Of(3), "the newest goes");
        assert_eq!(room(&[phone, phone, phone, None], None, 64), Room::Of(2));
        assert!(matches!(room(&[phone, phone, None, None], None, 64), Room::None(_)), "they have as many");
        assert!(
            matches!(room(&[phone, phone, None, laptop], laptop, 64), Room::None(_)),
            "it would be one more than phone"
        );
        assert_eq!(room(&[phone, phone, None, None], laptop, 64), Room::Of(3));
        assert!(matches!(room(&[phone], phone, 1), Room::None(why) if why.contains("the 1 that it may have")));
    }

    #[test]
    fn those_that_wait_are_few_one_for_each_token_and_not_for_long() {
        let (mut relaying, until) = (relaying(), Instant::ZERO + KEPT_FOR);
        let tokens: Vec<Token> = (0..MOST_WAITING + 6).map(|_| Token::generate().unwrap()).collect();
        for (number, token) in (0..).zip(&tokens) {
            relaying.keep(waiting(number, token, until));
        }
        let ids = |relaying: &Relaying| relaying.waiting.iter().map(|waiting| waiting.id.0).collect::<Vec<_>>();
        assert_eq!(ids(&relaying), (6..MOST_WAITING as u64 + 6).collect::<Vec<_>>());
        // Another one with the same token takes the place of the older.
        relaying.keep(waiting(99, &tokens[8], until + Span::from_secs(1)));
        assert_eq!((ids(&relaying).contains(&8), relaying.waiting.len()), (false, MOST_WAITING));
        relaying.serve_waiting(Instant::ZERO + (KEPT_FOR - Span::from_millis(1)));
        assert_eq!(relaying.waiting.len(), MOST_WAITING);
        relaying.serve_waiting(until);
        assert_eq!(ids(&relaying), [99]);
    }

    #[test]
    fn a_session_is_found_by_its_own_name_and_token() {
        let mut relaying = relaying();
        let (token, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        let kept = waiting(1, &token, Instant::NEVER);
        let session = kept.session.text();
        relaying.keep(kept);
        let identity = |token: &Token| ClientIdentity {
            shown: KnownToken { name: None, token: token.clone() },
            address: String::new(),
        };
        assert!(matches!(relaying.find(&session, &identity(&token)), Some(SessionPlace::Waiting(0))));
        assert!(relaying.find(&session, &identity(&other)).is_none());
        assert!(relaying.find(&token.text(), &identity(&token)).is_none());
    }
}
