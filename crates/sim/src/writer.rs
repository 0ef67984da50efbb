//! The way of the application's data to the sender: the send buffer, and with Linux v1 the single writes and the
//! fragments in which they are pushed.
//!
//! Linux v1 (`__mptcp_push_pending`, `mptcp_sendmsg` of Linux 6.18) tells writes apart: it takes one write, pushes it
//! fragment by fragment, and looks at the memory of the subflow before each fragment, not within one.

use weftway_host::sending::Views;
use weftway_path::{Bytes, Flow, Instant, Offset, PathId};
use weftway_scenario::config::{Buffer, Direction, TransportConfig};
use weftway_sched::FRAGMENT;

use crate::sender::PathSender;

/// Send memory that Linux counts per packet of window (`tcp_sndbuf_expand`): a segment with its headers and
/// bookkeeping in the next power of two, 2048 bytes, and 256 for the buffer's descriptor. A kernel that leaves room
/// for the headers of wireless devices or tunnels needs 4096 + 256.
const SEND_MEMORY_PER_PACKET: u64 = 2304;

/// Send memory of a socket before it is connected (`tcp_wmem[1]`).
const UNCONNECTED_SEND_MEMORY: u64 = 16_384;

/// Beside its subflows' send memory, the connection has the least of a socket (`tcp_wmem[0]`).
const LEAST_SEND_MEMORY: u64 = 4096;

/// End of the application's data at the sender.
#[derive(Clone)]
pub struct Writer {
    /// Bytes that the application writes ahead of what is acknowledged.
    pub buffer: u64,
    /// End up to which the buffer lets it write: a full one takes more when a third of it is free.
    writable: u64,
    /// Bytes that it writes at once. Only Linux v1 tells writes apart.
    at_once: u64,
    /// Bytes that it has written.
    written: u64,
    /// Time at which it was last looked at, and how far it could write then.
    writing: (Instant, u64),
    /// The last packet that was not full: its path and first byte.
    small: Option<(PathId, Offset)>,
    /// The path that took the last packet, and when.
    pub pushed: Option<(PathId, Instant)>,
    /// End of the fragment that is being sent.
    fragment: u64,
}

impl Writer {
    /// Writer of an application that writes `write` at once.
    pub fn new(transport: &TransportConfig, write: Bytes) -> Self {
        Self {
            buffer: 0,
            writable: 0,
            at_once: if transport.rules.pushes_fragments { write.get() } else { u64::MAX },
            written: 0,
            writing: (Instant::ZERO, 0),
            small: None,
            pushed: None,
            fragment: 0,
        }
    }

    /// Returns true if all that the application can write now is one write: nothing is written while packets are sent.
    #[inline]
    pub fn writes_at_once(&self) -> bool {
        self.at_once == u64::MAX
    }

