//! A client, a server, and the paths between them: two namespaces with a pair of TUN devices for each path.
//!
//! Path k (from 0) is the network 10.0.(k+1).0/24: the client has .1, the server .2. What the client sends from its
//! address on a path takes that path; what the server sends takes the path of the address it goes to.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path as FilePath;

use weftway_link::{Change, LinkConfig, Seeds, Set};
use weftway_path::Instant;
use weftway_tun::Tun;

use crate::emulator::{Emulator, Next, Port, ReadyEmulator, Wire};
use crate::entry::Subject;
use crate::netlink::{Endpoint, EndpointFlags, PathManager, Prefix, Route};
use crate::record::Recorder;
use crate::{EmuError, Namespace};

/// MTU of the devices: Ethernet's, which the scenarios' packet sizes presume.
const MTU: u32 = 1500;

/// Packets that wait in a device until the emulator reads them. It reads at once; what would be dropped here would
/// be a loss that no scenario asked for.
const DEVICE_QUEUE: u32 = 10_000;

/// Most subflows of MPTCP of Linux, beside the first (`MPTCP_PM_ADDR_MAX`).
pub const MOST_SUBFLOWS: u32 = 8;

/// The most paths: as many as a connection can have.
const MOST_PATHS: usize = 64;

/// The first of the routing tables by source address.
const FIRST_TABLE: u32 = 100;

/// Settings of both namespaces. What a connection learned must not reach the next one; packets may come in on another
/// device than answers go out; and no address but ours means no traffic but what was asked for.
const SETTINGS: [(&str, &str); 5] = [
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
];

/// Plan of a lab.
#[derive(Clone, Debug, Default)]
pub struct LabPlan {
    /// The paths.
    pub paths: Vec<LabPath>,
    /// Links that several paths share, with their seeds.
    pub shared: Vec<(LinkConfig, Seeds)>,
}

/// A path.
#[derive(Clone, Debug)]
pub struct LabPath {
    /// Its name, which its devices get if it is short and plain.
    pub name: String,
    /// Direction from the client to the server.
    pub up: Way,
    /// Direction from the server to the client.
    pub down: Way,
    /// Times at which it is there: from the first instant to the second, and so on; empty for always.
    pub presence: Vec<Instant>,
}

/// A direction of a path.
#[derive(Clone, Debug)]
pub struct Way {
    /// The link.
    pub link: LinkConfig,
    /// The seeds of its draws.
    pub seeds: Seeds,
    /// The shared link that comes after it, by its place in [`LabPlan::shared`].
    pub via: Option<usize>,
}

/// A lab that is set up: nothing moves in it until it is started.
#[derive(Debug)]
pub struct Lab {
    client: Namespace,
    server: Namespace,
    ports: Vec<Port>,
    wires: Vec<Wire>,
    subjects: Vec<Subject>,
}

impl Lab {
    /// Makes the namespaces and devices of `plan`, with addresses and routes.
    pub fn build(plan: &LabPlan) -> Result<Self, EmuError> {
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        if plan.paths.len() > MOST_PATHS {
            let source = io::Error::other(format!("{} paths; a lab has at most {MOST_PATHS}", plan.paths.len()));
            return Err(EmuError::System { step: "setting up the paths".to_owned(), source });
        }
        let names = devices(plan.paths.iter().map(|path| path.name.as_str()));
        let client_tuns = client.within(|| end(&names, client_address, true))?;
        let server_tuns = server.within(|| end(&names, server_address, false))?;
        let (wires, subjects) = wiring(plan);
        let ports = client_tuns.into_iter().zip(server_tuns).enumerate();
        let ports = ports.flat_map(|(at, (client, server))| {
            [Port { tun: client, into: up_link(at) }, Port { tun: server, into: down_link(at) }]
        });
        Ok(Self { client, server, ports: ports.collect(), wires, subjects })
    }

    /// The client's namespace.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// The server's namespace.
    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// Has MPTCP connections of the client open a subflow on every path; `backups` says which paths are kept for when
    /// no other works.
    ///
    /// # Errors
    ///
    /// Where the kernel has no MPTCP, and for more than eight paths.
    pub fn join_paths(&self, backups: &[bool]) -> Result<(), EmuError> {
        self.server.within(|| PathManager::open()?.set_limits(MOST_SUBFLOWS, MOST_SUBFLOWS))?;
        self.client.within(|| {
            let manager = PathManager::open()?;
            manager.set_limits(MOST_SUBFLOWS, MOST_SUBFLOWS)?;
            let endpoints = backups.iter().enumerate().map(|(at, &backup)| Endpoint {
                id: Some(at as u8 + 1),
                address: client_address(at),
                device: None,
                flags: EndpointFlags { subflow: true, backup, ..EndpointFlags::default() },
            });
            endpoints.into_iter().try_for_each(|endpoint| manager.add_endpoint(&endpoint))
        })
    }

    /// Writes a setting (`net/ipv4/tcp_ecn`) of both ends.
    pub fn set(&self, key: &str, value: &str) -> Result<(), EmuError> {
        [&self.client, &self.server].into_iter().try_for_each(|end| end.within(|| set(key, value)))
    }

    /// The links as a record knows them.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// Starts the links: their time zero is just before this returns.
    pub fn start(self, recorder: Option<Recorder>) -> Result<Running, EmuError> {
        let Ready { emulator, client, server } = self.ready(recorder)?;
        Ok(Running { emulator: emulator.start(), client, server })
    }

