//! The host: finds connections, looks at their subflows, asks, and acts.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant as Wall};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use weftway_path::{Context, Decision, Instant, Offset, Packet, Path, PathId, PathSet, Role, Span};

use super::backup_flags::BackupFlags;
use super::report::SteeringReport;
use super::view;
use crate::netlink::{Diagnosis, Endpoint, EndpointFlags, Events, PmEvent, PmEventKind, SubflowInfo};
use crate::{Clock, EmuError};

/// Time in which a stop is noticed.
const LOOK_UP: Span = Span::from_millis(20);

/// Time after which everything is listed anew although no event asked for it: the kernel drops events that nobody
/// reads.
const LISTED_EVERY: Span = Span::from_secs(2);

/// Time that a subflow may outlive its connection.
const CLOSING: Duration = Duration::from_secs(1);

/// Rule that is asked: the connection by its token, and its paths, every one of them open. `flow` is none.
pub type Rule<'a> = dyn FnMut(u32, &Context<'_>) -> Decision + Send + 'a;

/// Behaviour of the subflows that were not chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// They are backups: they carry nothing new while the chosen one lives.
    #[default]
    Exclusive,
    /// They are backups while a look finds room in the chosen one's window. When it has none, all are active until the
    /// next look, and the kernel spreads data by its own rule. It knows no order among active subflows, so this is as
    /// near as it comes to "the others help out": a bulk transfer is left to the kernel nearly all the time.
    Preferred,
}

/// Settings of a steering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Time from one question to the next; more than nothing.
    pub interval: Span,
    /// Behaviour of the others.
    pub mode: Mode,
    /// The only connection to steer; `None`: every one of the namespace.
    pub token: Option<u32>,
}

/// Steers the connections of a namespace until it is finished or dropped; then priorities are what they were.
///
/// Where the namespace has the userspace path manager, connections are steered one by one, by token, and those that
/// this end opens get a subflow from every IPv4 address of the namespace to the peer's. With the in-kernel path
/// manager, priorities belong to endpoints, which hold for the whole namespace: of the connections with several
/// subflows, the one that was found first is asked about (of those found at once, the least token), and the others go
/// along.
pub struct Steering {
    settings: Settings,
    clock: Clock,
    diagnosis: Diagnosis,
    events: Events,
    backup_flags: BackupFlags,
    connections: Vec<Connection>,
    due: Instant,
    /// Time to list everything anew; `ZERO` for now.
    list_at: Instant,
    report: SteeringReport,
}

/// A connection that is steered.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its name at this end.
    pub token: u32,
    /// Local and remote address of each subflow, in the order of the paths.
    pub ends: Vec<(SocketAddrV4, SocketAddrV4)>,
    /// The paths as the rule sees them.
    pub paths: Vec<Path>,
    /// The path that was named last.
    pub chosen: Option<PathId>,
    /// Why it cannot be steered, if it cannot.
    pub obstacle: Option<String>,
    /// Flags of each subflow: whether it is a backup of its own accord, and whether it is one now.
    backups: Vec<(bool, bool)>,
    /// Devices of the subflows: of each the index of the device that it is bound to, or 0.
    interfaces: Vec<u32>,
}

impl Steering {
    /// Begins in the calling thread's namespace. Needs `CAP_NET_ADMIN`.
    pub fn open(settings: Settings) -> Result<Self, EmuError> {
        Ok(Self {
            settings,
            clock: Clock::new(),
            // With the userspace path manager, subflows are let in only while somebody listens to events.
            events: Events::open()?,
            diagnosis: Diagnosis::open()?,
            backup_flags: BackupFlags::open()?,
            connections: Vec::new(),
            due: Instant::ZERO,
            list_at: Instant::ZERO,
            report: SteeringReport::default(),
        })
    }

    /// Asks and acts once per interval until `stop` is set, and restores the priorities.
    pub fn run(mut self, rule: &mut Rule<'_>, stop: &AtomicBool) -> Result<SteeringReport, EmuError> {
        while !stop.load(Ordering::Relaxed) {
            self.step(rule)?;
            self.wait()?;
        }
        self.finish()
    }

