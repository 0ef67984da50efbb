//! Addresses as people write them.

use std::net::SocketAddr;

use crate::failure::{Done, Failure};

/// Port where the end listens that was told none.
pub const PORT: u16 = 4433;

/// HOST, HOST:PORT, :PORT or [HOST]:PORT; the port is the `default` where it is not named.
pub fn split(text: &str, default: u16) -> Done<(Option<String>, u16)> {
    let _ = default;
    Err(Failure::input(text))
}

/// [ADDR:]PORT, or ADDR alone.
pub fn split_listening(text: &str, default: u16) -> Done<(Option<String>, u16)> {
    split(text, default)
}

/// All addresses of a name, in the order in which they are best tried. `passive`: to listen at.
///
/// What can be no name is bad input. A name that is not found now may be later: the run failed.
pub fn resolve(host: &str, port: u16, passive: bool) -> Done<Vec<SocketAddr>> {
    let _ = (port, passive);
    Err(Failure::input(host))
}

/// The address for a socket that takes what comes over IPv6 and over IPv4, or over IPv4 where there is no IPv6.
pub fn all_addresses() -> &'static str {
    "::"
}

/// ADDR[:PORT] of a server of names.
pub fn name_server(text: &str) -> Done<SocketAddr> {
    Err(Failure::input(text))
}
