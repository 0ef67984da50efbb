//! The other end: at an address and known by its pairing line, or it comes to where this one listens.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use weftway_transfer::{Lookup, OtherEnd};

use crate::failure::{Done, Failure};

/// The other end as the options say it.
pub struct End {
    /// Who opens the connection.
    pub other: OtherEnd,
    /// Its first address, or where it is awaited.
    pub address: SocketAddr,
    /// Looks its name up again, if it was given by one.
    pub lookup: Option<Lookup>,
    /// File and text of the identity, where this end listens.
    pub identity: Option<(PathBuf, String)>,
}

/// The other end: `host` with the pairing line `pair`, which may be the line, a file or `-`; or it comes to `listen`, where this
/// machine has the identity of a file. `option` is the one that names the host, for messages.
pub fn other_end(
    host: Option<&str>,
    listen: Option<&str>,
    pair: Option<&str>,
    identity: Option<&Path>,
    option: &str,
) -> Done<End> {
    let _ = (host, listen, pair, identity);
    Err(Failure::input(option))
}
