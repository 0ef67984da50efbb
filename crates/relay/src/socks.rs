//! SOCKS5 (RFC 1928), as far as a program needs it that connects or sends datagrams: CONNECT, UDP ASSOCIATE, a user and
//! a password (RFC 1929) where the port wants one. A reader without sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::accounts::Accounts;
use crate::refusal::Refusal;
use crate::step::Step;
use crate::target::{Host, Target};

/// The first byte of everything.
pub const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
/// The first byte of a user with its password, and the answers.
const PASSWORD_VERSION: u8 = 1;
const RIGHT: u8 = 0;
const WRONG: u8 = 1;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const BIND: u8 = 2;
const ASSOCIATE: u8 = 3;
const SUCCEEDED: u8 = 0;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The first message: which ways of authentication the program knows. It may take the one that the port wants, or none.
pub fn greeting(bytes: &[u8], wants_password: bool) -> Step {
    let Some(&count) = bytes.get(1) else { return Step::More };
    let end = 2 + usize::from(count);
    match bytes.get(2..end) {
        None => Step::More,
        Some(methods) if wants_password && methods.contains(&USER_AND_PASSWORD) => {
            Step::Answer(end, &[VERSION, USER_AND_PASSWORD])
        }
        Some(methods) if !wants_password && methods.contains(&NO_AUTHENTICATION) => {
            Step::Answer(end, &[VERSION, NO_AUTHENTICATION])
        }
        Some(_) => Step::Refuse(vec![VERSION, NO_METHOD]),
    }
}

/// The message in between, where the port wants a password: a user, and the password.
pub fn password(bytes: &[u8], accounts: &Accounts) -> Step {
    match bytes {
        [PASSWORD_VERSION, rest @ ..] => {
            let Some((user, rest)) = counted(rest) else { return Step::More };
            let Some((password, rest)) = counted(rest) else { return Step::More };
            if accounts.has(user, password) {
                Step::Answer(bytes.len() - rest.len(), &[PASSWORD_VERSION, RIGHT])
            } else {
                Step::Refuse(vec![PASSWORD_VERSION, WRONG])
            }
        }
        [] => Step::More,
        _ => Step::Refuse(vec![PASSWORD_VERSION, WRONG]),
    }
}

/// The bytes that the first one counts, and what follows them.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&count, rest) = bytes.split_first()?;
    rest.split_at_checked(count.into())
}

/// A host, as a message names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostBytes<'a> {
    /// An address of IPv4.
    V4([u8; 4]),
    /// An address of IPv6.
    V6([u8; 16]),
    /// A name, or an address as text.
    Name(&'a [u8]),
}

impl HostBytes<'_> {
    /// The target at a port of it, if it is one.
    pub fn target(self, port: u16) -> Option<Target> {
        let address = |ip| (port != 0).then_some(Target { host: Host::Address(ip), port });
        match self {
            Self::V4(ip) => address(IpAddr::from(ip)),
            Self::V6(ip) => address(IpAddr::from(ip)),
            Self::Name(name) => {
                let name = str::from_utf8(name).ok()?;
                // Some programs name an address of IPv6 as URLs do (curl before 7.82).
                let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                match inner.and_then(|inner| inner.parse().ok()) {
                    Some(ip) => address(IpAddr::V6(ip)),
                    None => Target::new(name, port).ok(),
                }
            }
        }
    }
}

/// Address at the beginning of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address<'a> {
    /// They end too early.
    More,
    /// No such kind is known.
    Unknown,
    /// A host and a port, and what follows.
    Known {
        /// The host.
        host: HostBytes<'a>,
        /// The port.
        port: u16,
        /// Bytes behind the address.
        rest: &'a [u8],
    },
}

/// Reads the kind of an address, the address and the port.
pub fn address(bytes: &[u8]) -> Address<'_> {
    let Some((&kind, rest)) = bytes.split_first() else { return Address::More };
    address_of_kind(kind, rest)
}

/// Reads the address and the port, where the kind is known.
pub fn address_of_kind(kind: u8, rest: &[u8]) -> Address<'_> {
    let read = match kind {
        IPV4 => rest.split_first_chunk().map(|(&host, rest)| (HostBytes::V4(host), rest)),
        IPV6 => rest.split_first_chunk().map(|(&host, rest)| (HostBytes::V6(host), rest)),
        NAME => rest.split_first().and_then(|(&length, rest)| {
            let (host, rest) = rest.split_at_checked(length.into())?;
            Some((HostBytes::Name(host), rest))
        }),
        _ => return Address::Unknown,
    };
    let Some((host, &[high, low, ref rest @ ..])) = read else { return Address::More };
    Address::Known { host, port: u16::from_be_bytes([high, low]), rest }
}

/// Writes the same.
pub fn put_address(to: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            to.push(IPV4);
            to.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            to.push(IPV6);
            to.extend(ip.octets());
        }
    }
    to.extend(address.port().to_be_bytes());
}

/// The second message: what the program wants.
pub fn request(bytes: &[u8]) -> Step {
    let &[version, command, reserved, ref rest @ ..] = bytes else { return Step::More };
    if rest.is_empty() {
        return Step::More;
    }
    if version != VERSION || reserved != 0 {
        return Step::Refuse(refused(Refusal::General));
    }
    let (host, port, behind) = match address(rest) {
        Address::More => return Step::More,
        Address::Unknown => return Step::Refuse(refused(Refusal::AddressType)),
        Address::Known { host, port, rest } => (host, port, rest),
    };
    let count = bytes.len() - behind.len();
    match command {
        CONNECT => match host.target(port) {
            Some(target) => Step::Connect(count, target),
            None => Step::Refuse(refused(Refusal::General)),
        },
        // The address is where the program thinks that its datagrams will come from. Many say nothing or something else
        // there.
        ASSOCIATE => Step::Associate(count),
        BIND => Step::Refuse(refused(Refusal::Command)),
        _ => Step::Refuse(refused(Refusal::General)),
    }
}

