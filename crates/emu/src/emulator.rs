//! Drives links in real time: one thread takes packets from TUN devices, asks the links what becomes of them, and
//! hands each over when it is due.
//!
//! A packet enters its link when it is *read*, and leaves it as near to its time of arrival as the machine allows;
//! what that costs is in [`Lateness`]. A link that ends in a shared one is left at the time that was planned, so that
//! lateness does not add up.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use weftway_link::{Counts, Delivery, Link, LinkConfig, Reason, Seeds, Verdict};
use weftway_path::{Bytes, Instant, Span};
use weftway_tun::Tun;

use crate::clock::Clock;
use crate::entry::Fate;
use crate::lateness::Lateness;
use crate::pool::{self, Pool, Slot};
use crate::priority::{self, Rests};
use crate::record::Recorder;
use crate::watch::{Moment, Watch};
use crate::{EmuError, ecn};

/// Packets read from a device before others are looked after: about 50 µs of work.
const BATCH: usize = 16;

/// The longest sleep: a request to stop is seen within this.
const NAP: Duration = Duration::from_millis(20);

/// A thread that sleeps wakes up about so much too late, so it waits the last part awake.
const AWAKE: Span = Span::from_micros(15);

/// The thread waits awake no longer than it has slept before, of which so much counts at most. So others have the
/// processor too, and waiting alone does not reach the kernel's limit for real-time threads. With much work the thread
/// [rests](Rests).
const MOST_SAVED: Span = Span::from_millis(2);

/// A link, by number.
pub type LinkId = usize;

/// A link and where it leads.
#[derive(Clone, Debug)]
pub struct Wire {
    /// The link's rules.
    pub config: LinkConfig,
    /// The seeds of its draws.
    pub seeds: Seeds,
    /// Destination of packets that arrive.
    pub to: Next,
}

/// Destination of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To the device with this number.
    Device(usize),
    /// Into a link that several share; from there to the device with this number.
    Shared(LinkId, usize),
    /// A shared link: whoever enters says where it goes on to.
    AsTold,
}

/// A TUN device and the link that its packets enter.
#[derive(Debug)]
pub struct Port {
    /// The device.
    pub tun: Tun,
    /// The link.
    pub into: LinkId,
}

/// Figures of a run of the emulator.
#[derive(Clone, Debug, Default)]
pub struct EmulatorReport {
    /// Counts of each link.
    pub links: Vec<Counts>,
    /// Lateness of packets when they were handed over.
    pub lateness: Lateness,
    /// Time at which the first packet entered a link; `None`: there was none.
    pub first_entered: Option<Instant>,
    /// Packets that the kernel did not take, since its device was down, and those larger than a device's MTU.
    pub refused: u64,
    /// Devices that somebody deleted meanwhile.
    pub devices_lost: u64,
    /// True if the thread ran with real-time priority.
    pub realtime: bool,
    /// Time that it ran.
    pub elapsed: Span,
}

/// An emulator whose thread only waits to be started. What is sent meanwhile waits in the devices.
#[derive(Debug)]
pub struct ReadyEmulator {
    // Dropped before the worker: the thread then ends.
    start: Sender<Clock>,
    worker: Worker,
}

/// An emulator at work. It stops when it is dropped.
#[derive(Debug)]
pub struct Emulator {
    worker: Worker,
    clock: Clock,
}

/// The thread. It is stopped when this is dropped.
#[derive(Debug)]
struct Worker {
    stop: Arc<AtomicBool>,
    watch: Arc<Watch>,
    thread: Option<JoinHandle<(Vec<Port>, EmulatorReport)>>,
}

