//! The list of schedulers. Everything else derives from it: parsing and "did you mean",
//! `weft list`, the Python list, the reference page, the conformance suite, the cost benchmark.

use core::ops::RangeInclusive;

use weftway_path::spec::{Param, Params, Spec, SpecError, nearest};

use crate::Scheduler;

/// Where the rule comes from.
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

/// What a scheduler needs from its host beyond paths and the packet at hand.
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
    /// Nothing.
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

    /// What either needs.
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

/// What a rule decides by; what only decides whether a path is open does not count.
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

/// Switches under a name of their own: a variant that is described somewhere, or a stack's.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What people type for it.
    pub name: &'static str,
    /// The switches it sets: `form=paper:delta=rttvar`.
    pub switches: &'static str,
    /// What it is.
    pub doc: &'static str,
}

/// Switch `name`, a number, in thousandths: rules decide by integers.
pub(crate) fn permille(params: &Params, name: &str, range: RangeInclusive<f64>) -> Result<u64, SpecError> {
    Ok((params.within(name, range)? * 1000.0 + 0.5) as u64)
}

/// One scheduler of the registry.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Other names that people type.
    pub aliases: &'static [&'static str],
    /// Counts changes of behaviour.
    pub version: u32,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Who described it, where.
    pub reference: &'static str,
    /// Where our rule comes from.
    pub provenance: Provenance,
    /// What it is to improve, in a few words.
    pub goal: &'static str,
    /// For what traffic.
    pub application: &'static str,
    /// What it decides by.
    pub inputs: &'static [Input],
    /// What it needs as it comes; with switches, [`Scheduler::needs`] says.
    pub needs: Needs,
    /// For how many paths it is defined.
    pub arity: Arity,
    /// Whether by its rule, with any of its switches, new data may wait though a path that may serve them is open: for a
    /// faster path, for the turn's owner, because the path rests. One that does not say so and waits is at fault.
    pub waits: bool,
    /// The transport rules that go with it.
    pub transport: TransportRules,
    /// Its variants that have a name.
    pub presets: &'static [Preset],
    /// Its switches.
    pub params: &'static [Param],
    /// Makes one.
    pub build: fn(&Params) -> Result<Box<dyn Scheduler>, SpecError>,
}

impl Entry {
    /// Whether it decides once an interval by itself: it has the switch `mode`.
    pub fn has_intervals(&self) -> bool {
        let mode = crate::learned::deployed::MODE;
        self.params.iter().any(|param| (param.name, param.values) == (mode.name, mode.values))
    }

    /// One of them, with the switches of `given` set.
    pub fn make(&self, given: &[(String, String)]) -> Result<Box<dyn Scheduler>, SpecError> {
        (self.build)(&Params::new(self.name, self.params, given)?)
    }
}

/// Every scheduler, in the order of the registry.
pub fn all() -> &'static [&'static Entry] {
    crate::ALL
}

/// The entry that `name` or an alias of it names, if any.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().iter().copied().find(|entry| entry.name == name || entry.aliases.contains(&name))
}

/// The entry that has a preset called `name`, and that preset.
fn preset(name: &str) -> Option<(&'static Entry, &'static Preset)> {
    all().iter().find_map(|entry| Some((*entry, entry.presets.iter().find(|preset| preset.name == name)?)))
}

/// The entry and the switches that `spec` names. What is given goes before what a preset sets.
pub fn parse(spec: &str) -> Result<(&'static Entry, Spec), SpecError> {
    let mut spec: Spec = spec.parse()?;
    // Rows that were published before the switch had its present name can be run again.
    spec.given.iter_mut().filter(|(key, _)| key == "guard").for_each(|(key, _)| "fallback".clone_into(key));
    if let Some((entry, preset)) = preset(&spec.name) {
        let mut sets: Spec = format!("{}:{}", entry.name, preset.switches).parse()?;
        sets.given.retain(|(key, _)| spec.given.iter().all(|(given, _)| given != key));
        spec = Spec { name: sets.name, given: [sets.given, spec.given].concat() };
    }
    let Some(entry) = find(&spec.name) else {
        let names = all().iter().flat_map(|entry| {
            let presets = entry.presets.iter().map(|preset| &preset.name);
            entry.aliases.iter().chain(presets).chain([&entry.name])
        });
        let nearest = nearest(&spec.name, names.copied());
        return Err(SpecError::Unknown { kind: "scheduler", name: spec.name, nearest });
    };
    Ok((entry, spec))
}

/// The scheduler that `spec` names, for example `ecf:form=paper`.
pub fn build(spec: &str) -> Result<Box<dyn Scheduler>, SpecError> {
    let (entry, spec) = parse(spec)?;
    entry.make(&spec.given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_goes_before_what_a_preset_sets() {
        // `llhd-code` sets form=code.
        let given = |spec: &str| parse(spec).unwrap().1.given;
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(given("llhd-code"), [pair("form", "code")]);
        assert_eq!(given("llhd-code:form=eq"), [pair("form", "eq")]);
        assert_eq!(given("llhd-code:beta=0.1"), [pair("form", "code"), pair("beta", "0.1")]);
    }

    #[test]
    fn only_those_that_choose_for_an_interval_have_intervals() {
        // `redundant` and `prs-mptcp` have a switch of the same name that says something else.
        let has = |name: &str| parse(name).unwrap().0.has_intervals();
        assert!(["rlds", "pdaa3c", "stsgat"].into_iter().all(has));
        assert!(!["min-rtt", "redundant", "prs", "dqn"].into_iter().any(has));
    }
}
