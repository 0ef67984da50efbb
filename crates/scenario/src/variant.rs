//! Variants: combinations of what a scenario varies, ready to be run.

use serde::Deserialize;
use weftway_link::LinkConfig;

use super::error::Fault;
use super::hash;
use super::resolve::{self, Timing};
use super::schema::File;
use super::traces::Traces;
use super::tree::Node;
use crate::config::SimConfig;

/// A combination of what `[vary]` varies.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Each varied key and its value, as text; `--set KEY=VALUE` for each gives this variant.
    pub labels: Vec<(String, String)>,
    /// Configuration of the simulator.
    pub config: SimConfig,
    /// The links of each path, up and down, where neither is known to carry the data: a single `loss` holds for both.
    pub ways: Vec<[LinkConfig; 2]>,
    /// Timing of decisions; `None`: one for each packet, at once.
    pub timing: Option<Timing>,
    /// The transport's name: `mptcp`, `mpquic` or `tcp`.
    pub transport: &'static str,
    /// Hexadecimal digits that stand for everything that decides the results of a run, save its
    /// scheduler, controller, backend and seed.
    pub hash: String,
}

impl Variant {
    /// `node` is the scenario with what `labels` set.
    pub(super) fn new(labels: Vec<(String, String)>, node: &Node, traces: &mut Traces) -> Result<Self, Fault> {
        let file = File::deserialize(node)?;
        Ok(Self {
            labels,
            config: resolve::config(&file, traces)?,
            ways: resolve::ways(&file, traces)?,
            timing: file.decision.as_ref().map(resolve::timing).transpose()?,
            transport: file.transport.name(),
            hash: hash::hash(node, traces),
        })
    }
}
