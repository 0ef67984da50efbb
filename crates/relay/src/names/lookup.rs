//! The lookup of one name: which servers are asked when, and what their answers come to.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

use mio::net::{TcpStream, UdpSocket};
use mio::{Interest, Registry, Token};
use weftway_path::{Instant, Span};

use super::files::{MOST_SERVERS, NameConfig};
use super::message::{FAMILIES, Family, Reply, question, reply};
use crate::socket::is_scarce;
use crate::udp::any_like;

/// The time after which a lookup is given up.
const PATIENCE: Span = Span::from_secs(3);
/// The time after which a question is asked again. Servers that have to ask others answer within it, nearly always.
const AGAIN: Span = Span::from_secs(1);
/// The time that addresses of IPv4 wait for those of IPv6 (RFC 8305, section 3).
const RESOLUTION_DELAY: Span = Span::from_millis(50);
/// The time after which a socket is opened again where the process had no descriptor left.
const SCARCE: Span = Span::from_millis(100);
/// The longest datagram without EDNS (RFC 1035, section 4.2.1); some servers do not keep to it.
const LONGEST: usize = 4096;

/// The most sockets of a lookup: for each server one of UDP, and one of TCP for each family.
pub const MOST_SOCKETS: usize = 16;
const OF_SERVER: usize = 1 + FAMILIES.len();
const _: () = assert!(MOST_SERVERS * OF_SERVER <= MOST_SOCKETS, "each socket has a token of its own");

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// These addresses, the best first. There may be `more`, which another answer brings.
    Addresses {
        /// The addresses known now.
        addresses: Vec<IpAddr>,
        /// True if another answer comes, with all of them.
        more: bool,
    },
    /// There is no such name, it has no address, or its servers cannot tell.
    Nothing,
    /// No server has answered in time.
    Silence,
}

/// The state that all lookups share: numbers for questions, and which servers are silent.
pub struct Shared {
    random: Box<dyn Fn(u64) -> u16 + Send>,
    questions: u64,
    /// The time since which each server has answered no question.
    silent_since: [Option<Instant>; MOST_SERVERS],
}

impl Shared {
    /// The state at first, with numbers that nobody can guess.
    pub fn new(random: impl Fn(u64) -> u16 + Send + 'static) -> Self {
        Self { random: Box::new(random), questions: 0, silent_since: Default::default() }
    }

    /// Forgets which servers are silent: there are other ones.
    pub fn forget_servers(&mut self) {
        self.silent_since = Default::default();
    }

    fn next_id(&mut self) -> u16 {
        self.questions += 1;
        (self.random)(self.questions)
    }

    fn asked(&mut self, now: Instant, server: usize) {
        self.silent_since[server].get_or_insert(now);
    }

    fn heard(&mut self, server: usize) {
        self.silent_since[server] = None;
    }

    fn is_silent(&self, now: Instant, server: usize) -> bool {
        self.silent_since[server].is_some_and(|since| since + AGAIN <= now)
    }
}

/// A question to a server over TCP, with the length before it.
struct Tcp {
    stream: TcpStream,
    out: Vec<u8>,
    received: Vec<u8>,
}

/// The questions to one server.
struct Exchange {
    udp: UdpSocket,
    ids: [u16; 2],
    /// True for each question that is answered, or that this server cannot answer.
    done: [bool; 2],
    tcp: [Option<Tcp>; 2],
}

/// The lookup of a name.
pub struct Lookup {
    /// The name that is asked for: as it stands, or with a search domain. Others come behind.
    name: String,
    next_names: VecDeque<String>,
    /// The addresses of each family, once they are known. There are none where no server can tell.
    families: [Option<Vec<IpAddr>>; 2],
    exchanges: [Option<Exchange>; MOST_SERVERS],
    /// Servers that there is no way to.
    unreachable: [bool; MOST_SERVERS],
    ready: [bool; MOST_SOCKETS],
    began: Instant,
    next_round: Instant,
    rounds: u32,
    /// The time since which addresses of IPv4 wait for those of IPv6.
    waits_since: Option<Instant>,
    /// True once the addresses known so far were told.
    told: bool,
    /// The time until which the addresses are valid, as the servers say.
    lives_until: Instant,
}

