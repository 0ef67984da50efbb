//! Datagrams that leave, and their paths: records, each alone, and what is no record.

use std::num::NonZeroUsize;

use bytes::Bytes;
use noq_proto::{EcnCodepoint, FourTuple};
use weftway_path::{Instant, PathId};

use super::super::observer::ALL;
use super::{Outgoing, QuicConnection};

/// A record that has not left after so many datagrams stays with noq.
const TRIES: u32 = 8;

impl QuicConnection {
    /// Asks whether a path is alive.
    pub fn ping(&mut self, path: PathId) {
        if let Some(number) = self.numbers[path.index()].filter(|_| !self.is_early_spent()) {
            let _ = self.inner.ping_path(number);
            // What was sent there may never be acknowledged.
            self.observer_of(path).into_iter().for_each(|bit| self.observer_state.exempt(bit));
        }
    }

    /// Sets how many bytes may be in flight on a path of what is no record, together with all records; noq counts
    /// headers, too.
    pub fn set_window(&self, path: PathId, bytes: u64) {
        if let Some(observer) = self.generation(path) {
            self.observer_state.set_window(observer, bytes);
        }
    }

    /// Lets everything leave that is no data: acknowledgements, handshakes, probes, what keeps the paths, and the
    /// control stream as far as its window allows. No record waits while this is called.
    pub fn flush(&mut self, now: Instant) {
        self.observer_state.open(ALL);
        self.observer_state.quiet(0);
        self.poll_all(now);
        self.note_timeout();
    }

    /// Sends what is due on path `path` on that path, and the rest as ever.
    pub fn answer(&mut self, now: Instant, path: PathId) {
        if let Some(bit) = self.observer_of(path) {
            self.observer_state.open(ALL);
            self.observer_state.quiet(!bit);
            self.poll_all(now);
        }
        self.flush(now);
    }

    fn observer_of(&self, path: PathId) -> Option<u64> {
        Some(1 << (self.generation(path)? & 63))
    }

    /// Which of the connection's paths this is, in the order of their creation: another one each time it is opened.
    pub fn generation(&self, path: PathId) -> Option<usize> {
        self.observers.get(path.index()).copied().flatten().map(|observer| observer as usize)
    }

    /// Sends a record with `payload` bytes of the data on `path`, at once. The path that it took and its packet number;
    /// `None` if it could not leave.
    pub fn send(&mut self, now: Instant, path: PathId, record: Bytes, payload: u32) -> Option<(PathId, u64)> {
        let sent = self.send_one_of_many(now, path, record, payload);
        self.note_timeout();
        sent
    }

    /// Brings [`QuicConnection::timeout`] up to date.
    pub(in crate::driver) fn note_timeout(&mut self) {
        self.next_timeout = self.inner.poll_timeout();
    }

    /// [`QuicConnection::send`] where [`QuicConnection::note_timeout`] follows before anybody asks when a timer is due.
    pub(in crate::driver) fn send_one_of_many(
        &mut self,
        now: Instant,
        path: PathId,
        record: Bytes,
        payload: u32,
    ) -> Option<(PathId, u64)> {
        let only = self.observer_of(path)?;
        let empty = self.inner.datagrams().send_buffer_space();
        self.inner.datagrams().send(record, true).ok()?;
        let _ = self.observer_state.take_sent();
        self.observer_state.open(only);
        self.observer_state.quiet(0);
        self.observer_state.set_record(true);
        let mut took = None;
        for _ in 0..TRIES {
            took = self.poll(now, payload);
            if took.is_none() {
                // What keeps it from this path is not the window. It must not wait for a later packet's turn.
                self.observer_state.open(ALL);
                took = self.poll(now, payload);
            }
            if self.inner.datagrams().send_buffer_space() >= empty {
                break;
            }
            // A probe of noq's is smaller than a record, and leaves alone.
            if let Some(probe) = self.outgoing.back_mut().filter(|_| took.is_some()) {
                probe.payload = 0;
            }
        }
        self.observer_state.open(ALL);
        self.observer_state.set_record(false);
        let path = took??;
        let (_, number) = self.observer_state.take_sent()?;
        Some((path, number))
    }

    /// All datagrams that are no data; one, if the connection is over. While a client's handshake is not done, noq 1.4
    /// answers each call with one more CONNECTION_CLOSE, until its keys are worn out and it panics.
    fn poll_all(&mut self, now: Instant) {
        while self.poll(now, 0).is_some() && !self.inner.is_closed() {}
    }

    /// Polls one datagram, and the path that it takes, if it takes one.
    fn poll(&mut self, now: Instant, payload: u32) -> Option<Option<PathId>> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        let transmit = self.inner.poll_transmit(self.clock.theirs(now), NonZeroUsize::MIN, &mut bytes);
        let Some(transmit) = transmit else {
            self.recycle(bytes);
            return None;
        };
        self.early += u32::from(self.connected && !self.confirmed);
        let (path, route) = self.place_of_transmit(&transmit);
        path.into_iter().for_each(|path| self.validations[path.index()].begin(now));
        bytes.truncate(transmit.size);
        let ecn = transmit.ecn == Some(EcnCodepoint::Ect0);
        self.outgoing.push_back(Outgoing { path, route, bytes, ecn, payload });
        Some(path)
    }

    /// A datagram has left: its memory is used again.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.spare.push(bytes);
    }

    /// Which path a datagram of noq's takes, and from where to where.
    fn place_of_transmit(&mut self, transmit: &noq_proto::Transmit) -> (Option<PathId>, FourTuple) {
        let route = FourTuple::new(transmit.destination, transmit.src_ip);
        // A client's first path has no address of its own until the first answer.
        if transmit.src_ip.is_none() {
            return (Some(self.first), self.route(self.first).unwrap_or(route));
        }
        // Several paths may lead to one remote address: the local one tells them apart.
        (self.path_at(route), route)
    }
}
