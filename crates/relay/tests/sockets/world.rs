//! A proxy, a relay and what joins them, on a thread that goes on until the test is over.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as StdInstant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weftway_mux::Limits;
use weftway_path::{Instant, Span};
use weftway_relay::{
    Accounts, Classes, ClientId, NameConfig, NameSource, Policy, PortAddress, Proxy, ProxyLimits, Relay, RelayLimits,
};

use crate::wire::{Faults, Wire};

const NONE: &[&str] = &[];

pub const CLIENT: ClientId = ClientId(7);
/// How long anything may take in these tests, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a test may set.
pub struct Setting {
    pub faults: Faults,
    pub limits: Limits,
    pub proxy: ProxyLimits,
    pub relay: RelayLimits,
    pub classes: Classes,
    pub accounts: Accounts,
    pub allowed: &'static [&'static str],
    /// Servers and hosts for names. None: those of this machine.
    pub names: Option<NameConfig>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            faults: Faults::NONE,
            limits: Limits::default(),
            proxy: ProxyLimits::default(),
            relay: RelayLimits::default(),
            classes: Classes::default(),
            accounts: Accounts::default(),
            allowed: &["127.0.0.0/8"],
            names: None,
        }
    }
}

pub struct World {
    pub proxy: Proxy,
    pub relay: Relay,
    pub wire: Option<Wire>,
    faults: Faults,
    limits: Limits,
    began: StdInstant,
    skipped: Span,
    /// The most memory that both muxes took at once.
    pub most_memory: u64,
}

impl World {
    fn new(setting: Setting) -> Self {
        let policy = Policy::parse(setting.allowed, NONE).unwrap();
        let names = setting.names.map_or_else(NameSource::system, NameSource::Fixed);
        let relay = Relay::with_names(policy, setting.relay, names);
        Self {
            proxy: Proxy::listen(&["127.0.0.1:0".parse().unwrap()], setting.proxy, setting.classes, setting.accounts)
                .unwrap(),
            relay: relay.unwrap(),
            wire: Some(Wire::new(setting.limits, setting.faults)),
            faults: setting.faults,
            limits: setting.limits,
            began: StdInstant::now(),
            skipped: Span::ZERO,
            most_memory: 0,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.began.elapsed().as_nanos() as u64) + self.skipped
    }

    /// Time passes.
    pub fn skip(&mut self, span: Span) {
        self.skipped += span;
    }

    /// The connection is gone.
    pub fn lose(&mut self) {
        self.wire = None;
        self.proxy.lost(self.now());
        self.relay.gone(CLIENT);
    }

    /// There is another one.
    pub fn connect(&mut self) {
        self.wire = Some(Wire::new(self.limits, self.faults));
    }

    /// Everybody has a turn: until when all may wait.
    pub fn turn(&mut self) -> Span {
        let now = self.now();
        let mut due = Instant::NEVER;
        match &mut self.wire {
            None => self.proxy.turn(now, None),
            Some(wire) => {
                let [here, there] = &mut wire.muxes;
                self.proxy.turn(now, Some(here));
                self.relay.collect(now);
                self.relay.turn(now, CLIENT, there);
                let busy = wire.turn(now);
                let memory = wire.muxes.iter().map(|mux| mux.receive_memory() as u64 + mux.send_memory()).sum();
                self.most_memory = self.most_memory.max(memory);
                if busy {
                    return Span::ZERO;
                }
                due = wire.next_event().min(self.relay.next_event());
            }
        }
        due.min(self.proxy.next_event()).since(self.now())
    }

    /// How many streams the proxy's mux and the relay's have, and the relay.
    pub fn streams(&self) -> [usize; 3] {
        let [here, there] =
            self.wire.as_ref().map_or([0; 2], |wire| wire.muxes.each_ref().map(|mux| mux.open_streams()));
        [here, there, self.relay.streams(CLIENT)]
    }
}

/// The thread.
pub struct Running {
    world: Arc<Mutex<World>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pub address: SocketAddr,
}

impl Running {
    pub fn new(setting: Setting) -> Self {
        let world = World::new(setting);
        let Some(&PortAddress::Tcp(address)) = world.proxy.addresses().next() else { panic!("no port of TCP") };
        let fds = [world.proxy.fd(), world.relay.fd()].map(|fd| fd.try_clone_to_owned().unwrap());
        let (world, stop) = (Arc::new(Mutex::new(world)), Arc::new(AtomicBool::new(false)));
        let (shared, stopped) = (world.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let wait = shared.lock().unwrap().turn().min(Span::from_millis(5));
                let mut polled = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
                let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as i64 }));
            }
        });
        Self { world, stop, thread: Some(thread), address }
    }

    /// Does something between two turns.
    pub fn with<T>(&self, what: impl FnOnce(&mut World) -> T) -> T {
        what(&mut self.world.lock().unwrap())
    }

    /// Waits until it is so.
    pub fn until(&self, what: &str, mut is_so: impl FnMut(&mut World) -> bool) {
        let began = StdInstant::now();
        while !self.with(&mut is_so) {
            assert!(began.elapsed() < PATIENCE, "waited for this: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A program writes until nothing is taken any more.
    pub fn fill(&self, socket: &mut TcpStream) {
        socket.set_nonblocking(true).unwrap();
        let mut refused = 0;
        self.until("no more is taken", |_| {
            refused = if socket.write(&[0; 100_000]).is_ok() { 0 } else { refused + 1 };
            refused == 50
        });
    }

    /// Waits until nothing is left of any connection.
    pub fn until_nothing_is_left(&self) {
        self.until("nothing is left", |world| world.proxy.connections() == 0 && world.streams() == [0; 3]);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}
