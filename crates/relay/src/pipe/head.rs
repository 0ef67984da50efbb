//! A datagram of a pipe.
//!
//! ```text
//! bits of the first byte   0..3 kind, 4..7 the highest bits of the stamp           then
//!                          0 data     24 bits of the stamp, the source in one or two bytes, the data
//!                          1 ping     8 bytes: the sender's clock
//!                          2 pong     8 bytes: that clock again; 8 bytes: the clock of who answers
//! ```
//!
//! Clocks count microseconds. A stamp has the last 28 bits of its end's clock: 268 s, and a pipe's latency is at most 10.
//! Five bytes leave room for 1316 bytes of data in a packet of 1400 (`weft` over IPv4: 20 + 8 + 46 for IP, UDP, QUIC and
//! the record, 4 or 5 for the mux).

/// Bits of a stamp.
const STAMP_BITS: u32 = 28;
const STAMP: u64 = (1 << STAMP_BITS) - 1;
const DATA: u8 = 0;
const PING: u8 = 1;
const PONG: u8 = 2;
/// Bit of a source's first byte: another one follows.
const LONG: u16 = 0x80;
/// The number of sources that two bytes tell.
pub const SOURCES: u16 = 1 << 15;

/// A datagram of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head<'a> {
    /// Data of a source, with the last bits of the clock at which they came.
    Data {
        /// The last bits of the clock.
        stamp: u32,
        /// The source.
        source: u16,
        /// The data.
        data: &'a [u8],
    },
    /// A question for the other end's clock.
    Ping(u64),
    /// The answer: the clock of the question, and that of the answer.
    Pong(u64, u64),
}

impl<'a> Head<'a> {
    /// Reads a datagram; none if it makes no sense.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        match *bytes {
            [first, a, b, c, source, ref rest @ ..] if first & 0xf == DATA => {
                let stamp = u32::from_be_bytes([first >> 4, a, b, c]);
                let (source, data) = match (u16::from(source), rest) {
                    (source, rest) if source < LONG => (source, rest),
                    (source, &[low, ref rest @ ..]) => ((source & !LONG) << 8 | u16::from(low), rest),
                    _ => return None,
                };
                Some(Self::Data { stamp, source, data })
            }
            [PING, ref rest @ ..] if rest.len() == 8 => number(rest).map(Self::Ping),
            [PONG, ref rest @ ..] if rest.len() == 16 => Some(Self::Pong(number(rest)?, number(&rest[8..])?)),
            _ => None,
        }
    }

    /// Its bytes. The source is below [`SOURCES`].
    pub fn written(&self) -> Vec<u8> {
        match *self {
            Self::Data { stamp, source, data } => {
                let mut bytes = Vec::with_capacity(6 + data.len());
                let [high, a, b, c] = stamp.to_be_bytes();
                bytes.extend([high << 4 | DATA, a, b, c]);
                let [first, second] = source.to_be_bytes();
                if source < LONG {
                    bytes.push(second);
                } else {
                    bytes.extend([first | LONG as u8, second]);
                }
                bytes.extend_from_slice(data);
                bytes
            }
            Self::Ping(clock) => [&[PING][..], &clock.to_be_bytes()].concat(),
            Self::Pong(asked, clock) => [&[PONG][..], &asked.to_be_bytes(), &clock.to_be_bytes()].concat(),
        }
    }
}

/// The stamp of a clock.
pub fn stamp(clock: u64) -> u32 {
    (clock & STAMP) as u32
}

/// The clock nearest to `near` that has this stamp.
pub fn clock_of(stamp: u32, near: u64) -> u64 {
    let ahead = u64::from(stamp).wrapping_sub(near) & STAMP;
    if ahead <= STAMP / 2 { near.saturating_add(ahead) } else { near.saturating_sub(STAMP + 1 - ahead) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn data_have_five_bytes_before_them_or_six() {
        let data = |source| Head::Data { stamp: 0x0abc_def1, source, data: b"x" }.written();
        assert_eq!(data(0x7f), [0xa0, 0xbc, 0xde, 0xf1, 0x7f, b'x']);
        assert_eq!(data(0x80), [0xa0, 0xbc, 0xde, 0xf1, 0x80, 0x80, b'x']);
        assert_eq!(data(SOURCES - 1), [0xa0, 0xbc, 0xde, 0xf1, 0xff, 0xff, b'x']);
    }

    #[test]
    fn a_stamp_is_that_of_the_nearest_clock() {
        let wrap = 1 << 28;
        for (stamp, near, clock) in [
            (5, 7, 5),
            (7, 5, 7),
            (5, wrap + 7, wrap + 5),
            ((wrap - 1) as u32, wrap + 7, wrap - 1),
            (3, 2 * wrap - 2, 2 * wrap + 3),
            // Before the first wrap there is nothing.
            ((wrap - 1) as u32, 7, 0),
        ] {
            assert_eq!(clock_of(stamp, near), clock, "{stamp} near {near}");
        }
    }

    proptest! {
        #[test]
        fn a_head_is_read_as_it_was_written(
            stamp in 0..1u32 << 28, source in 0..SOURCES, data in prop::collection::vec(any::<u8>(), 0..50), clocks: [u64; 2]
        ) {
            for head in [
                Head::Data { stamp, source, data: &data },
                Head::Ping(clocks[0]),
                Head::Pong(clocks[0], clocks[1]),
            ] {
                let bytes = head.written();
                prop_assert_eq!(Head::read(&bytes), Some(head));
                // It is never taken for a piece of a longer one.
                prop_assert_ne!(bytes[0] & 0xf, 0xf);
            }
        }

        #[test]
        fn whatever_comes_is_read_as_what_it_says_or_not_at_all(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(head) = Head::read(&bytes) {
                let is_longer = matches!(head, Head::Data { source, .. } if source < LONG) && bytes[4] >= 0x80;
                prop_assert!(is_longer || head.written() == bytes);
            }
        }

        #[test]
        fn a_stamp_within_two_minutes_says_the_clock(clock in 200_000_000u64..1 << 50, off in -120_000_000i64..120_000_000) {
            let near = clock.saturating_add_signed(off);
            prop_assert_eq!(clock_of(stamp(clock), near), clock);
        }
    }
}
