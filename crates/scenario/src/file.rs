//! A scenario file, read and checked.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;

use super::base;
use super::claims;
use super::error::{Fault, Mistake, ScenarioError};
use super::forms::OneOrMany;
use super::hash;
use super::names;
use super::reading;
use super::schema::{self, Claim, Figure, Published};
use super::set;
use super::source::Sources;
use super::traces::Traces;
use super::tree::Node;
use super::variant::Variant;
use super::vary::{axes, check_ranges, combinations};

/// Schedulers or controllers if the scenario names none.
const DEFAULT_SCHEDULER: &str = "min-rtt";
const DEFAULT_CC: &str = "cubic";

/// A scenario: what to run, what to compare, what to show.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Title: its subject, in a line; the file's name if it has no title.
    pub title: String,
    /// Description: its subject and reasons.
    pub description: String,
    /// The seeds to run.
    pub seeds: Range<u64>,
    /// The schedulers to compare, with their switches.
    pub schedulers: Vec<String>,
    /// The congestion controllers to compare.
    pub controllers: Vec<String>,
    /// On what to run.
    pub backends: Vec<String>,
    /// Charts for the report, by name.
    pub figures: Vec<(String, Figure)>,
    /// Published numbers.
    pub published: Option<Published>,
    /// Claims to check after the runs, by name.
    pub claims: Vec<(String, Claim)>,
    /// The file it came from.
    pub file: String,
    /// The `--set`s that changed it.
    pub sets: Vec<String>,
    origin: Origin,
    hash: String,
}

/// Files that a scenario was read from.
#[derive(Clone, Debug, Default)]
struct Origin {
    file: String,
    sources: Sources,
    root: Node,
    traces: Traces,
    whole: Option<String>,
}

impl Scenario {
    /// Reads and checks the file at `path`, changed by `sets` (`path.lte.loss=2%`).
    pub fn load(path: &Path, sets: &[String]) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = reading::read(path).map_err(|error| {
            Fault::new(Mistake::File, format!("the scenario cannot be read: {error}")).locate(
                &file,
                &Sources::default(),
                |_| None,
            )
        })?;
        Self::parse(&text, &file, path.parent().unwrap_or(Path::new("")), sets)
    }

    /// Reads and checks `text`, which came from `file` in the folder `base`.
    pub fn parse(text: &str, file: &str, base: &Path, sets: &[String]) -> Result<Self, ScenarioError> {
        let mut origin = Origin::read(reading::without_mark(text), file, base, sets)?;
        let variants = origin.check()?;
        let mut scenario = Self::build(&origin.root, &variants).map_err(|fault| origin.locate(fault, &origin.root))?;
        if scenario.title.is_empty() {
            scenario.title = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        scenario.hash = hash::of_all(&variants.into_iter().map(|variant| variant.hash).collect::<Vec<_>>());
        Ok(Self { file: file.to_owned(), sets: sets.to_vec(), origin, ..scenario })
    }

    /// Everything but the runs.
    fn build(root: &Node, variants: &[Variant]) -> Result<Self, Fault> {
        let first = first(root)?;
        check_ranges(&first)?;
        let file = schema::File::deserialize(&first)?;
        claims::check(&file, root, variants)?;
        Ok(Self {
            schedulers: compared(root, "scheduler", file.scheduler, DEFAULT_SCHEDULER, names::schedulers)?,
            controllers: compared(root, "cc", file.cc, DEFAULT_CC, names::controllers)?,
            backends: file.backend.map_or(Ok(vec!["sim".to_owned()]), |backend| names::backends(&backend))?,
            title: file.title,
            description: file.description,
            seeds: file.seeds.0,
            figures: file.figure.0,
            published: file.published,
            claims: file.expect.0,
            file: String::new(),
            sets: Vec::new(),
            origin: Origin::default(),
            hash: String::new(),
        })
    }

    /// Every combination of what `[vary]` varies, the last key changing fastest; a single one
    /// without labels if nothing is varied. A scenario that could be loaded has sound variants.
    pub fn variants(&self) -> Result<Vec<Variant>, ScenarioError> {
        self.origin.variants(&mut self.origin.traces.clone())
    }

    /// Hexadecimal digits that stand for everything that decides results, save schedulers,
    /// controllers, backends and seeds: comments and the order of keys do not count, the content
    /// of trace files does. Equal to the variant's if there is only one.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The scenario as one TOML text: what was read; with the keys of its base, if it has one.
    pub fn text(&self) -> &str {
        self.origin.whole.as_deref().unwrap_or_else(|| self.origin.sources.first())
    }

    /// What was run of it: its text with the values that were set from the command line, and without the axes that they
    /// fix.
    pub fn text_as_set(&self) -> String {
        self.origin.root.lines()
    }

    /// The JSON Schema of scenario files.
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(schema::File).to_value()
    }
}

impl Origin {
    fn read(text: &str, file: &str, base: &Path, sets: &[String]) -> Result<Self, ScenarioError> {
        let mut sources = Sources::default();
        sources.add(file, text);
        let mut whole = None;
        let root = Node::parse(text, 0).and_then(|mut root| {
            if base::follow(&mut root, base, &mut sources)? {
                whole = Some(root.lines());
            }
            set::apply_all(&mut root, sets, &mut sources)?;
            Ok(root)
        });
        let root = root.map_err(|fault| fault.locate(file, &sources, |_| None))?;
        Ok(Self { file: file.to_owned(), sources, root, traces: Traces::new(base), whole })
    }

    /// Reads every variant once, and with them the traces.
    fn check(&mut self) -> Result<Vec<Variant>, ScenarioError> {
        let mut traces = std::mem::take(&mut self.traces);
        let variants = self.variants(&mut traces)?;
        self.traces = traces;
        Ok(variants)
    }

    fn variants(&self, traces: &mut Traces) -> Result<Vec<Variant>, ScenarioError> {
        let combinations = axes(&self.root).and_then(|axes| combinations(&self.root, &axes));
        combinations
            .map_err(|fault| self.locate(fault, &self.root))?
            .into_iter()
            .map(|(labels, node)| Variant::new(labels, &node, traces).map_err(|fault| self.locate(fault, &node)))
            .collect()
    }

    fn locate(&self, fault: Fault, node: &Node) -> ScenarioError {
        fault.locate(&self.file, &self.sources, |path| node.find(path))
    }
}

/// The file with the first value of everything varied: what is varied need not be given besides.
fn first(root: &Node) -> Result<Node, Fault> {
    let mut node = root.clone();
    axes(root)?.iter().try_for_each(|axis| axis.apply(0, &mut node, &mut Vec::new()))?;
    Ok(node)
}

/// The names to compare under `key`: of the file, or of `[vary]`, or the default.
fn compared(
    root: &Node,
    key: &str,
    given: Option<OneOrMany>,
    default: &str,
    check: fn(&OneOrMany, &[&str]) -> Result<Vec<String>, Fault>,
) -> Result<Vec<String>, Fault> {
    let varied = root.get(&["vary", key]);
    match (given, varied) {
        (Some(_), Some(_)) => {
            let reason = format!("`{key}` is given here and at the top of the file; give it once");
            Err(Fault::new(Mistake::Key, reason).key(&["vary", key]))
        }
        (Some(names), None) => check(&names, &[key]),
        (None, Some(node)) => check(&OneOrMany::deserialize(node)?, &["vary", key]),
        (None, None) => check(&OneOrMany(vec![default.to_owned()]), &[key]),
    }
}