impl Lookup {
    /// Begins a lookup of `name`, in small letters.
    pub fn new(now: Instant, name: &str, config: &NameConfig) -> Self {
        let mut names = candidates(name, config);
        Self {
            name: names.pop_front().unwrap_or_default(),
            next_names: names,
            families: [None, None],
            exchanges: Default::default(),
            unreachable: [false; MOST_SERVERS],
            ready: [false; MOST_SOCKETS],
            began: now,
            next_round: now,
            rounds: 0,
            waits_since: None,
            told: false,
            lives_until: Instant::NEVER,
        }
    }

    /// The time until which the addresses are valid. None if they are not to be kept.
    pub fn lives_until(&self) -> Option<Instant> {
        Some(self.lives_until).filter(|at| !at.is_never())
    }

    /// Takes note that its socket `number` has something to do.
    pub fn note(&mut self, number: usize) {
        self.ready[number] = true;
    }

    /// The time at which its turn is due.
    pub fn next_event(&self) -> Instant {
        let told_at = self.waits_since.filter(|_| !self.told).map_or(Instant::NEVER, |at| at + RESOLUTION_DELAY);
        self.next_round.min(self.began + PATIENCE).min(told_at)
    }

    /// Addresses that are to be told before all are known, once.
    pub fn news(&mut self, now: Instant) -> Option<Found> {
        let has = |known: &Option<Vec<IpAddr>>| known.as_ref().is_some_and(|addresses| !addresses.is_empty());
        let is_due = has(&self.families[Family::V6.index()])
            || has(&self.families[Family::V4.index()])
                && *self.waits_since.get_or_insert(now) + RESOLUTION_DELAY <= now;
        if !is_due || self.told {
            return None;
        }
        self.told = true;
        self.told()
    }

    /// Addresses that were told before all are known.
    pub fn told(&self) -> Option<Found> {
        self.told.then(|| Found::Addresses { addresses: self.addresses(), more: true })
    }

    /// The result if the lookup ends now: the addresses known so far.
    pub fn give_up(&self) -> Found {
        let addresses = self.addresses();
        if addresses.is_empty() { Found::Silence } else { all(addresses) }
    }

    /// Goes on as far as it can without waiting. Its sockets have the tokens from `first` on.
    pub fn turn(
        &mut self,
        now: Instant,
        servers: &[SocketAddr],
        (registry, first): (&Registry, Token),
        shared: &mut Shared,
    ) -> Option<Found> {
        self.take(now, servers, (registry, first), shared);
        loop {
            if now >= self.began + PATIENCE {
                return Some(self.give_up());
            }
            if self.next_round <= now {
                self.ask(now, servers, (registry, first), shared);
            }
            if self.families.iter().any(Option::is_none) {
                return None;
            }
            let addresses = self.addresses();
            if !addresses.is_empty() {
                return Some(all(addresses));
            }
            // Where no server could tell, too: those of one search domain may fail, and the name as it stands is there.
            match self.next_names.pop_front() {
                Some(name) => self.begin(now, name),
                None => return Some(Found::Nothing),
            }
        }
    }

    /// Begins to ask for another name.
    fn begin(&mut self, now: Instant, name: String) {
        self.name = name;
        self.families = [None, None];
        self.exchanges = Default::default();
        self.unreachable = [false; MOST_SERVERS];
        (self.next_round, self.rounds) = (now, 0);
        self.lives_until = Instant::NEVER;
    }

    /// The addresses known so far, those of IPv6 first.
    fn addresses(&self) -> Vec<IpAddr> {
        let known = |family: Family| self.families[family.index()].as_deref().unwrap_or_default();
        [known(Family::V6), known(Family::V4)].concat()
    }

    /// Asks the servers whose turn it is.
    fn ask(&mut self, now: Instant, servers: &[SocketAddr], at: (&Registry, Token), shared: &mut Shared) {
        let count = servers.len().min(MOST_SERVERS);
        let first_that_answers = (0..count).find(|&server| !shared.is_silent(now, server));
        let last = first_that_answers.filter(|_| self.rounds == 0).map_or(count, |server| server + 1);
        (self.rounds, self.next_round) = (self.rounds + 1, now + AGAIN);
        for (server, &address) in servers.iter().enumerate().take(last) {
            self.ask_server(now, (server, address), at, shared);
        }
        self.follow(now, servers, at, shared);
    }

