//! The frames of a record, and their bytes.
//!
//! ```text
//! kind           then, in QUIC's variable-length integers (RFC 9000 §16)
//! 0 stream       stream, offset of the first byte, count of bytes; the bytes
//! 1 stream, end  the same; the stream ends behind them
//! 2 datagram     stream that it belongs to, count of bytes; the bytes
//! 3 open         stream, class, count of bytes; where it leads
//! 4 reset        stream, code
//! 5 credit       stream, offset up to which the peer may send
//! 6 limit        how many streams the peer may open in all; everything before this place has arrived
//! 7 question     nothing: the sender waits for a limit
//! 8 skip         place before which nothing is outstanding any more
//! ```
//!
//! Frames follow one another to the end of the record. A record that is not understood whole is refused.

use octets::{BufferTooShortError, Octets, OctetsMut, varint_len};
use thiserror::Error;

use crate::id::{MAX, StreamId};
use crate::limits::{CLASSES, LARGEST_TARGET};

/// The bytes that hold the count of a stream's or datagram's bytes, whatever it is.
const COUNT: usize = 2;
/// The most bytes of one frame of a stream.
pub const LARGEST_PIECE: usize = (1 << 14) - 1;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A piece of a stream.
    Stream {
        /// The stream.
        id: StreamId,
        /// The offset of the first byte.
        at: u64,
        /// The stream ends behind them.
        fin: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A datagram.
    Datagram {
        /// The stream that it belongs to.
        flow: StreamId,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A stream begins.
    Open {
        /// The stream.
        id: StreamId,
        /// Urgency: 0 to 3, 0 the most.
        class: u8,
        /// Target of the stream, in the application's words.
        target: &'a [u8],
    },
    /// A stream is over in both directions, at once.
    Reset {
        /// The stream.
        id: StreamId,
        /// Why, in the application's numbers.
        code: u32,
    },
    /// Offset up to which the peer may send on a stream.
    Credit {
        /// The stream.
        id: StreamId,
        /// The first offset that it may not send.
        edge: u64,
    },
    /// Limits of the peer on the connection. A later one replaces it: both numbers only rise.
    Limit {
        /// Number of streams it may open in all.
        streams: u64,
        /// Everything before this place has arrived.
        arrived: u64,
    },
    /// The sender waits for a limit.
    Question,
    /// Bytes that are missing before this place do not come any more (RFC 3758: FORWARD-TSN).
    Skip {
        /// The place.
        to: u64,
    },
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("byte {at}: {fault}")]
pub struct FrameError {
    /// Position in the record at which the frame begins.
    pub at: usize,
    /// Fault of the frame.
    pub fault: Fault,
}

/// Fault of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The record ends within it.
    #[error("the record ends within a frame")]
    Short,
    /// There is no such kind.
    #[error("kind {0}: there are 0 to 8")]
    Kind(u8),
    /// There is no such class.
    #[error("class {0}: there are 0 to 3")]
    Class(u64),
    /// The code is too large.
    #[error("code {0}: at most 2^32 - 1")]
    Code(u64),
    /// The target is too long.
    #[error("a target of {0} bytes: at most {LARGEST_TARGET}")]
    Target(u64),
    /// A piece of a stream that says nothing.
    #[error("a piece of a stream without bytes and without its end")]
    Nothing,
    /// A piece of a stream that ends where no offset is.
    #[error("a piece of a stream that ends beyond 2^62 - 1")]
    Beyond,
}

impl From<BufferTooShortError> for Fault {
    fn from(_: BufferTooShortError) -> Self {
        Self::Short
    }
}

/// The length of a stream frame before its bytes.
pub fn stream_head(id: StreamId, at: u64) -> usize {
    1 + varint_len(id.wire()) + varint_len(at) + COUNT
}

/// The length of a datagram frame before its bytes.
pub fn datagram_head(flow: StreamId) -> usize {
    1 + varint_len(flow.wire()) + COUNT
}

/// Writes the head of a stream frame whose `count` bytes, at most [`LARGEST_PIECE`], are written next.
pub fn put_stream_head(to: &mut Vec<u8>, id: StreamId, at: u64, fin: bool, count: usize) {
    to.push(u8::from(fin));
    put(to, id.wire());
    put(to, at);
    put_count(to, count);
}

/// Writes a number below 2^62.
fn put(to: &mut Vec<u8>, value: u64) {
    put_as(to, value, varint_len(value));
}

fn put_count(to: &mut Vec<u8>, count: usize) {
    put_as(to, count as u64, COUNT);
}

fn put_as(to: &mut Vec<u8>, value: u64, length: usize) {
    let mut bytes = [0; 8];
    // Eight bytes are never too few.
    if let Ok(written) = OctetsMut::with_slice(&mut bytes).put_varint_with_len(value, length) {
        to.extend_from_slice(written);
    }
}

