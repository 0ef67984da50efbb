//! Target of a stream: a host and a port, as `example.org:443`, `192.0.2.1:443` or `[2001:db8::1]:443`; or `udp:`, for
//! datagrams that lead where each says; `echo:`, for pings; `dns:`, for questions to the relay's own server of names;
//! `pipe:1/200000/order/192.0.2.1:9001`, for datagrams that all lead there: version, latency in microseconds, `order`,
//! `any` or nothing, target.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;
use weftway_path::Span;

use crate::limits::{LEAST_LATENCY, MOST_LATENCY};

/// Words of streams for datagrams, for pings, for questions to a server of names. None is a target: they have no port.
const DATAGRAMS: &str = "udp:";
const ECHO: &str = "echo:";
const NAMES: &str = "dns:";
const NAMES_BY_TCP: &str = "dns:tcp";
/// Beginning of the target of a pipe, and its version.
const PIPE: &str = "pipe:";
const PIPE_VERSION: &str = "1";
const IN_ORDER: &str = "order";
const ANY_ORDER: &str = "any";
/// The longest name of the DNS (RFC 1035), and the longest of its labels.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// The host of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name, which the relay resolves.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Target of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The host.
    pub host: Host,
    /// Its port.
    pub port: u16,
}

/// Why a text is no target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// Not a host and a port.
    #[error("a target is a host and a port, as in example.org:443 or [2001:db8::1]:443")]
    Form,
    /// The port is none.
    #[error("a port is a number from 1 to 65535")]
    Port,
    /// The host is none.
    #[error(
        "a host is an address, or a name of letters, digits, '-', '_' and '.', {LONGEST_NAME} at most; no name ends in a \
         number, as half an address or a range would"
    )]
    Host,
    /// A pipe of another version.
    #[error("a pipe of another version than {PIPE_VERSION}")]
    PipeVersion,
    /// No pipe.
    #[error("a pipe has a latency from {LEAST_LATENCY} to {MOST_LATENCY}, an order and a target")]
    Pipe,
}

/// Order in which the far end of a pipe gives datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order in which they were sent: each is held until its latency is over.
    Always,
    /// That order as far as what is missing comes soon: a datagram that has overtaken others waits for them, for a part
    /// of the latency.
    #[default]
    Mostly,
    /// The order in which they come.
    Any,
}

/// A pipe: datagrams that all lead to one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeTarget {
    /// Time after its arrival at one end within which a datagram is of use at the other.
    pub latency: Span,
    /// Order in which they are given.
    pub order: Order,
    /// Target of the datagrams.
    pub target: Target,
}

impl PipeTarget {
    /// Reads what follows `pipe:`.
    fn parse(text: &str) -> Result<Self, TargetError> {
        let mut parts = text.splitn(4, '/');
        if parts.next() != Some(PIPE_VERSION) {
            return Err(TargetError::PipeVersion);
        }
        let mut next = || parts.next().ok_or(TargetError::Pipe);
        let latency = next()?.parse().map(Span::from_micros).map_err(|_| TargetError::Pipe)?;
        let order = match next()? {
            "" => Order::Mostly,
            IN_ORDER => Order::Always,
            ANY_ORDER => Order::Any,
            _ => return Err(TargetError::Pipe),
        };
        if !(LEAST_LATENCY..=MOST_LATENCY).contains(&latency) {
            return Err(TargetError::Pipe);
        }
        Ok(Self { latency, order, target: next()?.parse()? })
    }
}

impl fmt::Display for PipeTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            Order::Always => IN_ORDER,
            Order::Mostly => "",
            Order::Any => ANY_ORDER,
        };
        write!(f, "{PIPE}{PIPE_VERSION}/{}/{order}/{}", self.latency.as_micros(), self.target)
    }
}

impl Target {
    /// `host` is an address without brackets, or a name.
    pub fn new(host: &str, port: u16) -> Result<Self, TargetError> {
        if port == 0 {
            return Err(TargetError::Port);
        }
        if let Ok(address) = host.parse() {
            return Ok(Self { host: Host::Address(address), port });
        }
        let labels = host.strip_suffix('.').unwrap_or(host);
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_label = |label: &str| (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(is_known);
        if labels.len() > LONGEST_NAME || !labels.split('.').all(is_label) || ends_in_number(labels) {
            return Err(TargetError::Host);
        }
        Ok(Self { host: Host::Name(host.to_owned()), port })
    }
}

/// Returns true if the last label is a number, decimal or hexadecimal. No top-level domain is one (RFC 1123 §2.1), and
/// what reads addresses would take such a name for one: 192.168.1 for 192.168.0.1 (`inet_aton`; WHATWG URL, "ends in a
/// number").
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    // Two numbers are a range of addresses: 192.0.2.1-9.
    last.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (host, port) = text.rsplit_once(':').ok_or(TargetError::Form)?;
        let digits = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| digits).ok_or(TargetError::Port)?;
        match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.strip_suffix(']').ok_or(TargetError::Form)?;
                let address: Ipv6Addr = inner.parse().map_err(|_| TargetError::Host)?;
                Self::new(&address.to_string(), port)
            }
            None if host.contains(':') => Err(TargetError::Form),
            None => Self::new(host, port),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}:{}", self.port),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
        }
    }
}

