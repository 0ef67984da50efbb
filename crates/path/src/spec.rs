//! Names of schedulers and controllers on a command line: `name[:key=value]…`, for example
//! `ecf:form=paper:delta=rttvar`. Names are case-insensitive; `_` and `-` are one character.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// Switch of a registry entry.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its key.
    pub name: &'static str,
    /// The value without the switch: the resolved reading.
    pub default: &'static str,
    /// Values that it takes: the choices (`paper | kernel`), or a unit and range (`number, 0 to 10`).
    pub values: &'static str,
    /// Effect of the switch, and the reason for a choice.
    pub doc: &'static str,
}

/// A name that was not understood.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SpecError {
    /// No entry has this name; correct it, or list the entries.
    #[error("unknown {kind} `{name}`{}", hint(.nearest))]
    Unknown {
        /// `scheduler` or `congestion controller`.
        kind: &'static str,
        /// Name as given.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// The entry has no such switch.
    #[error("`{entry}` has no parameter `{key}`{}", hint(.nearest))]
    NoParam {
        /// The entry.
        entry: &'static str,
        /// Key as given.
        key: String,
        /// The most similar key.
        nearest: Option<String>,
    },
    /// The switch does not take this value.
    #[error("`{entry}:{key}={value}`: expected {expected}")]
    BadValue {
        /// The entry.
        entry: &'static str,
        /// The key.
        key: &'static str,
        /// Value as given.
        value: String,
        /// Values that the switch takes.
        expected: &'static str,
    },
    /// The switch's value names something that does not serve.
    #[error("`{entry}:{key}={value}`: {why}")]
    Wrong {
        /// The entry.
        entry: &'static str,
        /// The key.
        key: &'static str,
        /// Value as given.
        value: String,
        /// Fault of the value.
        why: String,
    },
    /// A switch is given more than once.
    #[error("`{entry}`: `{key}` is given twice")]
    Twice {
        /// The entry.
        entry: &'static str,
        /// The key.
        key: String,
    },
    /// A part after the name is not `key=value`.
    #[error("`{spec}`: `{part}` is not of the form key=value")]
    NotAPair {
        /// The name with all that follows it.
        spec: String,
        /// Part as given.
        part: String,
    },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}

/// A name and its switches, as given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The name, normalised.
    pub name: String,
    /// The switches in the order given.
    pub given: Vec<(String, String)>,
}

impl Spec {
    /// Adds those of `defaults` whose keys are not given, before the others.
    #[must_use]
    pub fn with_defaults(self, mut defaults: Vec<(String, String)>) -> Self {
        defaults.retain(|(key, _)| self.given.iter().all(|(given, _)| given != key));
        Self { name: self.name, given: [defaults, self.given].concat() }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.given.iter().try_for_each(|(key, value)| write!(f, ":{key}={value}"))
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut parts = text.split(':');
        let name = normalise(parts.next().unwrap_or_default());
        let given = parts
            .map(|part| {
                let not_a_pair = || SpecError::NotAPair { spec: text.to_owned(), part: part.to_owned() };
                let (key, value) = part.split_once('=').ok_or_else(not_a_pair)?;
                Ok((key.trim().to_lowercase().replace('-', "_"), value.trim().to_owned()))
            })
            .collect::<Result<_, SpecError>>()?;
        Ok(Self { name, given })
    }
}

/// The form in which names are compared: lower case, `-` for `_` and spaces.
pub fn normalise(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', ' '], "-")
}

/// The most similar of `names`, if any is similar enough to suggest.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    names
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(name.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate.to_owned())
}

/// The switches of one entry with the given values filled in.
#[derive(Clone, Debug)]
pub struct Params {
    entry: &'static str,
    declared: &'static [Param],
    values: Vec<String>,
}