    /// Returns true if a write of this instant waits for what was written before it to be sent.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.written < self.writing.1
    }

    /// Returns true if the buffer is full of what is not acknowledged.
    pub fn is_full(&self, una: Offset) -> bool {
        self.writable >= una.get() + self.buffer
    }

    /// End up to which the buffer takes what the application has `written`, with everything before `una` acknowledged.
    #[inline]
    pub fn take(&mut self, now: Instant, una: Offset, written: u64, transport: &TransportConfig) -> u64 {
        // The send buffer keeps what is not acknowledged, whatever QUIC's limit tells.
        let room = una.get() + self.buffer;
        // Linux wakes a blocked writer when what is queued is at most twice what is free
        // (`sk_stream_is_writeable`): data come to the scheduler in portions, not in drops. What is left of a
        // grant and fills no packet would wait for more for ever.
        let left = self.writable.saturating_sub(una.get());
        let wakes = left * 3 <= self.buffer * 2 || left < transport.mss.get();
        if !transport.rules.writer_waits || wakes {
            self.writable = self.writable.max(self.fills_fragment(room));
        }
        self.write_up(now, written);
        self.written
    }

    /// Linux v1 looks at the memory before it begins a fragment, not while it fills it: a buffer ends with a fragment,
    /// or with what the application writes at once (`mptcp_send_limit`). What did not fit begins the next write.
    #[inline]
    fn fills_fragment(&self, room: u64) -> u64 {
        let more = room.saturating_sub(self.writable);
        if self.writes_at_once() || more == 0 {
            return room;
        }
        room.next_multiple_of(FRAGMENT).min(self.writable + more.next_multiple_of(self.at_once))
    }

    /// The writes of earlier instants are over, whether their pushes found a path or not. Those of this instant follow
    /// one by one, each when what was written before it is sent.
    #[inline]
    fn write_up(&mut self, now: Instant, written: u64) {
        let most = written.min(self.writable);
        if self.writes_at_once() {
            self.written = most;
            return;
        }
        if self.writing.0 != now {
            self.written = self.written.max(self.writing.1);
        }
        self.writing = (now, most);
    }

    /// Makes one more write, if the buffer takes it; whether it did.
    #[inline]
    pub fn write_more(&mut self, flow: &mut Flow) -> bool {
        let most = self.writing.1;
        if self.writes_at_once() || self.written >= most {
            return false;
        }
        let before = self.written;
        self.written = before.saturating_add(self.at_once).min(most);
        flow.end = Offset::new(self.written);
        flow.unsent += Bytes::new(self.written - before);
        true
    }

    /// Linux v1: where a packet of at most `bytes` at `at` ends. A fragment's last packet ends with it; only a subflow
    /// that goes on alone joins it to the next. The rest that is less than a packet is sent when the window
    /// (`mptcp_check_allowed_size`) or what the application could write ends there, unless the last such packet is not
    /// acknowledged: with `TCP_NODELAY`, too, since the kernel sends few of them in either case.
    #[inline]
    pub fn packet_bytes(&self, at: u64, bytes: u64, flow: &Flow, views: &Views, senders: &[PathSender]) -> u64 {
        let alone = views.usable().len() == 1;
        let bytes = if alone { bytes } else { bytes.min((at / FRAGMENT + 1) * FRAGMENT - at) };
        let mut most = flow.edge.get();
        if !self.has_more() {
            most = most.min(flow.end.get());
        }
        let rest = most.saturating_sub(at);
        let short = (1..bytes).contains(&rest);
        if short && self.small.is_none_or(|(id, offset)| senders[id.index()].has_settled(offset)) {
            rest
        } else {
            bytes
        }
    }

    /// Linux v1: path `id` takes a packet of `bytes` at `offset` that is not full.
    #[inline]
    pub fn note_small(&mut self, id: PathId, offset: Offset, bytes: u32) {
        // The end of a fragment joins what follows it on the same subflow.
        if !(offset.get() + u64::from(bytes)).is_multiple_of(FRAGMENT) {
            self.small = Some((id, offset));
        }
    }

    /// Linux v1: path `id` has taken data at `offset`. The path that took the last, if it is another one: its memory is
    /// looked at again.
    #[inline]
    pub fn push(&mut self, now: Instant, id: PathId, offset: Offset) -> Option<PathId> {
        if offset.get() >= self.fragment {
            self.fragment = ((offset.get() / FRAGMENT + 1) * FRAGMENT).min(self.written);
        }
        self.pushed.replace((id, now)).map(|(before, _)| before).filter(|&before| before != id)
    }

    /// Linux v1: whether path `id` is within a fragment, of which `next` comes next: then no memory is asked for.
    #[inline]
    pub fn is_within_fragment(&self, now: Instant, id: PathId, next: Offset) -> bool {
        self.pushed == Some((id, now)) && next.get() < self.fragment
    }

    /// Linux v1: the client's socket for the subflow of `sender` begins its handshake. Its memory counts when the
    /// connection's is summed up the next time (`__mptcp_sync_sndbuf`).
    pub fn join(&self, sender: &mut PathSender, transport: &TransportConfig) {
        let is_client = transport.direction == Direction::Upload;
        if transport.rules.pushes_fragments && is_client && matches!(transport.send_buffer, Buffer::Auto { .. }) {
            sender.memory.most = Bytes::new(UNCONNECTED_SEND_MEMORY);
        }
    }

    /// Linux grows a subflow's send memory with its window and never shrinks it; the connection has the sum. Path `id`
    /// has a window as wide as never before.
    pub fn grow_buffer(&mut self, id: PathId, senders: &mut [PathSender], transport: &TransportConfig) {
        match transport.send_buffer {
            Buffer::Fixed(bytes) => {
                senders[id.index()].memory.most = bytes.max(transport.mss);
                self.buffer = bytes.get();
            }
            Buffer::Auto { max } => {
                let sender = &mut senders[id.index()];
                let packets = sender.memory.widest.packets(transport.mss).max(10);
                let memory = (sender.cc.send_memory_windows() * packets * SEND_MEMORY_PER_PACKET).min(max.get());
                sender.memory.most = Bytes::new(memory);
                let sum: u64 = senders.iter().map(|sender| sender.memory.most.get()).sum();
                self.buffer = sum + LEAST_SEND_MEMORY;
            }
        }
        // A buffer that takes no packet would hold everything up.
        self.buffer = self.buffer.max(transport.mss.get());
    }
}
