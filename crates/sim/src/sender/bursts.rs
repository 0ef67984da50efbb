//! Linux's bursts: packets that share a buffer, wait for a larger part of the window, or wait for more data (Nagle's
//! rule).

use weftway_path::{Bytes, Instant, Offset, Path, Span};
use weftway_scenario::config::TransportConfig;

use super::PathSender;

/// `sysctl_tcp_tso_win_divisor`.
const DEFER_DIVISOR: u64 = 3;
/// A write this long ago is no burst.
const DEFER_AFTER: Span = Span::from_millis(1);

/// Packets that share a buffer or wait for more data.
#[derive(Clone, Debug)]
pub struct Bursts {
    /// Time at which the last buffer was begun.
    begun: Instant,
    /// Packets that the last buffer still takes at that time.
    room: u64,
    /// The number after that of the last packet that was not full (`snd_sml`).
    small: u64,
    /// Last packet that was not full: data that follow at once join it.
    open: OpenPacket,
    /// Messages that wait for Nagle's rule share a packet, as the bytes that they are: how much room is left in the one
    /// that goes now. None where nothing waits so.
    coalescing: Option<u64>,
}

/// A packet that was not full.
#[derive(Clone, Copy, Debug)]
struct OpenPacket {
    sent_at: Instant,
    /// End of its data.
    end: Offset,
    /// [`Bursts::small`] before it.
    before: u64,
}

impl Bursts {
    /// State of a path that has sent nothing; `coalesces` if messages that wait share a packet.
    pub fn new(coalesces: bool) -> Self {
        Self {
            begun: Instant::ZERO,
            room: 0,
            small: 0,
            open: OpenPacket { sent_at: Instant::NEVER, end: Offset::ZERO, before: 0 },
            coalescing: coalesces.then_some(0),
        }
    }

    /// Notes that all has left that may: messages that come later share another packet.
    #[inline(always)]
    pub fn close_packet(&mut self) {
        if let Some(room) = &mut self.coalescing {
            *room = 0;
        }
    }
}

impl PathSender {
    /// Returns true if a packet of `bytes` waits as the last one (Nagle's rule, RFC 896, as Minshall has it:
    /// `tcp_nagle_check`): it is not full, and an earlier one that was not full is unacknowledged. MPTCP's last packet
    /// of a fragment is not full either.
    #[inline(always)]
    pub fn holds(&self, bytes: u32, transport: &TransportConfig) -> bool {
        u64::from(bytes) < transport.mss.get() && self.bursts.small > self.flight.base() && transport.holds_small()
    }

    #[inline]
    pub(super) fn holds_head(&self, transport: &TransportConfig) -> bool {
        transport.holds_small() && self.bursts.small > self.flight.base() && self.waits_for_more(transport.mss.get())
    }

    /// Returns true if what waits fills no packet. Here messages stay packets of their own: so many go at once as Linux
    /// has in a full one.
    #[inline(never)]
    fn waits_for_more(&self, mss: u64) -> bool {
        let Some(head) = self.queue.front() else { return false };
        match self.bursts.coalescing {
            Some(room) => u64::from(head.bytes) > room && !self.fills(0, mss),
            None => self.queue.len() == 1 && u64::from(head.bytes) < mss,
        }
    }

    /// Returns true if so many bytes and what waits fill a packet.
    fn fills(&self, mut bytes: u64, mss: u64) -> bool {
        self.queue.iter().any(|packet| {
            bytes += u64::from(packet.bytes);
            bytes >= mss
        })
    }

    /// A packet that is not full has been sent. One that others followed at once was part of a larger one.
    #[inline(never)]
    pub(super) fn note_small(&mut self, index: u64, bytes: u64, mss: u64) {
        match self.bursts.coalescing {
            None => {
                let Some(packet) = self.flight.get_mut(index) else { return };
                let (now, end) = (packet.sent_at, packet.offset + Bytes::new(bytes));
                if self.queue.front().is_none_or(|next| next.offset != end) {
                    let before = core::mem::replace(&mut self.bursts.small, index + 1);
                    self.bursts.open = OpenPacket { sent_at: now, end, before };
                }
            }
            Some(room) if bytes <= room => self.bursts.coalescing = Some(room - bytes),
            Some(_) if self.fills(bytes, mss) => self.bursts.coalescing = Some(mss - bytes),
            Some(_) if !self.queue.is_empty() => {}
            _ => self.bursts.small = index + 1,
        }
    }

    /// Linux v1: data at `offset` follow in the push that sent the last packet. If that one was not full, they are in
    /// one buffer with it, and its end is no small packet (`mptcp_skb_can_collapse_to`).
    #[inline(never)]
    pub fn join_last(&mut self, now: Instant, offset: Offset) {
        let OpenPacket { sent_at, end, before } = self.bursts.open;
        if sent_at == now && end == offset && self.bursts.small == self.flight.next() {
            self.bursts.small = before;
        }
    }

    /// Returns true if Linux keeps a single packet back for now (`tcp_tso_should_defer`): with more data behind it and
    /// an acknowledgement due soon, it waits for a third of the window, so as to send larger bursts. It does so only
    /// just after it has sent, and not during recovery.
    #[inline]
    pub(super) fn defers(
        &self,
        now: Instant,
        view: &Path,
        taken: Bytes,
        more: bool,
        transport: &TransportConfig,
    ) -> bool {
        more && transport.rules.fills_bursts
            && taken.plus(view.mss).plus(view.mss) > view.cwnd
            && view.cwnd.get() > DEFER_DIVISOR * view.mss.get()
            && view.recovery < weftway_path::Recovery::Recovery
            && now.since(self.last_sent) < DEFER_AFTER
            && self.flight.front().is_some_and(|head| now.since(head.sent_at) * 2 >= view.srtt)
    }

    /// Returns true if Linux would keep back what waits, so as to send a third of the window at once: it leaves the
    /// window open then (`tcp_tso_should_defer`). Room for the largest burst of the pace is used at once. What waits
    /// here is sent all the same.
    #[inline]
    pub fn gathers(&self, now: Instant, view: &Path, transport: &TransportConfig) -> bool {
        let free = view.cwnd.saturating_sub(view.bytes_in_flight).get();
        transport.rules.fills_bursts
            && !self.queue.is_empty()
            && free * DEFER_DIVISOR < view.cwnd.get()
            && view.recovery < weftway_path::Recovery::Recovery
            && now.since(self.last_sent) < DEFER_AFTER
            && Self::is_less_than_a_buffer(view, free)
    }

    // In line it costs the paths that never ask.
    #[inline(never)]
    fn is_less_than_a_buffer(view: &Path, free: u64) -> bool {
        free < Self::largest_buffer(view).get()
    }

    /// The most that Linux puts into one buffer: what the pace brings in about a millisecond, two packets at least
    /// (`tcp_tso_autosize`).
    #[inline]
    fn largest_buffer(view: &Path) -> Bytes {
        weftway_cc::lengthened_quantum(view.pacing_rate, view.mss, 2, view.min_rtt)
    }

    /// Returns true if a packet begins a new buffer: packets that go at once share one.
    #[inline]
    pub(super) fn starts_buffer(&mut self, now: Instant, view: &Path) -> bool {
        let Bursts { begun, room, .. } = &mut self.bursts;
        if *begun == now && *room > 0 {
            *room -= 1;
            return false;
        }
        (*begun, *room) = (now, (Self::largest_buffer(view).get() / view.mss.get()).max(1) - 1);
        true
    }
}
