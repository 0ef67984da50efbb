//! What the tests of the engine are made from: links, paths, a driver, and listeners.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::{Arc, Mutex};

use weftway_host::Host;
use weftway_link::{Change, Limit, LinkConfig, Loss, Set};
use weftway_path::{BitRate, Bytes, Context, Instant, PathId, Role, Span};
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig};
use weftway_scenario::stack::Stack;
use weftway_sched::Scheduler;
use weftway_sim::run::{Finished, Job, transport_rules};
use weftway_sim::{Listener, Note, Pause, Sim, Verdict};

pub mod drawn;

/// A link of `kbps` kbit/s with a one-way delay of `delay` ms and room for a hundred packets.
pub fn link(kbps: u64, delay: u64) -> LinkConfig {
    let rate = BitRate::from_bps(kbps * 1000).into();
    let mut link = LinkConfig { rate, delay: Span::from_millis(delay), ..LinkConfig::default() };
    link.queue.limit = Limit::Packets(100);
    link
}

/// A path with the same link both ways.
pub fn path(name: &str, kbps: u64, delay: u64) -> PathConfig {
    let data = link(kbps, delay);
    PathConfig { name: name.to_owned(), role: Role::Active, acks: data.clone(), data, via: None, presence: Vec::new() }
}

/// The path with random loss towards the receiver.
pub fn lossy(path: PathConfig, loss: f64) -> PathConfig {
    let data = LinkConfig { loss: Loss::Bernoulli(loss), ..path.data };
    PathConfig { data, ..path }
}

/// The path with both of its links down from `from` ms until `to` ms.
pub fn down(mut path: PathConfig, from: u64, to: Option<u64>) -> PathConfig {
    let mut changes = vec![Change { at: Instant::from_millis(from), set: Set::Down }];
    changes.extend(to.map(|to| Change { at: Instant::from_millis(to), set: Set::Up }));
    path.data.changes = changes.clone();
    path.acks.changes = changes;
    path
}

/// The three stacks, with their names.
pub fn stacks() -> [(&'static str, TransportConfig); 3] {
    [
        ("mptcp v0.9x", TransportConfig::mptcp_v09x()),
        ("linux-v1", TransportConfig::mptcp_linux_v1()),
        ("mpquic", TransportConfig::mpquic()),
    ]
}

/// The most that a receiver announces whose buffer an application asked for. Today's Linux doubles it, and 158 of 256
/// parts of that become window.
pub fn largest_window(transport: &TransportConfig, buffer: Bytes) -> Bytes {
    match transport.stack {
        Stack::MptcpLinuxV1 | Stack::Tcp => (buffer + buffer).mul_div(158, 256),
        Stack::MptcpV09x | Stack::Mpquic => buffer,
    }
}

/// A bulk transfer.
pub fn bulk(transport: &TransportConfig, paths: Vec<PathConfig>, bytes: u64) -> SimConfig {
    SimConfig::new(transport.clone(), paths, Bytes::new(bytes))
}

/// Runs `sim`, which has one connection, to its end; each question is put `times` times, and the last answer counts.
pub fn drive(sim: &mut Sim, scheduler: &mut dyn Scheduler, times: usize) -> Verdict {
    loop {
        match sim.advance() {
            Pause::Decide(_) => answer(sim, scheduler, times),
            Pause::Observe(_) => sim.tell(0, scheduler),
            Pause::Done(verdict) => return verdict,
        }
    }
}

/// Runs `config`; `look` sees each question before it is answered.
pub fn watch(config: &SimConfig, scheduler: &str, cc: &str, mut look: impl FnMut(&Context<'_>)) -> Verdict {
    let mut sim = Sim::new(config, cc, 1).unwrap();
    let mut scheduler = weftway_sched::build(scheduler).unwrap();
    sim.host(0, Host::serving(scheduler.as_ref(), transport_rules("min-rtt").unwrap()));
    loop {
        match sim.advance() {
            Pause::Decide(_) => {
                look(&sim.context(0));
                answer(&mut sim, scheduler.as_mut(), 1);
            }
            Pause::Observe(_) => sim.tell(0, scheduler.as_mut()),
            Pause::Done(verdict) => return verdict,
        }
    }
}

/// Answers one question, put `times` times.
pub fn answer(sim: &mut Sim, scheduler: &mut dyn Scheduler, times: usize) {
    sim.tell(0, scheduler);
    for _ in 1..times {
        let _ = scheduler.select(&sim.context(0));
    }
    sim.ask(0, scheduler);
}

/// A finished run and everything that was noted.
pub struct Run {
    pub sim: Sim,
    pub verdict: Verdict,
    pub notes: Vec<(Instant, Note)>,
}

/// Runs `config` with the scheduler and the controller of these names.
pub fn run(config: &SimConfig, scheduler: &str, cc: &str) -> Run {
    run_seed(config, scheduler, cc, 1)
}

/// The same with another seed.
pub fn run_seed(config: &SimConfig, scheduler: &str, cc: &str, seed: u64) -> Run {
    let notes = Arc::new(Mutex::new(Notes::default()));
    let mut built = weftway_sched::build(scheduler).unwrap();
    let job = Job { config, cc, seed, timing: None };
    let rules = transport_rules(scheduler).unwrap();
    let Finished { sim, verdict, .. } = job.run(built.as_mut(), rules, vec![Box::new(notes.clone())]).unwrap();
    let notes = std::mem::take(&mut notes.lock().unwrap().0);
    Run { sim, verdict, notes }
}

#[derive(Default)]
struct Notes(Vec<(Instant, Note)>);

impl Listener for Notes {
    fn note(&mut self, now: Instant, _: u8, note: &Note) {
        self.0.push((now, note.clone()));
    }
}

impl Run {
    /// Time at which the transfer ended, in milliseconds.
    pub fn end_ms(&self) -> f64 {
        self.sim.now().as_secs_f64() * 1e3
    }

    /// Time at which path `id` came up first.
    pub fn up(&self, id: u8) -> Option<Instant> {
        self.first(|note| matches!(note, Note::Up(path) if path.get() == id))
    }

    /// Time at which something was first noted.
    pub fn first(&self, what: impl Fn(&Note) -> bool) -> Option<Instant> {
        self.notes.iter().find(|(_, note)| what(note)).map(|(at, _)| *at)
    }

    /// Times at which packets were put on the wire: time, path, number on the path, payload.
    pub fn sent(&self) -> Vec<(Instant, PathId, u64, u32)> {
        let sent = self.notes.iter().filter_map(|(at, note)| match note {
            Note::Sent { path, index, bytes, .. } => Some((*at, *path, *index, *bytes)),
            _ => None,
        });
        sent.collect()
    }

    /// Times at which acknowledgements reached the sender on path `id`, and up to which packet.
    pub fn acked(&self, id: u8) -> Vec<(Instant, u64)> {
        let acked = self.notes.iter().filter_map(|(at, note)| match note {
            Note::Acked { path, cum, .. } if path.get() == id => Some((*at, *cum)),
            _ => None,
        });
        acked.collect()
    }
}