    /// Asks a server for what is not known yet.
    fn ask_server(
        &mut self,
        now: Instant,
        (server, address): (usize, SocketAddr),
        (registry, first): (&Registry, Token),
        shared: &mut Shared,
    ) {
        if self.exchanges[server].is_none() {
            let token = Token(first.0 + server * OF_SERVER);
            match open(address, registry, token) {
                Ok(udp) => {
                    let ids = [shared.next_id(), shared.next_id()];
                    self.exchanges[server] = Some(Exchange { udp, ids, done: [false; 2], tcp: [None, None] });
                }
                Err(error) if is_scarce(&error) => {
                    self.next_round = now + SCARCE;
                    self.rounds = self.rounds.saturating_sub(1);
                    return;
                }
                Err(_) => {
                    self.unreachable[server] = true;
                    return;
                }
            }
        }
        let Some(exchange) = &mut self.exchanges[server] else { return };
        for family in FAMILIES {
            let at = family.index();
            let is_open = self.families[at].is_none() && !exchange.done[at];
            if !is_open || exchange.tcp[at].is_some() {
                continue;
            }
            let sent = question(exchange.ids[at], &self.name, family).map(|bytes| exchange.udp.send(&bytes));
            match sent {
                Some(Ok(_)) => shared.asked(now, server),
                // What waits in the kernel's queue is sent again in the next round.
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                Some(Err(_)) | None => exchange.done[at] = true,
            }
        }
    }

    /// Takes in what its sockets have brought.
    fn take(&mut self, now: Instant, servers: &[SocketAddr], at: (&Registry, Token), shared: &mut Shared) {
        for server in 0..MOST_SERVERS {
            for number in server * OF_SERVER..(server + 1) * OF_SERVER {
                if !std::mem::take(&mut self.ready[number]) {
                    continue;
                }
                match number % OF_SERVER {
                    0 => self.take_datagrams(now, (server, servers.get(server).copied()), at, shared),
                    of_tcp => self.take_stream(now, server, FAMILIES[of_tcp - 1], shared),
                }
            }
        }
        self.follow(now, servers, at, shared);
    }

    fn take_datagrams(
        &mut self,
        now: Instant,
        (server, address): (usize, Option<SocketAddr>),
        (registry, first): (&Registry, Token),
        shared: &mut Shared,
    ) {
        let mut buffer = [0; LONGEST];
        loop {
            let Some(exchange) = &mut self.exchanges[server] else { return };
            let received = match exchange.udp.recv(&mut buffer) {
                Ok(count) => &buffer[..count],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nobody listens there.
                Err(_) => {
                    exchange.done = [true; 2];
                    shared.heard(server);
                    return;
                }
            };
            let reply_of = |family: Family| {
                let reply = reply(received, exchange.ids[family.index()], &self.name, family)?;
                Some((family, reply))
            };
            let Some((family, reply)) = FAMILIES.into_iter().find_map(reply_of) else { continue };
            shared.heard(server);
            if reply != Reply::Truncated {
                self.settle(now, server, family, reply);
                continue;
            }
            let token = Token(first.0 + server * OF_SERVER + 1 + family.index());
            let question = question(exchange.ids[family.index()], &self.name, family);
            let tcp =
                address.zip(question).and_then(|(address, bytes)| Tcp::open(address, &bytes, registry, token).ok());
            exchange.done[family.index()] = tcp.is_none();
            exchange.tcp[family.index()] = tcp;
        }
    }

