//! Handshake of a local program before its bytes are carried: SOCKS5 or HTTP, told apart by the first byte.

use crate::accounts::Accounts;
use crate::http;
use crate::refusal::{Failure, Refusal};
use crate::socks;
use crate::step::Step;
use crate::target::Purpose;

/// The most bytes that a program may send before it has said where it wants to.
/// The head of a request holds what is not looked at: cookies, the tickets of a company's proxy.
pub const MOST_BYTES: usize = 64 << 10;
/// A head that is longer is looked at when its end has come, and not with each of its bytes.
const LONG: usize = 8 << 10;

/// Protocol of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SOCKS5.
    Socks,
    /// HTTP, of which CONNECT.
    Http,
}

impl Protocol {
    /// Protocol of a program whose first byte this is. SOCKS4 is none.
    fn of(first: u8) -> Option<Self> {
        match first {
            socks::VERSION => Some(Self::Socks),
            b'A'..=b'Z' => Some(Self::Http),
            _ => None,
        }
    }

    /// The answer to a request that is fulfilled.
    pub fn connected(self) -> Vec<u8> {
        match self {
            Self::Socks => socks::connected(),
            Self::Http => http::connected(),
        }
    }

    /// The answer to a request that is not.
    pub fn refused(self, failure: Failure, purpose: &Purpose) -> Vec<u8> {
        match self {
            Self::Socks => socks::refused(failure.refusal()),
            Self::Http => http::refused(failure, purpose),
        }
    }
}

/// Stage of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    protocol: Option<Protocol>,
    /// The number of SOCKS messages that are answered.
    answered: usize,
    /// The number of bytes in which no end of a head was found.
    searched: usize,
}

impl Handshake {
    /// Protocol of the program, once a byte of it is known.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Reads `bytes`: all that came, without what earlier steps have understood. Where `accounts` has any, the program
    /// has to show one of them.
    pub fn step(&mut self, bytes: &[u8], accounts: &Accounts) -> Step {
        let Some(&first) = bytes.first() else { return Step::More };
        let Some(protocol) = self.protocol.or_else(|| Protocol::of(first)) else { return Step::Refuse(Vec::new()) };
        self.protocol = Some(protocol);
        let step = match protocol {
            Protocol::Http if bytes.len() > LONG && !self.has_end(bytes) => Step::More,
            Protocol::Http => http::request(bytes, accounts),
            Protocol::Socks => match self.answered {
                0 => socks::greeting(bytes, !accounts.is_open()),
                1 if !accounts.is_open() => socks::password(bytes, accounts),
                _ => socks::request(bytes),
            },
        };
        match step {
            Step::More if bytes.len() >= MOST_BYTES => Step::Refuse(match protocol {
                Protocol::Http => http::too_large(),
                Protocol::Socks => socks::refused(Refusal::General),
            }),
            Step::Answer(..) => {
                self.answered += 1;
                step
            }
            step => step,
        }
    }