impl<'a> Frame<'a> {
    /// Length in bytes.
    pub fn length(&self) -> usize {
        match *self {
            Self::Stream { id, at, bytes, .. } => stream_head(id, at) + bytes.len(),
            Self::Datagram { flow, bytes } => datagram_head(flow) + bytes.len(),
            Self::Open { id, target, .. } => 2 + varint_len(id.wire()) + COUNT + target.len(),
            Self::Reset { id, code } => 1 + varint_len(id.wire()) + varint_len(u64::from(code)),
            Self::Credit { id, edge } => 1 + varint_len(id.wire()) + varint_len(edge),
            Self::Limit { streams, arrived } => 1 + varint_len(streams) + varint_len(arrived),
            Self::Question => 1,
            Self::Skip { to } => 1 + varint_len(to),
        }
    }

    /// Appends its bytes.
    pub fn put(&self, to: &mut Vec<u8>) {
        match *self {
            Self::Stream { id, at, fin, bytes } => {
                put_stream_head(to, id, at, fin, bytes.len());
                to.extend_from_slice(bytes);
            }
            Self::Datagram { flow, bytes } => {
                to.push(2);
                put(to, flow.wire());
                put_count(to, bytes.len());
                to.extend_from_slice(bytes);
            }
            Self::Open { id, class, target } => {
                to.push(3);
                put(to, id.wire());
                put(to, u64::from(class));
                put_count(to, target.len());
                to.extend_from_slice(target);
            }
            Self::Reset { id, code } => put_numbers(to, 4, [id.wire(), u64::from(code)]),
            Self::Credit { id, edge } => put_numbers(to, 5, [id.wire(), edge]),
            Self::Limit { streams, arrived } => put_numbers(to, 6, [streams, arrived]),
            Self::Question => put_numbers(to, 7, []),
            Self::Skip { to: place } => put_numbers(to, 8, [place]),
        }
    }

    fn read(from: &mut Octets<'a>) -> Result<Self, Fault> {
        let kind = from.get_u8()?;
        Ok(match kind {
            0 | 1 => {
                let (id, at) = (read_id(from)?, from.get_varint()?);
                let (fin, bytes) = (kind == 1, read_bytes(from)?);
                if bytes.is_empty() && !fin {
                    return Err(Fault::Nothing);
                }
                if at + bytes.len() as u64 > MAX {
                    return Err(Fault::Beyond);
                }
                Self::Stream { id, at, fin, bytes }
            }
            2 => Self::Datagram { flow: read_id(from)?, bytes: read_bytes(from)? },
            3 => {
                let (id, class) = (read_id(from)?, from.get_varint()?);
                if class >= CLASSES as u64 {
                    return Err(Fault::Class(class));
                }
                let target = read_bytes(from)?;
                if target.len() > LARGEST_TARGET {
                    return Err(Fault::Target(target.len() as u64));
                }
                Self::Open { id, class: class as u8, target }
            }
            4 => {
                let (id, code) = (read_id(from)?, from.get_varint()?);
                Self::Reset { id, code: u32::try_from(code).map_err(|_| Fault::Code(code))? }
            }
            5 => Self::Credit { id: read_id(from)?, edge: from.get_varint()? },
            6 => Self::Limit { streams: from.get_varint()?, arrived: from.get_varint()? },
            7 => Self::Question,
            8 => Self::Skip { to: from.get_varint()? },
            kind => return Err(Fault::Kind(kind)),
        })
    }
}

fn put_numbers<const N: usize>(to: &mut Vec<u8>, kind: u8, numbers: [u64; N]) {
    to.push(kind);
    numbers.into_iter().for_each(|number| put(to, number));
}

fn read_id(from: &mut Octets<'_>) -> Result<StreamId, Fault> {
    Ok(StreamId::from_wire(from.get_varint()?))
}

fn read_bytes<'a>(from: &mut Octets<'a>) -> Result<&'a [u8], Fault> {
    Ok(from.get_bytes_with_varint_length()?.buf())
}

/// The frames of a record, in order. After an error there are no more.
#[derive(Debug)]
pub struct Frames<'a> {
    rest: Octets<'a>,
    failed: bool,
}

