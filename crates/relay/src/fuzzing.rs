//! The parsers of what local programs and the other end send, for the fuzzer.

use bytes::Bytes;

use crate::accounts::Accounts;
use crate::datagram::{read, read_marked};
use crate::handshake::Handshake;
use crate::names::{NameConfig, fuzz};
use crate::pieces::Pieces;
use crate::step::Step;

/// The bytes of a local program, in one piece, for a port that wants a password and for one that does not.
pub fn handshake(bytes: &[u8]) {
    for accounts in [Accounts::default(), Accounts::parse("ada:secret").unwrap_or_default()] {
        let (mut handshake, mut rest) = (Handshake::default(), bytes);
        while let Step::Answer(count, _) = handshake.step(rest, &accounts) {
            rest = &rest[count..];
        }
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

/// Reads what an end of a pipe gets.
pub fn pipe(bytes: &[u8]) {
    crate::pipe::fuzz(bytes);
}

/// The answer of a server of names.
pub fn names(bytes: &[u8]) {
    fuzz(bytes);
}

/// The files resolv.conf(5) and hosts(5), alike.
pub fn name_files(bytes: &[u8]) {
    NameConfig::parse(bytes, &String::from_utf8_lossy(bytes));
}
