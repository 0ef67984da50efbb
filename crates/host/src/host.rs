//! State that is kept for a scheduler.

use weftway_path::spec::SpecError;
use weftway_path::{Event, Instant};
use weftway_sched::{Needs, Scheduler, TransportRules};

use crate::Events;

/// State that a transport keeps for the scheduler of one connection.
#[derive(Clone, Debug)]
pub struct Host {
    /// Needs of the scheduler ([`Scheduler::needs`]).
    pub needs: Needs,
    /// The transport rules that go with it.
    pub rules: TransportRules,
    /// True if decisions and their reasons are written to a log.
    pub explains: bool,
    /// True if the scheduler hears which decisions were taken ([`Scheduler::decided`]).
    pub compares: bool,
    /// Events that it has not been told yet.
    pub events: Events,
    /// Counters.
    pub counts: Counts,
    /// True if something is to be done where no path has room: what waits may be taken back, or a policy open a path.
    pub(crate) acts_without_room: bool,
    /// True if anything is to be noted of a packet that a path was given: its event, or what a policy charges for it.
    pub(crate) notes_sent: bool,
    serial: u64,
    pub(crate) wake: Instant,
}

/// Counters of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Decisions.
    pub decisions: u64,
    /// Decisions to wait though a packet might have gone.
    pub waits: u64,
    /// Decisions and wake-ups that broke a rule.
    pub faults: u64,
}

impl Default for Host {
    fn default() -> Self {
        Self::new(Needs::NONE, TransportRules::NONE)
    }
}

impl Host {
    /// For a scheduler with these needs, with which these transport rules go.
    pub fn new(needs: Needs, rules: TransportRules) -> Self {
        Self {
            needs,
            rules,
            explains: false,
            compares: false,
            events: Events::new(needs),
            counts: Counts::default(),
            acts_without_room: needs.recall,
            notes_sent: needs.events,
            serial: 0,
            wake: Instant::NEVER,
        }
    }

    /// For `scheduler`, with which these transport rules go.
    pub fn serving(scheduler: &dyn Scheduler, rules: TransportRules) -> Self {
        Self { compares: scheduler.report().fallback.is_some(), ..Self::new(scheduler.needs(), rules) }
    }

    /// For the scheduler that `spec` names, with its switches.
    pub fn of(spec: &str) -> Result<Self, SpecError> {
        let (entry, spec) = weftway_sched::parse(spec)?;
        Ok(Self::serving(entry.make(&spec.given)?.as_ref(), entry.transport))
    }

    /// Takes over from `previous`: numbers of packets and counts go on.
    pub fn following(self, previous: &Self) -> Self {
        Self { serial: previous.serial, counts: previous.counts, ..self }
    }

    /// The number of the next packet to be carried: rewards that come late belong to it.
    #[inline]
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial - 1
    }

    /// Time at which the scheduler wants to be woken, or never.
    #[inline]
    pub fn wake(&self) -> Instant {
        self.wake
    }

    /// Notes the wake-up if it is due at `now`.
    #[inline]
    pub fn woken(&mut self, now: Instant) {
        if self.wake <= now {
            self.wake = Instant::NEVER;
            self.events.push_rare(Event::Wake);
        }
    }
}