impl<'a> Frames<'a> {
    /// The frames in the payload of a record.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: Octets::with_slice(payload), failed: false }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.rest.cap() == 0 {
            return None;
        }
        let at = self.rest.off();
        let frame = Frame::read(&mut self.rest).map_err(|fault| FrameError { at, fault });
        self.failed = frame.is_err();
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(frame: Frame<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame.put(&mut bytes);
        bytes
    }

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0..200u64, 0..=MAX, Just(MAX)]
    }

    /// A frame of every kind, with bytes out of `pool`.
    fn frame(pool: &'static [u8]) -> impl Strategy<Value = Frame<'static>> {
        let id = || number().prop_map(StreamId::from_wire);
        let part = move |most: usize| (0..most.min(pool.len())).prop_map(move |count| &pool[..count]);
        prop_oneof![
            (id(), 0..=MAX - (1 << 14), any::<bool>(), part(usize::MAX))
                .prop_map(|(id, at, fin, bytes)| { Frame::Stream { id, at, fin: fin || bytes.is_empty(), bytes } }),
            (id(), part(usize::MAX)).prop_map(|(flow, bytes)| Frame::Datagram { flow, bytes }),
            (id(), 0..4u8, part(LARGEST_TARGET)).prop_map(|(id, class, target)| Frame::Open { id, class, target }),
            (id(), any::<u32>()).prop_map(|(id, code)| Frame::Reset { id, code }),
            (id(), number()).prop_map(|(id, edge)| Frame::Credit { id, edge }),
            (number(), number()).prop_map(|(streams, arrived)| Frame::Limit { streams, arrived }),
            Just(Frame::Question),
            number().prop_map(|to| Frame::Skip { to }),
        ]
    }

    static POOL: [u8; 1500] = [0xa5; 1500];

    /// The bytes of a few frames, some of them overwritten, left out or put in.
    fn mutated() -> impl Strategy<Value = Vec<u8>> {
        let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..4);
        (prop::collection::vec(frame(&POOL[..40]), 1..5), edits).prop_map(|(frames, edits)| {
            let mut payload: Vec<u8> = frames.into_iter().flat_map(bytes).collect();
            for (place, value, edit) in edits {
                let at = place.index(payload.len() + 1).min(payload.len());
                match edit {
                    0 if at < payload.len() => payload[at] = value,
                    1 if at < payload.len() => drop(payload.remove(at)),
                    _ => payload.insert(at, value),
                }
            }
            payload
        })
    }

    #[test]
    fn a_frame_of_each_kind_by_hand() {
        let id = StreamId::new(crate::Side::Listening, 1); // 3 on the wire
        let cases = [
            (Frame::Stream { id, at: 64, fin: false, bytes: b"ab" }, "00 03 4040 4002 6162"),
            (Frame::Stream { id, at: 0, fin: true, bytes: b"" }, "01 03 00 4000"),
            (Frame::Datagram { flow: id, bytes: b"a" }, "02 03 4001 61"),
            (Frame::Open { id, class: 2, target: b"a" }, "03 03 02 4001 61"),
            (Frame::Reset { id, code: 5 }, "04 03 05"),
            (Frame::Credit { id, edge: 16384 }, "05 03 80004000"),
            (Frame::Limit { streams: 9, arrived: MAX }, "06 09 ffffffffffffffff"),
            (Frame::Question, "07"),
            (Frame::Skip { to: 7 }, "08 07"),
        ];
        for (frame, hex) in cases {
            let written: String = bytes(frame).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(written, hex.replace(' ', ""));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_and_says_where() {
        let long = [&[3, 3, 0, 0x42, 1][..], &[0; 513]].concat();
        let cases: [(&[u8], usize, Fault); 9] = [
            (&[7, 9], 1, Fault::Kind(9)),
            (&[7, 7, 8], 2, Fault::Short),
            (&[0, 3, 0, 0x40, 5, 1], 0, Fault::Short),
            (&[0xc0], 0, Fault::Kind(0xc0)),
            (&[0, 3, 0, 0], 0, Fault::Nothing),
            (&[3, 3, 4, 0], 0, Fault::Class(4)),
            (&[4, 3, 0xc0, 0, 0, 1, 0, 0, 0, 0], 0, Fault::Code(1 << 32)),
            (&[0, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0], 0, Fault::Beyond),
            (&long, 0, Fault::Target(513)),
        ];
        for (payload, at, fault) in cases {
            let last = Frames::new(payload).last();
            assert_eq!(last, Some(Err(FrameError { at, fault })), "{payload:x?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(frames in prop::collection::vec(frame(&POOL), 0..6)) {
            let payload: Vec<u8> = frames.iter().flat_map(|&frame| bytes(frame)).collect();
            prop_assert_eq!(payload.len(), frames.iter().map(Frame::length).sum::<usize>());
            let read: Result<Vec<_>, _> = Frames::new(&payload).collect();
            prop_assert_eq!(read, Ok(frames));
        }

        #[test]
        fn any_bytes_are_frames_or_refused(
            payload in prop_oneof![prop::collection::vec(any::<u8>(), 0..80), mutated()],
        ) {
            let read: Result<Vec<_>, _> = Frames::new(&payload).collect();
            match read {
                // What was understood is the same when it is written and read again.
                Ok(frames) => {
                    let again: Vec<u8> = frames.iter().flat_map(|&frame| bytes(frame)).collect();
                    prop_assert_eq!(Frames::new(&again).collect::<Result<Vec<_>, _>>(), Ok(frames));
                }
                Err(error) => prop_assert!(error.at < payload.len()),
            }
        }
    }
}