    fn take_stream(&mut self, now: Instant, server: usize, family: Family, shared: &mut Shared) {
        let Some(exchange) = &mut self.exchanges[server] else { return };
        let Some(tcp) = &mut exchange.tcp[family.index()] else { return };
        let message = match tcp.turn() {
            Ok(None) => return,
            Ok(Some(message)) => Some(message),
            Err(_) => None,
        };
        exchange.tcp[family.index()] = None;
        let reply = message.and_then(|bytes| reply(&bytes, exchange.ids[family.index()], &self.name, family));
        shared.heard(server);
        self.settle(now, server, family, reply.filter(|reply| *reply != Reply::Truncated).unwrap_or(Reply::CannotTell));
    }

    /// Takes in the answer of a server.
    fn settle(&mut self, now: Instant, server: usize, family: Family, reply: Reply) {
        let Some(exchange) = &mut self.exchanges[server] else { return };
        exchange.done[family.index()] = true;
        if self.families[family.index()].is_some() {
            return;
        }
        match reply {
            Reply::Addresses(addresses, seconds) => {
                if !addresses.is_empty() {
                    self.lives_until = self.lives_until.min(now + Span::from_secs(seconds.into()));
                }
                self.families[family.index()] = Some(addresses);
            }
            Reply::NoName => {
                self.families[Family::V6.index()].get_or_insert_default();
                // Servers that know no AAAA say so of names that have addresses of IPv4 (RFC 4074, section 4.2).
                if family == Family::V4 {
                    self.families[family.index()] = Some(vec![]);
                }
            }
            Reply::Truncated | Reply::CannotTell => {}
        }
    }

    /// Asks the next server where all that were asked cannot tell. Behind the last one there is nothing to wait for.
    fn follow(&mut self, now: Instant, servers: &[SocketAddr], at: (&Registry, Token), shared: &mut Shared) {
        let count = servers.len().min(MOST_SERVERS);
        for family in FAMILIES {
            let number = family.index();
            while self.rounds > 0 && self.families[number].is_none() {
                let mut asked = self.exchanges.iter().flatten();
                if asked.any(|exchange| !exchange.done[number]) {
                    break;
                }
                let mut left = (0..count).filter(|&at| self.exchanges[at].is_none() && !self.unreachable[at]);
                let Some(server) = left.next() else {
                    self.families[number] = Some(vec![]);
                    break;
                };
                self.ask_server(now, (server, servers[server]), at, shared);
                if self.exchanges[server].is_none() && !self.unreachable[server] {
                    // No descriptor is left: later.
                    break;
                }
            }
        }
    }
}

fn all(addresses: Vec<IpAddr>) -> Found {
    Found::Addresses { addresses, more: false }
}

/// The names that are asked for, in turn: with few dots in the search domains first, with more as it stands first
/// (resolv.conf(5)).
fn candidates(name: &str, config: &NameConfig) -> VecDeque<String> {
    if let Some(whole) = name.strip_suffix('.') {
        return [whole.to_owned()].into();
    }
    let mut names: VecDeque<String> = config.search.iter().map(|domain| format!("{name}.{domain}")).collect();
    let dots = name.bytes().filter(|&byte| byte == b'.').count();
    if dots >= config.dots {
        names.push_front(name.to_owned());
    } else {
        names.push_back(name.to_owned());
    }
    names
}

fn open(server: SocketAddr, registry: &Registry, token: Token) -> io::Result<UdpSocket> {
    // A port of its own, which nobody can guess, and nobody else is heard there.
    let mut socket = UdpSocket::bind((any_like(server), 0).into())?;
    socket.connect(server)?;
    registry.register(&mut socket, token, Interest::READABLE)?;
    Ok(socket)
}

impl Tcp {
    fn open(server: SocketAddr, question: &[u8], registry: &Registry, token: Token) -> io::Result<Self> {
        let mut stream = TcpStream::connect(server)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let length = (question.len() as u16).to_be_bytes();
        Ok(Self { stream, out: [&length[..], question].concat(), received: Vec::new() })
    }

    /// Goes on as far as it can without waiting: the answer, once all of it is there.
    fn turn(&mut self) -> io::Result<Option<Vec<u8>>> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        let mut buffer = [0; LONGEST];
        loop {
            if let Some((length, rest)) = self.received.split_first_chunk()
                && let Some(message) = rest.get(..u16::from_be_bytes(*length).into())
            {
                return Ok(Some(message.to_vec()));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}
