//! Departure of what a path took: one record to a packet.
//!
//! Records fill the packets of the path with the least MTU: noq takes none that is longer than that, whichever path
//! carries it. The MTU grows while noq looks for it, and falls when a path is opened or turns out to lose what is long.
//! What was cut before may then be too long. A piece of a row of bytes leaves in parts; a record that can only travel
//! whole is cut anew.

use weftway_host::sending::{Assigned, Carrier, Data};
use weftway_path::{Bytes, PathId};

use super::record::{HEAD, Record};
use super::sender::Sender;
use super::sending_path::Stage;
use super::source::Source;

/// Room for some fifty records: memory comes in pieces of this size.
const POOL: usize = 64 << 10;

/// Number of packets that leave in a turn. Then the front end sends them and looks for acknowledgements before the next
/// turn: a wide window does not leave in one burst (RFC 9002 §7.7). Some three batches of GSO; of long packets so many
/// fewer.
const PACKETS_PER_TURN: u64 = 192;

impl<S: Source> Sender<S> {
    pub(super) fn packets_per_turn(&self) -> u32 {
        (PACKETS_PER_TURN * self.setting.transport.mss.get() / self.record.get()).max(1) as u32
    }

    /// Brings the length of a full record up to date.
    pub(super) fn fit_records(&mut self) {
        if !self.setting.fills_packets {
            return;
        }
        let largest = Bytes::new(self.connection.largest_record().saturating_sub(HEAD) as u64);
        let record = largest.max(self.setting.transport.mss);
        if record == self.record {
            return;
        }
        self.record = record;
        self.dispatch.set_mss(record);
        self.source.set_record(record);
        for id in (0..self.paths.len()).map(|at| PathId::new(at as u8)) {
            self.dispatch.views.get_mut(id).mss = record;
            Carrier::refresh(self, id);
        }
    }

    /// noq may send what is no record as far as the windows allow. Its packets have headers, which do not count in
    /// ours.
    pub(super) fn tell_windows(&self) {
        for id in (0..self.paths.len()).map(|at| PathId::new(at as u8)) {
            let view = self.dispatch.views.get(id);
            let window = view.cwnd.get() / 16 * 17 + 2 * view.mss.get();
            let is_up = self.paths[id.index()].stage == Stage::Up;
            self.connection.set_window(id, if is_up { window } else { 0 });
        }
    }

    /// Sends a record on path `id`. If it cannot leave, its data wait to be sent again.
    pub(super) fn transmit(&mut self, id: PathId, assigned: &Assigned) {
        self.left = self.left.saturating_sub(1);
        let most = self.record.get() as u32;
        let leaves = match assigned.bytes {
            bytes if bytes <= most => self.transmit_record(id, assigned),
            // It is found too long when it is about to be sent again.
            _ if self.source.data().cuts() => return self.dispatch.give_up(id, assigned),
            _ => self.transmit_parts(id, assigned, most),
        };
        if leaves.is_none() {
            let for_good = self.paths[id.index()].on_refused(self.now);
            self.dispatch.give_up(id, assigned);
            if self.connection.is_closed() {
                self.broken.get_or_insert_with(|| "the connection is closed".to_owned());
            }
            self.path_down(id, Stage::Down { ask_at: self.now + self.setting.transport.probe_interval });
            if for_good {
                // The end that connected opens it again.
                self.connection.close_path(self.now, id);
            }
        }
    }

    /// The number of the packet that carries it. None if noq does not let data onto this path any more: what left on
    /// another one may arrive; nobody waits for it.
    fn transmit_record(&mut self, id: PathId, assigned: &Assigned) -> Option<u64> {
        let bytes = assigned.bytes as usize;
        if self.pool.capacity() - self.pool.len() < HEAD + bytes {
            self.pool.reserve(POOL.max(HEAD + bytes));
        }
        self.pool.extend_from_slice(&Record::data_head(assigned.offset));
        self.source.append(assigned.offset, bytes, &mut self.pool);
        let record = self.pool.split().freeze();
        let sent = self.connection.send_one_of_many(self.now, id, record, assigned.bytes);
        let (_, number) = sent.filter(|&(took, _)| took == id)?;
        self.source.sent(assigned.offset, id);
        self.paths[id.index()].on_sent(self.now, self.dispatch.views.get_mut(id), number, assigned);
        Some(number)
    }

    /// Transmits in several packets, none longer than `most`.
    fn transmit_parts(&mut self, id: PathId, whole: &Assigned, most: u32) -> Option<u64> {
        let mut number = None;
        for from in (0..whole.bytes).step_by(most as usize) {
            let offset = whole.offset + Bytes::new(from.into());
            let part = Assigned { offset, bytes: most.min(whole.bytes - from), ..*whole };
            let Some(sent) = self.transmit_record(id, &part) else {
                self.paths[id.index()].parts.forget(whole.serial);
                return None;
            };
            self.paths[id.index()].parts.add(sent, whole);
            number = Some(sent);
        }
        number
    }
}
