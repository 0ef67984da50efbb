//! Observation of a path by the linear policies: bytes over a round trip, against its peak rate.

use weftway_path::{Bytes, Path, Span};

use super::meters::Meter;

/// Window, credit and data in flight of one path.
pub(crate) struct Rates {
    pub(crate) window: f64,
    pub(crate) credit: f64,
    pub(crate) in_flight: f64,
}

impl Rates {
    /// The rates of `path` over `rtt`, where the peer's window has room for `credit`. Public code
    /// of Peekaboo divides bytes by nanoseconds; against the peak rate nothing depends on units.
    pub(crate) fn of(meter: &Meter, path: &Path, rtt: Span, credit: Bytes) -> Self {
        Self {
            window: meter.per_round_trip(path.cwnd, rtt),
            credit: meter.per_round_trip(credit, rtt),
            in_flight: meter.per_round_trip(path.unacked(), rtt),
        }
    }
}
