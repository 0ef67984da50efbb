//! Looks names up: asks the servers of names of this machine, and keeps their answers for as long as they say.
//!
//! # Why not the system's resolver, nor a library's
//!
//! The system's resolver (getaddrinfo(3)) waits, so each name needs a thread, and a few names whose servers are silent
//! take all of them. Of the libraries, hickory-resolver 0.26 brings 49 more crates (a cache with locks, tables of
//! Unicode, URLs; 79 CPU seconds to compile them all without optimising), and the resolver of the crate `domain` nearly
//! as many; both want a runtime of their own beside this one. A stub resolver is small: it asks, waits, and asks again.
//! So the parts that read and write are taken from libraries (messages from smoltcp, which `weft tunnel` has anyway;
//! resolv.conf(5) from resolv-conf), and the waiting is done here, on sockets in a poller like all others. Whatever
//! else nsswitch.conf(5) names is not asked.
//!
//! # What it does
//!
//! A name of /etc/hosts and `localhost` (RFC 6761) are known at once; both files are read again when they change.
//! Others are asked for, A and AAAA side by side, by UDP from a port of their own: at first the first server, with the
//! next ones beside it while it answers nobody; all of them after a second, and after two. A server that says that it
//! cannot tell is followed by the next at once, an answer that is cut short by the same question over TCP (RFC 7766).
//! Search domains are tried as resolv.conf(5) says; one whose servers cannot tell is followed by the next, as in the C
//! library. After three seconds it is over.
//!
//! Addresses are told as they come: those of IPv6 at once, those of IPv4 alone when those of IPv6 have not come for 50
//! ms more (RFC 8305, section 3).
//!
//! # Who has to wait
//!
//! At most [`RelayLimits::names`](crate::RelayLimits::names) names are looked up at once, and a quarter of them for one
//! client. Where there is no room, a new name replaces one that has no answer: the oldest of the client that looks up
//! most, if that is more than the new name's client does; else the oldest of its own client, once that has been silent
//! for a second. So names whose servers are silent hold up no others.

mod files;
mod lookup;
mod message;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use mio::Token;
use slab::Slab;
use weftway_path::{Instant, Span};

use self::files::Files;
pub use self::files::{NameConfig, NameSource, server_of_system};
pub use self::lookup::Found;
use self::lookup::{Lookup, MOST_SOCKETS, Shared};
pub use self::message::fuzz;
use crate::client::ClientId;
use crate::recent::Recent;
use crate::socket::Poller;
use crate::wakes::Timers;

/// The most names whose addresses are kept.
const MOST_KNOWN: usize = 1024;
/// The longest time that addresses are kept, whatever their servers say.
const KEPT: Span = Span::from_secs(3600);
/// The time after which a name that is not answered makes room for another one of its client: most that are ever
/// answered are by then.
const SILENT: Span = Span::from_secs(1);

/// An answer.
#[derive(Debug)]
pub struct Answer<T> {
    /// The tag that came with the name.
    pub tag: T,
    /// The result.
    pub found: Found,
}

/// The addresses of a name, and until when they are valid.
struct Known {
    addresses: Vec<IpAddr>,
    until: Instant,
}

/// A name that is looked up, and those who asked for it.
struct Running<T> {
    /// The client whose place it has.
    owner: ClientId,
    name: String,
    since: Instant,
    tags: Vec<T>,
    lookup: Lookup,
}

/// Names that are looked up. `T` comes back with each answer.
pub struct Resolver<T> {
    poller: Poller,
    files: Files,
    most: usize,
    running: Slab<Running<T>>,
    by_name: HashMap<String, usize>,
    owned: HashMap<ClientId, usize>,
    timers: Timers,
    known: Recent<String, Known>,
    answers: VecDeque<Answer<T>>,
    shared: Shared,
}

impl<T: Clone> Resolver<T> {
    /// A resolver that looks up at most `most` names at once.
    pub fn new(source: NameSource, most: usize) -> io::Result<Self> {
        let random = RandomState::new();
        Ok(Self {
            poller: Poller::new()?,
            files: Files::new(source),
            most: most.max(1),
            running: Slab::new(),
            by_name: HashMap::new(),
            owned: HashMap::new(),
            timers: Timers::default(),
            known: Recent::new(MOST_KNOWN),
            answers: VecDeque::new(),
            shared: Shared::new(move |number| random.hash_one(number) as u16),
        })
    }