    /// Waits for events until a question is due, or for 20 ms.
    pub fn wait(&mut self) -> Result<(), EmuError> {
        let until = self.due.min(self.clock.now() + LOOK_UP);
        loop {
            let left = until.since(self.clock.now());
            match self.events.next(Duration::from_nanos(left.as_nanos())) {
                Ok(Some(event)) => self.note(&event),
                Ok(None) => return Ok(()),
                Err(EmuError::System { source, .. }) if is_overrun(&source) => self.list_at = Instant::ZERO,
                Err(error) => return Err(error),
            }
        }
    }

    /// If a question is due: looks at every connection, asks `rule` about it, and does what it says.
    pub fn step(&mut self, rule: &mut Rule<'_>) -> Result<(), EmuError> {
        let now = self.clock.now();
        if now < self.due {
            return Ok(());
        }
        self.due = (self.due + self.settings.interval).max(now + self.settings.interval / 2);
        if now >= self.list_at {
            self.list()?;
        }
        let mut connections = std::mem::take(&mut self.connections);
        let asked = if self.backup_flags.is_shared() { 1 } else { connections.len() };
        let mut steerable =
            connections.iter_mut().filter(|one| one.obstacle.is_none() && one.paths.len() > 1).take(asked);
        // If the rule panics, what it steered has to be here to be restored.
        let result = catch_unwind(AssertUnwindSafe(|| steerable.try_for_each(|one| self.steer(one, rule))));
        self.connections = connections;
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Connections that are steered.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Report of what was done so far.
    pub fn report(&self) -> SteeringReport {
        SteeringReport { elapsed: self.clock.now().since(Instant::ZERO), ..self.report.clone() }
    }

    /// Sets all priorities back: what was done.
    pub fn finish(mut self) -> Result<SteeringReport, EmuError> {
        self.restore()?;
        self.connections.clear();
        Ok(self.report())
    }

    /// Sets all priorities back, as many as the kernel lets, and returns the first error. A connection that is gone
    /// needs nothing.
    fn restore(&mut self) -> Result<(), EmuError> {
        if self.backup_flags.is_shared() {
            return self.backup_flags.restore();
        }
        let mut result = Ok(());
        for connection in &self.connections {
            for at in 0..connection.ends.len() {
                result = result.and(restore(&self.diagnosis, &mut self.backup_flags, connection, at));
            }
        }
        result
    }

    /// An event may mean that a list is out of date, or that a connection can be joined.
    fn note(&mut self, event: &PmEvent) {
        match event.kind {
            PmEventKind::Established if event.server_side != Some(true) => self.join(event),
            PmEventKind::Announced | PmEventKind::Removed | PmEventKind::SubflowPriority => return,
            _ => {}
        }
        self.list_at = Instant::ZERO;
    }

    /// Opens the further subflows of a connection of this end. Nobody else does under the userspace path manager.
    fn join(&mut self, event: &PmEvent) {
        let (Some(manager), Some(token)) = (self.backup_flags.joiner(), event.token) else { return };
        let (Some(local), Some(remote)) = (event.local, event.remote) else { return };
        if self.settings.token.is_some_and(|wanted| wanted != token) {
            return;
        }
        for (at, address) in addresses().into_iter().enumerate() {
            let flags = EndpointFlags { subflow: true, ..EndpointFlags::default() };
            let endpoint = Endpoint { id: u8::try_from(at + 1).ok(), address, device: None, flags };
            if address == *local.ip() {
                continue;
            }
            match manager.create_subflow(token, &endpoint, remote) {
                Ok(()) => self.report.joins += 1,
                Err(error) => self.report.refused(&error),
            }
        }
    }

    /// Brings the list of connections up to date.
    fn list(&mut self) -> Result<(), EmuError> {
        self.list_at = self.clock.now() + LISTED_EVERY;
        self.backup_flags.renew()?;
        let mut found: BTreeMap<u32, Vec<SubflowInfo>> = BTreeMap::new();
        for subflow in self.diagnosis.subflows()? {
            let token = subflow.mptcp.and_then(|mptcp| mptcp.token_loc);
            let wanted = |token: &u32| self.settings.token.is_none_or(|only| only == *token);
            if let Some(token) = token.filter(wanted).filter(|_| subflow.tcp.srtt > Span::ZERO) {
                found.entry(token).or_default().push(subflow);
            }
        }
        self.connections.retain(|connection| found.contains_key(&connection.token));
        for (token, subflows) in found {
            let at = self.connections.iter().position(|connection| connection.token == token);
            let at = at.unwrap_or_else(|| {
                self.report.connections += 1;
                self.connections.push(Connection::new(token));
                self.connections.len() - 1
            });
            self.connections[at].meet(subflows, &self.backup_flags);
            if let Some(obstacle) = &self.connections[at].obstacle {
                self.report.last_error = Some(obstacle.clone());
            }
        }
        Ok(())
    }

    fn steer(&mut self, connection: &mut Connection, rule: &mut Rule<'_>) -> Result<(), EmuError> {
        self.look(connection)?;
        let Some(first) = connection.paths.first().filter(|_| connection.paths.len() > 1) else { return Ok(()) };
        let packet = Packet {
            offset: Offset::ZERO,
            bytes: first.mss,
            reinjection: false,
            carried: PathSet::EMPTY,
            avoid: PathSet::EMPTY,
        };
        let now = self.clock.now();
        let decision = rule(connection.token, &Context::new(now, &connection.paths, Some(&packet), None));
        self.report.questions.add(self.clock.now().since(now));
        match decision {
            Decision::Send(path) if connection.paths.iter().any(|known| known.id == path) => {
                self.report.decisions += 1;
                self.report.switches += u64::from(connection.chosen.is_some_and(|before| before != path));
                connection.chosen = Some(path);
                self.act(connection);
            }
            _ => self.report.waits += 1,
        }
        Ok(())
    }

    /// Reads the statistics of every subflow.
    fn look(&mut self, connection: &mut Connection) -> Result<(), EmuError> {
        let mut gone = Vec::new();
        for at in 0..connection.ends.len() {
            let (start, ends) = (self.clock.now(), connection.ends[at]);
            let found = self.diagnosis.subflow_bound(ends.0, ends.1, connection.interfaces[at])?;
            self.report.looks.add(self.clock.now().since(start));
            match found {
                Some(info) => connection.renew(at, &info),
                None => gone.push(ends),
            }
        }
        if !gone.is_empty() {
            connection.retain(|ends| !gone.contains(ends));
            self.list_at = Instant::ZERO;
        }
        Ok(())
    }

    /// Tells the kernel what changes: first who is to be active, so that there always is one.
    fn act(&mut self, connection: &mut Connection) {
        let wanted = connection.wanted(self.settings.mode);
        for turn in [false, true] {
            for (at, &backup) in wanted.iter().enumerate() {
                if backup != turn || connection.backups[at].1 == backup {
                    continue;
                }
                let start = self.clock.now();
                match self.backup_flags.set(connection.token, connection.ends[at], backup) {
                    Ok(()) => connection.backups[at].1 = backup,
                    Err(error) => self.report.refused(&error),
                }
                self.report.orders.add(self.clock.now().since(start));
            }
        }
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        // After a failure there is nobody to tell.
        let _ = self.restore();
    }
}

impl Connection {
    fn new(token: u32) -> Self {
        Self {
            token,
            ends: Vec::new(),
            paths: Vec::new(),
            chosen: None,
            obstacle: None,
            backups: Vec::new(),
            interfaces: Vec::new(),
        }
    }

