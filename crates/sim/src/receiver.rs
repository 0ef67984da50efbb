//! The receiving side: when it acknowledges, what it holds out of order, what it lets the sender
//! send.

mod inbound;
mod picoquic;
mod reassembly;

use weftway_path::{Instant, Offset, PathId};
use weftway_scenario::config::{AckPath, TransportConfig};

use crate::wire::Data;

pub use inbound::{Inbound, MAX_BLOCKS};
pub use picoquic::PicoquicAcks;
pub use reassembly::{Arrival, Reassembly, Released};

/// The receiver of one connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Arrivals on each path.
    pub paths: Vec<Inbound>,
    /// The data.
    pub data: Reassembly,
    /// Acknowledgements of all paths together, of a receiver that sends them as picoquic does.
    pub picoquic: Option<Box<PicoquicAcks>>,
}

impl Receiver {
    /// A receiver for `paths` paths.
    pub fn new(transport: &TransportConfig, paths: usize) -> Self {
        let data = Reassembly::new(transport);
        let picoquic = (transport.ack_path == AckPath::Picoquic).then(|| Box::new(PicoquicAcks::new(paths)));
        Self { paths: vec![Inbound::beginning(&data, 0); paths], data, picoquic }
    }

    /// Data of a packet that path `id` has just taken: for the connection, or put aside until the path's hole is
    /// filled. What became of them, and of those that had been put aside and need wait no longer.
    #[inline(never)]
    pub fn take(&mut self, now: Instant, id: PathId, data: &Data) -> (Arrival, Released) {
        let mut released = Released::default();
        if !self.data.drops {
            return (self.data.arrive(now, data.offset, data.bytes), released);
        }
        let path = &mut self.paths[id.index()];
        if data.index >= path.cum {
            if !path.put_aside(data) {
                return (Arrival::Duplicate, released);
            }
            self.data.put_aside(now, data.bytes);
            return (Arrival::Aside, released);
        }
        let arrival = self.data.arrive(now, data.offset, data.bytes);
        while let Some((offset, bytes)) = path.take_waiting() {
            self.data.take_aside(now, bytes);
            released.add(self.data.arrive(now, offset, bytes), bytes);
        }
        (arrival, released)
    }

    /// The path has come up anew, the `epoch`-th time: what it had put aside goes to the connection.
    pub fn renew(&mut self, now: Instant, id: PathId, epoch: u8) -> Released {
        let (path, mut released) = (&mut self.paths[id.index()], Released::default());
        let mut renewed = Inbound::beginning(&self.data, epoch);
        renewed.capture = core::mem::take(&mut path.capture);
        if let Some(acks) = &mut self.picoquic {
            acks.renew(id);
        }
        let old = core::mem::replace(path, renewed);
        for (_, offset, bytes) in old.waiting {
            self.data.take_aside(now, bytes);
            released.add(self.data.arrive(now, offset, bytes), bytes);
        }
        released
    }

    /// The right edge that an acknowledgement on path `id` announces; to be asked before [`Inbound::report`]. QUIC's
    /// acknowledgements say nothing of it (RFC 9000 §19.3): a limit is a frame of its own (§19.9), which leaves once,
    /// when the limit is raised, with the acknowledgement that follows. Zero: none leaves.
    #[inline]
    pub fn announce(&mut self, id: PathId) -> Offset {
        if self.data.credit {
            return if core::mem::take(&mut self.data.untold) { self.data.edge() } else { Offset::ZERO };
        }
        let path = &mut self.paths[id.index()];
        if self.data.measured {
            let space = self.data.space_beside(path.aside);
            path.grow_window(self.data.edge.saturating_sub(self.data.next), self.data.window, space);
        }
        self.data.announce(if self.data.measured { path.threshold } else { u64::MAX });
        path.window = self.data.announced;
        self.data.edge_in_header()
    }

    /// Returns true if what the application has read at least doubles the window that was announced last.
    #[inline]
    pub fn has_opened(&self) -> bool {
        self.data.free() >= 2 * self.data.announced
    }

    /// The application has read all that is in order, which may have `opened` the window. Whether path `id`
    /// acknowledges because of it (`mptcp_cleanup_rbuf`, `tcp_cleanup_rbuf`): what has come since its last
    /// acknowledgement has a packet that is not full, and nothing is held out of order; or its own window is at least
    /// twice what it announced last.
    #[inline]
    pub fn tells_of_reading(&self, id: PathId, opened: bool) -> bool {
        let (path, data) = (&self.paths[id.index()], &self.data);
        if path.unacked > 1 || path.unacked == 1 && path.short && (opened || data.held.is_empty()) {
            return true;
        }
        opened && data.free().min(path.threshold).max(data.edge - data.next) >= 2 * path.window
    }

    /// Time at which the first delayed acknowledgement is due, and on which path.
    pub fn due(&self) -> (Instant, PathId) {
        if let Some(acks) = &self.picoquic {
            return (acks.due, PathId::new(0));
        }
        let first = self.paths.iter().enumerate().min_by_key(|(_, path)| path.due);
        first.map_or((Instant::NEVER, PathId::new(0)), |(at, path)| (path.due, PathId::new(at as u8)))
    }
}

#[cfg(test)]
mod tests;