/// Purpose of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A connection to this target.
    Connection(Target),
    /// The datagrams of a program. The stream itself carries nothing; they come and go as long as it lives.
    Datagrams,
    /// Echo requests of ICMP (ping), and the replies to them.
    Echo,
    /// Datagrams that all lead to the server of names that the relay itself asks, wherever they say.
    Names,
    /// A connection to that server.
    NamesByTcp,
    /// Datagrams that all lead to one target, and are of use for a while. The stream itself carries what both ends tell
    /// each other about them.
    Pipe(PipeTarget),
}

impl FromStr for Purpose {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match text {
            DATAGRAMS => Ok(Self::Datagrams),
            ECHO => Ok(Self::Echo),
            NAMES => Ok(Self::Names),
            NAMES_BY_TCP => Ok(Self::NamesByTcp),
            _ => match text.strip_prefix(PIPE) {
                Some(pipe) => PipeTarget::parse(pipe).map(Self::Pipe),
                None => text.parse().map(Self::Connection),
            },
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(target) => target.fmt(f),
            Self::Datagrams => f.write_str(DATAGRAMS),
            Self::Echo => f.write_str(ECHO),
            Self::Names => f.write_str(NAMES),
            Self::NamesByTcp => f.write_str(NAMES_BY_TCP),
            Self::Pipe(pipe) => pipe.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_come_back_as_they_were_written() {
        for text in [
            "example.org:443",
            "a-b_c.example.:1",
            "1.2.3.4.in-addr.arpa:53",
            "b0x1:80",
            "192.0.2.1:65535",
            "[2001:db8::1]:22",
            "[::ffff:1.2.3.4]:53",
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        let long = format!("{}:80", ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join("."));
        assert_eq!(long.parse::<Target>().unwrap().to_string(), long);
    }

    #[test]
    fn what_is_no_target_is_refused() {
        use TargetError::{Form, Host, Port};
        for (text, error) in [
            ("", Form),
            ("example.org", Form),
            ("2001:db8::1:80", Form),
            ("[2001:db8::1:80", Form),
            ("example.org:", Port),
            ("example.org:0", Port),
            ("example.org:65536", Port),
            ("example.org:+80", Port),
            (":80", Host),
            ("a..b:80", Host),
            ("user@example.org:80", Host),
            ("example.org/:80", Host),
            ("[fe80::1%lo]:80", Host),
            ("[127.0.0.1]:80", Host),
            ("bücher.example:80", Host),
            // Half an address, a range, an address in one number, and with a dot behind it.
            ("192.168.1:80", Host),
            ("192.0.2.1-192.0.2.9:80", Host),
            ("192.0.2.1-9:80", Host),
            ("2130706433:80", Host),
            ("0x7f.0x1:80", Host),
            ("127.0.0.1.:80", Host),
            ("192.168.1.256:80", Host),
        ] {
            assert_eq!(text.parse::<Target>(), Err(error), "{text}");
        }
        assert_eq!(Target::new(&"a".repeat(64), 80), Err(Host));
        assert_eq!(Target::new(&["a"; 128].join("."), 80), Err(Host));
    }

    #[test]
    fn a_stream_for_datagrams_is_taken_for_no_target() {
        for purpose in [
            Purpose::Datagrams,
            Purpose::Echo,
            Purpose::Names,
            Purpose::NamesByTcp,
            Purpose::Connection(Target::new("udp", 80).unwrap()),
        ] {
            assert_eq!(purpose.to_string().parse(), Ok(purpose));
        }
        assert_eq!(DATAGRAMS.parse::<Target>(), Err(TargetError::Port));
    }

    #[test]
    fn a_pipe_comes_back_as_it_was_written_and_is_no_target() {
        for text in
            ["pipe:1/200000//192.0.2.1:9001", "pipe:1/1000/order/[2001:db8::1]:9", "pipe:1/10000000/any/a.example:1"]
        {
            let purpose: Purpose = text.parse().unwrap();
            assert!(matches!(purpose, Purpose::Pipe(_)) && purpose.to_string() == text);
            // So a relay that knows no pipes refuses it.
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        for (text, error) in [
            ("pipe:", TargetError::PipeVersion),
            ("pipe:2/200000//192.0.2.1:9001", TargetError::PipeVersion),
            ("pipe:1", TargetError::Pipe),
            ("pipe:1/0//192.0.2.1:9001", TargetError::Pipe),
            ("pipe:1/10000001//192.0.2.1:9001", TargetError::Pipe),
            ("pipe:1/200000/x/192.0.2.1:9001", TargetError::Pipe),
            ("pipe:1/200000/order", TargetError::Pipe),
            ("pipe:1/200000//192.0.2.1", TargetError::Form),
            ("pipe:1/200000//192.0.2.1:0", TargetError::Port),
        ] {
            assert_eq!(text.parse::<Purpose>(), Err(error), "{text}");
        }
    }
}
