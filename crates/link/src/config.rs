//! Configuration of a link. Probabilities are between 0 and 1; values outside are taken as the
//! nearer bound.

use std::sync::Arc;

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::Trace;

/// Configuration of one direction of a bottleneck. The default is an ideal wire: no limit, no delay, no loss.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinkConfig {
    /// Rate at which packets leave the queue.
    pub rate: Rate,
    /// Propagation delay, one way, after serialisation. It is the delay in force when the packet departs that
    /// counts.
    pub delay: Span,
    /// Variation of the delay.
    pub jitter: Option<Jitter>,
    /// Mean delay with which the host at its end takes a packet up: an exponential draw, of 64 bits for each packet, in
    /// order.
    pub host_jitter: Span,
    /// Packets that vanish after serialisation.
    pub loss: Loss,
    /// Losses that the link itself repairs.
    pub arq: Option<Arq>,
    /// The queue before the wire.
    pub queue: Queue,
    /// Congestion marks; every packet is taken to be ECN-capable.
    pub ecn: Option<Ecn>,
    /// Changes by time; need not be sorted. At one instant they apply in the order given.
    pub changes: Vec<Change>,
    /// Rate, delay and loss drawn anew every so often.
    pub redraw: Option<Redraw>,
    /// Times in which the rate is at most a floor.
    pub fade: Option<Fade>,
}

/// Rate at which packets leave the queue; bytes are IP bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// This many bits a second. At rate zero nothing departs.
    Constant(BitRate),
    /// The delivery opportunities of a recorded or generated link, from time zero on.
    Trace(Arc<Trace>),
}

impl Rate {
    /// No bottleneck: every packet departs 1 ns after the one before it.
    pub const UNLIMITED: Self = Self::Constant(BitRate::from_bps(u64::MAX));
}

impl Default for Rate {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl From<BitRate> for Rate {
    fn from(rate: BitRate) -> Self {
        Self::Constant(rate)
    }
}

/// The queue before the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Queue {
    /// Room of the queue.
    pub limit: Limit,
    /// Rule that drops or marks packets besides a full queue.
    pub discipline: Discipline,
}

/// Room of a queue. The packet in transmission still counts, as in an emulator that frees
/// a place when the last bit has left; packets in their propagation delay do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Limit {
    /// Everything fits.
    #[default]
    Unlimited,
    /// At most this many packets.
    Packets(u64),
    /// A packet fits if it and all before it are at most this many bytes together.
    Bytes(Bytes),
}

/// Rule that drops or marks packets besides a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Discipline {
    /// No rule.
    #[default]
    DropTail,
    /// CoDel, RFC 8289.
    CoDel {
        /// Sojourn time that is acceptable; the RFC recommends 5 ms.
        target: Span,
        /// Time above the target before the first drop; the RFC recommends 100 ms.
        interval: Span,
    },
}

/// Which packets get a congestion mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Packets that CoDel would have dropped; none under drop-tail.
    CoDel,
    /// Packets that find more than this waiting when they come (RFC 8257 §3.1). `Unlimited` never marks.
    Above(Limit),
}

/// Packets that vanish after serialisation. Drawn when the packet's departure is planned: at
/// [`push`](crate::Link::push), or with CoDel when it leaves the queue.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Loss {
    /// None; draws nothing.
    #[default]
    None,
    /// Each packet with this probability; one draw a packet.
    Bernoulli(f64),
    /// A good and a bad state. Two draws a packet: does the state change before it, is it lost.
    /// Starts in the good state.
    GilbertElliott {
        /// Probability of going bad.
        to_bad: f64,
        /// Probability of becoming good again.
        to_good: f64,
        /// Loss in the good state.
        loss_good: f64,
        /// Loss in the bad state.
        loss_bad: f64,
    },
    /// The packets with these numbers. The first that reaches the wire has number 0.
    Packets(Vec<u64>),
    /// Packets that depart at or after the first instant of a pair and before the second.
    Windows(Vec<(Instant, Instant)>),
}

