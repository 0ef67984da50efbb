//! Entries of the registry: what a scheduler says of itself.

use core::ops::RangeInclusive;

use weftway_path::spec::{Param, Params, SpecError};

use crate::Scheduler;

/// Origin of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provenance {
    /// Read from the authors' or the kernel's source code.
    Code,
    /// Read from the paper.
    Paper,
    /// Taken from a secondary description.
    Secondary,
    /// A concrete rule was fixed that is compatible with what is known.
    Reconstructed,
}

/// Needs of a scheduler from its host beyond paths and the packet at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// [`weftway_path::Context::flow`].
    pub flow: bool,
    /// Packets assigned to a path without room wait in its queue.
    pub queueing: bool,
    /// [`weftway_path::Decision::Repeat`].
    pub copies: bool,
    /// [`weftway_path::Decision::Ahead`].
    pub ahead: bool,
    /// [`weftway_path::Decision::Recall`]. The scheduler is also asked when nothing may go and packets wait in queues.
    pub recall: bool,
    /// [`Scheduler::wake`] is honoured, and [`Scheduler::observe`] called with `Wake`, `PathUp` and `PathDown`.
    pub wake: bool,
    /// [`Scheduler::observe`] is called with every event. A host need not tell a scheduler that does not listen.
    pub events: bool,
    /// [`weftway_path::Path::device_queue`], as it is at each question and each call of [`Scheduler::observe`].
    pub device: bool,
}

impl Needs {
    /// No needs.
    pub const NONE: Self = Self {
        flow: false,
        queueing: false,
        copies: false,
        ahead: false,
        recall: false,
        wake: false,
        events: false,
        device: false,
    };

    /// Union of the needs of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self {
            flow: self.flow || other.flow,
            queueing: self.queueing || other.queueing,
            copies: self.copies || other.copies,
            ahead: self.ahead || other.ahead,
            recall: self.recall || other.recall,
            wake: self.wake || other.wake,
            events: self.events || other.events,
            device: self.device || other.device,
        }
    }
}

/// For how many paths the rule is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    /// Any number.
    Any,
    /// Two: the fastest, and the one that min-RTT would choose among the rest. The entry's
    /// documentation says how it picks them among more.
    Pair,
}

/// Which rules of the MPTCP v0.9x transport go with the scheduler by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransportRules {
    /// Opportunistic retransmission: a window-blocked connection repeats its oldest data on a
    /// path at least four times faster than the one that holds them.
    pub opportunistic: bool,
    /// Penalisation: the path that holds them has its window halved.
    pub penalise: bool,
}

impl TransportRules {
    /// Neither rule.
    pub const NONE: Self = Self { opportunistic: false, penalise: false };
    /// Both: what the papers call RP.
    pub const RP: Self = Self { opportunistic: true, penalise: true };
}

/// Input of a rule; numbers that only decide if a path is open do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// Round-trip times, whether smoothed, newest or mean, and their spread.
    Rtt,
    /// The smallest round-trip time.
    MinRtt,
    /// Congestion window, slow-start threshold.
    Cwnd,
    /// Bytes in flight on a path.
    InFlight,
    /// The size of a path's packets.
    Mss,
    /// Losses and retransmissions.
    Loss,
    /// Delivery or pacing rate, or what was delivered in a time.
    Rate,
    /// Data not sent yet: of the connection, in a path's queue, in the device's.
    Queue,
    /// The peer's receive window.
    Window,
    /// The sizes of packets, messages or flows.
    Size,
    /// Which paths share a bottleneck.
    Bottleneck,
}

/// For how long a decision holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// For a packet.
    Packet,
    /// An interval, for which one path is chosen. The switch `mode` says what the others do while that path is full,
    /// and [`crate::Report::chosen_bytes`] what it brought.
    Interval,
}

