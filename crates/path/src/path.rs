//! Path of a connection, as a scheduler sees it. The engine keeps its state in these very
//! structs: nothing is copied to ask a question.

use core::fmt;

use crate::{BitRate, Bytes, Instant, Offset, Span};

/// A path, numbered in the order in which the connection created it; 0 is the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(u8);

impl PathId {
    /// The most paths that a connection has.
    pub const MAX_PATHS: usize = 64;

    /// Path number `n`; `n` is below [`PathId::MAX_PATHS`].
    #[inline]
    pub const fn new(n: u8) -> Self {
        debug_assert!((n as usize) < Self::MAX_PATHS, "at most 64 paths");
        Self(n)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number, to index with.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// A set of paths, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PathSet(u64);

impl PathSet {
    /// No path.
    pub const EMPTY: Self = Self(0);

    /// Just `path`.
    #[inline]
    pub const fn of(path: PathId) -> Self {
        Self(1 << path.0)
    }

    /// Collects the paths that may send now.
    pub fn open(paths: &[Path]) -> Self {
        let open = paths.iter().filter(|path| path.is_open());
        open.fold(Self::EMPTY, |set, path| set.with(path.id))
    }

    /// Tells whether `path` is in the set.
    #[inline]
    pub const fn contains(self, path: PathId) -> bool {
        self.0 >> path.0 & 1 == 1
    }

    /// The set with `path`.
    #[inline]
    pub const fn with(self, path: PathId) -> Self {
        Self(self.0 | 1 << path.0)
    }

    /// The set without `path`.
    #[inline]
    pub const fn without(self, path: PathId) -> Self {
        Self(self.0 & !(1 << path.0))
    }

    /// The set with `path` if `on`, else without it.
    #[inline]
    pub const fn put(self, path: PathId, on: bool) -> Self {
        if on { self.with(path) } else { self.without(path) }
    }

    /// The paths that are in both sets.
    #[inline]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The paths that are in this set and not in the other.
    #[inline]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The paths that are in either set.
    #[inline]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Tells whether no path is in the set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Tells whether just one path is in the set.
    #[inline]
    pub const fn is_single(self) -> bool {
        self.0.is_power_of_two()
    }

    /// Number of paths in the set.
    #[inline]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The paths, lowest number first.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = PathId> {
        let mut bits = self.0;
        core::iter::from_fn(move || {
            (bits != 0).then(|| {
                let path = PathId(bits.trailing_zeros() as u8);
                bits &= bits - 1;
                path
            })
        })
    }
}

impl fmt::Debug for PathSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Use of a path, as the path manager says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// Use it (`PATH_STATUS_AVAILABLE`; an MPTCP subflow without the backup bit).
    #[default]
    Active,
    /// Use it only while no active path is usable (`PATH_STATUS_BACKUP`; RFC 8684 §3.3.8).
    Backup,
}

/// State of a path: it answers, or does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Health {
    /// No sign is against it.
    #[default]
    Good,
    /// Its retransmission timer fired and nothing has been acknowledged since ("potentially
    /// failed"): it takes no new data while another path can.
    Suspect,
    /// Linux upstream: no progress for some time although data are outstanding.
    Stale,
}

/// The loss-recovery state, with Linux's names (`tcp_ca_state`). QUIC hosts use `Open` and
/// `Recovery`, and `Loss` while probes go unanswered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Recovery {
    /// No packet is missing.
    #[default]
    Open,
    /// Something arrived out of order; nothing is lost yet.
    Disorder,
    /// The window is being reduced for a reason other than a detected loss (ECN, a tail loss).
    Cwr,
    /// Losses are being repaired.
    Recovery,
    /// The retransmission timer fired.
    Loss,
}

/// Why a path cannot send at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BlockedReason {
    /// It can.
    #[default]
    None,
    /// The congestion window is full.
    Congestion,
    /// The pacer holds it until [`Path::release`]. MPTCP paths are never held so: paced segments
    /// wait in the subflow's queue.
    Pacing,
    /// The peer's address is not validated yet (RFC 9000 §8.1), or the handshake is not finished.
    Validation,
    /// A rule of the transport keeps new data off it for now: the Loss state under MPTCP v0.9x.
    Transport,
}

/// Packets and bytes that a path has carried since it came up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Payload bytes.
    pub bytes: Bytes,
    /// Packets.
    pub packets: u64,
}

impl Counters {
    /// Counts one packet of `bytes`.
    #[inline]
    pub fn add(&mut self, bytes: Bytes) {
        self.bytes = self.bytes.plus(bytes);
        self.packets += 1;
    }
}

