//! `weft relay`: the end with one good link, which dials for the programs of its clients.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use noq_proto::ConnectionHandle;
use weftway_mux::Side;
use weftway_path::Instant;
use weftway_quic::udp::tls::Identity;
use weftway_quic::udp::token::KnownToken;
use weftway_relay::{ClientId, Policy, Refusal, Relay, RelayLimits};

use super::carried::Carried;
use super::client_rules::ClientRules;
use super::control_stream::AcceptedConnection;
use super::options::{Failure, Options, State, Watch};
use super::outcome::peer;
use super::seen::{ClientProgress, Seen};
use super::session::Session;
use super::setting::{RECORD, build};
use super::wire::Role;

/// Relays for all clients that show the token, until the user stops it. `policy` says which addresses they may reach, `rules`
/// how much each may have.
pub fn relay(policy: Policy, rules: ClientRules, mut options: Options, watch: Watch<'_>) -> Result<(), Failure> {
    build(&options.scheduler, None)?;
    weftway_cc::parse(&options.cc).map_err(|error| Failure::Spec(error.to_string()))?;
    let how = (options.scheduler.clone(), options.cc.clone());
    let limits = RelayLimits { record: RECORD as usize, ..RelayLimits::default() };
    let relay = Relay::new(policy, limits).map_err(Failure::Socket)?;
    let identities = options.identities.take();
    let (mut session, _) = Session::open(options, Role::Relay, std::path::Path::new("."), watch)?;
    let mut relaying =
        Relaying { relay, rules, clients: BTreeMap::new(), left: BTreeMap::new(), how, next: 0, identities };
    let outcome = relaying.run(&mut session);
    relaying.close(&mut session);
    outcome
}

/// How many clients there are at once. Each may fill the memory of [`weftway_mux::Limits`].
const MOST_CLIENTS: usize = 64;

/// A client.
struct Client {
    id: ClientId,
    carried: Carried,
    who: Who,
    /// The user knows that it has as many connections as it may.
    told_full: bool,
}

/// The token that a client has shown, and the address from which it came.
struct Who {
    shown: KnownToken,
    address: String,
}

impl Who {
    fn of(accepted: &AcceptedConnection) -> Self {
        Self { shown: accepted.shown.clone(), address: peer(&accepted.connection) }
    }

    /// What happened to it, for the user.
    fn tell(&self, what: &str) -> String {
        match &self.shown.name {
            Some(name) => format!("{name} {what} ({})", self.address),
            None => format!("{} {what}", self.address),
        }
    }
}

/// What clients of one name have had.
#[derive(Clone, Default)]
struct Had {
    progress: ClientProgress,
    refusals: BTreeMap<&'static str, u64>,
}

impl Had {
    /// Adds what one of them has had.
    fn add(&mut self, relay: &Relay, client: ClientId) {
        let [up, down] = relay.carried(client);
        (self.progress.up, self.progress.down) = (self.progress.up + up, self.progress.down + down);
        relay.refusals(client).for_each(|(kind, count)| *self.refusals.entry(kind.name()).or_default() += count);
    }
}

struct Relaying {
    relay: Relay,
    rules: ClientRules,
    clients: BTreeMap<ConnectionHandle, Client>,
    /// What clients have had that are gone, by name.
    left: BTreeMap<Option<String>, Had>,
    /// Scheduler and controller.
    how: (String, String),
    /// The number of the next client.
    next: u64,
    /// What becomes of the identity.
    identities: Option<Receiver<Identity>>,
}