/// Link-layer retransmission: hides losses and pays in delay. Later packets wait for the repaired
/// one unless the jitter may reorder. One draw for each loss, and one for each retry when retries
/// can fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arq {
    /// Share of the losses that is hidden.
    pub hides: f64,
    /// Delay that each retry adds.
    pub delay: Span,
    /// Probability that a retry fails and another follows, at most 32.
    pub retry_loss: f64,
}

/// Variation of the delay; one value for each packet that reaches the wire, lost or not. The sum of
/// delay and jitter is never negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// Distribution of the values around zero.
    pub distribution: Distribution,
    /// True if packets may overtake one another. If not, none arrives before its predecessor.
    pub reorder: bool,
}

/// A distribution with mean zero. Draws are 64-bit numbers, low half first: one a packet for `Uniform`;
/// for the normal ones two for two packets, by Box and Muller, the cosine first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Normal, independent from packet to packet.
    Normal {
        /// Standard deviation.
        sd: Span,
    },
    /// Uniform, independent from packet to packet.
    Uniform {
        /// Greatest distance from zero.
        half_width: Span,
    },
    /// Normal, with a correlation of exp(−t / `over`) between packets that depart `t` apart.
    Correlated {
        /// Standard deviation.
        sd: Span,
        /// Time constant.
        over: Span,
    },
}

/// Something that changes at a known time.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Time of the change.
    pub at: Instant,
    /// To what.
    pub set: Set,
}

/// Setting that a change makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Set {
    /// The rate. A packet half transmitted at one constant rate goes on at the next; to or from a
    /// trace it starts over.
    Rate(Rate),
    /// The delay of packets that depart later.
    Delay(Span),
    /// The loss of packets that are planned later; random draws go on where they were.
    Loss(Loss),
    /// The link fails: what waits is dropped, what has departed still arrives.
    Down,
    /// The link returns, empty.
    Up,
}

/// Values drawn uniformly, ends included, at time zero and then every so often. What has no range
/// stays as configured. At one instant, a redraw comes before scheduled changes. Each redraw takes three
/// 64-bit draws, for rate, delay and loss, whether they have a range or not.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Redraw {
    /// Time between draws; zero draws once.
    pub every: Span,
    /// Least and greatest constant rate.
    pub rate: Option<(BitRate, BitRate)>,
    /// Least and greatest delay.
    pub delay: Option<(Span, Span)>,
    /// Least and greatest probability of Bernoulli loss.
    pub loss: Option<(f64, f64)>,
    /// Draws that it takes from what it has in common with other links.
    pub common: Option<Common>,
}

/// Redraws that links have in common. With a probability of √`correlation` a redraw takes the three draws of the group
/// in place of the link's own. Two links that do so, with the same `every`, then have the same place in their ranges
/// with a probability of `correlation`, and independent ones otherwise: that is their correlation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Common {
    /// Number of the group: in one run, equal numbers draw equally.
    pub group: u64,
    /// Correlation with another link of the group that has the same.
    pub correlation: f64,
}

/// Fades: times in which the rate is at most a floor. Between them lie exponential times, with such a mean that the
/// link is in a fade for `share` of the time, at the start as later. Whatever else changes the rate shows when the fade
/// is over, or where it is below the floor. At one instant, a fade comes last.
///
/// A draw with probability `share` tells if the link begins in a fade. Then come 64-bit numbers: for each fade its
/// floor, of the first how much of it is left, and its length, as [`Distribution::Normal`] draws; and for each time
/// between two of them one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fade {
    /// Share of the time.
    pub share: f64,
    /// Median of their lengths, which are log-normal.
    pub median: Span,
    /// Standard deviation of the logarithm of their length.
    pub sigma: f64,
    /// Least and greatest floor; uniform, ends included.
    pub floor: (BitRate, BitRate),
    /// Number of the group: in one run, links with equal numbers and times fade together.
    pub group: u64,
}
