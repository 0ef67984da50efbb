//! The receiving side: when it acknowledges, what it holds out of order, what it lets the sender
//! send.

use std::collections::VecDeque;

use weftway_host::sending::RangeSet;
use weftway_path::{Bytes, Instant, Offset, PathId, Span};
use weftway_scenario::config::{Buffer, TransportConfig};
use weftway_scenario::stack::{LossRecovery, ReceiveWindow};

use crate::capture::Capture;
use crate::wire::{Data, stamp};

/// The most blocks that an acknowledgement reports: SACK with timestamps has room for three
/// (RFC 2018 §3); QUIC's limit is ours.
pub const MAX_BLOCKS: usize = 32;
const TCP_BLOCKS: usize = 3;

/// Linux acknowledges this many packets at once after a start or a long pause, and after
/// duplicates (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;

/// What arrived on one path.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// Everything below has arrived.
    cum: u64,
    /// What has arrived above.
    above: RangeSet,
    /// The highest that has arrived, plus one.
    top: u64,
    /// The packet that arrived last.
    newest: u64,
    /// Packets since the last acknowledgement.
    unacked: u32,
    /// Packets that are still acknowledged at once.
    quick: u32,
    newest_at: Instant,
    /// The timestamp to echo: of the newest packet at or below what was last acknowledged when it
    /// came (RFC 7323 §4.3).
    echo: Instant,
    /// What was last acknowledged.
    reported: u64,
    /// Linux v1: the most that it announces; grows by two packets with each that arrives, but not while a hole is open
    /// (`rcv_ssthresh`, `tcp_grow_window`).
    threshold: u64,
    /// It has taken a packet since it came up.
    begun: bool,
    /// The window that it announced last, less what has come since.
    window: u64,
    /// Linux v1: the receiver's own estimate of the round trip.
    pub rtt: ReceiverRtt,
    /// A packet that is not acknowledged yet was not full.
    short: bool,
    duplicate: bool,
    marked: bool,
    /// Linux v1: data above a hole of the path, by the number of their packet. The connection does not see them before
    /// the hole is filled.
    waiting: VecDeque<(u64, Offset, u32)>,
    /// How often what is in `above` has changed, other than that its highest range grew or its lowest were settled.
    pub gaps: u32,
    /// Where [`ReceiveEnd`](crate::ends::ReceiveEnd) last wrote down its blocks.
    pub described: usize,
    /// When an acknowledgement is due at the latest.
    pub due: Instant,
    /// How often the path has come up, as this end knows.
    pub epoch: u8,
    /// What a capture at the receiver sees of it.
    pub capture: Capture,
}

impl Default for Inbound {
    fn default() -> Self {
        Self {
            cum: 0,
            above: RangeSet::default(),
            top: 0,
            newest: 0,
            unacked: 0,
            quick: QUICK_ACKS,
            newest_at: Instant::ZERO,
            echo: Instant::ZERO,
            reported: 0,
            threshold: 0,
            begun: false,
            window: 0,
            rtt: ReceiverRtt::default(),
            short: false,
            duplicate: false,
            marked: false,
            waiting: VecDeque::new(),
            gaps: 0,
            described: usize::MAX,
            due: Instant::NEVER,
            epoch: 0,
            capture: Capture::default(),
        }
    }
}

impl Inbound {
    /// A path that comes up the `epoch`-th time.
    fn beginning(data: &Reassembly, epoch: u8) -> Self {
        Self { epoch, threshold: data.first, window: data.first.min(FIRST_WINDOW), ..Self::default() }
    }

    /// The first packet has come: with it a ratio is measured, and what the connection has `announced` is the path's as well
    /// (`tcp_measure_rcv_mss`, `tcp_set_window_clamp`).
    #[cold]
    fn begin_window(&mut self, announced: u64) {
        self.begun = true;
        self.threshold = self.threshold.max(announced);
    }

