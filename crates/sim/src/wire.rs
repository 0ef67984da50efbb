//! Packets on the links.

use weftway_path::{Instant, Offset, PathId};

/// A packet on a link.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// Which connection it belongs to.
    pub conn: u8,
    /// The path it belongs to (for an acknowledgement: the path that it acknowledges).
    pub path: PathId,
    /// Number of times that the path has come up: packets from before are strangers.
    pub epoch: u8,
    /// True if a link before the present one marked it "congestion experienced".
    pub marked: bool,
    /// Contents of the packet.
    pub load: Load,
}

/// The contents of a packet. `repr(u8)`: the kind has a byte of its own. A niche in a field would cost more to test,
/// once per packet.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Load {
    /// Application data.
    Data(Data),
    /// An acknowledgement.
    Ack(Ack),
    /// A handshake message.
    Handshake(Handshake),
    /// Asks the receiver for an acknowledgement: a window probe, or a QUIC PING.
    Ping,
    /// Cross traffic: it only takes room.
    Cross,
}

/// Application data.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// The number of the packet on its path: a TCP segment keeps it when it is sent again, a QUIC
    /// packet has a new one each time.
    pub index: u64,
    /// Everything below needs no acknowledgement any more (QUIC: acknowledged acknowledgements).
    pub settled: u64,
    /// Its first byte.
    pub offset: Offset,
    /// Its payload.
    pub bytes: u32,
    /// TCP: the timestamp of the newest acknowledgement that its sender had, in ms ([`stamp`]).
    pub echo: u32,
    /// Time at which it was sent: the timestamp option, and for logs.
    pub sent_at: Instant,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Everything below this number has arrived.
    pub cum: u64,
    /// Place where its blocks are kept.
    pub slot: u32,
    /// QUIC: the end of the highest of them.
    pub highest: u64,
    /// Number of times that the gaps between blocks have changed by then: two acknowledgements of a path with equal
    /// numbers differ at most in how far the highest block reaches, and in how many of the lowest are gone.
    pub gaps: u32,
    /// True if it reports a packet that had arrived before (DSACK).
    pub duplicate: bool,
    /// True if the newest packet carried an ECN mark.
    pub marked: bool,
    /// True if it returns where acknowledgements of its path do, so that it shows that path's round trip.
    pub own: bool,
    /// The timestamp that it echoes: of the packet that set it off.
    pub echo: Instant,
    /// Its time: TCP, its own timestamp in ms ([`stamp`]); QUIC, how many ns the newest packet waited for it.
    pub clock: u32,
    /// DATA_ACK: everything before it has arrived in order.
    pub una: Offset,
    /// The right edge of the receive window.
    pub edge: Offset,
}

/// A handshake message, sent to and fro.
#[derive(Clone, Copy, Debug)]
pub struct Handshake {
    /// Number of messages that came before it; even ones come from the side that opens.
    pub leg: u8,
    /// Time at which the data sender last sent one.
    pub echo: Instant,
}

/// The clock of TCP's timestamp option: it ticks in milliseconds.
#[inline]
pub fn stamp(at: Instant) -> u32 {
    (at.as_nanos() / 1_000_000) as u32
}

/// Returns true if timestamp `a` is older than `b`: the clock starts again after 49.7 days (`before` of Linux).
#[inline]
pub fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2^32 ms are 49.7 days.
    #[test]
    fn timestamps_are_compared_across_the_end_of_their_clock() {
        let at = |millis: u64| stamp(Instant::from_millis(millis));
        let end = 1 << 32;
        assert!(is_before(at(end - 1), at(end + 1)) && !is_before(at(end + 1), at(end - 1)));
        assert!(is_before(at(1), at(2)) && !is_before(at(2), at(2)));
    }
}
