//! Congestion controllers: how much of a path's capacity its connection may use.
//!
//! A [`Controller`] belongs to one path. It is told what was sent, acknowledged and lost, and
//! says how large the window is and how fast packets may leave. Coupled controllers also read
//! their [`Siblings`]: what the connection's other paths publish in their [`Share`].
//! One file holds one controller; the registry lists them ([`all`], [`find`], [`build`]).
//!
//! ```
//! use weftway_cc::{Flavour, Setup, build};
//! use weftway_path::{Bytes, Instant, PathId};
//!
//! let setup = Setup {
//!     path: PathId::new(0),
//!     mss: Bytes::new(1200),
//!     initial_window: Bytes::new(12_000),
//!     flavour: Flavour::Quic,
//!     seed: 1,
//!     now: Instant::ZERO,
//!     rtt: None,
//! };
//! let controller = build("cubic:slow_start=hystart++", &setup)?;
//! assert_eq!(controller.cwnd(), Bytes::new(12_000));
//! # Ok::<(), weftway_path::spec::SpecError>(())
//! ```

mod bbr;
mod loss_rate;
mod max_filter;
mod registry;
mod resume;
mod slow_start;
mod window;

pub use registry::{Build, Entry, all, build, find, parse};
pub use resume::{Remembered, resume};
use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

/// Declares a module for each controller and lists its `ENTRY`: one line adds one.
macro_rules! controllers {
    ($($module:ident)*) => {
        $(mod $module;)*
        static ALL: &[&Entry] = &[$(&$module::ENTRY),*];
    };
}

controllers! {
    newreno
    cubic
    lia
    olia
    balia
    dlia
    wvegas
    bbr1
    bbr2
    bbr3
    coupled_bbr
    mptcp_bbr
    bdp
}

/// Which stack's details a controller follows where they differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    /// Linux TCP: windows count packets, the engine reduces them by proportional rate reduction
    /// during recovery, CUBIC leaves slow start by HyStart.
    Linux,
    /// RFC 9002 and RFC 9438: windows count bytes, one reduction at the start of a recovery.
    Quic,
}

/// Ingredients of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The path it governs.
    pub path: PathId,
    /// The largest payload of one packet.
    pub mss: Bytes,
    /// The initial window.
    pub initial_window: Bytes,
    /// Whose details to follow.
    pub flavour: Flavour,
    /// A seed for controllers that draw (BBR's first phase).
    pub seed: u64,
    /// Time at which the path came up.
    pub now: Instant,
    /// The round-trip time of its handshake, if that was measured: BBR paces by it from the start.
    pub rtt: Option<Span>,
}

/// A packet left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time of the event.
    pub now: Instant,
    /// Its payload.
    pub bytes: Bytes,
    /// In flight on the path, this packet included.
    pub bytes_in_flight: Bytes,
    /// True if the path was idle (nothing in flight) before it.
    pub after_idle: bool,
    /// True if the application limits the sender, or did when this flight began: its delivery-rate
    /// samples do not show what the path can bring. A stack that never marks samples never says so.
    pub app_limited: bool,
}

/// An acknowledgement was processed.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Time of the event.
    pub now: Instant,
    /// Payload newly acknowledged by it, in or out of order.
    pub bytes: Bytes,
    /// Payload declared lost since the acknowledgement before, by this one or by a timer; what a
    /// [`Signal::Timeout`] declared lost is not repeated here.
    pub lost: Bytes,
    /// In flight before it, and after it (losses taken out).
    pub prior_in_flight: Bytes,
    /// In flight after it.
    pub bytes_in_flight: Bytes,
    /// Its round-trip sample: of the newest packet that it acknowledges and that was sent once.
    pub rtt: Option<Span>,
    /// The path's smoothed round-trip time after it.
    pub srtt: Span,
    /// The path's smallest round-trip time.
    pub min_rtt: Span,
    /// Departure of the newest packet that it acknowledges.
    pub newest_sent: Instant,
    /// The path's total of delivered bytes, these included.
    pub delivered: Bytes,
    /// Total of delivered bytes when the newest acknowledged packet was sent: at or above the value of
    /// `delivered` at the start of a round, a new round has begun.
    pub prior_delivered: Bytes,
    /// Delivery rate over the sample (draft-ietf-ccwg-bbr §4.1; `tcp_rate.c`). `None` when the
    /// sample is too short to mean anything.
    pub rate: Option<BitRate>,
    /// The interval of the sample.
    pub interval: Span,
    /// True if the sample was taken while the application limited the sender.
    pub app_limited: bool,
    /// True if the window was the limit (RFC 7661; `tcp_is_cwnd_limited`): a window that is not
    /// used does not grow.
    pub cwnd_limited: bool,
    /// The recovery state after it.
    pub recovery: Recovery,
    /// True if window controllers must leave the window as it is: the engine sets it now
    /// (proportional rate reduction), or the ACK only fills holes (`tcp_may_raise_cwnd`).
    pub reducing: bool,
}

/// The path lost packets (or saw ECN marks) and starts a new episode: at most once a round trip.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// Time of the event.
    pub now: Instant,
    /// Sign of congestion.
    pub signal: Signal,
    /// In flight before anything was declared lost.
    pub bytes_in_flight: Bytes,
    /// Payload declared lost with it.
    pub lost: Bytes,
    /// Departure of the newest lost packet.
    pub lost_sent: Instant,
    /// The path's smoothed round-trip time.
    pub srtt: Span,
}

/// Sign of congestion on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Packets were declared lost.
    Loss,
    /// A mark arrived (RFC 3168).
    Ecn,
    /// The retransmission timer fired (TCP): the window falls to one packet.
    Timeout,
    /// Everything sent over a long time was lost (RFC 9002 §7.6).
    Persistent,
}