    /// Lets the window grow with what has come since the last acknowledgement.
    #[inline]
    fn grow_window(&mut self, announced: u64, window: u64) {
        if !self.begun {
            self.begin_window(announced.min(window));
        }
        // A departure from Linux 6.18, which grows it above a hole, too, while there is room (`tcp_data_queue_ofo` calls
        // `tcp_grow_window`, which asks `tcp_space`). `tcp_probe` shows `rcv_ssthresh` and the sender's `snd_wnd` rise by
        // 2896 with each packet there. With that alone the cells of docs/explanation/fidelity.md that it concerns are
        // further off, because more or fewer false alarms of the meta timer precede a failure: not understood.
        if !self.has_gaps() {
            self.threshold = (self.threshold + GROWTH * u64::from(self.unacked)).min(window);
        }
    }

    /// Takes a packet; whether an acknowledgement must leave at once.
    #[inline(always)]
    pub fn arrive(&mut self, now: Instant, data: &Data, marked: bool, transport: &TransportConfig) -> bool {
        let quic = transport.rules.recovery == LossRecovery::Quic;
        if data.settled > self.cum {
            self.settle(data.settled);
        }
        // Linux enters quick acknowledgements again after a pause longer than a retransmission timeout; the timeout's floor
        // stands for it here.
        if now.since(self.newest_at) > transport.min_rto {
            self.quick = QUICK_ACKS;
        }
        let index = data.index;
        let in_order = index == self.cum && self.above.is_empty();
        let fresh = if in_order {
            self.cum += 1;
            true
        } else {
            self.take_above(index)
        };
        // What ends before that is answered and looked at no further (`tcp_validate_incoming`).
        if index <= self.reported && index + 1 >= self.reported && data.sent_at >= self.echo {
            self.echo = data.sent_at;
        }
        self.newest = index;
        self.newest_at = now;
        self.unacked += 1;
        let out_of_order = if quic {
            let next = self.top;
            self.top = next.max(index + 1);
            index != next
        } else {
            self.capture.data(now, index);
            !in_order
        };
        if transport.rules.tells_of_reading {
            let full = u64::from(data.bytes) >= transport.mss.get();
            self.short |= !full;
            self.rtt.sample(now, data.echo, full);
            self.window = self.window.saturating_sub(u64::from(data.bytes));
        }
        if !fresh {
            self.duplicate = true;
            self.quick = QUICK_ACKS;
        }
        if marked {
            self.marked = true;
        }
        let at_once =
            self.unacked >= transport.ack_every || out_of_order || marked || !fresh || (!quic && self.quick > 0);
        if !at_once && self.due.is_never() {
            self.due = now + transport.ack_delay;
        }
        at_once
    }

    /// Whether anything is not acknowledged yet.
    pub fn owes(&self) -> bool {
        self.unacked > 0
    }

    /// QUIC: takes a packet without data that asks for an acknowledgement; whether one must leave at once.
    pub fn owe(&mut self, now: Instant, transport: &TransportConfig) -> bool {
        self.unacked += 1;
        let at_once = self.unacked >= transport.ack_every;
        if !at_once && self.due.is_never() {
            self.due = now + transport.ack_delay;
        }
        at_once
    }

    /// Takes packet `index` where something else is missing; whether it is new.
    #[inline(never)]
    fn take_above(&mut self, index: u64) -> bool {
        if index < self.cum {
            return false;
        }
        if self.above.last().is_none_or(|range| range.1 != index) {
            self.gaps = self.gaps.wrapping_add(1);
        }
        let mut fresh = false;
        self.above.insert(index, index + 1, |_, _| fresh = true);
        if let Some((_, hi)) = self.above.take_from(self.cum) {
            self.cum = hi;
        }
        fresh
    }

    fn settle(&mut self, below: u64) {
        self.above.remove_below(below);
        self.cum = self.above.take_from(below).map_or(below, |(_, hi)| hi);
    }

    /// Whether packet `index`, which has arrived, is above a hole, or others wait for one to be filled.
    #[inline]
    pub fn keeps_order(&self, index: u64) -> bool {
        index >= self.cum || !self.waiting.is_empty()
    }

    /// Puts data aside that arrived above a hole, unless they are there already.
    fn put_aside(&mut self, data: &Data) -> bool {
        let at = self.waiting.partition_point(|&(index, ..)| index < data.index);
        let is_new = self.waiting.get(at).is_none_or(|&(index, ..)| index != data.index);
        if is_new {
            self.waiting.insert(at, (data.index, data.offset, data.bytes));
        }
        is_new
    }

