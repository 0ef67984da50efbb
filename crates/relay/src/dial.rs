//! Connects to the first of several addresses that answers (Happy Eyeballs, RFC 8305): the families in turn, the next
//! address when one fails or has not answered for a while, all of them within the time that there is.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use mio::Registry;
use mio::event::Event;
use weftway_path::Instant;

use crate::client::ClientId;
use crate::limits::{ATTEMPT, NO_DESCRIPTORS};
use crate::places::{Asker, Places};
use crate::refusal::Refusal;
use crate::socket::{SOCKETS, Socket, is_scarce, token};

/// State of the attempt.
#[derive(Debug)]
pub enum Dialled {
    /// No answer yet.
    Pending,
    /// An address answered.
    Connected(Socket),
    /// None did.
    Failed(Refusal),
}

#[derive(Debug)]
struct Attempt {
    number: usize,
    socket: Socket,
    address: SocketAddr,
}

/// Addresses on the way to a connection.
#[derive(Debug)]
pub struct Dial {
    client: ClientId,
    /// All addresses that were ever to be tried.
    known: Vec<SocketAddr>,
    /// The addresses that are to be tried, the next one first.
    addresses: VecDeque<SocketAddr>,
    /// The oldest one first.
    attempts: VecDeque<Attempt>,
    next_at: Instant,
    /// True if more addresses may come.
    more: bool,
    /// Error of the first attempt that had a route at all.
    refusal: Option<Refusal>,
}

impl Dial {
    /// A dial of `client` to one of `addresses`. There may be `more`, which come later.
    pub fn new(client: ClientId, addresses: impl IntoIterator<Item = SocketAddr>, more: bool) -> Self {
        let known: Vec<SocketAddr> = addresses.into_iter().collect();
        Self {
            client,
            addresses: in_turn(known.iter().copied(), None),
            known,
            attempts: VecDeque::new(),
            next_at: Instant::ZERO,
            more,
            refusal: None,
        }
    }

    /// Takes in all addresses: those that were not known are tried, too.
    pub fn add(&mut self, addresses: impl IntoIterator<Item = SocketAddr>) {
        self.more = false;
        let new: Vec<SocketAddr> = addresses.into_iter().filter(|address| !self.known.contains(address)).collect();
        self.known.extend(&new);
        let tried = self.attempts.back().map(|attempt| attempt.address);
        self.addresses = in_turn(self.addresses.drain(..).chain(new), tried);
    }

    /// Takes note of what the socket of an attempt tells.
    pub fn note(&mut self, number: usize, event: &Event) {
        if let Some(attempt) = self.attempts.iter_mut().find(|attempt| attempt.number == number) {
            attempt.socket.note(event);
        }
    }

    /// Instant at which the next address is due.
    pub fn next_event(&self) -> Instant {
        if self.addresses.is_empty() { Instant::NEVER } else { self.next_at }
    }

    /// Gives up its attempts, since others need its place: they are made again when it has one.
    pub fn step_back(&mut self) {
        let given_up = self.attempts.drain(..).map(|attempt| attempt.address);
        self.addresses.extend(given_up);
        self.next_at = Instant::NEVER;
    }

    /// Goes on: it has a place again.
    pub fn go_on(&mut self) {
        self.next_at = Instant::ZERO;
    }

