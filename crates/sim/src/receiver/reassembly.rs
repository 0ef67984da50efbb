//! The connection's data at the receiver: what it holds out of order, and the window that it announces.

use weftway_host::sending::RangeSet;
use weftway_path::{Bytes, Instant, Offset, Span};
use weftway_scenario::config::{Buffer, TransportConfig};
use weftway_scenario::stack::ReceiveWindow;

/// The connection's data at the receiver.
#[derive(Clone, Debug)]
pub struct Reassembly {
    pub(super) next: u64,
    pub(super) held: RangeSet,
    pub(super) edge: u64,
    /// Linux v1: the window with which each path begins.
    pub(super) first: u64,
    pub(super) window: u64,
    /// The payload of a full packet.
    packet: u64,
    /// The window is QUIC's limit.
    pub(super) credit: bool,
    /// QUIC: the limit was raised, or the sender asked for it, and no packet has told it yet.
    pub(super) untold: bool,
    /// The window is a measured share of the buffer, as Linux v1 has it.
    pub(super) measured: bool,
    /// Drop what comes out of order from beyond the edge, as Linux v1 does.
    pub(super) drops: bool,
    auto_max: Option<u64>,
    /// Receive-window growth (Linux `tcp_rcv_space_adjust`): what was read in the last round.
    round: (Instant, u64, u64),
    /// Bytes that paths have put aside, above a hole of theirs.
    aside: u64,
    /// Linux v1: bytes in order that the application has not read yet.
    unread: u64,
    /// The window that was announced last, on whatever path.
    pub(super) announced: u64,
    /// Linux v1: by how many bits a window is shifted for the 16 bits of the header (RFC 7323 §2.2).
    pub(super) scale: Option<u32>,
    /// Bytes that were missing and do not come.
    skipped: u64,
    /// The integral of held bytes over time, those put aside included, for means.
    held_ns: u128,
    held_since: Instant,
    /// The most bytes held.
    pub held_max: u64,
}

/// Fate of a packet's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was the next in order; so many bytes can be read now.
    InOrder(Bytes),
    /// It is held until what is missing arrives.
    Held,
    /// The data were there already: nothing of them was new.
    Duplicate,
    /// It reached beyond the window: it is not kept.
    Dropped,
    /// It waits until a hole of its path is filled; only then it shows what it brings.
    Aside,
}

/// Fate of data that a path had put aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Bytes that were new.
    pub fresh: u64,
    /// Packets that brought nothing new.
    pub duplicates: u64,
    /// Packets that were dropped as beyond the window.
    pub dropped: u64,
}

impl Released {
    pub(super) fn add(&mut self, arrival: Arrival, bytes: u32) {
        match arrival {
            Arrival::Dropped => self.dropped += 1,
            Arrival::Duplicate => self.duplicates += 1,
            Arrival::InOrder(_) | Arrival::Held | Arrival::Aside => self.fresh += u64::from(bytes),
        }
    }
}

/// The most that the handshake tells of the window, before its scale is agreed on.
pub(super) const FIRST_WINDOW: u64 = 65_535;

/// The receive buffer that Linux begins with (`tcp_rmem[1]`).
const FIRST_BUFFER: Bytes = Bytes::new(131_072);

/// Part of the window that data held out of order take, in ninths of their size.
const HELD_NINTHS: u64 = 8;

/// The largest segment that Linux advertises, less its timestamps (`advmss`).
pub(super) const ADVERTISED: u64 = 1448;

/// Bytes of a receive buffer that become window. Linux charges a packet with all the memory that it takes: today by
/// measure (`scaling_ratio`; 1424 of 2304 bytes for full packets, in 256ths), before 6.6 by assuming a half
/// (`tcp_adv_win_scale`).
fn usable(buffer: Bytes, window: ReceiveWindow) -> u64 {
    match window {
        ReceiveWindow::Assumed => buffer.get() / 2,
        ReceiveWindow::Measured => buffer.mul_div(158, 256).get(),
        ReceiveWindow::Credit => buffer.get(),
    }
}

/// The window with which a subflow of Linux v1 begins: half of its buffer, before a ratio is measured, in whole
/// segments (`tcp_select_initial_window`; without a bound of 64 KiB since Linux 6.11).
fn first_window(buffer: Bytes) -> u64 {
    let space = buffer.get() / 2;
    if space > ADVERTISED { space / ADVERTISED * ADVERTISED } else { space }
}

/// The window scale that Linux v1 agrees on: for half of a buffer that the application asked for, before a ratio is
/// measured, or for the largest that it may grow to (`tcp_select_initial_window`; `SO_RCVBUF` of 127 KiB has 1 and of
/// 129 KiB has 2).
fn scale(transport: &TransportConfig) -> Option<u32> {
    let (Buffer::Fixed(bytes) | Buffer::Auto { max: bytes }) = transport.receive_buffer;
    let bits = bytes.get().max(1).ilog2().saturating_sub(15).min(14);
    (transport.rules.receive_window == ReceiveWindow::Measured).then_some(bits)
}

