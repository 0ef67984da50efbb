//! The list of controllers.

use weftway_path::spec::{Param, Params, Spec, SpecError, nearest};

use crate::{Controller, Setup};

/// Controller of the registry.
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
    /// True if it reads its siblings.
    pub coupled: bool,
    /// True if it paces.
    pub paced: bool,
    /// Its switches.
    pub params: &'static [Param],
    /// Makes one.
    pub build: Build,
}

/// Makes a controller for one path.
pub type Build = fn(&Params, &Setup) -> Result<Box<dyn Controller>, SpecError>;

impl Entry {
    /// Makes a controller with the switches of `given` set.
    pub fn make(&self, given: &[(String, String)], setup: &Setup) -> Result<Box<dyn Controller>, SpecError> {
        (self.build)(&Params::new(self.name, self.params, given)?, setup)
    }
}

/// Every controller, in the order of the registry.
pub fn all() -> &'static [&'static Entry] {
    crate::ALL
}

/// The entry that `name` or an alias of it names, if any.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().iter().copied().find(|entry| entry.name == name || entry.aliases.contains(&name))
}

/// The entry and the switches that `spec` names.
pub fn parse(spec: &str) -> Result<(&'static Entry, Spec), SpecError> {
    let spec: Spec = spec.parse()?;
    let Some(entry) = find(&spec.name) else {
        let names = all().iter().flat_map(|entry| entry.aliases.iter().chain([&entry.name]));
        let nearest = nearest(&spec.name, names.copied());
        return Err(SpecError::Unknown { kind: "congestion controller", name: spec.name, nearest });
    };
    Ok((entry, spec))
}

/// The controller that `spec` names, for example `cubic:slow_start=hystart++`.
pub fn build(spec: &str, setup: &Setup) -> Result<Box<dyn Controller>, SpecError> {
    let (entry, spec) = parse(spec)?;
    entry.make(&spec.given, setup)
}
