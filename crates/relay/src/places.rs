//! Places for dials: a socket that is being connected has one, and there are only so many, since each takes a
//! descriptor.
//!
//! While there are enough, every dial has one at once. When all are taken, a new dial takes the place of another, so
//! that hosts that do not answer hold up no others: of the client with the most places, if its own client has fewer;
//! else of the host with the most places of its own client, if its own host has fewer; else of the host that has been
//! silent for longest, once that is a second. A dial that lost its place has one again when one is free, or when some
//! host has been silent for three seconds.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use weftway_path::{Instant, Span};

use crate::client::ClientId;

/// A host that has not answered for so long makes way for one that was not tried: the kernel has asked it twice.
const SILENT: Span = Span::from_secs(1);
/// A host that was tried before makes way after so long: the kernel has asked it three times.
const LONG_SILENT: Span = Span::from_secs(3);
/// The time for which there are no more places than sockets after no descriptor was left.
const SCARCE: Span = Span::from_secs(1);

/// The client and the host for which a dial asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The client.
    pub client: ClientId,
    /// The host that is dialled.
    pub host: IpAddr,
}

#[derive(Debug)]
struct Holder {
    asker: Asker,
    since: Instant,
    sockets: usize,
}

#[derive(Debug)]
struct Waiting {
    key: usize,
    asker: Asker,
    /// True if it had a place before.
    again: bool,
}

/// The places.
#[derive(Debug)]
pub struct Places {
    most: usize,
    /// The number of places for now, and until when: no descriptor was left.
    scarce: Option<(usize, Instant)>,
    used: usize,
    holders: BTreeMap<usize, Holder>,
    waiting: VecDeque<Waiting>,
    /// The time at which one that waits may have a place, unless something changes before.
    due: Instant,
    /// Dials that are to give up their places, and dials that have one now.
    told: VecDeque<(usize, Notice)>,
}

/// The time that a host must have been silent to make way: for one that waits `again`, it is longer.
fn patience(again: bool) -> Span {
    if again { LONG_SILENT } else { SILENT }
}

/// The number of dials that have places: of each client, and of each of its hosts.
struct Held {
    clients: BTreeMap<ClientId, usize>,
    hosts: BTreeMap<(ClientId, IpAddr), usize>,
}

impl Held {
    fn of<'a>(holders: impl Iterator<Item = &'a Holder>) -> Self {
        let (mut clients, mut hosts) = (BTreeMap::new(), BTreeMap::new());
        for Holder { asker: Asker { client, host }, .. } in holders {
            *clients.entry(*client).or_default() += 1;
            *hosts.entry((*client, *host)).or_default() += 1;
        }
        Self { clients, hosts }
    }

    /// The number of dials of a client, and of these to its host.
    fn of_asker(&self, Asker { client, host }: Asker) -> [usize; 2] {
        let of_client = self.clients.get(&client).copied().unwrap_or_default();
        [of_client, self.hosts.get(&(client, host)).copied().unwrap_or_default()]
    }
}

/// A message to a dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Its place is taken: its sockets are to be closed; it waits for a place again.
    Taken,
    /// It has a place.
    Granted,
}

impl Places {
    /// `most` of them, at least one.
    pub fn new(most: usize) -> Self {
        let (holders, waiting, told) = Default::default();
        Self { most: most.max(1), scarce: None, used: 0, holders, waiting, due: Instant::NEVER, told }
    }

    /// Asks for the first place of dial `key`. True if it has it now; if not, it waits.
    pub fn take(&mut self, now: Instant, key: usize, asker: Asker) -> bool {
        if self.holders.contains_key(&key) {
            return true;
        }
        if self.waiting.iter().any(|waiting| waiting.key == key) {
            return false;
        }
        self.waiting.push_back(Waiting { key, asker, again: false });
        self.due = now;
        self.turn(now);
        let granted = self.told.iter().rposition(|told| *told == (key, Notice::Granted));
        granted.map(|at| self.told.remove(at)).is_some()
    }

    /// Takes one more place for a dial that has one, if one is free and nobody waits.
    pub fn take_another(&mut self, now: Instant, key: usize) -> bool {
        let free = self.has_room(now) && self.waiting.is_empty();
        match self.holders.get_mut(&key).filter(|_| free) {
            Some(holder) => {
                holder.sockets += 1;
                self.used += 1;
                true
            }
            None => false,
        }
    }