    /// Takes up new subflows, the first of the connection first, and drops those that are gone.
    fn meet(&mut self, mut subflows: Vec<SubflowInfo>, backup_flags: &BackupFlags) {
        subflows.sort_by_key(order);
        self.retain(|ends| subflows.iter().any(|subflow| (subflow.local, subflow.remote) == *ends));
        for info in subflows {
            let ends = (info.local, info.remote);
            let Some(id) = self.free_id().filter(|_| !self.ends.contains(&ends)) else { continue };
            let flags = info.mptcp.unwrap_or_default().flags;
            let own = backup_flags.own(*info.local.ip()).unwrap_or(flags.backup_loc());
            self.ends.push(ends);
            self.backups.push((own, flags.backup_loc()));
            self.interfaces.push(info.interface);
            self.paths.push(view::path(id, &info, own || flags.backup_rem()));
        }
        let locals: Vec<SocketAddrV4> = self.ends.iter().map(|ends| ends.0).collect();
        self.obstacle = backup_flags.obstacle(&locals).filter(|_| locals.len() > 1);
    }

    /// The lowest number that no path has.
    fn free_id(&self) -> Option<PathId> {
        let mut ids = (0..PathId::MAX_PATHS as u8).map(PathId::new);
        ids.find(|id| self.paths.iter().all(|path| path.id != *id))
    }