/// Inputs, reward and actions of a scheduler that learns, in the columns of the MPQUIC comparison's Table 1.
#[derive(Clone, Copy, Debug)]
pub struct Learning {
    /// Year of publication.
    pub year: u16,
    /// Kind of learner, and if it goes on learning at work.
    pub learner: &'static str,
    /// Observation.
    pub state: &'static str,
    /// Reward in training.
    pub reward: &'static str,
    /// Actions to choose from.
    pub actions: &'static str,
}

/// A policy that comes with the crate. The files are in `policies/`, where their cards say how they were trained.
#[derive(Clone, Copy, Debug)]
pub struct ShippedPolicy {
    /// Its name among the scheduler's policies; the first is the default.
    pub name: &'static str,
    /// The policy file.
    pub bytes: &'static [u8],
}

/// Switches under a name of their own: a variant that is described somewhere, or a stack's.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name that people type.
    pub name: &'static str,
    /// The switches it sets: `form=paper:delta=rttvar`.
    pub switches: &'static str,
    /// Description.
    pub doc: &'static str,
}

/// Switch `name`, a number, in thousandths: rules decide by integers.
pub(crate) fn permille(params: &Params, name: &str, range: RangeInclusive<f64>) -> Result<u64, SpecError> {
    Ok((params.within(name, range)? * 1000.0 + 0.5) as u64)
}

/// Scheduler of the registry.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Other names that people type.
    pub aliases: &'static [&'static str],
    /// Counts changes of behaviour.
    pub version: u32,
    /// Behaviour in one sentence.
    pub summary: &'static str,
    /// Publication or code that describes it.
    pub reference: &'static str,
    /// Origin of our rule.
    pub provenance: Provenance,
    /// Goal in a few words.
    pub goal: &'static str,
    /// For what traffic.
    pub application: &'static str,
    /// Inputs that it decides by.
    pub inputs: &'static [Input],
    /// Needs without switches; with them, [`Scheduler::needs`] says.
    pub needs: Needs,
    /// For how many paths it is defined.
    pub arity: Arity,
    /// True if by its rule, with any of its switches, new data may wait though a path that may serve them is open: for
    /// a faster path, for the turn's owner, because the path rests. One that does not say so and waits is at fault.
    pub waits: bool,
    /// For how long a decision holds.
    pub timing: Timing,
    /// The transport rules that go with it.
    pub transport: TransportRules,
    /// Its variants that have a name.
    pub presets: &'static [Preset],
    /// Its switches.
    pub params: &'static [Param],
    /// Learning, if it learns.
    pub learning: Option<Learning>,
    /// The trained policies that it comes with.
    pub shipped: &'static [ShippedPolicy],
    /// Makes one.
    pub build: fn(&Params) -> Result<Box<dyn Scheduler>, SpecError>,
}

impl Entry {
    /// Values that most entries have. A field without a usual value is empty, and a test refuses an entry that leaves
    /// it so: name, summary, reference, goal, application, and how one is made.
    pub const NEW: Self = Self {
        name: "",
        aliases: &[],
        version: 1,
        summary: "",
        reference: "",
        provenance: Provenance::Reconstructed,
        goal: "",
        application: "",
        inputs: &[],
        needs: Needs::NONE,
        arity: Arity::Any,
        waits: false,
        timing: Timing::Packet,
        transport: TransportRules::NONE,
        presets: &[],
        params: &[],
        learning: None,
        shipped: &[],
        build: |params| {
            Err(SpecError::Unknown { kind: "way to make scheduler", name: params.entry().to_owned(), nearest: None })
        },
    };

    /// Returns true if it chooses a path for an interval by itself, and has the switch `mode`.
    pub fn has_intervals(&self) -> bool {
        self.timing == Timing::Interval
    }

    /// Makes a scheduler with the switches of `given` set.
    pub fn make(&self, given: &[(String, String)]) -> Result<Box<dyn Scheduler>, SpecError> {
        (self.build)(&Params::new(self.name, self.params, given)?)
    }
}