/// The buffer behind a size that an application asks for: Linux doubles `SO_RCVBUF`.
fn asked(bytes: Bytes, window: ReceiveWindow) -> Bytes {
    if window == ReceiveWindow::Credit { bytes } else { bytes + bytes }
}

impl Reassembly {
    /// Reassembly before anything has arrived.
    pub fn new(transport: &TransportConfig) -> Self {
        let rule = transport.rules.receive_window;
        let measured = rule == ReceiveWindow::Measured;
        let (buffer, auto_max) = match transport.receive_buffer {
            Buffer::Fixed(bytes) => (asked(bytes, rule), None),
            Buffer::Auto { max } => (FIRST_BUFFER.min(max), Some(usable(max, rule))),
        };
        let window = match transport.receive_buffer {
            Buffer::Auto { max } if !measured => FIRST_WINDOW.min(max.get()),
            _ => usable(buffer, rule),
        };
        let window = transport.stream_window.map_or(window, |stream| window.min(stream.get()));
        // A window that takes no packet would never open.
        let [window, first] = [window, first_window(buffer)].map(|window| window.max(transport.mss.get()));
        Self {
            next: 0,
            held: RangeSet::default(),
            edge: if measured { window.min(first).min(FIRST_WINDOW) } else { window },
            first,
            window,
            packet: transport.mss.get(),
            credit: rule == ReceiveWindow::Credit,
            untold: false,
            measured,
            drops: transport.subflow_windows,
            auto_max,
            round: (Instant::ZERO, 0, 10 * 1448), // rcvq_space starts at ten segments
            aside: 0,
            unread: 0,
            announced: window,
            scale: scale(transport),
            skipped: 0,
            held_ns: 0,
            held_since: Instant::ZERO,
            held_max: 0,
        }
    }

    /// Everything before it has arrived.
    #[inline]
    pub fn next(&self) -> Offset {
        Offset::new(self.next)
    }

    /// Returns true if byte `at` has arrived.
    pub fn has(&self, at: Offset) -> bool {
        at.get() < self.next || self.held.range_of(at.get()).is_some()
    }

    /// The right edge of the window.
    #[inline]
    pub fn edge(&self) -> Offset {
        Offset::new(self.edge)
    }

    /// The right edge as a header can tell it. The receiver itself keeps what it meant (`mptcp_set_rwin`): data up to
    /// there are not dropped.
    #[inline]
    pub(super) fn edge_in_header(&self) -> Offset {
        let Some(bits) = self.scale else { return self.edge() };
        let window = (self.edge - self.next).min(u64::from(u16::MAX) << bits);
        Offset::new(self.next + (window >> bits << bits))
    }

    /// Bytes held out of order, by the connection or by a path.
    #[inline]
    pub fn held(&self) -> Bytes {
        Bytes::new(self.held.total() + self.aside)
    }

    /// Adds the time since the last change to the integral of held bytes.
    fn account(&mut self, now: Instant) {
        self.held_ns += u128::from(self.held().get()) * u128::from(now.since(self.held_since).as_nanos());
        self.held_since = now;
    }

    /// A path puts so many bytes aside, or takes them from there.
    pub(super) fn put_aside(&mut self, now: Instant, bytes: u32) {
        self.account(now);
        self.aside += u64::from(bytes);
        self.held_max = self.held_max.max(self.held().get());
    }

    pub(super) fn take_aside(&mut self, now: Instant, bytes: u32) {
        self.account(now);
        self.aside -= u64::from(bytes);
    }

    /// Returns true if data out of order from beyond the edge are dropped, and those above a hole of their path put
    /// aside.
    #[inline]
    pub fn drops(&self) -> bool {
        self.drops
    }

    /// Takes a packet's data.
    #[inline]
    pub fn arrive(&mut self, now: Instant, offset: Offset, bytes: u32) -> Arrival {
        let (lo, hi) = (offset.get(), offset.get() + u64::from(bytes));
        if lo == self.next && self.held.first().is_none_or(|range| range.0 > hi) {
            self.next = hi;
            return Arrival::InOrder(Bytes::new(u64::from(bytes)));
        }
        self.arrive_among_held(now, lo, hi)
    }

    fn arrive_among_held(&mut self, now: Instant, lo: u64, hi: u64) -> Arrival {
        if hi <= self.next {
            return Arrival::Duplicate;
        }
        // `mptcp_data_queue_ofo`; what is next in order is taken whatever the window.
        if self.drops && lo > self.next && hi > self.edge {
            return Arrival::Dropped;
        }
        self.account(now);
        // Mostly the highest range grows.
        if lo > self.next && self.held.extend(lo, hi) {
            self.held_max = self.held_max.max(self.held().get());
            return Arrival::Held;
        }
        self.arrive_apart(lo, hi)
    }

    /// Notes that what is missing before `to` does not come: nothing waits for it. Returns true if it was missing.
    pub fn skip(&mut self, now: Instant, to: Offset) -> bool {
        if to.get() <= self.next {
            return false;
        }
        self.account(now);
        let held = self.held.total();
        self.held.remove_below(to.get());
        self.skipped += to.get() - self.next - (held - self.held.total());
        self.next = self.held.take_from(to.get()).map_or(to.get(), |range| range.1);
        true
    }

