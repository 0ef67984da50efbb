//! Limits of an end, and the bounds of its work.
//!
//! What arrives needs memory only up to [`Limits::receive`], whatever the peer sends. A stream is promised room when it
//! may be opened, more is promised out of what is free, and a peer that sends beyond a promise breaks the protocol.

use thiserror::Error;
use weftway_path::{Bytes, Span};

use crate::pages::PAGE;

/// Classes of urgency: 0 is the most urgent.
pub const CLASSES: usize = 4;
/// The most bytes of a record.
pub const LARGEST_RECORD: usize = 16 << 10;
/// The bytes of a full record until the owner says otherwise: what is left of QUIC's least packet, which every path carries.
pub const FIRST_RECORD: usize = 1154;
/// The most bytes of a datagram: a record holds it, with its head.
pub const LARGEST_DATAGRAM: usize = LARGEST_RECORD - 16;
/// The most bytes that say where a stream leads: a name of 253 and a port, with room to spare.
pub const LARGEST_TARGET: usize = 512;
/// The most frames that an end has outstanding: sent and not acknowledged, or taken back and not sent again; with them
/// count records that were given up, until the peer knows. Each gap in what arrives is at least one of these, so a
/// receiver keeps no more gaps, 16 bytes each.
pub const MOST_FRAMES: usize = 1 << 17;
/// Frames of these that only control frames use, so that data never shut them out.
pub(crate) const CONTROL_FRAMES: usize = 1 << 10;
/// The most bytes of datagrams that have arrived and wait for the application: 300 Mbit/s for 110 ms. Then the oldest are
/// dropped.
pub const MOST_DATAGRAMS_WAITING: Bytes = Bytes::new(4 << 20);
/// Everything that has arrived is told again when it is so much more.
pub(crate) const ARRIVED_EVERY: u64 = 1 << 20;
/// Runs beyond the first gap that are told when another connection goes on.
pub(crate) const MOST_TOLD: usize = 8;
/// The round-trip time until one is known.
pub(crate) const FIRST_RTT: Span = Span::from_millis(100);

/// Limits of one end. Both ends know the limits of both when the connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The memory for bytes of streams that have arrived and are not taken by the application.
    pub receive: Bytes,
    /// Bytes that may be written and not acknowledged. Until it is cut, each write takes some 60 bytes of memory beside
    /// these. An eighth is for datagrams. Streams of class 0 may use the rest, those of each further class an eighth
    /// less, so that bulk never keeps an urgent stream from writing.
    pub send: Bytes,
    /// Number of streams that the peer may have open at once.
    pub streams: u64,
    /// Bytes that may be sent on a stream before its reader has taken anything.
    pub first_credit: Bytes,
}

impl Default for Limits {
    /// 64 MiB to receive, of which the slots of all streams take nearly a half, and 32 MiB to send; 1536 streams, 12
    /// KiB of first credit each, about what TCP sends in its first round trip. A machine that has more should give more
    /// to receive: beside ten fast readers that stop there are 256 KiB a round trip left for the next.
    fn default() -> Self {
        Self {
            receive: Bytes::new(64 << 20),
            send: Bytes::new(32 << 20),
            streams: 1536,
            first_credit: Bytes::new(12 << 10),
        }
    }
}

/// Why limits cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LimitsError {
    /// The streams' first credits do not fit into the memory.
    #[error("{streams} streams of {slot} each do not fit into {receive} to receive")]
    Receive {
        /// Number of streams.
        streams: u64,
        /// Memory that each needs at least.
        slot: Bytes,
        /// Memory that there is.
        receive: Bytes,
    },
    /// Memory to send with which no record can leave.
    #[error("{0} to send: at least {LARGEST_RECORD} B")]
    Send(Bytes),
}

impl Limits {
    /// Memory that is free beside the slots of all streams that the peer may open.
    pub(crate) fn free(&self) -> Result<Bytes, LimitsError> {
        let Self { receive, send, streams, first_credit } = *self;
        let slot = slot(first_credit);
        let slots = slot.get().checked_mul(streams).filter(|&slots| slots <= receive.get());
        let Some(slots) = slots else { return Err(LimitsError::Receive { streams, slot, receive }) };
        if send.get() < LARGEST_RECORD as u64 {
            return Err(LimitsError::Send(send));
        }
        Ok(receive - Bytes::new(slots))
    }

    /// Part of the memory to send that streams of `class` may use.
    pub(crate) fn send_share(&self, class: u8) -> u64 {
        self.send.mul_div(7 - u64::from(class), 8).get()
    }

    /// Part of it that datagrams that wait may use, of all classes together.
    pub(crate) fn datagram_share(&self) -> u64 {
        self.send.mul_div(1, 8).get()
    }
}

/// The memory that is kept for each stream: its first credit, and two pages, since what is unread need neither begin
/// nor end where a page does.
pub(crate) fn slot(first_credit: Bytes) -> Bytes {
    first_credit + Bytes::new(2 * PAGE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_do_not_fit_are_refused() {
        let first_credit = Bytes::new(8 << 10);
        let limits = Limits { receive: Bytes::new(1 << 20), streams: 64, first_credit, ..Limits::default() };
        assert_eq!(limits.free(), Ok(Bytes::ZERO)); // 64 · 16 KiB
        for streams in [65, u64::MAX] {
            let error = Limits { streams, ..limits }.free().unwrap_err();
            assert_eq!(
                error,
                LimitsError::Receive { streams, slot: Bytes::new(16 << 10), receive: Bytes::new(1 << 20) }
            );
        }
        assert_eq!(Limits { send: Bytes::ZERO, ..limits }.free(), Err(LimitsError::Send(Bytes::ZERO)));
    }
}