impl Relaying {
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        session.progress.state = State::Relaying;
        session.tell()?;
        loop {
            self.receive(session);
            let now = session.net.now();
            while let Some(accepted) = session.accept_any(now) {
                let who = Who::of(&accepted);
                if self.clients.len() >= MOST_CLIENTS {
                    session.say(who.tell(&format!("has no place: {MOST_CLIENTS} clients are here")));
                    session.drop_because_of(accepted.connection, &Failure::Full);
                    continue;
                }
                let name = who.shown.name.as_deref();
                let carried = Carried::new(accepted, Side::Listening, &self.how, self.rules.memory(name))?;
                let id = ClientId(self.next);
                self.relay.limit(id, self.rules.limits(name));
                let client = Client { id, carried, who, told_full: false };
                self.next += 1;
                session.say(client.who.tell("is here"));
                self.clients.insert(client.carried.handle(), client);
            }
            self.serve(now, session);
            session.net.flush();
            if session.is_tick(now) {
                session.progress.clients = self.clients.len() as u64;
                session.progress.flows = self.clients.values().map(|client| self.relay.streams(client.id) as u64).sum();
                self.see(session);
                self.tell_full(session);
                session.tick(now)?;
                self.revoke(session);
            }
            let due = self.clients.values().map(|client| client.carried.next_event());
            let due = due.min().unwrap_or(Instant::NEVER).min(self.relay.next_event());
            session.wait(due, Some(self.relay.fd()));
        }
    }

    fn receive(&mut self, session: &mut Session<'_>) {
        let handles: Vec<ConnectionHandle> = self.clients.keys().copied().collect();
        let clients = &mut self.clients;
        session.receive_for(
            |handle| handles.binary_search(&handle).is_ok(),
            |now, net, handle, event, route| {
                if let Some(client) = clients.get_mut(&handle) {
                    client.carried.take(now, net, event, route);
                }
            },
        );
    }

    /// Each client's turn. One whose connection is over goes.
    fn serve(&mut self, now: Instant, session: &mut Session<'_>) {
        let mut over = Vec::new();
        for (&handle, client) in &mut self.clients {
            client.carried.on_timer(now, &mut session.net);
            let kept = client.carried.keep_policy(now, session);
            self.relay.turn(now, client.id, client.carried.mux());
            if let Err(failure) = kept.and_then(|()| client.carried.turn(now, &mut session.net)) {
                over.push((handle, failure));
            }
        }
        for (handle, failure) in over {
            let Some(client) = self.clients.remove(&handle) else { continue };
            self.leave(&client);
            session.say(match &failure {
                Failure::Lost(why) => format!("{}: {why}", client.who.tell("is gone")),
                Failure::OtherInterrupted => client.who.tell("has left"),
                other => format!("{}: {other}", client.who.tell("has failed")),
            });
            session.drop_because_of(client.carried.into_connection(), &failure);
        }
    }

    /// What clients have open, for the user.
    fn see(&mut self, session: &mut Session<'_>) {
        let mut seen = Seen::of(self.clients.values().flat_map(|client| self.relay.flows(client.id)));
        let mut by_client = self.left.clone();
        for client in self.clients.values() {
            let one = by_client.entry(client.who.shown.name.clone()).or_default();
            one.add(&self.relay, client.id);
            one.progress.connections += 1;
            one.progress.flows += self.relay.streams(client.id) as u64;
            one.progress.paths.extend(client.carried.paths(session));
        }
        for (name, one) in by_client {
            one.refusals.iter().for_each(|(kind, count)| *seen.refusals.entry(kind).or_default() += count);
            seen.by_client.push(ClientProgress { name, ..one.progress });
        }
        session.progress.seen = seen;
    }

    /// What a client has had is kept when it is gone.
    fn leave(&mut self, client: &Client) {
        self.left.entry(client.who.shown.name.clone()).or_default().add(&self.relay, client.id);
        self.relay.gone(client.id);
    }

    /// Tells once of each client that it has as many connections as it may.
    fn tell_full(&mut self, session: &mut Session<'_>) {
        for client in self.clients.values_mut().filter(|client| !client.told_full) {
            if self.relay.refusals(client.id).any(|(refusal, _)| refusal == Refusal::TooMany) {
                client.told_full = true;
                session.say(client.who.tell("has as many connections as it may: further ones are refused"));
            }
        }
    }

    /// Takes over what has become of the identity, and leaves the clients whose tokens are no longer valid.
    fn revoke(&mut self, session: &mut Session<'_>) {
        if !self.identities.as_ref().is_some_and(|identities| session.take_identity(identities)) {
            return;
        }
        let is_revoked = |client: &Client| !session.is_valid(&client.who.shown.token);
        let revoked = self.clients.iter().filter(|(_, client)| is_revoked(client)).map(|(&handle, _)| handle);
        for handle in revoked.collect::<Vec<_>>() {
            let Some(client) = self.clients.remove(&handle) else { continue };
            self.leave(&client);
            session.say(client.who.tell("has no valid token any more"));
            session.revoke(client.carried.into_connection());
        }
    }

    /// Every client learns that the relay stops.
    fn close(&mut self, session: &mut Session<'_>) {
        for (_, client) in std::mem::take(&mut self.clients) {
            self.relay.gone(client.id);
            session.drop_because_of(client.carried.into_connection(), &Failure::Interrupted);
        }
    }
}
