//! What the scheduler is to be asked.

use weftway_path::{BlockedReason, Bytes, Instant, Offset, Packet, PathId, PathSet, SendKind};

/// Whether a scheduler must be asked, and about what.
#[derive(Clone)]
pub struct Question {
    /// The chunk at hand, and how it would be sent.
    pub hand: Option<(u64, SendKind)>,
    /// What the scheduler sees of it.
    pub packet: Packet,
    /// Paths that may send now.
    pub open: PathSet,
    /// Paths whose queue has room.
    pub roomy: PathSet,
    /// Paths that only their pacer holds back. Where nothing is to be sent no timer says that it has let go.
    pub paced: PathSet,
    /// When they were last looked at: a pacer that holds a path back then lets go later.
    pub looked_at: Instant,
    /// Paths whose timers are set anew when the turn is over.
    pub dirty: PathSet,
    /// Whether something happened since the scheduler last said `Wait`.
    pub ready: bool,
    /// Whether it was told that nothing may go though a path has room.
    pub starved: bool,
    /// Whether the flow has been brought up to date in this turn: then only what is sent moves it.
    pub synced: bool,
    /// When each path last gave back what waited in its queue.
    pub recalled: Vec<Instant>,
}

impl Question {
    /// Of a connection with so many paths; none is open yet.
    pub fn new(paths: usize) -> Self {
        let (offset, bytes, none) = (Offset::ZERO, Bytes::ZERO, PathSet::EMPTY);
        Self {
            hand: None,
            packet: Packet { offset, bytes, reinjection: false, carried: none, avoid: none },
            open: none,
            roomy: none,
            paced: none,
            looked_at: Instant::NEVER,
            dirty: none,
            ready: false,
            starved: false,
            synced: false,
            recalled: vec![Instant::NEVER; paths],
        }
    }

    /// Path `id` is held back for this reason, or not.
    #[inline(always)]
    pub fn note(&mut self, id: PathId, usable: bool, blocked: BlockedReason) {
        let is_open = usable && blocked == BlockedReason::None;
        self.open = if is_open { self.open.with(id) } else { self.open.without(id) };
        if blocked == BlockedReason::Pacing || !self.paced.is_empty() {
            self.paced = self.paced.put(id, blocked == BlockedReason::Pacing);
        }
        self.dirty = self.dirty.with(id);
    }
}
