//! The question to the scheduler: which packet is next, which paths could take it, and whether to ask at all.

use weftway_path::{BlockedReason, Bytes, Instant, Offset, Packet, PathId, PathSet, SendKind};

/// Question that stands: whether a scheduler must be asked, and about which packet.
#[derive(Clone, Debug)]
pub struct Question {
    /// The number of the next packet's chunk, and how it would be sent.
    pub next: Option<(u64, SendKind)>,
    /// The packet, as the scheduler sees it.
    pub packet: Packet,
    /// Paths that may send now.
    pub open: PathSet,
    /// Paths whose queue has room. Kept only for schedulers that use queues.
    pub queue_open: PathSet,
    /// Paths that only their pacer holds back. Where nothing is to be sent no timer says that it has let go.
    pub paced: PathSet,
    /// Paths whose state has changed in this turn.
    pub changed: PathSet,
    /// True if something happened since the scheduler last said `Wait`.
    pub ready: bool,
    /// True if the scheduler was told that nothing may go though a path has room. The episode ends when a packet may.
    pub starved: bool,
    /// True if the flow has been brought up to date in this turn: then only what is sent moves it.
    pub synced: bool,
    /// Time at which pacers were last looked at: one that holds a path back then lets go later.
    pub(super) pacers_seen: Instant,
    /// Time at which each path last gave back what waited in its queue.
    pub(super) recalled: Vec<Instant>,
    /// The end of the message in which chunks are being cut.
    pub(super) message_end: u64,
}

impl Question {
    /// Question of a connection with so many paths; none is open yet.
    pub(super) fn new(paths: usize) -> Self {
        let (offset, bytes, none) = (Offset::ZERO, Bytes::ZERO, PathSet::EMPTY);
        Self {
            next: None,
            packet: Packet { offset, bytes, reinjection: false, carried: none, avoid: none },
            open: none,
            queue_open: none,
            paced: none,
            changed: none,
            ready: false,
            starved: false,
            synced: false,
            pacers_seen: Instant::NEVER,
            recalled: vec![Instant::NEVER; paths],
            message_end: 0,
        }
    }

    /// Path `id` is held back for this reason. One that is not offered is by the transport.
    #[inline(always)]
    pub fn note(&mut self, id: PathId, blocked: BlockedReason) {
        self.open = self.open.put(id, blocked == BlockedReason::None);
        if blocked == BlockedReason::Pacing || !self.paced.is_empty() {
            self.paced = self.paced.put(id, blocked == BlockedReason::Pacing);
        }
        self.changed = self.changed.with(id);
    }

    /// The next packet as the scheduler sees it, if there is one.
    #[inline]
    pub fn packet(&self) -> Option<&Packet> {
        if self.next.is_some() { Some(&self.packet) } else { None }
    }
}