impl ReadyEmulator {
    /// Gets ready to drive `wires` between `ports`: when this returns, the thread is there and has its priority.
    pub fn new(ports: Vec<Port>, wires: &[Wire], recorder: Option<Recorder>) -> Result<Self, EmuError> {
        let watch = Arc::new(Watch::default());
        let mut machine = Machine::new(wires, recorder, watch.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let (start, started) = channel();
        let (ready, is_ready) = channel();
        let thread = thread::Builder::new().name("weftway-links".to_owned()).spawn(move || {
            machine.report.realtime = priority::realtime();
            // Both fail only where the other side is gone; then there is nothing to drive.
            let _ = ready.send(());
            if let Ok(clock) = started.recv() {
                machine.clock = clock;
                machine.run(&ports, &asked);
            }
            (ports, machine.report)
        });
        let thread = thread.map_err(EmuError::system("starting the emulator's thread"))?;
        let worker = Worker { stop, watch, thread: Some(thread) };
        is_ready.recv().map_err(|_| thread_failed())?;
        Ok(Self { start, worker })
    }

    /// Starts the links: their time zero is now.
    pub fn start(self) -> Emulator {
        let clock = Clock::new();
        // A thread that is gone is told of by `finish`.
        let _ = self.start.send(clock);
        Emulator { worker: self.worker, clock }
    }
}

impl Emulator {
    /// The clock that its links go by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// State of its links when this was called before, if that is more than a moment ago.
    pub fn links(&self) -> Moment {
        self.worker.watch.ask()
    }

    /// Stops it: the devices, still open, and what there was.
    pub fn finish(mut self) -> Result<(Vec<Port>, EmulatorReport), EmuError> {
        self.worker.stop.store(true, Ordering::Relaxed);
        let thread = self.worker.thread.take().expect("an emulator finishes once");
        thread.join().map_err(|_| thread_failed())
    }
}

fn thread_failed() -> EmuError {
    EmuError::Transfer("the emulator's thread failed; this is a defect".to_owned())
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A packet on a link.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    slot: Slot,
    /// Its number in the record.
    number: u64,
    /// The device it goes to in the end.
    device: usize,
}

struct Machine {
    links: Vec<Link<Parcel>>,
    to: Vec<Next>,
    pool: Pool,
    /// Clock of the links, from when they are started.
    clock: Clock,
    recorder: Option<Recorder>,
    watch: Arc<Watch>,
    report: EmulatorReport,
    packets: u64,
    /// Time that it may wait awake.
    saved: Span,
    /// Rests of a thread with real-time priority.
    rests: Option<Rests>,
}

impl Machine {
    fn new(wires: &[Wire], recorder: Option<Recorder>, watch: Arc<Watch>) -> Self {
        Self {
            links: wires.iter().map(|wire| Link::of_run(&wire.config, wire.seeds)).collect(),
            to: wires.iter().map(|wire| wire.to).collect(),
            pool: Pool::new(),
            clock: Clock::new(),
            recorder,
            watch,
            report: EmulatorReport::default(),
            packets: 0,
            saved: Span::ZERO,
            rests: None,
        }
    }

    fn run(&mut self, ports: &[Port], stop: &AtomicBool) {
        self.rests = self.report.realtime.then(|| Rests::new(self.clock.now()));
        let mut alive: Vec<&Port> = ports.iter().collect();
        while !stop.load(Ordering::Relaxed) {
            let mut fds: Vec<PollFd> =
                alive.iter().map(|port| PollFd::new(port.tun.as_fd(), PollFlags::POLLIN)).collect();
            let lost = self.turn(ports, &alive, &mut fds, stop);
            // A device that somebody deleted would be ready for ever.
            alive.retain(|port| lost != Some(port.into));
        }
        if let Some(recorder) = &mut self.recorder {
            for parcel in self.links.iter().flat_map(Link::items) {
                recorder.left(parcel.number, Fate::UnderWay, Instant::NEVER, Instant::NEVER, &[]);
            }
        }
        self.report.links = self.links.iter().map(|link| link.counts()).collect();
        self.report.elapsed = self.clock.now().since(Instant::ZERO);
    }