    /// The next of the data put aside, if no hole is before them any more.
    fn take_waiting(&mut self) -> Option<(Offset, u32)> {
        let &(index, offset, bytes) = self.waiting.front()?;
        (index < self.cum).then(|| {
            self.waiting.pop_front();
            (offset, bytes)
        })
    }

    /// Whether something has arrived out of order.
    #[inline]
    pub fn has_gaps(&self) -> bool {
        !self.above.is_empty()
    }

    /// Composes an acknowledgement, which answers for everything so far.
    #[inline]
    pub fn report(&mut self, now: Instant) -> AckReport {
        self.unacked = 0;
        self.short = false;
        self.quick = self.quick.saturating_sub(1);
        self.due = Instant::NEVER;
        self.reported = self.cum;
        AckReport {
            cum: self.cum,
            duplicate: core::mem::take(&mut self.duplicate),
            marked: core::mem::take(&mut self.marked),
            echo: self.echo,
            delay: now.since(self.newest_at),
        }
    }

    /// TCP: the block that holds the newest packet, then the highest others. QUIC: the highest. How many there are.
    pub fn blocks(&self, quic: bool, blocks: &mut [(u64, u64); MAX_BLOCKS]) -> usize {
        if quic {
            blocks.iter_mut().zip(self.above.iter().rev()).for_each(|(block, range)| *block = range);
            return self.above.iter().len().min(MAX_BLOCKS);
        }
        let first = self.above.range_of(self.newest);
        let others = self.above.iter().rev().filter(|&range| Some(range) != first);
        let mut count = 0;
        for range in first.into_iter().chain(others).take(TCP_BLOCKS) {
            blocks[count] = range;
            count += 1;
        }
        count
    }

    /// The end of the highest block.
    #[inline]
    pub fn highest(&self) -> u64 {
        self.above.last().map_or(0, |range| range.1)
    }
}

/// Estimate of a path's round trip that its receiver makes (`tcp_rcv_rtt_measure_ts`). A sample is the time since it
/// sent the acknowledgement whose timestamp a packet echoes. A shorter one is taken at once, and of a longer one an
/// eighth (`tcp_rcv_rtt_update` since Linux 6.16).
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiverRtt {
    /// In eighths of a microsecond; zero before the first sample.
    eighths: u64,
    /// The timestamp that was echoed last: one sample for each.
    echo: u32,
}

impl ReceiverRtt {
    /// Takes the timestamp `echo` of a packet that arrives. Only a `full` packet counts: any other may have waited for
    /// data.
    #[inline]
    fn sample(&mut self, now: Instant, echo: u32, full: bool) {
        if echo == self.echo {
            return;
        }
        self.echo = echo;
        let millis = u64::from(stamp(now).wrapping_sub(echo));
        if !full || millis == 0 {
            return;
        }
        let sample = 8 * 1000 * millis;
        self.eighths = if self.eighths == 0 || sample < self.eighths {
            sample
        } else {
            self.eighths - self.eighths / 8 + sample / 8
        };
    }

    /// The estimate; zero before the first sample.
    pub fn get(&self) -> Span {
        Span::from_micros(self.eighths / 8)
    }
}

/// What an acknowledgement says of its path, beside its blocks.
#[derive(Clone, Copy, Debug)]
pub struct AckReport {
    /// Everything below has arrived.
    pub cum: u64,
    /// A packet arrived twice.
    pub duplicate: bool,
    /// A packet carried an ECN mark.
    pub marked: bool,
    /// The timestamp to echo.
    pub echo: Instant,
    /// How long the newest packet waited.
    pub delay: Span,
}

