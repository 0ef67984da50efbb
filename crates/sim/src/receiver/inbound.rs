//! Arrivals on one path, and when they are acknowledged.

use std::collections::VecDeque;

use weftway_host::sending::RangeSet;
use weftway_path::{Instant, Offset, Span};
use weftway_scenario::config::TransportConfig;
use weftway_scenario::stack::LossRecovery;

use super::reassembly::{ADVERTISED, FIRST_WINDOW, Reassembly};
use crate::capture::Capture;
use crate::wire::{Data, stamp};

/// The most blocks that an acknowledgement reports: SACK with timestamps has room for three
/// (RFC 2018 §3); QUIC's limit is ours.
pub const MAX_BLOCKS: usize = 32;
const TCP_BLOCKS: usize = 3;

/// Linux acknowledges this many packets at once after a start or a long pause, and after
/// duplicates (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;

/// By how much the window grows at most with a packet.
const GROWTH: u64 = 2 * ADVERTISED;

/// Arrivals on one path.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// Everything below has arrived.
    pub(super) cum: u64,
    /// Packets that have arrived above.
    above: RangeSet,
    /// The highest that has arrived, plus one.
    top: u64,
    /// The packet that arrived last.
    newest: u64,
    /// Packets since the last acknowledgement.
    pub(super) unacked: u32,
    /// Packets that are still acknowledged at once.
    quick: u32,
    newest_at: Instant,
    /// The timestamp to echo: of the newest packet at or below what was last acknowledged when it
    /// came (RFC 7323 §4.3).
    echo: Instant,
    /// Number up to which was last acknowledged.
    reported: u64,
    /// Linux v1: the most that it announces; grows by two packets with each that arrives (`rcv_ssthresh`,
    /// `tcp_grow_window`).
    pub(super) threshold: u64,
    /// It has taken a packet since it came up.
    begun: bool,
    /// The window that it announced last, less what has come since.
    pub(super) window: u64,
    /// Linux v1: the receiver's own estimate of the round trip.
    pub rtt: ReceiverRtt,
    /// A packet that is not acknowledged yet was not full.
    pub(super) short: bool,
    /// Packets since the last acknowledgement that had arrived before.
    duplicates: u32,
    marked: bool,
    /// Linux v1: data above a hole of the path, by the number of their packet. The connection does not see them before
    /// the hole is filled.
    pub(super) waiting: VecDeque<(u64, Offset, u32)>,
    /// Bytes of these data.
    pub(super) aside: u64,
    /// Number of times that what is in `above` has changed, other than that its highest range grew or its lowest were
    /// settled.
    pub gaps: u32,
    /// Place where [`ReceiveEnd`](crate::ends::ReceiveEnd) last wrote down its blocks.
    pub described: usize,
    /// Time at which an acknowledgement is due at the latest.
    pub due: Instant,
    /// Number of times that the path has come up, as this end knows.
    pub epoch: u8,
    /// Capture at the receiver.
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
            duplicates: 0,
            marked: false,
            waiting: VecDeque::new(),
            aside: 0,
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
    pub(super) fn beginning(data: &Reassembly, epoch: u8) -> Self {
        Self { epoch, threshold: data.first, window: data.first.min(FIRST_WINDOW), ..Self::default() }
    }

    /// The first packet has come: with it a ratio is measured, and what the connection has `announced` is the path's as
    /// well (`tcp_measure_rcv_mss`, `tcp_set_window_clamp`).
    #[cold]
    fn begin_window(&mut self, announced: u64) {
        self.begun = true;
        self.threshold = self.threshold.max(announced);
    }

    /// Lets the window grow with each new packet since the last acknowledgement, in order or above a hole, while it is
    /// less than the `space` beside data out of order (`tcp_data_queue`, `tcp_data_queue_ofo`).
    #[inline]
    pub(super) fn grow_window(&mut self, announced: u64, window: u64, space: u64) {
        if !self.begun {
            self.begin_window(announced.min(window));
        }
        let room = space.saturating_sub(self.threshold);
        self.threshold += room.min(GROWTH * u64::from(self.unacked - self.duplicates));
    }

    /// Takes a packet; whether an acknowledgement must leave at once.
    #[inline(always)]
    pub fn arrive(&mut self, now: Instant, data: &Data, marked: bool, transport: &TransportConfig) -> bool {
        let quic = transport.rules.recovery == LossRecovery::Quic;
        if data.settled > self.cum {
            self.settle(data.settled);
        }
        // Linux enters quick acknowledgements again after a pause longer than a retransmission timeout; the timeout's
        // floor stands for it here.
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
            self.duplicates += 1;
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

    /// Returns true if anything is not acknowledged yet.
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

    /// Returns true if packet `index`, which has arrived, is above a hole, or others wait for one to be filled.
    #[inline]
    pub fn keeps_order(&self, index: u64) -> bool {
        index >= self.cum || !self.waiting.is_empty()
    }

    /// Puts data aside that arrived above a hole, unless they are there already.
    pub(super) fn put_aside(&mut self, data: &Data) -> bool {
        let at = self.waiting.partition_point(|&(index, ..)| index < data.index);
        let is_new = self.waiting.get(at).is_none_or(|&(index, ..)| index != data.index);
        if is_new {
            self.waiting.insert(at, (data.index, data.offset, data.bytes));
            self.aside += u64::from(data.bytes);
        }
        is_new
    }

    /// The next of the data put aside, if no hole is before them any more.
    pub(super) fn take_waiting(&mut self) -> Option<(Offset, u32)> {
        let &(index, offset, bytes) = self.waiting.front()?;
        (index < self.cum).then(|| {
            self.waiting.pop_front();
            self.aside -= u64::from(bytes);
            (offset, bytes)
        })
    }

    /// Returns true if something has arrived out of order.
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
            duplicate: core::mem::take(&mut self.duplicates) > 0,
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
    pub(super) fn sample(&mut self, now: Instant, echo: u32, full: bool) {
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

/// Contents of an acknowledgement about its path, beside its blocks.
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
    /// Time that the newest packet waited.
    pub delay: Span,
}