    /// Takes note that dial `key` has so many sockets left.
    pub fn keep(&mut self, key: usize, sockets: usize) {
        let Some(holder) = self.holders.get_mut(&key) else { return };
        if sockets < holder.sockets {
            self.used -= holder.sockets - sockets;
            self.due = Instant::ZERO;
        }
        holder.sockets = holder.sockets.min(sockets);
        if holder.sockets == 0 {
            self.holders.remove(&key);
        }
    }

    /// Takes note that dial `key` is over.
    pub fn leave(&mut self, key: usize) {
        self.keep(key, 0);
        self.waiting.retain(|waiting| waiting.key != key);
        self.told.retain(|told| told.0 != key);
    }

    /// Takes note that no descriptor is left: for a while there are no more places than sockets. The host that has been
    /// silent for longest makes way.
    pub fn make_way(&mut self, now: Instant) {
        self.scarce = Some((self.used.max(1), now + SCARCE));
        self.due = Instant::ZERO;
        let silent = self.holders.iter().filter(|(_, holder)| holder.since + SILENT <= now);
        if let Some((&key, _)) = silent.min_by_key(|(_, holder)| holder.since) {
            self.send_back(key);
        }
    }

    /// Gives places to those that wait, as far as there are.
    pub fn turn(&mut self, now: Instant) {
        if now < self.next_event() {
            return;
        }
        while let Some(at) = self.next(now) {
            let Some(Waiting { key, asker, .. }) = self.waiting.remove(at) else { return };
            self.holders.insert(key, Holder { asker, since: now, sockets: 1 });
            self.used += 1;
            self.told.push_back((key, Notice::Granted));
        }
        let oldest = self.holders.values().map(|holder| holder.since).min();
        let silent_at = |again| oldest.map_or(Instant::NEVER, |since| since + patience(again));
        let due = self.waiting.iter().map(|waiting| silent_at(waiting.again)).min().unwrap_or(Instant::NEVER);
        let more_at = self.scarce.map(|(_, until)| until).filter(|until| now < *until);
        self.due = due.min(more_at.unwrap_or(Instant::NEVER));
    }

    /// The time at which one that waits may have a place, or has one because something has changed.
    pub fn next_event(&self) -> Instant {
        if self.waiting.is_empty() { Instant::NEVER } else { self.due }
    }

    /// The next dial that is to be told something.
    pub fn next_told(&mut self) -> Option<(usize, Notice)> {
        self.told.pop_front()
    }

    fn has_room(&self, now: Instant) -> bool {
        let scarce = self.scarce.filter(|(_, until)| now < *until);
        self.used < scarce.map_or(self.most, |(most, _)| most)
    }

    /// The position in the queue of the dial that may have a place now. Another dial may lose its own for it.
    fn next(&mut self, now: Instant) -> Option<usize> {
        if self.waiting.is_empty() {
            return None;
        }
        let held = Held::of(self.holders.values());
        // By turns between clients and hosts, and as they came.
        let order = |at: &usize| held.of_asker(self.waiting[*at].asker);
        for again in [false, true] {
            let same = (0..self.waiting.len()).filter(|&at| self.waiting[at].again == again);
            let Some(at) = same.min_by_key(order) else { continue };
            if self.has_room(now) {
                return Some(at);
            }
            if let Some(victim) = self.victim(now, &self.waiting[at], &held) {
                self.send_back(victim);
                return Some(at);
            }
        }
        None
    }

    /// The dial that has to go for this one.
    fn victim(&self, now: Instant, waiting: &Waiting, held: &Held) -> Option<usize> {
        let oldest = |wanted: &dyn Fn(&Asker) -> bool| {
            let wanted = self.holders.iter().filter(|(_, holder)| wanted(&holder.asker));
            wanted.min_by_key(|(_, holder)| holder.since).map(|(&key, holder)| (key, holder.since))
        };
        let [own, of_host] = held.of_asker(waiting.asker);
        let (&richest, &most) = held.clients.iter().max_by_key(|(client, count)| (**count, **client))?;
        // With a difference of one they would take it from each other for ever.
        let client = if most > own + 1 || own == 0 { richest } else { waiting.asker.client };
        let hosts = held.hosts.iter().filter(|((owner, _), _)| *owner == client);
        let (&(_, busiest), &dials) = hosts.max_by_key(|(_, count)| **count)?;
        if client != waiting.asker.client || dials > of_host + 1 {
            return oldest(&|asker| *asker == Asker { client, host: busiest }).map(|(key, _)| key);
        }
        oldest(&|_| true).filter(|(_, since)| *since + patience(waiting.again) <= now).map(|(key, _)| key)
    }