/// The connection's data at the receiver.
#[derive(Clone, Debug)]
pub struct Reassembly {
    next: u64,
    held: RangeSet,
    edge: u64,
    /// Linux v1: the window with which each path begins.
    first: u64,
    window: u64,
    /// The payload of a full packet.
    packet: u64,
    /// The window is QUIC's limit.
    credit: bool,
    /// QUIC: the limit was raised, or the sender asked for it, and no packet has told it yet.
    untold: bool,
    /// The window is a measured share of the buffer, as Linux v1 has it.
    measured: bool,
    /// Drop what comes out of order from beyond the edge, as Linux v1 does.
    drops: bool,
    auto_max: Option<u64>,
    /// Receive-window growth (Linux `tcp_rcv_space_adjust`): what was read in the last round.
    round: (Instant, u64, u64),
    /// Bytes that paths have put aside, above a hole of theirs.
    aside: u64,
    /// Linux v1: bytes in order that the application has not read yet.
    unread: u64,
    /// The window that was announced last, on whatever path.
    announced: u64,
    /// Linux v1: by how many bits a window is shifted for the 16 bits of the header (RFC 7323 §2.2).
    scale: Option<u32>,
    /// The integral of held bytes over time, those put aside included, for means.
    held_ns: u128,
    held_since: Instant,
    /// The most bytes held.
    pub held_max: u64,
}

/// What became of a packet's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was the next in order; so many bytes can be read now.
    InOrder(Bytes),
    /// It is held until what is missing arrives.
    Held,
    /// Nothing of it was new.
    Duplicate,
    /// It reached beyond the window: it is not kept.
    Dropped,
    /// It waits until a hole of its path is filled; only then it shows what it brings.
    Aside,
}

/// What became of data that a path had put aside.
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
    fn add(&mut self, arrival: Arrival, bytes: u32) {
        match arrival {
            Arrival::Dropped => self.dropped += 1,
            Arrival::Duplicate => self.duplicates += 1,
            Arrival::InOrder(_) | Arrival::Held | Arrival::Aside => self.fresh += u64::from(bytes),
        }
    }
}

/// The most that the handshake tells of the window, before its scale is agreed on.
const FIRST_WINDOW: u64 = 65_535;

/// The receive buffer that Linux begins with (`tcp_rmem[1]`).
const FIRST_BUFFER: Bytes = Bytes::new(131_072);

/// What data held out of order take of the window, in ninths of their size.
const HELD_NINTHS: u64 = 8;

/// The largest segment that Linux advertises, less its timestamps (`advmss`).
const ADVERTISED: u64 = 1448;

/// By how much the window grows at most with a packet.
const GROWTH: u64 = 2 * ADVERTISED;

/// How much of a receive buffer becomes window. Linux charges a packet with all the memory that it takes: today by
/// measure (`scaling_ratio`; 1424 of 2304 bytes for full packets, in 256ths), before 6.6 by assuming a half
/// (`tcp_adv_win_scale`).
fn usable(buffer: Bytes, window: ReceiveWindow) -> u64 {
    match window {
        ReceiveWindow::Assumed => buffer.get() / 2,
        ReceiveWindow::Measured => buffer.mul_div(158, 256).get(),
        ReceiveWindow::Credit => buffer.get(),
    }
}

/// The window with which a subflow of Linux v1 begins: half of its buffer, before a ratio is measured, in whole segments
/// (`tcp_select_initial_window`; without a bound of 64 KiB since Linux 6.11).
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
    /// Nothing has arrived.
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

    /// Whether byte `at` has arrived.
    pub fn has(&self, at: Offset) -> bool {
        at.get() < self.next || self.held.range_of(at.get()).is_some()
    }

    /// The right edge of the window.
    #[inline]
    pub fn edge(&self) -> Offset {
        Offset::new(self.edge)
    }

    /// The right edge as a header can tell it. The receiver itself keeps what it meant (`mptcp_set_rwin`): data up to there
    /// are not dropped.
    #[inline]
    fn edge_in_header(&self) -> Offset {
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
    fn put_aside(&mut self, now: Instant, bytes: u32) {
        self.account(now);
        self.aside += u64::from(bytes);
        self.held_max = self.held_max.max(self.held().get());
    }

    fn take_aside(&mut self, now: Instant, bytes: u32) {
        self.account(now);
        self.aside -= u64::from(bytes);
    }

    /// Whether data out of order from beyond the edge are dropped, and those above a hole of their path put aside.
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

    /// What is left of a TCP receiver's window: data held out of order take room, each packet 2048 of the 2304 bytes by
    /// which the window is measured, because merged packets give back their descriptors. With less than a sixteenth
    /// left, or less than a packet, the window is shut (`__tcp_select_window`).
    #[inline]
    fn free(&self) -> u64 {
        let free = self.window.saturating_sub(self.held.total() * HELD_NINTHS / 9 + self.unread);
        let scarce = free < self.window / 2 && (free < self.window / 16 || free < self.packet);
        if scarce { 0 } else { free }
    }

    /// Moves a TCP receiver's edge as far as the window of an acknowledgement reaches, and never back
    /// (`mptcp_set_rwin`). What the subflow announced before does not count: on Linux 6.18 `tcp_probe` shows each
    /// subflow's `rcv_wnd` follow the connection's edge down.
    #[inline]
    fn announce(&mut self, most: u64) {
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

    /// How long a byte waited for what was missing before it, on the mean over all bytes.
    pub fn mean_wait(&self) -> f64 {
        if self.next == 0 { 0.0 } else { self.held_ns as f64 / self.next as f64 / 1e6 }
    }
}

/// The receiver of one connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// What arrived on each path.
    pub paths: Vec<Inbound>,
    /// The data.
    pub data: Reassembly,
}

