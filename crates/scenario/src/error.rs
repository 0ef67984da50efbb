//! Mistakes in a scenario: what is wrong, where, and what would be right.

use std::fmt;

use serde::de::{self, Unexpected};
use thiserror::Error;
use weftway_path::spec::nearest;

use super::source::{Place, Site, Sources};

/// The kinds of mistakes, for exit statuses and for callers that react to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A file cannot be read.
    File,
    /// The text is not TOML, or a `--set` is not `key=value`.
    Syntax,
    /// No such key, or a key that is not for this place.
    Key,
    /// A value that is not what its key takes.
    Value,
    /// A key that must be given is not.
    Missing,
    /// No scheduler, controller, backend, path or link has this name.
    Name,
    /// A trace file is missing or malformed.
    Trace,
}

/// A scenario that cannot be run. Its text shows file, line and column, and says what would be
/// right; correct the file or the `--set` there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", self.render())]
pub struct ScenarioError {
    /// Kind of the mistake.
    pub mistake: Mistake,
    /// Fault, in one sentence.
    pub reason: String,
    /// Correction.
    pub help: Option<String>,
    /// Place; `None` when it is the file as a whole.
    pub place: Option<Box<Place>>,
    /// The scenario file.
    pub file: String,
}

impl ScenarioError {
    fn render(&self) -> String {
        let mut out = self.reason.clone();
        match &self.place {
            None => out += &format!("\n --> {}", self.file),
            Some(place) => out += &format!("\n{place}"),
        }
        if let Some(help) = &self.help {
            out += &format!("\nhelp: {help}");
        }
        out
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs stay tabs under the line, so that the caret stands where the reader looks.
        let indent: String = self.text.chars().take(self.column - 1).map(|c| if c == '\t' { c } else { ' ' }).collect();
        writeln!(f, "{margin}--> {}:{}:{}", self.source, self.line, self.column)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {}", self.text)?;
        write!(f, "{margin} | {indent}{}", "^".repeat(self.width))
    }
}

/// A mistake on its way up: it learns its place from the node that it passes first.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub mistake: Mistake,
    pub reason: String,
    pub help: Option<String>,
    pub spot: Spot,
}

/// Place of a fault, as far as it is known.
#[derive(Clone, Debug)]
pub(super) enum Spot {
    Unknown,
    /// A range of the sources.
    Site(Site),
    /// The key with this path.
    Key(Vec<String>),
}

impl Fault {
    pub fn new(mistake: Mistake, reason: impl Into<String>) -> Self {
        Self { mistake, reason: reason.into(), help: None, spot: Spot::Unknown }
    }

    pub fn value(reason: impl Into<String>) -> Self {
        Self::new(Mistake::Value, reason)
    }

    /// `name` is none of `valid`.
    pub fn unknown(mistake: Mistake, what: &str, name: &str, valid: &[&str]) -> Self {
        let help = match nearest(name, valid.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if valid.is_empty() => format!("there is no {what} to name"),
            None => format!("one of {}", valid.join(", ")),
        };
        Self::new(mistake, format!("unknown {what} `{name}`")).help(help)
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the place unless a more exact one is known.
    pub fn site(mut self, site: &Site) -> Self {
        if let Spot::Unknown = self.spot {
            self.spot = Spot::Site(site.clone());
        }
        self
    }

    /// Sets the place, as a path of keys, unless a more exact one is known.
    pub fn key(mut self, path: &[&str]) -> Self {
        if let Spot::Unknown = self.spot {
            self.spot = Spot::Key(path.iter().map(|&key| key.to_owned()).collect());
        }
        self
    }

    pub fn locate(self, file: &str, sources: &Sources, find: impl Fn(&[String]) -> Option<Site>) -> ScenarioError {
        let site = match self.spot {
            Spot::Unknown => None,
            Spot::Site(site) => Some(site),
            Spot::Key(path) => find(&path),
        };
        let place = site.and_then(|site| sources.place(&site)).map(Box::new);
        ScenarioError { mistake: self.mistake, reason: self.reason, help: self.help, place, file: file.to_owned() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::value(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            Unexpected::Map => "a table".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Str(text) => format!("the text \"{text}\""),
            Unexpected::Signed(number) => format!("the number {number}"),
            Unexpected::Float(number) => format!("the number {number}"),
            Unexpected::Bool(flag) => format!("{flag}"),
            other => other.to_string(),
        };
        let expected = expected.to_string();
        // As derived code calls a table.
        let expected = if expected.starts_with("struct ") { "a table" } else { &expected };
        Self::value(format!("expected {expected}, found {found}"))
    }

    fn unknown_field(key: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown(Mistake::Key, "key", key, expected)
    }

    fn unknown_variant(name: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown(Mistake::Value, "value", name, expected)
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new(Mistake::Missing, format!("the key `{key}` is missing"))
    }
}
