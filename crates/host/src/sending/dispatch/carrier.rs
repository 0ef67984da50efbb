//! Interface between [`Dispatch`] and a transport.

use weftway_path::{Bytes, Decision, Event, Instant, Message, Offset, PathId, PathSet, SendKind, Starved};

use super::super::Assigned;
use super::Dispatch;
use crate::Decided;

/// Data that a connection sends: a file, what an application writes, the streams of a mux.
pub trait Data {
    /// Number of bytes written, whether or not the send buffer takes it. Where it is not known before they are cut how
    /// long the data are: at least as much as the next record has, and nothing beyond what was cut if there is none.
    fn written(&mut self) -> u64;

    /// The message that byte `at` belongs to; none where the data are one message.
    fn message_at(&mut self, at: u64) -> Option<Message> {
        let _ = at;
        None
    }

    /// Returns true if the data are more than one message.
    #[inline]
    fn has_messages(&self) -> bool {
        false
    }

    /// Returns true if a message stays what [`Data::message_at`] has said of it until it is sent.
    #[inline]
    fn keeps_messages(&self) -> bool {
        false
    }

    /// Returns true if the data have no order until they are cut: what is written now may then come before what was
    /// written earlier. If not, they are one row of bytes.
    #[inline]
    fn cuts(&self) -> bool {
        false
    }

    /// Number of bytes of the next record, 0 if there is none. Only where [`Data::cuts`].
    fn next_record(&mut self) -> u64 {
        0
    }

    /// The data from `at` on are cut: they are the same from now on. A record has as many bytes as was told.
    #[inline]
    fn cut(&mut self, at: Offset, bytes: u64) {
        let _ = (at, bytes);
    }

    /// Returns true if what is at `at`, which is lost, is of use to anybody if it arrives at `soonest` or later. If
    /// not, it is not sent again, and counts as arrived.
    #[inline]
    fn is_wanted(&mut self, at: Offset, soonest: Instant) -> bool {
        let _ = (at, soonest);
        true
    }
}

/// Methods that a transport supplies to [`Dispatch`].
pub trait Carrier {
    /// Data that it sends.
    type Data: Data;

    /// The sending half above the paths.
    fn dispatch(&self) -> &Dispatch;

    /// The sending half above the paths, to change.
    fn dispatch_mut(&mut self) -> &mut Dispatch;

    /// The data.
    fn data(&mut self) -> &mut Self::Data;

    /// The time.
    fn now(&self) -> Instant;

    /// Returns true if data may leave at all: the handshake is done, and the connection not over.
    #[inline]
    fn is_live(&self) -> bool {
        true
    }

    /// End of what the send buffer takes of the written data.
    fn buffered(&mut self) -> u64;

    /// Writes more at this very time, now that everything before is sent: whether it did. The flow is up to date then.
    #[inline]
    fn write_more(&mut self) -> bool {
        self.data().cuts() && write_up(self)
    }

    /// Size of a packet that begins at `at` and has `bytes` at most.
    #[inline]
    fn packet_bytes(&self, at: u64, bytes: u64) -> u64 {
        let _ = at;
        bytes
    }

    /// Returns true if what ends a packet is fixed before a path takes it.
    #[inline]
    fn cuts_at_once(&self) -> bool {
        false
    }

    /// Paths, of those that have `carried` data which wait to be sent again, that should not carry them once more.
    #[inline]
    fn avoided(&self, carried: PathSet) -> PathSet {
        let _ = carried;
        PathSet::EMPTY
    }

    /// Path `id`, which has sent nothing, starts with this window, since others have shown so much
    /// ([`Dispatch::set_beginning`]).
    fn begin(&mut self, id: PathId, window: Bytes) {
        let _ = (id, window);
    }

    /// Sends `assigned` on path `id`, or puts it into the path's queue ([`Assigned::join_queue`]).
    fn place(&mut self, id: PathId, assigned: Assigned);

    /// Returns true if anything waits in the queue of path `id`.
    fn has_queue(&self, id: PathId) -> bool;

    /// Takes the first packet out of the queue of path `id`, and out of [`weftway_path::Path::queued`].
    fn take_queued(&mut self, id: PathId) -> Option<Assigned>;

    /// Brings up to date whether path `id` can take a packet.
    fn refresh(&mut self, id: PathId);

    /// A path has room and nothing may go. The transport may act: opportunistic retransmission, penalties, a timer for
    /// [`Dispatch::probe_at`]. Called at each question as long as it lasts.
    fn blocked(&mut self, why: Starved);

    /// Arms the scheduler's timer ([`Transport::wake_at`](crate::Transport::wake_at)).
    #[inline]
    fn wake_at(&mut self, at: Instant) {
        let _ = at;
    }

    /// Returns true if the log takes a reason ([`Transport::asks_why`](crate::Transport::asks_why)).
    fn asks_why(&mut self, decision: Decision) -> bool {
        let _ = decision;
        true
    }

    /// Writes a decision to the log ([`Transport::log`](crate::Transport::log)).
    fn log(&mut self, decided: Decided) {
        let _ = decided;
    }
}

/// Empties the queue of path `id`: what waits in it is to be sent again.
pub(super) fn empty_queue<C: Carrier>(carrier: &mut C, id: PathId) {
    let mut next = None;
    while let Some(assigned) = carrier.take_queued(id) {
        next = next.or(Some(assigned.after));
        let dispatch = carrier.dispatch_mut();
        dispatch.outbox.recall(assigned.chunk, id, assigned.first, assigned.kind == SendKind::Reinjection);
        dispatch.refund(id, assigned.bytes);
        dispatch.host.events.push(Event::Recalled(assigned.receipt(id)));
    }
    let view = carrier.dispatch_mut().views.get_mut(id);
    view.next = next.unwrap_or(view.next);
}

/// The flow ends where the send buffer now does: whether that is further than before. What a record has beside the
/// application's bytes is not known before it is cut.
#[inline(never)]
pub fn write_up<C: Carrier + ?Sized>(carrier: &mut C) -> bool {
    let end = carrier.buffered();
    let is_more = end > carrier.dispatch().flow.end.get();
    if is_more {
        carrier.dispatch_mut().write(end);
    }
    is_more
}