    fn renew(&mut self, at: usize, info: &SubflowInfo) {
        let flags = info.mptcp.unwrap_or_default().flags;
        self.backups[at].1 = flags.backup_loc();
        let is_backup = self.backups[at].0 || flags.backup_rem();
        self.paths[at].role = if is_backup { Role::Backup } else { Role::Active };
        view::renew(&mut self.paths[at], &info.tcp);
    }

    fn retain(&mut self, keep: impl Fn(&(SocketAddrV4, SocketAddrV4)) -> bool) {
        for at in (0..self.ends.len()).rev().filter(|&at| !keep(&self.ends[at])).collect::<Vec<_>>() {
            self.ends.remove(at);
            self.paths.remove(at);
            self.backups.remove(at);
            self.interfaces.remove(at);
        }
        self.chosen = self.chosen.filter(|chosen| self.paths.iter().any(|path| path.id == *chosen));
    }

    /// Backup flag that each subflow is to have.
    fn wanted(&self, mode: Mode) -> Vec<bool> {
        let chosen = self.paths.iter().find(|path| Some(path.id) == self.chosen);
        let has_room = chosen.is_none_or(|path| path.space() >= path.mss);
        let of = |(path, &(own, _)): (&Path, &(bool, bool))| {
            Some(path.id) != self.chosen && (own || mode == Mode::Exclusive || has_room)
        };
        self.paths.iter().zip(&self.backups).map(of).collect()
    }
}

impl SteeringReport {
    fn refused(&mut self, error: &EmuError) {
        self.errors += 1;
        self.last_error = Some(error.to_string());
    }
}

/// Sets the priority of a subflow back, if it is there and another now. The kernel refuses where the connection is
/// closed already and its subflow is not: such a subflow soon closes too.
fn restore(diagnosis: &Diagnosis, backup_flags: &mut BackupFlags, of: &Connection, at: usize) -> Result<(), EmuError> {
    let (ends, own) = (of.ends[at], of.backups[at].0);
    let begin = Wall::now();
    loop {
        let now = diagnosis.subflow_bound(ends.0, ends.1, of.interfaces[at])?.and_then(|subflow| subflow.mptcp);
        if now.is_none_or(|subflow| subflow.flags.backup_loc() == own) {
            return Ok(());
        }
        match backup_flags.set(of.token, ends, own) {
            Err(error) if begin.elapsed() > CLOSING => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(5)),
            Ok(()) => return Ok(()),
        }
    }
}

/// The first subflow first, then by the number of the address that tells them apart.
fn order(subflow: &SubflowInfo) -> (bool, u8, SocketAddrV4, SocketAddrV4) {
    let mptcp = subflow.mptcp.unwrap_or_default();
    (mptcp.flags.joined(), mptcp.id_loc.max(mptcp.id_rem), subflow.local, subflow.remote)
}

/// The IPv4 addresses of the calling thread's namespace, without those of the loopback device.
fn addresses() -> Vec<Ipv4Addr> {
    let all = getifaddrs().into_iter().flatten();
    let usable = all
        .filter(|one| one.flags.contains(InterfaceFlags::IFF_UP) && !one.flags.contains(InterfaceFlags::IFF_LOOPBACK));
    usable.filter_map(|one| Some(one.address?.as_sockaddr_in()?.ip())).collect()
}

/// Events were lost because they were not read fast enough.
fn is_overrun(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}
