//! Addresses of the other end. Its name is looked up again for each connection, since it may have moved: on a thread,
//! so that nothing waits for the answer, and by the system's resolver, as it was the first time.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use weftway_path::{Instant, Span};

use crate::options::Lookup;

/// Time between two look-ups while there is no connection.
const AGAIN: Span = Span::from_secs(5);

/// The addresses of the other end.
pub(crate) struct Whereabouts {
    /// Addresses to which a path of this machine leads.
    addresses: Vec<SocketAddr>,
    /// All that the last look-up found, sorted.
    found: Vec<SocketAddr>,
    /// A connection was made or tried before.
    is_used: bool,
    /// None where it was given by an address.
    lookup: Option<Lookup>,
    answer: Option<Receiver<io::Result<Vec<SocketAddr>>>>,
    due: Instant,
}

impl Whereabouts {
    /// Takes `addresses`, which were looked up just now. Connections are made to those that are reachable.
    pub fn new(addresses: Vec<SocketAddr>, is_reachable: impl Fn(&SocketAddr) -> bool, lookup: Option<Lookup>) -> Self {
        let reachable = addresses.iter().copied().filter(is_reachable).collect();
        let due = Instant::ZERO + AGAIN;
        Self { addresses: reachable, found: in_order(addresses), is_used: false, lookup, answer: None, due }
    }

    /// The addresses to connect to.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Begins a connection. Before any but the first the name is looked up at once: the other end may have moved.
    pub fn begin(&mut self) {
        if std::mem::replace(&mut self.is_used, true) {
            self.due = Instant::ZERO;
        }
    }

    /// Returns true while the name is being looked up.
    pub fn is_asked(&self) -> bool {
        self.answer.is_some()
    }

    /// Looks the name up when that is due, and returns the addresses that were found, if they are others than before.
    /// If the look-up fails, those before stay.
    pub fn turn(&mut self, now: Instant) -> Option<Vec<SocketAddr>> {
        if self.answer.is_none() && self.due <= now {
            self.due = now + AGAIN;
            let lookup = self.lookup.clone()?;
            let (tell, answer) = channel();
            // If this end is gone by then, nobody takes the answer. Without a thread it is tried again when it is due.
            let look = move || drop(tell.send(lookup()));
            if thread::Builder::new().name("name of the other end".to_owned()).spawn(look).is_ok() {
                self.answer = Some(answer);
            }
        }
        match self.answer.as_ref()?.try_recv() {
            Err(TryRecvError::Empty) => None,
            told => {
                self.answer = None;
                let found = told.ok()?.ok().filter(|found| !found.is_empty())?;
                // Name servers change the order with each answer.
                let before = std::mem::replace(&mut self.found, in_order(found.clone()));
                Some(found).filter(|_| before != self.found)
            }
        }
    }

    /// Sets the addresses to connect to.
    pub fn set(&mut self, addresses: Vec<SocketAddr>) {
        self.addresses = addresses;
    }
}

fn in_order(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.sort_unstable();
    addresses
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_name_is_looked_up_again_when_its_owner_may_have_moved_and_nothing_waits_for_it() {
        let [old, new] = ["192.0.2.1:1", "192.0.2.2:1"].map(|text| text.parse::<SocketAddr>().unwrap());
        let (tell, asked) = channel();
        let (release, held) = channel();
        let held = Mutex::new(held);
        let lookup: Lookup = Arc::new(move || {
            tell.send(()).unwrap();
            held.lock().unwrap().recv().unwrap()
        });
        let at = |seconds| Instant::ZERO + Span::from_secs(seconds);
        let mut whereabouts = Whereabouts::new(vec![old], |_| true, Some(lookup));
        whereabouts.begin();
        assert!(whereabouts.turn(at(4)).is_none() && asked.try_recv().is_err(), "it was just looked up");
        whereabouts.begin();
        assert!(whereabouts.turn(at(4)).is_none());
        asked.recv().unwrap();
        // One at a time, however long it takes.
        assert!(whereabouts.turn(at(60)).is_none() && asked.try_recv().is_err());
        let mut next = |answer: io::Result<Vec<SocketAddr>>, now| {
            release.send(answer).unwrap();
            loop {
                let found = whereabouts.turn(now);
                if found.is_some() || whereabouts.answer.is_none() {
                    return found;
                }
                thread::yield_now();
            }
        };
        assert_eq!(next(Ok(vec![new, old]), at(60)), Some(vec![new, old]));
        // What fails, and what says the same, changes nothing.
        for answer in [Err(io::ErrorKind::NotFound.into()), Ok(vec![]), Ok(vec![old, new])] {
            assert_eq!(next(answer, at(60)), None);
        }
        assert_eq!(whereabouts.addresses(), [old]);
    }
}