    /// Goes on as far as it can without waiting, for entry `key`.
    pub fn turn(&mut self, now: Instant, registry: &Registry, key: usize, places: &mut Places) -> Dialled {
        let mut at = 0;
        while at < self.attempts.len() {
            match self.attempts[at].socket.is_connected() {
                Ok(true) => {
                    let connected = self.attempts.remove(at).map(|attempt| attempt.socket);
                    return connected.map_or(Dialled::Pending, Dialled::Connected);
                }
                Ok(false) => at += 1,
                Err(error) => {
                    self.attempts.remove(at);
                    places.keep(key, self.attempts.len());
                    self.fail(Refusal::of(&error));
                    self.next_at = now;
                }
            }
        }
        while self.next_at <= now
            && let Some(&address) = self.addresses.front()
        {
            if !self.has_place(now, key, address.ip(), places) {
                self.next_at = Instant::NEVER;
                break;
            }
            let is_free = |number: &usize| self.attempts.iter().all(|attempt| attempt.number != *number);
            let number = (0..SOCKETS).find(is_free).unwrap_or_default();
            match Socket::connect(address, registry, token(key, number)) {
                Ok(socket) => {
                    self.attempts.push_back(Attempt { number, socket, address });
                    self.next_at = now + ATTEMPT;
                }
                Err(error) if is_scarce(&error) => {
                    places.keep(key, self.attempts.len());
                    places.make_way(now);
                    self.next_at = now + NO_DESCRIPTORS;
                    break;
                }
                Err(error) => {
                    places.keep(key, self.attempts.len());
                    self.fail(Refusal::of(&error));
                }
            }
            self.addresses.pop_front();
        }
        if !self.attempts.is_empty() || !self.addresses.is_empty() || self.more {
            return Dialled::Pending;
        }
        // Where no address was tried, none may be.
        Dialled::Failed(self.refusal.unwrap_or(Refusal::NotAllowed))
    }

    /// Returns true if there is a place for one more attempt. The oldest one gives up its own where there is none.
    fn has_place(&mut self, now: Instant, key: usize, host: IpAddr, places: &mut Places) -> bool {
        if self.attempts.is_empty() {
            return places.take(now, key, Asker { client: self.client, host });
        }
        if self.attempts.len() == SOCKETS || !places.take_another(now, key) {
            self.attempts.pop_front();
        }
        true
    }

    /// Notes a refusal. One by a network without a route is of the least interest: many machines have no IPv6.
    fn fail(&mut self, refusal: Refusal) {
        let before = self.refusal.filter(|&before| before != Refusal::NetworkUnreachable);
        self.refusal = Some(before.unwrap_or(refusal));
    }
}

/// The families by turns, and the addresses of each as they were (RFC 8305, section 4): first the family that was not
/// `tried` last, or that of the first address.
fn in_turn(addresses: impl IntoIterator<Item = SocketAddr>, tried: Option<SocketAddr>) -> VecDeque<SocketAddr> {
    let addresses: Vec<SocketAddr> = addresses.into_iter().collect();
    let v4_first = tried.map_or(addresses.first().is_none_or(SocketAddr::is_ipv4), |tried| tried.is_ipv6());
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv4() == v4_first);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut mixed = VecDeque::new();
    loop {
        let pair = (first.next(), second.next());
        mixed.extend([pair.0, pair.1].into_iter().flatten());
        if pair == (None, None) {
            return mixed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Poller;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 80)).collect()
    }

    #[test]
    fn a_name_none_of_whose_addresses_may_be_dialled_is_refused_for_that() {
        let (mut places, poller) = (Places::new(1), Poller::new().unwrap());
        // None of the first may be, and none of those that came later.
        let mut dial = Dial::new(ClientId(1), [], true);
        assert!(matches!(dial.turn(Instant::ZERO, poller.registry(), 0, &mut places), Dialled::Pending));
        dial.add([]);
        let end = dial.turn(Instant::ZERO, poller.registry(), 0, &mut places);
        assert!(matches!(end, Dialled::Failed(Refusal::NotAllowed)), "{end:?}");
    }

    #[test]
    fn families_come_by_turns_and_addresses_that_come_later_too() {
        let six = addresses(&["2001:db8::1", "2001:db8::2", "2001:db8::3"]);
        let four = addresses(&["192.0.2.1"]);
        let mixed: Vec<_> = in_turn(six.iter().chain(&four).copied(), None).into();
        assert_eq!(mixed, addresses(&["2001:db8::1", "192.0.2.1", "2001:db8::2", "2001:db8::3"]));
        let mut dial = Dial::new(ClientId(1), six.clone(), true);
        dial.add(four);
        assert_eq!(Vec::from(dial.addresses), mixed);
        assert!(in_turn([], None).is_empty());
        // The family that was not tried last is first, and it stays by turns.
        let left = addresses(&["2001:db8::2", "2001:db8::3", "192.0.2.1", "192.0.2.2"]);
        let mixed = in_turn(left.iter().copied(), Some(six[0]));
        assert_eq!(Vec::from(mixed), addresses(&["192.0.2.1", "2001:db8::2", "192.0.2.2", "2001:db8::3"]));
    }
}
