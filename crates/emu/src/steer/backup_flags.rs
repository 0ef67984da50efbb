//! Setting the backup flags of subflows (MP_PRIO): how that is done depends on who manages the namespace's paths.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};

use crate::EmuError;
use crate::netlink::{Endpoint, PathManager};

/// Which path manager new connections of the calling thread's namespace get; the newer name comes first.
const MANAGERS: [(&str, &str); 2] =
    [("/proc/sys/net/mptcp/path_manager", "userspace"), ("/proc/sys/net/mptcp/pm_type", "1")];

/// Way in which they are set.
pub(super) enum BackupFlags {
    /// Each subflow by itself: the userspace path manager.
    Subflows(PathManager),
    /// All subflows from one address, in every connection: the endpoints of the in-kernel path manager.
    Endpoints(PathManager, Vec<Known>),
}

/// An endpoint.
pub(super) struct Known {
    /// As it was.
    was: Endpoint,
    /// True if it is a backup now.
    backup: bool,
}

impl BackupFlags {
    /// As the calling thread's namespace has it.
    pub fn open() -> Result<Self, EmuError> {
        let manager = PathManager::open()?;
        if by_program() {
            return Ok(Self::Subflows(manager));
        }
        let mut backup_flags = Self::Endpoints(manager, Vec::new());
        backup_flags.renew()?;
        Ok(backup_flags)
    }

    /// The path manager, where it is ours to open subflows with.
    pub fn joiner(&self) -> Option<&PathManager> {
        match self {
            Self::Subflows(manager) => Some(manager),
            Self::Endpoints(..) => None,
        }
    }

    /// Returns true if one connection is steered and all others go along.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Endpoints(..))
    }

    /// Returns true if the subflows from `address` are backups of their own accord; `None` where only the subflow
    /// knows.
    pub fn own(&self, address: Ipv4Addr) -> Option<bool> {
        match self {
            Self::Subflows(_) => None,
            Self::Endpoints(_, endpoints) => {
                Some(endpoints.iter().any(|known| known.was.address == address && known.was.flags.backup))
            }
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
        let is_known = |address: &Ipv4Addr| endpoints.iter().any(|known| known.was.address == *address);
        let without = addresses.iter().find(|address| !is_known(address))?;
        Some(format!("{without} is no endpoint of the path manager; `ip mptcp endpoint add {without}` makes it one"))
    }

    /// Makes a subflow a backup, or no backup.
    pub fn set(&mut self, token: u32, ends: (SocketAddrV4, SocketAddrV4), backup: bool) -> Result<(), EmuError> {
        let (manager, endpoints) = match self {
            Self::Subflows(manager) => return manager.set_subflow_backup(token, ends.0, ends.1, backup),
            Self::Endpoints(manager, endpoints) => (manager, endpoints),
        };
        let Some(known) = endpoints.iter_mut().find(|known| known.was.address == *ends.0.ip()) else { return Ok(()) };
        // The kernel passes on only what changes the endpoint. A subflow that was not yet there for it when that
        // changed is reached by changing it back and again.
        if known.backup == backup {
            manager.set_backup(&known.was, !backup)?;
        }
        manager.set_backup(&known.was, backup)?;
        known.backup = backup;
        Ok(())
    }

    /// Endpoints that came or went in the meantime. One that came back may have another number, and another one its
    /// own.
    pub fn renew(&mut self) -> Result<(), EmuError> {
        let Self::Endpoints(manager, known) = self else { return Ok(()) };
        let present = manager.endpoints()?;
        known.retain(|known| present.iter().any(|is| is_same(&known.was, is)));
        for endpoint in present {
            if known.iter().all(|known| known.was.address != endpoint.address) {
                known.push(Known { was: endpoint, backup: endpoint.flags.backup });
            }
        }
        Ok(())
    }

    /// Sets all endpoints back to what they were, as many as the kernel lets, and returns the first error; those that
    /// are gone need it no more.
    pub fn restore(&self) -> Result<(), EmuError> {
        let Self::Endpoints(manager, known) = self else { return Ok(()) };
        let present = manager.endpoints()?;
        let changed = known.iter().map(|known| &known.was).filter(|was| {
            present.iter().find(|is| is_same(was, is)).is_some_and(|is| is.flags.backup != was.flags.backup)
        });
        let mut result = Ok(());
        for was in changed {
            result = result.and(manager.set_backup(was, was.flags.backup));
        }
        result
    }
}

fn is_same(one: &Endpoint, other: &Endpoint) -> bool {
    (one.id, one.address) == (other.id, other.address)
}

fn by_program() -> bool {
    let value = |(file, wanted): (&str, &str)| fs::read_to_string(file).ok().map(|text| text.trim() == wanted);
    MANAGERS.into_iter().find_map(value).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Namespace;
    use crate::netlink::EndpointFlags;

    /// As when links reconnect in another order: the kernel gives numbers in the order of coming.
    #[test]
    fn endpoints_that_came_back_are_found_by_their_new_numbers() {
        let Ok(namespace) = Namespace::new() else { return eprintln!("skipped: no right to a network namespace") };
        let addresses = [Ipv4Addr::new(10, 0, 1, 1), Ipv4Addr::new(10, 0, 2, 1)];
        let steered = || {
            let manager = PathManager::open()?;
            let add = |id, address| {
                let flags = EndpointFlags { subflow: true, ..EndpointFlags::default() };
                manager.add_endpoint(&Endpoint { id: Some(id), address, device: None, flags })
            };
            add(1, addresses[0])?;
            add(2, addresses[1])?;
            let mut backup_flags = BackupFlags::open()?;
            manager.remove_endpoint(1, addresses[0])?;
            manager.remove_endpoint(2, addresses[1])?;
            add(1, addresses[1])?;
            add(2, addresses[0])?;
            backup_flags.renew()?;
            let ends = addresses.map(|address| SocketAddrV4::new(address, 4000));
            backup_flags.set(0, (ends[0], ends[1]), true)?;
            let steered = manager.endpoints()?;
            backup_flags.restore()?;
            Ok((steered, manager.endpoints()?))
        };
        let (steered, restored) = match namespace.within(steered) {
            Err(error @ EmuError::Missing { .. }) => return eprintln!("skipped: {error}"),
            found => found.unwrap(),
        };
        let backups = |endpoints: &[Endpoint]| endpoints.iter().map(|one| (one.address, one.flags.backup)).collect();
        let found: Vec<_> = backups(&steered);
        assert_eq!(found, [(addresses[1], false), (addresses[0], true)]);
        assert!(restored.iter().all(|one| !one.flags.backup), "{restored:?}");
    }
}