    /// Bytes that have arrived in order; of those before [`Reassembly::next`], not what was skipped.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.next - self.skipped)
    }

    #[inline(never)]
    fn arrive_apart(&mut self, lo: u64, hi: u64) -> Arrival {
        if lo == self.next && self.held.first().is_some_and(|range| range.0 == hi) {
            self.next = self.held.take_from(hi).map_or(hi, |range| range.1);
            return Arrival::InOrder(Bytes::new(self.next - lo));
        }
        let before = self.held.total();
        self.held.insert(lo.max(self.next), hi, |_, _| {});
        self.held_max = self.held_max.max(self.held().get());
        if lo > self.next {
            return if self.held.total() > before { Arrival::Held } else { Arrival::Duplicate };
        }
        let end = self.held.take_from(self.next).map_or(self.next, |range| range.1);
        let read = end - self.next;
        self.next = end;
        Arrival::InOrder(Bytes::new(read))
    }

    /// Linux v1: so many bytes have come in order and are not read yet. They take room.
    #[inline]
    pub fn set_unread(&mut self, bytes: Bytes) {
        self.unread = bytes.get();
    }

    /// Data were read. Whether the sender must be told at once: QUIC raises its limits when half of the window is used,
    /// or too little is left for a packet; TCP raises them with every acknowledgement.
    #[inline]
    pub fn open(&mut self, now: Instant, rtt: Span) -> bool {
        if self.auto_max.is_some() {
            self.grow(now, rtt);
        }
        if !self.credit {
            return false;
        }
        let edge = self.next + self.window;
        let due = edge.saturating_sub(self.edge) >= self.window / 2 || self.edge < self.next + self.packet;
        if due {
            (self.edge, self.untold) = (edge, true);
        }
        due
    }

    /// The sender asks for the limit.
    pub fn asked(&mut self) {
        if self.credit {
            (self.edge, self.untold) = (self.edge.max(self.next + self.window), true);
        }
    }

    /// Linux: the window beside data that a path has put `aside`, or that TCP holds out of order (`tcp_space`). Each
    /// packet takes 2048 of the 2304 bytes by which the window is measured, because merged packets give back their
    /// descriptors.
    #[inline]
    pub(super) fn space_beside(&self, aside: u64) -> u64 {
        let out_of_order = if self.drops { aside } else { self.held.total() };
        self.window.saturating_sub(out_of_order * HELD_NINTHS / 9)
    }

    /// Rest of a TCP receiver's window: data held out of order take room, as in [`Reassembly::space_beside`]. With less
    /// than a sixteenth left, or less than a packet, the window is shut (`__tcp_select_window`).
    #[inline]
    pub(super) fn free(&self) -> u64 {
        let free = self.window.saturating_sub(self.held.total() * HELD_NINTHS / 9 + self.unread);
        let scarce = free < self.window / 2 && (free < self.window / 16 || free < self.packet);
        if scarce { 0 } else { free }
    }

    /// Moves a TCP receiver's edge as far as the window of an acknowledgement reaches, and never back
    /// (`mptcp_set_rwin`). What the subflow announced before does not count: on Linux 6.18 `tcp_probe` shows each
    /// subflow's `rcv_wnd` follow the connection's edge down.
    #[inline]
    pub(super) fn announce(&mut self, most: u64) {
        self.edge = self.edge.max(self.next + self.free().min(most));
        self.announced = self.edge - self.next;
    }

    /// Once a round trip, a window less than twice what was read in it (and room for the round
    /// after) grows to that.
    fn grow(&mut self, now: Instant, rtt: Span) {
        let (start, at_start, last) = self.round;
        if now.since(start) < rtt || rtt.is_zero() {
            return;
        }
        let read = self.next - at_start;
        self.round = (now, self.next, last.max(read));
        if read > last {
            // Twice what was read, and more in proportion to the growth; before 6.18 16 segments, too.
            let mut want = 2 * read + if self.measured { 0 } else { 16 * 1460 };
            if last > 0 {
                want +=
                    (want as u128 * (2 * (read - last)) as u128 / last as u128).min(u128::from(u64::MAX / 4)) as u64;
            }
            self.window = self.window.max(want.min(self.auto_max.unwrap_or(want)));
        }
    }

    /// The mean of the bytes held, over `span` from the start.
    pub fn held_mean(&self, now: Instant, span: Span) -> f64 {
        let ns = self.held_ns + u128::from(self.held().get()) * u128::from(now.since(self.held_since).as_nanos());
        if span.is_zero() { 0.0 } else { ns as f64 / span.as_nanos() as f64 }
    }

    /// Time that a byte waited for what was missing before it, on the mean over all bytes.
    pub fn mean_wait(&self) -> f64 {
        let delivered = self.delivered().get();
        if delivered == 0 { 0.0 } else { self.held_ns as f64 / delivered as f64 / 1e6 }
    }
}
