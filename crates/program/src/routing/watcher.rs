//! A thread that watches the routes of a tunnel that runs, so that packets do not wait for it.
//!
//! The kernel tells of each change of devices, addresses, routes, rules and tables of `nft` (rtnetlink(7)); then, and
//! every few seconds in any case, what is there is compared with what the tunnel needs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use super::mender::{Machine, Mender};
use super::plan::{Need, Plan};
use super::routes::Routes;
use super::{check, commands, settings};
use crate::failure::{Done, Failure};

/// Time between two looks without a change that was told: messages get lost, and for some settings none is sent.
const EVERY: Duration = Duration::from_secs(5);
/// Shortest time from a change to a look, since several changes come at once.
const SETTLE: Duration = Duration::from_millis(50);
/// Shortest time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Groups of rtnetlink: links 1; addresses 5 and 9, routes 7 and 11, rules 8 and 19, settings 24 and 25.
const ROUTE_GROUPS: [u32; 9] = [1, 5, 9, 7, 11, 8, 19, 24, 25];
/// The group of netfilter for tables of nft (linux/netfilter/nfnetlink.h).
const NFTABLES_GROUP: [u32; 1] = [7];

/// Routes that the tunnel and the thread have in common.
pub type Shared = Arc<Mutex<Routes>>;

/// The routes, which nobody else has meanwhile.
pub fn locked(routes: &Shared) -> MutexGuard<'_, Routes> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that looks after the routes of a tunnel.
pub struct Watcher {
    astray: &'static str,
    is_astray: Arc<AtomicBool>,
    notes: Receiver<String>,
    stop: UnixStream,
    thread: JoinHandle<()>,
}

impl Watcher {
    /// Starts the thread, for routes that have been applied.
    pub fn start(plan: &Plan, routes: &Shared) -> Done<Self> {
        let failed = |error: io::Error| Failure::run(format!("the tunnel's routes cannot be watched: {error}"));
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let (told, notes) = channel();
        let is_astray = Arc::new(AtomicBool::new(false));
        let machine = TunnelMachine { plan: plan.clone(), routes: Arc::clone(routes) };
        let mender = Mender::new(machine, Instant::now(), plan.kill_switch);
        let watching = Watching { mender, changes: subscribe(), stopped, told, is_astray: Arc::clone(&is_astray) };
        let named = std::thread::Builder::new().name("routes".to_owned());
        let thread = named.spawn(move || watching.run()).map_err(failed)?;
        let astray = if plan.kill_switch { "blocked" } else { "bypassed" };
        Ok(Self { astray, is_astray, notes, stop, thread })
    }

    /// The state of a tunnel that carries what comes to it, if it has another one than what it carries: nothing comes.
    pub fn astray(&self) -> Option<&'static str> {
        self.is_astray.load(Ordering::Relaxed).then_some(self.astray)
    }

    /// Takes the notes for the user since the last call.
    pub fn notes(&self) -> Done<Vec<String>> {
        let mut notes = Vec::new();
        loop {
            match self.notes.try_recv() {
                Ok(note) => notes.push(note),
                Err(TryRecvError::Empty) => return Ok(notes),
                Err(TryRecvError::Disconnected) => {
                    return Err(Failure::run("the tunnel's routes are no longer watched: the thread has ended"));
                }
            }
        }
    }

    /// Ends the thread: no route is set again after this.
    pub fn close(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

/// The thread's own things.
struct Watching {
    mender: Mender<TunnelMachine>,
    /// Sockets on which the kernel tells of changes.
    changes: Vec<OwnedFd>,
    stopped: UnixStream,
    told: Sender<String>,
    is_astray: Arc<AtomicBool>,
}

impl Watching {
    fn run(mut self) {
        let mut looked: Option<Instant> = None;
        let mut timeout = Duration::ZERO;
        while !self.is_stopped(timeout, true) {
            let pause = looked.map_or(Duration::ZERO, |looked| PAUSE.saturating_sub(looked.elapsed()));
            if self.is_stopped(pause.max(SETTLE), false) {
                return;
            }
            self.drain();
            let now = Instant::now();
            looked = Some(now);
            let notes = self.mender.turn(now);
            self.is_astray.store(self.mender.is_astray(), Ordering::Relaxed);
            for note in notes {
                // Nobody listens while the tunnel ends.
                let _ = self.told.send(note);
            }
            timeout = EVERY;
        }
    }

    /// Waits until it is stopped, something has changed (if that counts), or the time is over; returns true if it is
    /// stopped.
    fn is_stopped(&self, timeout: Duration, changes_count: bool) -> bool {
        let until = Instant::now() + timeout;
        loop {
            let mut waiting = vec![PollFd::new(&self.stopped, PollFlags::IN)];
            if changes_count {
                waiting.extend(self.changes.iter().map(|changes| PollFd::new(changes, PollFlags::IN)));
            }
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
            match poll(&mut waiting, left.as_ref()) {
                Err(Errno::INTR) => {}
                // It has no memory. That may pass, and until then a look more does no harm.
                Err(_) => {
                    std::thread::sleep(SETTLE);
                    return false;
                }
                Ok(_) => return !waiting[0].revents().is_empty(),
            }
        }
    }

    fn drain(&self) {
        let mut buffer = vec![0; 1 << 16];
        for changes in &self.changes {
            // What does not fit is lost (ENOBUFS): it would say no more than the rest.
            while recv(changes.as_fd(), &mut buffer[..], RecvFlags::empty()).is_ok_and(|(count, _)| count > 0) {}
        }
    }
}

/// This machine with a tunnel.
struct TunnelMachine {
    plan: Plan,
    routes: Shared,
}

impl Machine for TunnelMachine {
    fn missing(&mut self) -> io::Result<Vec<Need>> {
        let plan = &self.plan;
        let shown = check::look(plan, &settings::families(&plan.device))?;
        // Families are looked up once more: one may have been switched on since.
        let mut missing = check::missing(plan, &settings::families(&plan.device), &shown);
        if plan.kill_switch && !locked(&self.routes).is_closed_off()? {
            missing.push(Need::KillSwitch);
        }
        if settings::strict_filter().is_some() {
            missing.push(Need::Sources);
        }
        Ok(missing)
    }

    fn make(&mut self, missing: &[Need]) -> io::Result<String> {
        let mut routes = locked(&self.routes);
        let mut complaint = String::new();
        if missing.contains(&Need::KillSwitch) {
            complaint = routes.close_off(&self.plan)?;
        }
        if missing.contains(&Need::Sources) {
            routes.loosen()?;
        }
        let more = routes.make(&self.plan, missing, true)?;
        if missing.iter().any(|need| matches!(need, Need::Device | Need::Address(_))) {
            commands::resolve_through(&self.plan)?;
        }
        Ok(if more.is_empty() { complaint } else { more })
    }

    fn beside(&mut self) -> io::Result<Option<String>> {
        check::beside(&self.plan, &settings::families(&self.plan.device))
    }
}

/// Sockets on which the kernel tells of changes. Where it does not, looking every few seconds has to do.
fn subscribe() -> Vec<OwnedFd> {
    let route = subscription(None, &ROUTE_GROUPS);
    [route, subscription(Some(netlink::NETFILTER), &NFTABLES_GROUP)].into_iter().flatten().collect()
}

fn subscription(protocol: Option<Protocol>, groups: &[u32]) -> Option<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let changes = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol).ok()?;
    let groups = groups.iter().fold(0, |bits, group| bits | 1 << (group - 1));
    bind(&changes, &SocketAddrNetlink::new(0, groups)).ok()?;
    Some(changes)
}
