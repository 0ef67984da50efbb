//! The list of schedulers. Everything else derives from it: parsing and "did you mean",
//! `weft list`, the Python list, the reference page, the conformance suite, the cost benchmark.

use weftway_path::spec::{Spec, SpecError, nearest};

use crate::Scheduler;
use crate::entry::{Entry, Preset};

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
    if let Some((entry, preset)) = preset(&spec.name) {
        let sets: Spec = format!("{}:{}", entry.name, preset.switches).parse()?;
        spec = Spec { name: sets.name, ..spec.with_defaults(sets.given) };
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
}
