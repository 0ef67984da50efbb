//! The routes and rules of `weft tunnel`: what is asked of `ip`, and how it is taken back, however the tunnel ended.
//!
//! Packets of programs are led to the tunnel's device by rules before those of the system. They look into a table that
//! holds one route, to that device; so when the device is gone, with a tunnel that was killed, the table is empty and
//! the system's own routes count again. A kill switch is a table of `nft`, which stays. Routes and rules would not do:
//! a program that binds itself to a link is let out by the kernel although they lead nowhere.
//!
//! | module | what it has |
//! |---|---|
//! | `part` | parts of the traffic, as `--only` names them |
//! | `plan` | addresses, routes, rules and kill switch of a tunnel; no side effects |
//! | `commands` | `ip`, `nft`, `ss`, `resolvectl` |
//! | `settings` | settings of the kernel |
//! | `state` | a file with what was changed |
//! | `routes` | a plan carried out, and taken back |
//! | `shown`, `check` | what is missing of a plan, and which packets go beside the tunnel |
//! | `mender`, `watcher` | what other programs take away is set again |

mod check;
mod commands;
mod mender;
mod part;
mod plan;
mod routes;
mod settings;
mod shown;
mod state;
mod watcher;

pub use part::Part;
pub use plan::Plan;
pub use routes::{Routes, check_free, end_connections, resolve_through};
pub use watcher::{Shared, Watcher, locked};

/// The table of the tunnel's routes: no other program that is known to us has this one.
const TABLE: u32 = 51877;

/// Preferences of the tunnel's rules: before those of other programs, behind those of the machine's own addresses (0).
const FIRST_RULE: usize = 4400;
/// The last of these preferences.
const LAST_RULE: usize = 4499;

/// The table of `nft` that is the kill switch.
const FILTER: &str = "inet weft_tunnel";

/// An address to which questions for names may be sent: the tunnel answers them.
const RESOLVER: std::net::Ipv4Addr = std::net::Ipv4Addr::new(198, 18, 77, 2);

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both of them.
    const ALL: [Self; 2] = [Self::V4, Self::V6];

    fn of(address: std::net::IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The option of `ip`.
    fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    /// Address from which packets on the device come: of a network for tests (RFC 2544) and for nobody else (RFC 4193).
    fn address(self) -> &'static str {
        match self {
            Self::V4 => "198.18.77.1",
            Self::V6 => "fd77:6566:7477::1",
        }
    }

    /// Bits of an address.
    fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
