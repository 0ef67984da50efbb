//! SOCKS5 (RFC 1928), as far as a program needs it that connects: no authentication, CONNECT. A reader without sockets.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::refusal::Refusal;
use crate::step::Step;
use crate::target::Target;

/// The first byte of everything.
pub const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const LAST_COMMAND: u8 = 3;
const SUCCEEDED: u8 = 0;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The first message: which ways of authentication the program knows.
pub fn greeting(bytes: &[u8]) -> Step {
    let Some(&count) = bytes.get(1) else { return Step::More };
    let end = 2 + usize::from(count);
    match bytes.get(2..end) {
        None => Step::More,
        Some(methods) if methods.contains(&NO_AUTHENTICATION) => Step::Answer(end, &[VERSION, NO_AUTHENTICATION]),
        Some(_) => Step::Refuse(vec![VERSION, NO_METHOD]),
    }
}

/// The second message: what the program wants.
pub fn request(bytes: &[u8]) -> Step {
    let &[version, command, reserved, kind, ref rest @ ..] = bytes else { return Step::More };
    if version != VERSION || reserved != 0 {
        return Step::Refuse(refused(Refusal::General));
    }
    let (before, length) = match kind {
        IPV4 => (0, 4),
        IPV6 => (0, 16),
        NAME => match rest.first() {
            Some(&length) => (1, usize::from(length)),
            None => return Step::More,
        },
        _ => return Step::Refuse(refused(Refusal::AddressType)),
    };
    let Some((host, behind)) = rest[before..].split_at_checked(length) else { return Step::More };
    let &[high, low, ..] = behind else { return Step::More };
    if command != CONNECT {
        let known = (CONNECT..=LAST_COMMAND).contains(&command);
        return Step::Refuse(refused(if known { Refusal::Command } else { Refusal::General }));
    }
    match target(host, kind, u16::from_be_bytes([high, low])) {
        Some(target) => Step::Connect(4 + before + length + 2, target),
        None => Step::Refuse(refused(Refusal::General)),
    }
}

fn target(host: &[u8], kind: u8, port: u16) -> Option<Target> {
    let text = match kind {
        IPV4 => Ipv4Addr::from(<[u8; 4]>::try_from(host).ok()?).to_string(),
        IPV6 => Ipv6Addr::from(<[u8; 16]>::try_from(host).ok()?).to_string(),
        _ => str::from_utf8(host).ok()?.to_owned(),
    };
    Target::new(&text, port).ok()
}

/// The answer to a request that is fulfilled. The address at the relay is not told: no program needs it to connect.
pub fn connected() -> Vec<u8> {
    reply(SUCCEEDED)
}

/// The answer to a request that is not.
pub fn refused(refusal: Refusal) -> Vec<u8> {
    reply(refusal.code())
}

fn reply(code: u8) -> Vec<u8> {
    let mut reply = vec![VERSION, code, 0, IPV4];
    reply.extend([0; 6]);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(command: u8, kind: u8, host: &[u8], port: u16) -> Vec<u8> {
        [&[5, command, 0, kind], host, &port.to_be_bytes()[..]].concat()
    }

    #[test]
    fn the_ways_of_authentication_are_looked_through() {
        assert_eq!(greeting(&[5, 3, 2, 1, 0, 9]), Step::Answer(5, &[5, 0]));
        assert_eq!(greeting(&[5, 1, 2]), Step::Refuse(vec![5, 0xff]));
        assert_eq!(greeting(&[5, 0]), Step::Refuse(vec![5, 0xff]));
        assert_eq!(greeting(&[5, 2, 0]), Step::More);
    }

    #[test]
    fn a_request_names_a_host_in_three_ways() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let cases = [
            (IPV4, &[192, 0, 2, 1][..], "192.0.2.1:258"),
            (IPV6, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "[2001:db8::1]:258"),
            (NAME, b"\x0bexample.org", "example.org:258"),
            (NAME, b"\x09192.0.2.1", "192.0.2.1:258"),
        ];
        for (kind, host, expected) in cases {
            let bytes = asks(1, kind, host, 0x102);
            assert_eq!(request(&bytes), Step::Connect(bytes.len(), target(expected)));
        }
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_code() {
        let code = |bytes: &[u8]| match request(bytes) {
            Step::Refuse(reply) => reply[1],
            other => panic!("{other:?}"),
        };
        let address = [192, 0, 2, 1];
        assert_eq!([2, 3, 4].map(|command| code(&asks(command, IPV4, &address, 80))), [7, 7, 1]);
        assert_eq!(code(&asks(1, 2, &address, 80)), 8);
        assert_eq!(code(&asks(1, IPV4, &address, 0)), 1);
        assert_eq!(code(&asks(1, NAME, b"\0", 80)), 1);
        assert_eq!(code(&asks(1, NAME, b"\x03a b", 80)), 1);
        assert_eq!(code(&[4, 1, 0, 1]), 1);
    }
}
