//! How a subflow's priority is set, which depends on who manages the namespace's paths.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};

use crate::EmuError;
use crate::netlink::{Endpoint, PathManager};

/// Which path manager new connections of the calling thread's namespace get; the newer name comes first.
const MANAGERS: [(&str, &str); 2] =
    [("/proc/sys/net/mptcp/path_manager", "userspace"), ("/proc/sys/net/mptcp/pm_type", "1")];

/// One of the two ways.
pub(super) enum Lever {
    /// Each subflow by itself: the userspace path manager.
    Subflows(PathManager),
    /// All subflows from one address, in every connection: the endpoints of the in-kernel path manager, as they were.
    Endpoints(PathManager, Vec<Endpoint>),
}

impl Lever {
    /// The way of the calling thread's namespace.
    pub fn open() -> Result<Self, EmuError> {
        let manager = PathManager::open()?;
        if by_program() {
            return Ok(Self::Subflows(manager));
        }
        let endpoints = manager.endpoints()?;
        Ok(Self::Endpoints(manager, endpoints))
    }

    /// The path manager, where it is ours to open subflows with.
    pub fn joiner(&self) -> Option<&PathManager> {
        match self {
            Self::Subflows(manager) => Some(manager),
            Self::Endpoints(..) => None,
        }
    }

    /// Whether one connection is steered and all others go along.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Endpoints(..))
    }

    /// Whether the subflows from `address` are backups of their own accord; `None` where only the subflow knows.
    pub fn own(&self, address: Ipv4Addr) -> Option<bool> {
        match self {
            Self::Subflows(_) => None,
            Self::Endpoints(_, endpoints) => Some(of(endpoints, address).is_some_and(|found| found.flags.backup)),
        }
    }

    /// Why the subflows of a connection, by their local ends, cannot be steered, if they cannot.
    pub fn obstacle(&self, locals: &[SocketAddrV4]) -> Option<String> {
        let Self::Endpoints(_, endpoints) = self else { return None };
        let addresses: Vec<Ipv4Addr> = locals.iter().map(|local| *local.ip()).collect();
        let twin = addresses.iter().enumerate().find(|(at, address)| addresses[..*at].contains(address));
        if let Some((_, address)) = twin {
            return Some(format!(
                "several subflows have the local address {address}: to tell them apart takes the userspace path \
                 manager (sysctl net.mptcp.path_manager=userspace, before the connection begins)"
            ));
        }
        let without = addresses.iter().find(|address| of(endpoints, **address).is_none())?;
        Some(format!("{without} is no endpoint of the path manager; `ip mptcp endpoint add {without}` makes it one"))
    }

    /// Makes a subflow a backup, or no backup.
    pub fn set(&self, token: u32, ends: (SocketAddrV4, SocketAddrV4), backup: bool) -> Result<(), EmuError> {
        match self {
            Self::Subflows(manager) => manager.set_subflow_backup(token, ends.0, ends.1, backup),
            Self::Endpoints(manager, endpoints) => match of(endpoints, *ends.0.ip()) {
                Some(endpoint) => manager.set_backup(endpoint, backup),
                None => Ok(()),
            },
        }
    }

    /// Endpoints that came in the meantime.
    pub fn renew(&mut self) -> Result<(), EmuError> {
        let Self::Endpoints(manager, known) = self else { return Ok(()) };
        let new = manager.endpoints()?.into_iter().filter(|endpoint| of(known, endpoint.address).is_none());
        let new: Vec<Endpoint> = new.collect();
        known.extend(new);
        Ok(())
    }

    /// Sets all endpoints back to what they were; those that are gone need it no more.
    pub fn restore(&self) -> Result<(), EmuError> {
        let Self::Endpoints(manager, known) = self else { return Ok(()) };
        let present = manager.endpoints()?;
        let changed = known.iter().filter(|was| {
            of(&present, was.address).is_some_and(|is| is.id == was.id && is.flags.backup != was.flags.backup)
        });
        changed.map(|was| manager.set_backup(was, was.flags.backup)).collect()
    }
}

fn of(endpoints: &[Endpoint], address: Ipv4Addr) -> Option<&Endpoint> {
    endpoints.iter().find(|endpoint| endpoint.address == address)
}

fn by_program() -> bool {
    let value = |(file, wanted): (&str, &str)| fs::read_to_string(file).ok().map(|text| text.trim() == wanted);
    MANAGERS.into_iter().find_map(value).unwrap_or(false)
}
