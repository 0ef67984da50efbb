//! Address translation before one end of a connection: the other end sees the addresses that this gives, and they may
//! change.

use std::net::SocketAddr;

use weftway_path::PathId;

/// A NAT on each link.
#[derive(Debug)]
pub(super) struct Nats {
    /// Address from which the datagrams of each path come.
    sources: Vec<SocketAddr>,
    /// At which path's end the datagrams for an address arrive; those for any other address are lost.
    ends: Vec<(SocketAddr, PathId)>,
}

impl Nats {
    /// They give these addresses to the paths.
    pub fn new(sources: Vec<SocketAddr>) -> Self {
        let ends = sources.iter().copied().zip((0..).map(PathId::new)).collect();
        Self { sources, ends }
    }

    /// Address from which the datagrams of a path come.
    pub fn source(&self, path: PathId) -> SocketAddr {
        self.sources[path.index()]
    }

    /// At which path's end datagrams for `address` arrive.
    pub fn end(&self, address: SocketAddr) -> Option<PathId> {
        self.ends.iter().find(|(known, _)| *known == address).map(|&(_, path)| path)
    }

    /// The datagrams of `path` come from `address`.
    pub fn set_source(&mut self, path: PathId, address: SocketAddr) {
        self.sources[path.index()] = address;
    }

    /// Datagrams for `address` arrive at the end of this path; with none they are lost.
    pub fn set_end(&mut self, address: SocketAddr, path: Option<PathId>) {
        self.ends.retain(|(known, _)| *known != address);
        self.ends.extend(path.map(|path| (address, path)));
    }
}