    /// Hands over and takes in until it is to stop, or a device is lost: the link that it led into.
    fn turn(&mut self, ports: &[Port], alive: &[&Port], fds: &mut [PollFd<'_>], stop: &AtomicBool) -> Option<LinkId> {
        while !stop.load(Ordering::Relaxed) {
            if let Some(rests) = &mut self.rests {
                rests.rest(self.clock.now());
            }
            self.hand_over(ports);
            self.watch.answer(&self.links, || self.clock.now());
            self.wait(fds);
            for (port, fd) in alive.iter().zip(&*fds) {
                let ready = fd.revents().unwrap_or(PollFlags::empty());
                if ready.contains(PollFlags::POLLIN) {
                    self.take_in(port, ports);
                } else if ready.intersects(PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL) {
                    self.report.devices_lost += 1;
                    return Some(port.into);
                }
            }
        }
        None
    }

    /// Waits until a device has a packet, or something is due or shortly before.
    fn wait(&mut self, fds: &mut [PollFd<'_>]) {
        let next = self.links.iter().map(Link::next_event).min().unwrap_or(Instant::NEVER);
        let begin = self.clock.now();
        let left = next.since(begin);
        let awake = if self.saved > AWAKE { AWAKE } else { Span::ZERO };
        let sleep = Duration::from_nanos(left.saturating_sub(awake).as_nanos()).min(NAP);
        // Interrupted or not: everything is looked at anyway.
        let _ = ppoll(fds, Some(TimeSpec::from_duration(sleep)), None);
        let passed = self.clock.now().since(begin);
        self.saved = match sleep {
            Duration::ZERO => self.saved.saturating_sub(passed),
            _ => (self.saved + passed).min(MOST_SAVED),
        };
    }

    /// Reads what waits at a device, a batch at most. What is due meanwhile is handed over in between.
    fn take_in(&mut self, port: &Port, ports: &[Port]) {
        for _ in 0..BATCH {
            self.hand_over(ports);
            let slot = self.slot();
            match port.tun.receive(self.pool.room(slot)) {
                Ok(Some(bytes)) if bytes >= pool::LARGEST => {
                    // Cut short by the read: somebody raised the MTU.
                    self.report.refused += 1;
                    self.pool.free(slot);
                }
                Ok(Some(bytes)) => {
                    self.pool.set_len(slot, bytes);
                    self.enter(port.into, slot);
                }
                Ok(None) | Err(_) => return self.pool.free(slot),
            }
        }
    }

    /// A free slot. Links that drop what they had taken in (CoDel, a failing link) do not tell: what none of them
    /// holds is free again.
    fn slot(&mut self) -> Slot {
        if self.pool.is_empty() {
            let held = self.links.iter().flat_map(Link::items).map(|parcel| parcel.slot);
            self.pool.reclaim(held);
        }
        self.pool.take()
    }

    fn enter(&mut self, link: LinkId, slot: Slot) {
        let device = match self.to[link] {
            Next::Device(device) | Next::Shared(_, device) => device,
            Next::AsTold => unreachable!("no device leads straight into a shared link"),
        };
        let now = self.clock.now();
        self.report.first_entered.get_or_insert(now);
        let number = self.packets;
        self.packets += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.entered(link, now, self.links[link].queueing_delay(now), self.pool.packet(slot));
        }
        self.push(link, now, Parcel { slot, number, device });
    }

    fn push(&mut self, link: LinkId, now: Instant, parcel: Parcel) {
        let bytes = Bytes::new(self.pool.packet(parcel.slot).len() as u64);
        let fate = match self.links[link].push(now, bytes, parcel) {
            Verdict::Queued => return,
            Verdict::Lost => Fate::Lost,
            Verdict::Dropped(Reason::Queue) => Fate::QueueFull,
            Verdict::Dropped(Reason::Down) => Fate::LinkDown,
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.left(parcel.number, fate, now, now, &[]);
        }
        self.pool.free(parcel.slot);
    }

    /// Hands over everything that is due, in the order in which it is due.
    fn hand_over(&mut self, ports: &[Port]) {
        loop {
            let next = self.links.iter().enumerate().map(|(at, link)| (link.next_event(), at)).min();
            let Some((due, link)) = next else { return };
            if due > self.clock.now() {
                return;
            }
            let Some(delivery) = self.links[link].pop(due) else { continue };
            match self.to[link] {
                Next::Shared(shared, _) => self.push(shared, due, delivery.item),
                Next::Device(_) | Next::AsTold => self.deliver(&ports[delivery.item.device], due, delivery),
            }
        }
    }

    fn deliver(&mut self, port: &Port, due: Instant, delivery: Delivery<Parcel>) {
        let parcel = delivery.item;
        if delivery.ce {
            ecn::mark(self.pool.room(parcel.slot));
        }
        let packet = self.pool.packet(parcel.slot);
        if port.tun.send(packet).is_err() {
            self.report.refused += 1;
        }
        // After the write: what the receiving kernel does with a packet is part of handing it over.
        let done = self.clock.now();
        self.report.lateness.add(done.since(due));
        if let Some(recorder) = &mut self.recorder {
            recorder.left(parcel.number, Fate::Delivered, due, done, packet);
        }
        self.pool.free(parcel.slot);
    }
}
