//! What a local program says before its bytes are carried: SOCKS5 or HTTP, told apart by the first byte.

use crate::http;
use crate::refusal::{Failure, Refusal};
use crate::socks;
use crate::step::Step;
use crate::target::Purpose;

/// The most bytes that a program may send before it has said where it wants to.
pub const MOST_BYTES: usize = 8 << 10;

/// What a program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// SOCKS5.
    Socks,
    /// HTTP, of which CONNECT.
    Http,
}

impl Protocol {
    /// That of a program whose first byte this is. SOCKS4 is none.
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

/// How far a program has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    protocol: Option<Protocol>,
    greeted: bool,
}

impl Handshake {
    /// What the program speaks, once a byte of it is known.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// What follows from `bytes`: all that came, without what earlier steps have understood.
    pub fn step(&mut self, bytes: &[u8]) -> Step {
        let Some(&first) = bytes.first() else { return Step::More };
        let Some(protocol) = self.protocol.or_else(|| Protocol::of(first)) else { return Step::Refuse(Vec::new()) };
        self.protocol = Some(protocol);
        let step = match protocol {
            Protocol::Http => http::request(bytes),
            Protocol::Socks if self.greeted => socks::request(bytes),
            Protocol::Socks => socks::greeting(bytes),
        };
        match step {
            Step::More if bytes.len() >= MOST_BYTES => Step::Refuse(match protocol {
                Protocol::Http => http::too_large(),
                Protocol::Socks => socks::refused(Refusal::General),
            }),
            Step::Answer(..) => {
                self.greeted = true;
                step
            }
            step => step,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::target::Target;

    /// The answers; the target and what is left, if it came to a request; whether it was refused.
    type Outcome = (Vec<u8>, Option<(Target, Vec<u8>)>, bool);

    /// What becomes of bytes that come in these parts.
    fn outcome<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Outcome {
        let (mut handshake, mut input, mut output) = (Handshake::default(), Vec::new(), Vec::new());
        let (mut connect, mut refused) = (None::<(Target, Vec<u8>)>, false);
        for part in parts {
            match &mut connect {
                Some((_, rest)) => rest.extend_from_slice(part),
                None => input.extend_from_slice(part),
            }
            while connect.is_none() && !refused {
                match handshake.step(&input) {
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
        prop_oneof!["[a-z0-9_-]{1,20}(\\.[a-z]{1,9}){0,3}", any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string())]
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
            while let Step::Answer(count, _) | Step::Connect(count, _) = handshake.step(left) {
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
            assert_eq!(Handshake::default().step(&[first]), Step::Refuse(Vec::new()));
        }
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let bytes = [&b"CONNECT a:1 HTTP/1.1\r\nA: "[..], &[b'a'; MOST_BYTES]].concat();
        assert_eq!(Handshake::default().step(&bytes[..MOST_BYTES - 1]), Step::More);
        assert_eq!(Handshake::default().step(&bytes[..MOST_BYTES]), Step::Refuse(http::too_large()));
    }
}
