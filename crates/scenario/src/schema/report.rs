//! What the report shows and checks; the numbers themselves come from the runs.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::units::Share;

/// A chart of the report.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its title; made from its axes if not given.
    pub title: Option<String>,
    /// What is along: a varied key, or `scheduler`, `cc`.
    pub x: String,
    /// What is up: a metric with its unit, such as `fct_ms`.
    pub y: String,
    /// What the colours tell apart.
    pub by: Option<String>,
}

/// A claim, with the words in which it was made.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "kind")]
pub enum Claim {
    /// The schedulers of one group are better than those of another, in the mean of each group.
    Rank {
        /// The claim in words.
        claim: String,
        /// The metric.
        metric: String,
        /// The better group.
        better: Vec<String>,
        /// The worse group.
        worse: Vec<String>,
        /// Whether less of the metric is better.
        #[serde(default)]
        less_is_better: bool,
    },
    /// One scheduler's mean over another's.
    Ratio {
        /// The claim in words.
        claim: String,
        /// The metric.
        metric: String,
        /// Whose mean.
        of: String,
        /// Over whose.
        over: String,
        /// What it should be.
        value: f64,
        /// By which share it may be off.
        #[serde(deserialize_with = "share")]
        #[schemars(with = "Share")]
        tolerance: f64,
    },
    /// Every scheduler's mean is within bounds.
    Bound {
        /// The claim in words.
        claim: String,
        /// The metric.
        metric: String,
        /// At least.
        min: Option<f64>,
        /// At most.
        max: Option<f64>,
    },
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Share::deserialize(deserializer).map(Share::get)
}