    /// Becomes readable when a server has answered: for [`Resolver::turn`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.poller.registry().as_fd()
    }

    /// The time at which a turn is due, whatever the servers do.
    pub fn next_event(&self) -> Instant {
        if self.answers.is_empty() { self.timers.next() } else { Instant::ZERO }
    }

    /// The next answer that has come.
    pub fn next_answer(&mut self) -> Option<Answer<T>> {
        self.answers.pop_front()
    }

    /// The number of names that are looked up.
    #[cfg(test)]
    fn running(&self) -> usize {
        self.running.len()
    }

    /// Looks a name up for `owner`. False if there is no room for it.
    pub fn ask(&mut self, now: Instant, owner: ClientId, tag: &T, name: &str) -> bool {
        let key = name.to_ascii_lowercase();
        if self.files.refresh(now) {
            self.known = Recent::new(MOST_KNOWN);
            self.shared.forget_servers();
        }
        if let Some(found) = self.at_once(now, &key) {
            self.answers.push_back(Answer { tag: tag.clone(), found });
            return true;
        }
        if let Some(running) = self.by_name.get(&key).and_then(|&at| self.running.get_mut(at)) {
            let told = running.lookup.told();
            self.answers.extend(told.map(|found| Answer { tag: tag.clone(), found }));
            running.tags.push(tag.clone());
            return true;
        }
        if !self.make_room(now, owner) {
            return false;
        }
        let lookup = Lookup::new(now, &key, self.files.config());
        let tags = vec![tag.clone()];
        let at = self.running.insert(Running { owner, name: key.clone(), since: now, tags, lookup });
        self.by_name.insert(key, at);
        *self.owned.entry(owner).or_default() += 1;
        self.step(now, at);
        true
    }

    /// The result for a name that needs no server.
    fn at_once(&mut self, now: Instant, name: &str) -> Option<Found> {
        let bare = name.strip_suffix('.').unwrap_or(name);
        let last = bare.rsplit('.').next().unwrap_or_default();
        let addresses = if let Some(addresses) = self.files.config().hosts.get(bare) {
            addresses.clone()
        } else if last == "localhost" {
            vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]
        } else if last == "invalid" {
            // There are no such names (RFC 6761, section 6.4).
            return Some(Found::Nothing);
        } else {
            self.known.get(&name.to_owned()).filter(|known| now < known.until)?.addresses.clone()
        };
        Some(Found::Addresses { addresses, more: false })
    }

    /// Makes room for one more name of `owner`: one that is silent may have to go. False if there is none.
    fn make_room(&mut self, now: Instant, owner: ClientId) -> bool {
        let own = self.owned.get(&owner).copied().unwrap_or_default();
        let victim = if own >= self.most.div_ceil(4) {
            self.oldest_of(owner).filter(|&at| self.running[at].since + SILENT <= now)
        } else if self.running.len() >= self.most {
            match self.owned.iter().max_by_key(|&(client, count)| (*count, *client)) {
                Some((&other, &theirs)) if theirs > own => self.oldest_of(other),
                _ => self.oldest_of(owner).filter(|&at| self.running[at].since + SILENT <= now),
            }
        } else {
            return true;
        };
        let Some(victim) = victim else { return false };
        let found = self.running[victim].lookup.give_up();
        self.finish(victim, found);
        true
    }

    fn oldest_of(&self, owner: ClientId) -> Option<usize> {
        let own = self.running.iter().filter(|(_, running)| running.owner == owner);
        own.min_by_key(|(_, running)| running.since).map(|(at, _)| at)
    }

    /// Does what can be done without waiting.
    pub fn turn(&mut self, now: Instant) {
        let Self { poller, running, timers, .. } = self;
        let mut ready = Vec::new();
        poller.collect(|event| {
            let (at, number) = (event.token().0 / MOST_SOCKETS, event.token().0 % MOST_SOCKETS);
            if let Some(running) = running.get_mut(at) {
                running.lookup.note(number);
                ready.push(at);
            }
        });
        while let Some(at) = timers.pop(now) {
            ready.push(at);
        }
        ready.into_iter().for_each(|at| self.step(now, at));
    }

    /// Goes on with a name as far as it can.
    fn step(&mut self, now: Instant, at: usize) {
        let Some(running) = self.running.get_mut(at) else { return };
        let first = Token(at * MOST_SOCKETS);
        let servers = &self.files.config().servers;
        let over = running.lookup.turn(now, servers, (self.poller.registry(), first), &mut self.shared);
        if let Some(found) = over {
            return self.finish(at, found);
        }
        if let Some(found) = running.lookup.news(now) {
            self.answers.extend(running.tags.iter().map(|tag| Answer { tag: tag.clone(), found: found.clone() }));
        }
        self.timers.set(at, running.lookup.next_event());
    }

    /// Ends a lookup, with this result.
    fn finish(&mut self, at: usize, found: Found) {
        let running = self.running.remove(at);
        self.timers.set(at, Instant::NEVER);
        self.by_name.remove(&running.name);
        if let Some(count) = self.owned.get_mut(&running.owner) {
            *count -= 1;
            if *count == 0 {
                self.owned.remove(&running.owner);
            }
        }
        if let Found::Addresses { addresses, .. } = &found
            && let Some(until) = running.lookup.lives_until()
        {
            let until = until.min(running.since + KEPT);
            self.known.insert(running.name, Known { addresses: addresses.clone(), until });
        }
        self.answers.extend(running.tags.into_iter().map(|tag| Answer { tag, found: found.clone() }));
    }
}

#[cfg(test)]
mod tests;
