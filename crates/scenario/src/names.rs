//! Names of schedulers, controllers and backends, checked against the registries.

use weftway_cc::{Flavour, Setup};
use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Instant, PathId};

use super::error::{Fault, Mistake};
use super::forms::OneOrMany;
use super::schema::Claim;

/// On what a scenario can run.
const BACKENDS: &[&str] = &["sim", "quic", "kernel"];

/// The schedulers that are named; every one of the registry for "all".
pub(super) fn schedulers(names: &OneOrMany, at: &[&str]) -> Result<Vec<String>, Fault> {
    let every = || weftway_sched::all().iter().map(|entry| entry.name.to_owned()).collect();
    each(names, at, every, scheduler)
}

/// The controllers that are named; every one of the registry for "all".
pub(super) fn controllers(names: &OneOrMany, at: &[&str]) -> Result<Vec<String>, Fault> {
    let every = || weftway_cc::all().iter().map(|entry| entry.name.to_owned()).collect();
    each(names, at, every, controller)
}

/// The backends that are named.
pub(super) fn backends(names: &OneOrMany) -> Result<Vec<String>, Fault> {
    let every = || BACKENDS.iter().map(|&name| name.to_owned()).collect();
    each(names, &["backend"], every, |name| match BACKENDS.contains(&name) {
        true => Ok(()),
        false => Err(Fault::unknown(Mistake::Name, "backend", name, BACKENDS)),
    })
}

/// Checks that there is such a scheduler with such switches. A class in a Python file,
/// `my_rules.py:MyRule`, is for Python to find.
pub(super) fn scheduler(name: &str) -> Result<(), Fault> {
    if name.contains(".py:") { Ok(()) } else { registered(name) }
}

/// Checks that the registry has such a scheduler with such switches.
pub(super) fn registered(name: &str) -> Result<(), Fault> {
    weftway_sched::build(name).map(drop).map_err(unclear)
}

/// Checks that there is such a controller with such switches.
pub(super) fn controller(name: &str) -> Result<(), Fault> {
    // Switches are checked when one is made; this one is thrown away.
    let setup = Setup {
        path: PathId::new(0),
        mss: Bytes::new(1200),
        initial_window: Bytes::new(12_000),
        flavour: Flavour::Linux,
        seed: 0,
        now: Instant::ZERO,
        rtt: None,
    };
    weftway_cc::build(name, &setup).map(drop).map_err(unclear)
}

/// The schedulers that a claim compares.
pub(super) fn claim(name: &str, claim: &Claim) -> Result<(), Fault> {
    let check = |key: &str, named: &[String]| {
        named.iter().enumerate().try_for_each(|(n, scheduler_name)| {
            scheduler(scheduler_name).map_err(|fault| fault.key(&["expect", name, key, &n.to_string()]))
        })
    };
    let one =
        |key: &str, scheduler_name: &str| scheduler(scheduler_name).map_err(|fault| fault.key(&["expect", name, key]));
    let cc = |cc: &Option<String>, key: &str| {
        cc.iter().try_for_each(|cc| controller(cc).map_err(|fault| fault.key(&["expect", name, key])))
    };
    match claim {
        Claim::Rank { better, worse, cc: under, .. } => {
            check("better", better).and_then(|()| check("worse", worse)).and_then(|()| cc(under, "cc"))
        }
        Claim::Order { order, cc: under, .. } => check("order", order).and_then(|()| cc(under, "cc")),
        Claim::Ratio { of, over, cc: under, over_cc, .. } => one("of", of)
            .and_then(|()| one("over", over))
            .and_then(|()| cc(under, "cc"))
            .and_then(|()| cc(over_cc, "over_cc")),
        Claim::Near { of, cc: under, .. }
        | Claim::Bound { of, cc: under, .. }
        | Claim::Monotone { of, cc: under, .. } => check("of", of).and_then(|()| cc(under, "cc")),
        Claim::Schedule { of, .. } => one("of", of),
        Claim::Identical { of, over, .. } => one("of", of).and_then(|()| one("over", over)),
    }
}

fn each(
    names: &OneOrMany,
    at: &[&str],
    every: impl FnOnce() -> Vec<String>,
    check: impl Fn(&str) -> Result<(), Fault>,
) -> Result<Vec<String>, Fault> {
    if names.0.is_empty() {
        return Err(Fault::value("this list is empty; name at least one").key(at));
    }
    if names.0 == ["all"] {
        return Ok(every());
    }
    for (n, name) in names.0.iter().enumerate() {
        let item = n.to_string();
        check(name).map_err(|fault| fault.key(&[at, &[item.as_str()]].concat()))?;
    }
    Ok(names.0.clone())
}

fn unclear(error: SpecError) -> Fault {
    let help = match &error {
        SpecError::Unknown { nearest: Some(near), .. } | SpecError::NoParam { nearest: Some(near), .. } => {
            Some(format!("did you mean `{near}`?"))
        }
        SpecError::Unknown { .. } => Some("`weft list` shows all names".to_owned()),
        _ => None,
    };
    // The help says the nearest name; the reason need not.
    let text = error.to_string();
    let reason = text.split("; did you mean").next().unwrap_or(&text);
    Fault { help, ..Fault::new(Mistake::Name, reason) }
}

/// `name` as it should be in `[section.NAME]`.
pub(super) fn section(section: &str, name: &str) -> Result<(), Fault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(plain) {
        return Ok(());
    }
    let reason = format!("`{name}` is no name for a {section}; letters, digits, `-` and `_` are");
    Err(Fault::new(Mistake::Name, reason).key(&[section, name]))
}

/// The position of `name` in `names`.
pub(super) fn position(what: &str, name: &str, names: &[&str]) -> Result<usize, Fault> {
    let at = names.iter().position(|own| *own == name);
    at.ok_or_else(|| Fault::unknown(Mistake::Name, what, name, names))
}