/// Values that a controller publishes for its siblings.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// The path.
    pub path: PathId,
    /// Its window.
    pub cwnd: Bytes,
    /// Its packet size.
    pub mss: Bytes,
    /// Its smoothed round-trip time; zero before the first sample. The host fills it in.
    pub srtt: Span,
    /// Bytes acknowledged between its last two losses, or since the last one if more (OLIA's l).
    pub inter_loss: Bytes,
    /// Its bandwidth estimate, for controllers that have one.
    pub bandwidth: BitRate,
    /// Rate of the bottleneck, by packets that waited for one another there, however little is sent (BDP); zero for
    /// controllers that do not measure it. Schedulers see it as [`weftway_path::Path::link_rate`].
    pub link_rate: BitRate,
    /// True once its estimate has settled (BBR past its start).
    pub steady: bool,
    /// The bottleneck that it shares with the paths of the same number, where that is known. The host fills it in.
    pub bottleneck: Option<u8>,
    /// True if it gives way to others: they fill the queue, or it lost packets to a full one (BDP).
    pub contended: bool,
    /// True if the path is established and not closed. The host fills it in.
    pub usable: bool,
}

/// The published shares of all paths of the connection, this one included, by number.
pub type Siblings<'a> = &'a [Share];

/// The congestion controller of one path.
pub trait Controller: Send + dyn_clone::DynClone {
    /// A packet left.
    fn on_sent(&mut self, sent: &Sent) {
        let _ = sent;
    }

    /// An acknowledgement was processed.
    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>);

    /// Returns true if these losses show no congestion: the path itself loses so many packets. They begin no episode,
    /// so [`Controller::on_congestion`] is not called for them.
    fn ignores(&self, congestion: &Congestion) -> bool {
        let _ = congestion;
        false
    }

    /// A congestion episode starts.
    fn on_congestion(&mut self, congestion: &Congestion, siblings: Siblings<'_>);

    /// The episode was no congestion after all (Eifel, DSACK, F-RTO): undo it.
    fn on_spurious(&mut self, now: Instant) {
        let _ = now;
    }

    /// The recovery episode is over (TCP: everything outstanding at its start is acknowledged).
    fn on_recovered(&mut self, now: Instant) {
        let _ = now;
    }

    /// MPTCP v0.9x penalisation: halve the window, and the threshold with it
    /// (`mptcp_rcv_buf_optimization`).
    fn on_penalty(&mut self) {}

    /// Slow start ends at the window as it is, where there is one: the sender has seen that the path is full.
    fn leave_slow_start(&mut self) {}

    /// The window.
    fn cwnd(&self) -> Bytes;

    /// The engine's proportional rate reduction or its timeout sets the window.
    fn set_cwnd(&mut self, cwnd: Bytes);

    /// The slow-start threshold; [`Bytes::MAX`] before the first reduction.
    fn ssthresh(&self) -> Bytes;

    /// Pacing rate; always `None` for controllers that do not pace, and never for those that do.
    fn pacing_rate(&self) -> Option<BitRate> {
        None
    }

    /// Bytes that may leave at once when packets are paced.
    fn send_quantum(&self) -> Bytes {
        send_quantum(self.pacing_rate().unwrap_or(BitRate::ZERO), self.share().mss, 2)
    }

    /// [`Controller::pacing_rate`] and [`Controller::send_quantum`]: who sends a packet asks for both.
    fn pacing(&self) -> Option<(BitRate, Bytes)> {
        self.pacing_rate().map(|rate| (rate, self.send_quantum()))
    }

    /// Number of windows of send memory that Linux grants the subflow (`sndbuf_expand`): two, or more where a window's
    /// acknowledgements come late.
    fn send_memory_windows(&self) -> u64 {
        2
    }

    /// Returns true if the controller sets the window itself during recovery (BBR), so that the engine
    /// applies no proportional rate reduction.
    fn owns_recovery(&self) -> bool {
        false
    }

    /// Values for the siblings.
    fn share(&self) -> Share;

    /// Its state in one line, for a log. Never steers.
    fn snapshot(&self) -> String {
        String::new()
    }
}

dyn_clone::clone_trait_object!(Controller);

/// The largest burst that a device of Linux takes at once (`GSO_MAX_SIZE - 1 - MAX_TCP_HEADER`).
const LARGEST_BURST: u64 = 65_536 - 1 - 320;

/// The burst that Linux hands to its pacer at once (`tcp_tso_autosize`): what `rate` carries in
/// 1/1024 s, in whole packets, at least `least` of them and at most 64 kB less headers. What
/// newer kernels add where the round trip is short is [`lengthened_quantum`].
pub fn send_quantum(rate: BitRate, mss: Bytes, least: u64) -> Bytes {
    burst(rate, mss, least, 0)
}

/// Burst of [`send_quantum`] with what Linux adds since 5.18: the largest burst, halved once for each 512 µs of the
/// shortest round trip (`tcp_tso_rtt_log`). From 8.2 ms on that is nothing, and before a round trip is known.
#[inline]
pub fn lengthened_quantum(rate: BitRate, mss: Bytes, least: u64, min_rtt: Span) -> Bytes {
    let halvings = if min_rtt.is_zero() { 64 } else { min_rtt.as_micros() >> 9 };
    burst(rate, mss, least, LARGEST_BURST.checked_shr(halvings as u32).unwrap_or(0))
}

#[inline]
fn burst(rate: BitRate, mss: Bytes, least: u64, more: u64) -> Bytes {
    let mss = mss.get().max(1);
    let packets = (rate.as_bps() / 8 / 1024 + more).min(LARGEST_BURST) / mss;
    Bytes::new(packets.max(least).saturating_mul(mss))
}
