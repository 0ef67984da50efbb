//! Contents of a DATAGRAM frame: a piece of the data, or a message between the two ends of a transfer.
//!
//! ```text
//! bits    62..63 kind    0..61 value                     then
//!         0 data         offset of the first byte        the bytes, to the end of the frame
//!         1 limit        the right edge                  8 bytes: everything below it has arrived
//!         2 question     the sender's next offset        nothing
//! ```
//!
//! Numbers are big-endian. A limit replaces every earlier one: it only rises. A question asks for a limit at once.

use weftway_path::Offset;

/// The length of the head of a record.
pub const HEAD: usize = 8;
/// Bytes of a full packet of the driver beside its payload, in a datagram of UDP: the short header with a connection ID
/// of 8 bytes and the longest packet number (13), the tag (16), the DATAGRAM frame's bound (9), the record's head.
pub const OVERHEAD: u64 = 13 + 16 + 9 + HEAD as u64;
const LIMIT: usize = 16;
const KIND_SHIFT: u32 = 62;
const VALUE: u64 = (1 << KIND_SHIFT) - 1;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Data, from this offset on.
    Data(Offset, &'a [u8]),
    /// Limit up to which the sender may go, and everything before what has arrived.
    Limit {
        /// The right edge.
        edge: Offset,
        /// DATA_ACK.
        arrived: Offset,
    },
    /// The sender waits for a limit.
    Question,
}

impl<'a> Record<'a> {
    /// Reads a record; `None` if it is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let head = u64::from_be_bytes(*head);
        let value = Offset::new(head & VALUE);
        match head >> KIND_SHIFT {
            0 if !rest.is_empty() => Some(Self::Data(value, rest)),
            1 => {
                let arrived = u64::from_be_bytes(*rest.first_chunk::<8>()?);
                (rest.len() + HEAD == LIMIT && arrived <= value.get())
                    .then_some(Self::Limit { edge: value, arrived: Offset::new(arrived) })
            }
            2 if rest.is_empty() => Some(Self::Question),
            _ => None,
        }
    }

    /// The head of data.
    pub fn data_head(offset: Offset) -> [u8; HEAD] {
        (offset.get() & VALUE).to_be_bytes()
    }

    /// A limit.
    pub fn limit(edge: Offset, arrived: Offset) -> [u8; LIMIT] {
        let mut bytes = [0; LIMIT];
        bytes[..HEAD].copy_from_slice(&(1 << KIND_SHIFT | edge.get() & VALUE).to_be_bytes());
        bytes[HEAD..].copy_from_slice(&arrived.get().to_be_bytes());
        bytes
    }

    /// A question.
    pub fn question(next: Offset) -> [u8; HEAD] {
        (2 << KIND_SHIFT | next.get() & VALUE).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let offset = Offset::new(VALUE);
        let mut data = Record::data_head(offset).to_vec();
        data.extend_from_slice(b"abc");
        assert_eq!(Record::parse(&data), Some(Record::Data(offset, b"abc")));
        let limit = Record::limit(Offset::new(9), Offset::new(4));
        assert_eq!(Record::parse(&limit), Some(Record::Limit { edge: Offset::new(9), arrived: Offset::new(4) }));
        assert_eq!(Record::parse(&Record::question(Offset::new(1))), Some(Record::Question));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let beyond = Record::limit(Offset::new(4), Offset::new(9));
        let long = [Record::limit(Offset::new(9), Offset::new(4)).as_slice(), &[0]].concat();
        for bytes in [&[][..], &[0; 7], &[0; 8], &[0xff; 12], &beyond, &long] {
            assert_eq!(Record::parse(bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_read_beyond_their_end(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(Record::Data(_, data)) = Record::parse(&bytes) {
                prop_assert_eq!(data.len() + HEAD, bytes.len());
            }
        }
    }
}