impl Params {
    /// Checks `given` against what the entry declares.
    pub fn new(entry: &'static str, declared: &'static [Param], given: &[(String, String)]) -> Result<Self, SpecError> {
        let mut values: Vec<String> = declared.iter().map(|param| param.default.to_owned()).collect();
        for (nth, (key, value)) in given.iter().enumerate() {
            if given[..nth].iter().any(|(before, _)| before == key) {
                return Err(SpecError::Twice { entry, key: key.clone() });
            }
            let Some(at) = declared.iter().position(|param| param.name == key) else {
                let nearest = nearest(key, declared.iter().map(|param| param.name));
                return Err(SpecError::NoParam { entry, key: key.clone(), nearest });
            };
            values[at].clone_from(value);
        }
        Ok(Self { entry, declared, values })
    }

    /// The entry's name.
    pub fn entry(&self) -> &'static str {
        self.entry
    }

    fn index(&self, key: &str) -> usize {
        let at = self.declared.iter().position(|param| param.name == key);
        at.unwrap_or_else(|| panic!("{} declares no parameter {key}", self.entry))
    }

    /// The value of `key` as text.
    pub fn text(&self, key: &str) -> &str {
        &self.values[self.index(key)]
    }

    /// The complaint that the value of `key` is not what it should be.
    pub fn bad(&self, key: &str) -> SpecError {
        let at = self.index(key);
        let Param { name, values, .. } = self.declared[at];
        SpecError::BadValue { entry: self.entry, key: name, value: self.values[at].clone(), expected: values }
    }

    /// The complaint that what `key` names does not serve.
    pub fn wrong(&self, key: &str, why: String) -> SpecError {
        let at = self.index(key);
        SpecError::Wrong { entry: self.entry, key: self.declared[at].name, value: self.values[at].clone(), why }
    }

    /// Tells whether the entry has the switch `key`.
    pub fn declares(&self, key: &str) -> bool {
        self.declared.iter().any(|param| param.name == key)
    }

    /// The value of `key` as a number, true/false, or any type that text can be.
    pub fn get<T: FromStr>(&self, key: &str) -> Result<T, SpecError> {
        self.text(key).parse().map_err(|_| self.bad(key))
    }

    /// The value of `key` as a number within `range`.
    pub fn within<T: FromStr + PartialOrd>(
        &self,
        key: &str,
        range: core::ops::RangeInclusive<T>,
    ) -> Result<T, SpecError> {
        self.get(key).and_then(|value| if range.contains(&value) { Ok(value) } else { Err(self.bad(key)) })
    }

    /// The value of `key` as one of `choices`.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, SpecError> {
        let text = self.text(key);
        choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| self.bad(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &[Param] = &[Param { name: "beta", default: "0.25", values: "number, 0 to 10", doc: "" }];

    #[test]
    fn names_and_switches_are_read() {
        let spec: Spec = "Min_RTT:Beta=0.5".parse().unwrap();
        assert_eq!(spec.name, "min-rtt");
        let params = Params::new("ecf", PARAMS, &spec.given).unwrap();
        assert_eq!(params.within("beta", 0.0..=10.0), Ok(0.5));
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        let spec: Spec = "ecf:beat=1".parse().unwrap();
        let error = Params::new("ecf", PARAMS, &spec.given).unwrap_err();
        assert_eq!(error.to_string(), "`ecf` has no parameter `beat`; did you mean `beta`?");
        let spec: Spec = "ecf:beta=11".parse().unwrap();
        let params = Params::new("ecf", PARAMS, &spec.given).unwrap();
        let error = params.within("beta", 0.0..=10.0).unwrap_err();
        assert_eq!(error.to_string(), "`ecf:beta=11`: expected number, 0 to 10");
        let spec: Spec = "ecf:beta=1:BETA=2".parse().unwrap();
        let error = Params::new("ecf", PARAMS, &spec.given).unwrap_err();
        assert_eq!(error.to_string(), "`ecf`: `beta` is given twice");
        let error = "ecf:beta".parse::<Spec>().unwrap_err();
        assert_eq!(error.to_string(), "`ecf:beta`: `beta` is not of the form key=value");
    }
}
