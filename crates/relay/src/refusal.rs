//! Refusals of the relay, and their form for a local program.
//!
//! If the stream leads where it should, the relay says so with one byte. If not, it resets the stream, with a code of
//! SOCKS5 (RFC 1928, section 6): that is one frame and final at once, so nothing is left to be read or acknowledged.

use std::fmt;
use std::io;

/// The first byte that the relay sends on a stream: it leads where it should. What follows is from there.
pub const CONNECTED: u8 = 0;
/// The code of a reset that follows that of a socket, or its error.
pub const ABORTED: u32 = 0;

/// Why a stream leads nowhere, in the codes of SOCKS5, and one of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// For another reason.
    General = 1,
    /// The relay's policy has nobody connect there.
    NotAllowed = 2,
    /// No route to that network.
    NetworkUnreachable = 3,
    /// No such name, or no route to that host.
    HostUnreachable = 4,
    /// No program listens on that port.
    Refused = 5,
    /// No answer came in time.
    TimedOut = 6,
    /// The command is none of those that are known.
    Command = 7,
    /// The address is of a kind that is not known.
    AddressType = 8,
    /// The relay carries as much for this client as it may have at once.
    TooMany = 9,
}

impl Refusal {
    /// As a reset tells it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Code of SOCKS5.
    pub fn in_socks(self) -> Self {
        if self == Self::TooMany { Self::General } else { self }
    }

    /// Its name where they are counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::General => "other",
            Self::NotAllowed => "not_allowed",
            Self::NetworkUnreachable => "network_unreachable",
            Self::HostUnreachable => "host_unreachable",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Command => "command",
            Self::AddressType => "address_type",
            Self::TooMany => "too_many",
        }
    }

    /// Meaning of a reset with this code before the stream is connected.
    pub fn from_code(code: u32) -> Self {
        match code {
            2 => Self::NotAllowed,
            3 => Self::NetworkUnreachable,
            4 => Self::HostUnreachable,
            5 => Self::Refused,
            6 => Self::TimedOut,
            7 => Self::Command,
            9 => Self::TooMany,
            _ => Self::General,
        }
    }

    /// Why a connection could not be made.
    pub fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::NetworkUnreachable => Self::NetworkUnreachable,
            io::ErrorKind::HostUnreachable | io::ErrorKind::AddrNotAvailable => Self::HostUnreachable,
            io::ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::General,
        }
    }
}

impl Refusal {
    /// Returns true if a pipe that was refused so may be open later: a server of names is silent for a while, or does
    /// not know a name any more that it knew; another client has all places.
    pub fn may_pass(self, was_open: bool) -> bool {
        matches!(self, Self::TimedOut | Self::TooMany) || was_open && self == Self::HostUnreachable
    }

    /// Why a pipe leads nowhere.
    pub fn of_pipe(self) -> &'static str {
        match self {
            Self::NotAllowed => "it allows no pipe there; `weft relay --allow-pipe` with this target allows it",
            Self::HostUnreachable => "it knows no such name",
            Self::TimedOut => "the name was not found in time",
            Self::TooMany => "it allows no more pipes or connections at once",
            Self::Command => "it knows pipes of another version: both ends need the same version of weft",
            _ => "it knows no pipes, or none of this kind: it is of another version than this end",
        }
    }
}

/// Why the proxy cannot do what a local program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The relay refused.
    Refused(Refusal),
    /// There was no connection to the relay for as long as a program waits.
    NoConnection,
    /// The relay took no more streams for as long as a program waits.
    NoStream,
    /// The connection to the relay was lost.
    Lost,
    /// The relay did not say in time whether it connected.
    NoAnswer,
}

impl Failure {
    /// Its name where they are counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.name(),
            Self::NoConnection => "no_connection",
            Self::NoStream => "no_stream",
            Self::Lost => "lost",
            Self::NoAnswer => "no_answer",
        }
    }

    /// Answer to a SOCKS client.
    pub fn refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal.in_socks(),
            Self::NoAnswer => Refusal::TimedOut,
            Self::NoConnection | Self::NoStream | Self::Lost => Refusal::General,
        }
    }

    /// Answer to an HTTP client.
    pub fn status(self) -> (u16, &'static str) {
        match self {
            Self::Refused(Refusal::NotAllowed) => (403, "Forbidden"),
            Self::Refused(Refusal::TooMany) => (503, "Service Unavailable"),
            Self::Refused(Refusal::TimedOut) | Self::NoAnswer | Self::NoConnection | Self::NoStream => {
                (504, "Gateway Timeout")
            }
            Self::Refused(_) | Self::Lost => (502, "Bad Gateway"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoConnection => "there is no connection to the relay",
            Self::NoStream => "as many streams are open as the relay allows",
            Self::Lost => "the connection to the relay was lost",
            Self::NoAnswer => "the relay did not say in time whether it connected",
            Self::Refused(refusal) => match refusal {
                Refusal::NotAllowed => "the relay's policy allows no connection to that address",
                Refusal::NetworkUnreachable => "the relay has no route to that network",
                Refusal::HostUnreachable => "the relay knows no such name, or has no route to that host",
                Refusal::Refused => "nothing listens on that port",
                Refusal::TimedOut => "nothing answered the relay in time",
                Refusal::TooMany => "the relay allows no more connections at once",
                Refusal::General | Refusal::Command | Refusal::AddressType => "the relay could not connect",
            },
        })
    }
}