    /// Returns true if an empty line has come, which ends a head.
    fn has_end(&mut self, bytes: &[u8]) -> bool {
        let from = self.searched.saturating_sub(2);
        self.searched = bytes.len();
        let ends = |at: usize| bytes[at + 1..].starts_with(b"\n") || bytes[at + 1..].starts_with(b"\r\n");
        (from..bytes.len()).any(|at| bytes[at] == b'\n' && ends(at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::target::Target;

    /// The answers; the target and what is left, if it came to a request; whether it was refused.
    type Outcome = (Vec<u8>, Option<(Target, Vec<u8>)>, bool);

    /// Result for bytes that come in these parts.
    fn outcome<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Outcome {
        let (mut handshake, mut input, mut output) = (Handshake::default(), Vec::new(), Vec::new());
        let (mut connect, mut refused) = (None::<(Target, Vec<u8>)>, false);
        for part in parts {
            match &mut connect {
                Some((_, rest)) => rest.extend_from_slice(part),
                None => input.extend_from_slice(part),
            }
            while connect.is_none() && !refused {
                match handshake.step(&input, &Accounts::default()) {
                    Step::More => break,
                    Step::Answer(count, answer) => {
                        drop(input.drain(..count));
                        output.extend_from_slice(answer);
                    }
                    Step::Connect(count, target) => connect = Some((target, input.split_off(count))),
                    Step::Associate(_) => {
                        output.extend(b"datagrams");
                        refused = true;
                    }
                    Step::Refuse(answer) => {
                        output.extend(answer);
                        refused = true;
                    }
                }
            }
        }
        (output, connect, refused)
    }

    /// All in one, and byte by byte.
    fn both(bytes: &[u8]) -> [Outcome; 2] {
        [outcome(std::iter::once(bytes)), outcome(bytes.chunks(1))]
    }

    fn host() -> impl Strategy<Value = String> {
        let address = any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string());
        // No name ends in a number.
        prop_oneof!["[a-z]{1,20}", "[a-z0-9_-]{1,20}(\\.[a-z]{1,9}){1,3}", address]
    }

    proptest! {
        #[test]
        fn any_cut_of_a_request_comes_to_the_same(
            host in host(), port in 1u16.., http in any::<bool>(), early in prop::collection::vec(any::<u8>(), 0..50),
            cuts in prop::collection::vec(1usize..40, 0..40)
        ) {
            let target = format!("{host}:{port}");
            let head = if http {
                format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes()
            } else {
                let length = [host.len() as u8];
                [&[5, 1, 0, 5, 1, 0, 3], &length[..], host.as_bytes(), &port.to_be_bytes()].concat()
            };
            let bytes = [head, early.clone()].concat();
            let (mut parts, mut rest) = (Vec::new(), &bytes[..]);
            for cut in cuts {
                let (part, behind) = rest.split_at(cut.min(rest.len()));
                (parts, rest) = ([parts, vec![part]].concat(), behind);
            }
            parts.push(rest);
            let answers = if http { vec![] } else { vec![5, 0] };
            let expected = (answers, Some((target.parse::<Target>().unwrap(), early)), false);
            prop_assert_eq!(outcome(parts.into_iter()), expected.clone());
            prop_assert_eq!(both(&bytes), [expected.clone(), expected]);
        }

        #[test]
        fn whatever_comes_is_understood_no_further_than_it_goes(
            first in prop_oneof![Just(5u8), Just(b'C'), any::<u8>()], rest in prop::collection::vec(any::<u8>(), 0..600)
        ) {
            let bytes = [vec![first], rest].concat();
            let mut handshake = Handshake::default();
            let mut left = &bytes[..];
            while let Step::Answer(count, _) | Step::Connect(count, _) = handshake.step(left, &Accounts::default()) {
                prop_assert!(count > 0 && count <= left.len());
                left = &left[count..];
            }
        }

        #[test]
        fn a_request_with_a_byte_changed_is_taken_or_refused(at in 0usize..60, byte in any::<u8>(), http in any::<bool>()) {
            let mut bytes = if http {
                b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec()
            } else {
                [&[5, 1, 0, 5, 1, 0, 3, 11], &b"example.org"[..], &[1, 187]].concat()
            };
            let at = at % bytes.len();
            bytes[at] = byte;
            let [whole, cut] = both(&bytes);
            prop_assert_eq!(whole.1, cut.1);
            prop_assert_eq!(whole.2, cut.2);
        }
    }

    #[test]
    fn what_speaks_neither_is_closed_without_a_word() {
        // SOCKS4, TLS, a small letter.
        for first in [4, 0x16, b'g', 0, 255] {
            assert_eq!(Handshake::default().step(&[first], &Accounts::default()), Step::Refuse(Vec::new()));
        }
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let bytes = [&b"CONNECT a:1 HTTP/1.1\r\nA: "[..], &[b'a'; MOST_BYTES]].concat();
        let open = Accounts::default();
        assert_eq!(Handshake::default().step(&bytes[..MOST_BYTES - 1], &open), Step::More);
        assert_eq!(Handshake::default().step(&bytes[..MOST_BYTES], &open), Step::Refuse(http::too_large()));
    }

    #[test]
    fn a_long_head_is_taken_whatever_its_parts_are() {
        for end in ["\r\n\r\n", "\n\n", "\r\n\n"] {
            let head = format!("CONNECT a:1 HTTP/1.1\r\nProxy-Authorization: Negotiate {}{end}", "A".repeat(18_000));
            let (mut handshake, bytes) = (Handshake::default(), [head.as_bytes(), b"\x16\x03"].concat());
            // Up to each byte of the end there is more to come.
            for length in (1..head.len()).filter(|at| at % 1000 == 0 || at + 6 > head.len()) {
                assert_eq!(handshake.step(&bytes[..length], &Accounts::default()), Step::More, "{end:?}, {length}");
            }
            let step = handshake.step(&bytes, &Accounts::default());
            assert_eq!(step, Step::Connect(head.len(), "a:1".parse().unwrap()), "{end:?}");
        }
    }

    #[test]
    fn a_program_shows_its_password_between_greeting_and_request() {
        let accounts = Accounts::parse("ada:secret").unwrap();
        let mut handshake = Handshake::default();
        assert_eq!(handshake.step(&[5, 2, 0, 2], &accounts), Step::Answer(4, &[5, 2]));
        assert_eq!(handshake.step(b"\x01\x03ada\x06secret", &accounts), Step::Answer(12, &[1, 0]));
        let request = [5, 1, 0, 1, 192, 0, 2, 1, 0, 80];
        assert_eq!(handshake.step(&request, &accounts), Step::Connect(10, "192.0.2.1:80".parse().unwrap()));
        // It cannot be left out.
        let mut handshake = Handshake::default();
        let _ = handshake.step(&[5, 1, 2], &accounts);
        assert_eq!(handshake.step(&request, &accounts), Step::Refuse(vec![1, 1]));
    }
}
