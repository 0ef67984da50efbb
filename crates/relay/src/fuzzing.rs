//! The parsers of what local programs and the other end send, for the fuzzer.

use bytes::Bytes;

use crate::datagram::{read, read_marked};
use crate::handshake::Handshake;
use crate::pieces::Pieces;
use crate::step::Step;

/// What a local program says, in one piece.
pub fn handshake(bytes: &[u8]) {
    let (mut handshake, mut rest) = (Handshake::default(), bytes);
    while let Step::Answer(count, _) = handshake.step(rest) {
        rest = &rest[count..];
    }
}

/// Datagrams of either end, whole or in pieces: the first byte of each says how long it is.
pub fn datagrams(bytes: &[u8]) {
    let (mut pieces, mut rest) = (Pieces::default(), bytes);
    while let Some((length, behind)) = rest.split_first() {
        let (one, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        let _ = (read(one), read_marked(one));
        let _ = pieces.take(Bytes::copy_from_slice(one)).map(|whole| read(&whole).is_some());
        rest = behind;
    }
}