/// Usable path. Bytes are payload; times are of this path alone.
#[derive(Clone, Debug)]
pub struct Path {
    /// Its number.
    pub id: PathId,
    /// Active or backup.
    pub role: Role,
    /// State of its answers.
    pub health: Health,
    /// Its loss-recovery state.
    pub recovery: Recovery,
    /// Why it cannot send now, if so.
    pub blocked: BlockedReason,
    /// End of a [`BlockedReason::Pacing`].
    pub release: Instant,
    /// The largest payload of one packet.
    pub mss: Bytes,
    /// The newest round-trip sample; zero before the first.
    pub latest_rtt: Span,
    /// The smoothed round-trip time (RFC 6298, RFC 9002). A path starts with its handshake's.
    pub srtt: Span,
    /// The mean deviation of the samples (RFC 6298 RTTVAR, not Linux's four times that).
    pub rttvar: Span,
    /// The smallest sample.
    pub min_rtt: Span,
    /// The largest sample.
    pub max_rtt: Span,
    /// The sum of all samples; with [`Path::rtt_samples`] their mean.
    pub rtt_sum: Span,
    /// Number of samples so far.
    pub rtt_samples: u64,
    /// The congestion window.
    pub cwnd: Bytes,
    /// The slow-start threshold; [`Bytes::MAX`] until the first reduction.
    pub ssthresh: Bytes,
    /// Sent, neither acknowledged nor declared lost.
    pub bytes_in_flight: Bytes,
    /// Sent and not in flight any more, but not acknowledged in order either: it arrived above a hole, or is lost and
    /// not repaired. A TCP sender keeps it; zero elsewhere.
    pub retained: Bytes,
    /// Memory of the sender that this path takes beside payload: the heads of its buffers. Linux counts them; zero
    /// elsewhere.
    pub overhead: Bytes,
    /// Assigned to this path and not sent yet.
    pub queued: Bytes,
    /// Bytes that this host's device on the path holds, whoever sent them, for schedulers that ask to see them.
    pub device_queue: Bytes,
    /// The bottleneck it shares with the paths of the same number, where that is known.
    pub bottleneck: Option<u8>,
    /// Further bytes that the path's queue takes from a scheduler that queues.
    pub queue_room: Bytes,
    /// The first offset after everything this path has carried.
    pub next: Offset,
    /// The newest delivery-rate sample (draft-ietf-ccwg-bbr, `tcp_rate.c`).
    pub delivery_rate: BitRate,
    /// Rate that the pacer allows: the controller's rate, or under QUIC the window over the smoothed round-trip time,
    /// doubled in slow start and times 1.25 after (RFC 9002 §7.7). Without pacing 1.2 times, as Linux keeps it for its
    /// own scheduler.
    pub pacing_rate: BitRate,
    /// Rate of the bottleneck as the controller knows it, by packets that waited there; zero where it does not say.
    pub link_rate: BitRate,
    /// Everything sent, retransmissions included.
    pub sent: Counters,
    /// Everything acknowledged.
    pub acked: Counters,
    /// Everything declared lost.
    pub lost: Counters,
    /// Everything sent again on this path.
    pub retransmitted: Counters,
    /// Consecutive probe timeouts or retransmission timeouts without progress.
    pub pto_count: u32,
}

impl Path {
    /// A path that has sent nothing: window `cwnd`, no round-trip sample.
    pub fn new(id: PathId, mss: Bytes, cwnd: Bytes) -> Self {
        Self {
            id,
            role: Role::Active,
            health: Health::Good,
            recovery: Recovery::Open,
            blocked: BlockedReason::None,
            release: Instant::ZERO,
            mss,
            latest_rtt: Span::ZERO,
            srtt: Span::ZERO,
            rttvar: Span::ZERO,
            min_rtt: Span::ZERO,
            max_rtt: Span::ZERO,
            rtt_sum: Span::ZERO,
            rtt_samples: 0,
            cwnd,
            ssthresh: Bytes::MAX,
            bytes_in_flight: Bytes::ZERO,
            retained: Bytes::ZERO,
            overhead: Bytes::ZERO,
            queued: Bytes::ZERO,
            device_queue: Bytes::ZERO,
            bottleneck: None,
            queue_room: Bytes::MAX,
            next: Offset::ZERO,
            delivery_rate: BitRate::ZERO,
            pacing_rate: BitRate::ZERO,
            link_rate: BitRate::ZERO,
            sent: Counters::default(),
            acked: Counters::default(),
            lost: Counters::default(),
            retransmitted: Counters::default(),
            pto_count: 0,
        }
    }

    /// Free window: the congestion window less what is in flight and what waits.
    #[inline]
    pub fn space(&self) -> Bytes {
        self.cwnd.saturating_sub(self.bytes_in_flight + self.queued)
    }

    /// Tells whether the scheduler may send a packet on it now.
    #[inline]
    pub fn is_open(&self) -> bool {
        matches!(self.blocked, BlockedReason::None)
    }

    /// Tells whether it is an active path.
    #[inline]
    pub fn is_active(&self) -> bool {
        matches!(self.role, Role::Active)
    }

    /// Assigned or sent, and not acknowledged: the sequence space that the path occupies.
    #[inline]
    pub fn unacked(&self) -> Bytes {
        self.bytes_in_flight.plus(self.queued)
    }

    /// Payload that its send queue holds: [`Path::unacked`], and what TCP retains.
    #[inline]
    pub fn send_queue(&self) -> Bytes {
        self.unacked() + self.retained
    }

    /// The memory that its send queue takes (Linux `sk_wmem_queued`): [`Path::send_queue`] with the heads of its
    /// buffers.
    #[inline]
    pub fn send_memory(&self) -> Bytes {
        self.send_queue() + self.overhead
    }

    /// The mean of all round-trip samples; zero before the first.
    #[inline]
    pub fn mean_rtt(&self) -> Span {
        if self.rtt_samples == 0 { Span::ZERO } else { self.rtt_sum / self.rtt_samples }
    }

    /// Tells whether the path has not left its first slow start.
    #[inline]
    pub fn in_first_slow_start(&self) -> bool {
        self.ssthresh == Bytes::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_list_their_paths_in_order() {
        let set = PathSet::of(PathId::new(63)).with(PathId::new(0)).with(PathId::new(5)).without(PathId::new(5));
        assert_eq!(set.iter().map(PathId::get).collect::<Vec<_>>(), [0, 63]);
        assert!(set.contains(PathId::new(63)) && !set.contains(PathId::new(5)));
    }
}