impl Receiver {
    /// A receiver for `paths` paths.
    pub fn new(transport: &TransportConfig, paths: usize) -> Self {
        let data = Reassembly::new(transport);
        Self { paths: vec![Inbound::beginning(&data, 0); paths], data }
    }

    /// Data of a packet that path `id` has just taken: for the connection, or put aside until the path's hole is filled.
    /// What became of them, and of those that had been put aside and need wait no longer.
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
        let capture = core::mem::take(&mut path.capture);
        let old = core::mem::replace(path, Inbound { capture, ..Inbound::beginning(&self.data, epoch) });
        for (_, offset, bytes) in old.waiting {
            self.data.take_aside(now, bytes);
            released.add(self.data.arrive(now, offset, bytes), bytes);
        }
        released
    }

    /// The right edge that an acknowledgement on path `id` announces; to be asked before [`Inbound::report`]. QUIC's
    /// acknowledgements say nothing of it (RFC 9000 §19.3): a limit is a frame of its own (§19.9), which leaves once, when
    /// the limit is raised, with the acknowledgement that follows. Zero: none leaves.
    #[inline]
    pub fn announce(&mut self, id: PathId) -> Offset {
        if self.data.credit {
            return if core::mem::take(&mut self.data.untold) { self.data.edge() } else { Offset::ZERO };
        }
        let path = &mut self.paths[id.index()];
        if self.data.measured {
            path.grow_window(self.data.edge.saturating_sub(self.data.next), self.data.window);
        }
        self.data.announce(if self.data.measured { path.threshold } else { u64::MAX });
        path.window = self.data.announced;
        self.data.edge_in_header()
    }

    /// Whether what the application has read at least doubles the window that was announced last.
    #[inline]
    pub fn has_opened(&self) -> bool {
        self.data.free() >= 2 * self.data.announced
    }

    /// The application has read all that is in order, which may have `opened` the window. Whether path `id` acknowledges
    /// because of it (`mptcp_cleanup_rbuf`, `tcp_cleanup_rbuf`): what has come since its last acknowledgement has a packet
    /// that is not full, and nothing is held out of order; or its own window is at least twice what it announced last.
    #[inline]
    pub fn tells_of_reading(&self, id: PathId, opened: bool) -> bool {
        let (path, data) = (&self.paths[id.index()], &self.data);
        if path.unacked > 1 || path.unacked == 1 && path.short && (opened || data.held.is_empty()) {
            return true;
        }
        opened && data.free().min(path.threshold).max(data.edge - data.next) >= 2 * path.window
    }

    /// When the first delayed acknowledgement is due, and on which path.
    pub fn due(&self) -> (Instant, PathId) {
        let first = self.paths.iter().enumerate().min_by_key(|(_, path)| path.due);
        first.map_or((Instant::NEVER, PathId::new(0)), |(at, path)| (path.due, PathId::new(at as u8)))
    }
}

#[cfg(test)]
mod tests;