    /// Gets ready to start the links, so that something can be prepared that begins when they do.
    pub fn ready(self, recorder: Option<Recorder>) -> Result<Ready, EmuError> {
        let Self { client, server, ports, wires, .. } = self;
        Ok(Ready { emulator: ReadyEmulator::new(ports, &wires, recorder)?, client, server })
    }
}

/// A lab whose links can be started at any time.
#[derive(Debug)]
pub struct Ready {
    /// Emulator that will drive its links.
    pub emulator: ReadyEmulator,
    /// The client's namespace.
    pub client: Namespace,
    /// The server's namespace.
    pub server: Namespace,
}

/// A lab at work.
#[derive(Debug)]
pub struct Running {
    /// Emulator that drives its links.
    pub emulator: Emulator,
    /// The client's namespace.
    pub client: Namespace,
    /// The server's namespace.
    pub server: Namespace,
}

/// The client's address on path `at`.
pub fn client_address(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, at as u8 + 1, 1)
}

/// The server's address on path `at`.
pub fn server_address(at: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, at as u8 + 1, 2)
}

fn up_link(at: usize) -> usize {
    2 * at
}

fn down_link(at: usize) -> usize {
    2 * at + 1
}

/// A device for each path, no two alike.
fn devices<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (at, path) in paths.enumerate() {
        let mut name = device(at, path);
        while names.contains(&name) {
            name = format!("device{}", names.len());
        }
        names.push(name);
    }
    names
}

/// The path's name if it can be a device's (15 bytes, no `/`, no space, and not the loopback's).
fn device(at: usize, name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if is_plain && !name.is_empty() && name.len() < libc::IFNAMSIZ && name != "lo" && name != "all" && name != "default"
    {
        name.to_owned()
    } else {
        format!("path{at}")
    }
}

/// Sets up the namespace of the calling thread as one end.
fn end(names: &[String], address: fn(usize) -> Ipv4Addr, rules: bool) -> Result<Vec<Tun>, EmuError> {
    for (key, value) in SETTINGS {
        set(key, value)?;
    }
    let route = Route::open()?;
    route.set_up("lo", 65_536, 1000)?;
    let tun = |(at, name): (usize, &String)| {
        let tun = Tun::open(name)?;
        route.set_up(name, MTU, DEVICE_QUEUE)?;
        route.add_address(name, Prefix::new(address(at), 24))?;
        if rules {
            let table = FIRST_TABLE + at as u32;
            route.add_rule(address(at), table)?;
            route.add_route(Prefix::ALL, name, table, None)?;
        }
        Ok(tun)
    };
    names.iter().enumerate().map(tun).collect()
}

/// Writes a setting of the calling thread's namespace. One that this kernel does not have needs no writing.
fn set(key: &str, value: &str) -> Result<(), EmuError> {
    let file = format!("/proc/sys/{key}");
    if !FilePath::new(&file).exists() {
        return Ok(());
    }
    fs::write(&file, value).map_err(EmuError::system(format!("setting {}", key.replace('/', "."))))
}

/// Links 2k and 2k+1 are path k's, up and down; the shared ones follow. Port 2k is the client's, 2k+1 the server's.
fn wiring(plan: &LabPlan) -> (Vec<Wire>, Vec<Subject>) {
    let first_shared = 2 * plan.paths.len();
    let (mut wires, mut subjects) = (Vec::new(), Vec::new());
    for (at, path) in plan.paths.iter().enumerate() {
        for (way, up, device) in [(&path.up, true, down_link(at)), (&path.down, false, up_link(at))] {
            let to = way.via.map_or(Next::Device(device), |via| Next::Shared(first_shared + via, device));
            let side = if up { "up" } else { "down" };
            subjects.push(Subject { name: format!("{}.{side}", path.name), up });
            wires.push(Wire { config: present(&way.link, &path.presence), seeds: way.seeds, to });
        }
    }
    wires.extend(plan.shared.iter().map(|(link, seeds)| Wire {
        config: link.clone(),
        seeds: *seeds,
        to: Next::AsTold,
    }));
    (wires, subjects)
}

/// The link with the path's absences as outages.
fn present(link: &LinkConfig, presence: &[Instant]) -> LinkConfig {
    let mut link = link.clone();
    if presence.first().is_some_and(|&first| first > Instant::ZERO) {
        link.changes.push(Change { at: Instant::ZERO, set: Set::Down });
    }
    let changes = presence.iter().enumerate().filter(|(_, at)| !at.is_never());
    link.changes.extend(
        changes.map(|(number, &at)| Change { at, set: if number.is_multiple_of(2) { Set::Up } else { Set::Down } }),
    );
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_called_like_its_path_where_that_is_possible() {
        assert_eq!(device(0, "wifi"), "wifi");
        assert_eq!(device(1, "a-rather-long-name"), "path1");
        assert_eq!(device(2, "zwei wege"), "path2");
        assert_eq!(device(3, "lo"), "path3");
    }

    #[test]
    fn no_two_devices_are_called_alike() {
        let names = devices(["path1", "a-rather-long-name", "device2", "path1"].into_iter());
        // The second falls back on `path1`, which is taken; so is the name of the fourth.
        assert_eq!(names, ["path1", "device1", "device2", "device3"]);
    }

    #[test]
    fn absences_become_outages() {
        let presence = [Instant::from_millis(1_000), Instant::from_millis(2_000), Instant::NEVER];
        let changes = present(&LinkConfig::default(), &presence).changes;
        let sets: Vec<(u64, bool)> = changes.iter().map(|c| (c.at.as_nanos() / 1_000_000, c.set == Set::Up)).collect();
        assert_eq!(sets, [(0, false), (1000, true), (2000, false)]);
    }
}