/// The answer to a request that is fulfilled. The address at the relay is not told: no program needs it to connect.
pub fn connected() -> Vec<u8> {
    reply(SUCCEEDED, NOWHERE)
}

/// Answer about datagrams, which the program is to send to this address.
pub fn associated(at: SocketAddr) -> Vec<u8> {
    reply(SUCCEEDED, at)
}

/// The answer to a request that is not.
pub fn refused(refusal: Refusal) -> Vec<u8> {
    reply(refusal.code(), NOWHERE)
}

fn reply(code: u8, address: SocketAddr) -> Vec<u8> {
    let mut reply = vec![VERSION, code, 0];
    put_address(&mut reply, address);
    reply
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn asks(command: u8, kind: u8, host: &[u8], port: u16) -> Vec<u8> {
        [&[5, command, 0, kind], host, &port.to_be_bytes()[..]].concat()
    }

    #[test]
    fn the_ways_of_authentication_are_looked_through() {
        assert_eq!(greeting(&[5, 3, 2, 1, 0, 9], false), Step::Answer(5, &[5, 0]));
        assert_eq!(greeting(&[5, 1, 2], false), Step::Refuse(vec![5, 0xff]));
        assert_eq!(greeting(&[5, 0], false), Step::Refuse(vec![5, 0xff]));
        assert_eq!(greeting(&[5, 2, 0], false), Step::More);
        // A port with a password takes no program without one.
        assert_eq!(greeting(&[5, 3, 0, 1, 2, 9], true), Step::Answer(5, &[5, 2]));
        assert_eq!(greeting(&[5, 1, 0], true), Step::Refuse(vec![5, 0xff]));
    }

    #[test]
    fn a_password_is_taken_when_all_of_it_is_there() {
        let accounts = Accounts::parse("ada:secret").unwrap();
        let right = b"\x01\x03ada\x06secret";
        assert_eq!(password(&[&right[..], &[5, 1]].concat(), &accounts), Step::Answer(12, &[1, 0]));
        for length in 0..right.len() {
            assert_eq!(password(&right[..length], &accounts), Step::More, "{length}");
        }
        for wrong in [&b"\x01\x03ada\x06Secret"[..], b"\x01\x00\x00", b"\x05\x01\x00"] {
            assert_eq!(password(wrong, &accounts), Step::Refuse(vec![1, 1]), "{wrong:?}");
        }
    }

    #[test]
    fn a_request_names_a_host_in_three_ways() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let cases = [
            (IPV4, &[192, 0, 2, 1][..], "192.0.2.1:258"),
            (IPV6, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "[2001:db8::1]:258"),
            (NAME, b"\x0bexample.org", "example.org:258"),
            (NAME, b"\x09192.0.2.1", "192.0.2.1:258"),
            (NAME, b"\x0b2001:db8::1", "[2001:db8::1]:258"),
            (NAME, b"\x0d[2001:db8::1]", "[2001:db8::1]:258"),
        ];
        for (kind, host, expected) in cases {
            let bytes = asks(1, kind, host, 0x102);
            assert_eq!(request(&bytes), Step::Connect(bytes.len(), target(expected)));
        }
    }

    #[test]
    fn a_request_for_datagrams_may_name_any_address() {
        for (kind, host, port) in [(IPV4, &[0; 4][..], 0), (IPV6, &[0; 16], 0), (NAME, b"\x03a b", 5), (NAME, b"\0", 0)]
        {
            let bytes = [asks(3, kind, host, port), vec![1, 2, 3]].concat();
            assert_eq!(request(&bytes), Step::Associate(bytes.len() - 3));
            assert_eq!(request(&bytes[..bytes.len() - 4]), Step::More);
        }
        let at = SocketAddr::from(([127, 0, 0, 1], 0x102));
        assert_eq!(associated(at), [5, 0, 0, IPV4, 127, 0, 0, 1, 1, 2]);
        let at = SocketAddr::from((Ipv6Addr::LOCALHOST, 0x102));
        assert_eq!(associated(at), [&[5, 0, 0, IPV6][..], &Ipv6Addr::LOCALHOST.octets(), &[1, 2]].concat());
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_code() {
        let code = |bytes: &[u8]| match request(bytes) {
            Step::Refuse(reply) => reply[1],
            other => panic!("{other:?}"),
        };
        let address = [192, 0, 2, 1];
        assert_eq!([2, 4].map(|command| code(&asks(command, IPV4, &address, 80))), [7, 1]);
        assert_eq!(code(&asks(1, 2, &address, 80)), 8);
        assert_eq!(code(&asks(1, IPV4, &address, 0)), 1);
        assert_eq!(code(&asks(1, NAME, b"\0", 80)), 1);
        for name in [&b"\x03a b"[..], b"\x0b[192.0.2.1]", b"\x03[a]", b"\x04[::1", b"\x02[]"] {
            assert_eq!(code(&asks(1, NAME, name, 80)), 1, "{name:?}");
        }
        assert_eq!(code(&[4, 1, 0, 1]), 1);
    }
}
