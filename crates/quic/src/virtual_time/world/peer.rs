//! A stack of another author that receives the data.
//!
//! noq sends, under our scheduler and our controllers. The peer acknowledges when and on which path it likes. Its
//! application is here: it takes the records out, and sends the limit.

use weftway_path::{Instant, PathId, PathSet};

use super::{Record, RunError, World};
use crate::virtual_time::world::network::Carried;

/// The end that receives, as the run sees it: datagrams and the time go in, datagrams come out.
pub trait Peer {
    /// Opens the connection on path `first`, as its client.
    fn connect(&mut self, now: Instant, first: PathId) -> Result<(), String>;

    /// Opens the further paths that it may open now, as the client.
    fn open_paths(&mut self, now: Instant);

    /// Returns true if it can answer on a path that noq's client opens.
    fn bears_path(&self, path: PathId) -> bool;

    /// Takes in a datagram that came over a path. It may be changed.
    fn receive(&mut self, now: Instant, path: PathId, bytes: &mut [u8]);

    /// The next DATAGRAM frame that has arrived.
    fn next_record(&mut self) -> Option<Vec<u8>>;

    /// Sends a DATAGRAM frame, in place of one that has not left yet.
    fn send_record(&mut self, now: Instant, record: &[u8]);

    /// The next datagram that is to leave now, if one is, and its path.
    fn next_datagram<'a>(&mut self, now: Instant, buffer: &'a mut Vec<u8>) -> Option<(PathId, &'a [u8])>;

    /// Time at which it has something to do, after its last datagram has left, if there was any.
    fn next_event(&mut self, now: Instant, sent: bool) -> Instant;

    /// Why the connection has ended, if it has.
    fn ended(&self) -> Option<&str>;
}

impl World {
    /// The peer's turn, after a datagram that came `from` a path, or a timer.
    pub(super) fn after_peer(&mut self, from: Option<PathId>) {
        let now = self.now;
        let Some(mut peer) = self.receiving.peer.take() else { return };
        let mut limit_due = false;
        while let Some(record) = peer.next_record() {
            limit_due |= self.take_record(&record, from);
        }
        if limit_due {
            let receiver = &self.receiving.receiver;
            peer.send_record(now, &Record::limit(receiver.edge(), receiver.next()));
        }
        if let Some(why) = peer.ended() {
            self.error.get_or_insert_with(|| RunError::Lost(why.to_owned()));
        }
        if !self.upload() {
            peer.open_paths(now);
        }
        let mut sent = false;
        while let Some((path, bytes)) = peer.next_datagram(now, &mut self.buffer) {
            self.network.send_bytes(now, path, bytes, Carried { payload: 0, ecn: false, forward: false });
            sent = true;
        }
        self.receiving.next = peer.next_event(now, sent);
        self.receiving.peer = Some(peer);
    }

    /// noq's client opens the paths that the peer can answer on, in their order.
    pub(super) fn open_beside_peer(&mut self) {
        let Some(peer) = self.receiving.peer.as_ref().filter(|_| self.upload()) else { return };
        let Some(connection) = self.sending.sender.as_mut().map(|sender| &mut sender.connection) else { return };
        if !connection.is_confirmed() {
            return;
        }
        if !std::mem::replace(&mut self.receiving.keys_updated, true) {
            connection.update_keys();
        }
        let present = self.network.present;
        let borne = present.iter().skip(1).take_while(|&path| peer.bears_path(path)).count();
        let kept = present.iter().take(borne + 1).fold(PathSet::EMPTY, PathSet::with);
        connection.keep(self.now, kept, self.config.transport.probe_interval);
    }
}