    /// Takes the place of dial `key`, which waits again.
    fn send_back(&mut self, key: usize) {
        let Some(holder) = self.holders.remove(&key) else { return };
        self.used -= holder.sockets;
        self.told.retain(|told| told.0 != key);
        self.told.push_back((key, Notice::Taken));
        self.waiting.push_back(Waiting { key, asker: holder.asker, again: true });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(client: u64, host: u8) -> Asker {
        Asker { client: ClientId(client), host: [192, 0, 2, host].into() }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn another_host_and_another_client_have_a_place_at_once_when_all_are_taken() {
        let mut places = Places::new(4);
        // Five dials of a client to one host: the fifth waits.
        let taken: Vec<bool> = (0..5).map(|key| places.take(at(key), key as usize, asker(1, 1))).collect();
        assert_eq!(taken, [true, true, true, true, false]);
        // To another host one goes at once, for the oldest of the four; and one of another client.
        assert!(places.take(at(5), 10, asker(1, 2)));
        assert!(places.take(at(5), 20, asker(2, 1)));
        assert_eq!(
            [places.next_told(), places.next_told(), places.next_told()],
            [Some((0, Notice::Taken)), Some((1, Notice::Taken)), None]
        );
        // One that has no more than its share waits, until the oldest has been silent for a second.
        assert!(places.take(at(5), 21, asker(2, 1)), "two each");
        assert!(!places.take(at(5), 22, asker(2, 1)));
        assert_eq!(places.next_event(), at(1003));
    }

    #[test]
    fn silent_hosts_make_way_by_turns() {
        let mut places = Places::new(2);
        for host in 0..4 {
            assert_eq!(places.take(at(0), usize::from(host), asker(1, host)), host < 2);
        }
        assert_eq!((places.next_event(), places.next_told()), (at(1000), None));
        // Those that were not tried come after a second; those that were, after three.
        places.turn(at(1000));
        let told: Vec<_> = std::iter::from_fn(|| places.next_told()).collect();
        assert_eq!(told, [(0, Notice::Taken), (2, Notice::Granted), (1, Notice::Taken), (3, Notice::Granted)]);
        assert_eq!(places.next_event(), at(4000));
        // A new one does not wait for these: a second is enough.
        assert!(places.take(at(2000), 9, asker(1, 9)));
        assert_eq!(places.next_told(), Some((2, Notice::Taken)));
        // What is over makes room.
        places.leave(3);
        places.turn(at(2000));
        assert_eq!(places.next_told(), Some((0, Notice::Granted)));
    }

    #[test]
    fn more_sockets_of_a_dial_have_places_while_nobody_waits() {
        let mut places = Places::new(2);
        assert!(places.take(at(0), 1, asker(1, 1)) && places.take_another(at(0), 1) && !places.take_another(at(0), 1));
        // A dial that has two gives up both.
        assert!(places.take(at(0), 2, asker(2, 2)));
        let told = [places.next_told(), places.next_told(), places.next_told()];
        assert_eq!(told, [Some((1, Notice::Taken)), Some((1, Notice::Granted)), None]);
        assert!(!places.take_another(at(0), 2), "both have one");
    }

    #[test]
    fn without_descriptors_there_are_no_more_places_than_sockets_for_a_while() {
        let mut places = Places::new(9);
        assert!(places.take(at(0), 1, asker(1, 1)) && places.take(at(500), 2, asker(1, 2)));
        // A third finds no descriptor: it gives its place back, and the oldest goes.
        assert!(places.take(at(1000), 3, asker(1, 3)));
        places.keep(3, 0);
        places.make_way(at(1000));
        assert_eq!([places.next_told(), places.next_told()], [Some((1, Notice::Taken)), None]);
        assert!(places.take(at(1100), 3, asker(1, 3)));
        places.turn(at(1100));
        assert_eq!((places.next_told(), places.next_event()), (None, at(2000)));
        places.turn(at(2000));
        assert_eq!(places.next_told(), Some((1, Notice::Granted)));
    }
}
