//! Reports and checks after the runs: charts, published numbers, claims, and values that a paper leaves open.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::forms::TextOrTable;
use crate::units::Share;

/// The axes of a paper's figure, which `reproduce` draws.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Title, for whoever reads the file.
    pub title: Option<String>,
    /// Horizontal axis: a varied key, or `scheduler`, `cc`.
    pub x: String,
    /// Vertical axis: a metric with its unit, such as `fct_ms`.
    pub y: String,
    /// Key that the colours tell apart.
    pub by: Option<String>,
}

/// Numbers that a paper prints about the experiment in this file.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The paper's DOI, or its authors, title and year if it has none.
    #[serde(default)]
    pub paper: String,
    /// Place of the experiment in the paper.
    #[serde(default)]
    pub place: String,
    /// Number of runs of which, as the paper says, each of its numbers is the mean.
    pub runs: Option<u32>,
    /// Why the experiment cannot be run here.
    pub cannot_run: Option<String>,
    /// Its numbers.
    #[serde(default)]
    pub values: Vec<Printed>,
}

/// A number in a paper.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Metric of the number.
    pub metric: Option<String>,
    /// Quantity of the number, in words, where no metric is the same.
    pub quantity: Option<String>,
    /// Scheduler of the number.
    pub scheduler: Option<String>,
    /// Over which scheduler: the number is then a change in percent.
    pub over: Option<String>,
    /// The change is printed as a reduction.
    #[serde(default)]
    pub reduction: bool,
    /// Under which controller.
    pub cc: Option<String>,
    /// In which setting.
    #[serde(default)]
    pub at: At,
    /// The number as the paper has it.
    pub value: f64,
    /// Its unit as the paper has it.
    pub unit: Unit,
    /// Place where it is printed.
    pub place: String,
    /// Wording of the number: printed as it stands here, or not.
    #[serde(default)]
    pub status: Status,
    /// Computation of the number from the paper's other numbers.
    pub identity: Option<Identity>,
}

/// A computation from other numbers of the same paper.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Numbers with `+`, `-`, `*`, `/` and parentheses.
    pub expression: String,
    /// Place where these numbers are printed.
    pub place: String,
}

/// The units of published numbers.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub enum Unit {
    /// Megabits per second.
    #[serde(rename = "Mbit/s")]
    MbitPerSecond,
    /// Kilobytes per second.
    #[serde(rename = "kB/s")]
    KilobytesPerSecond,
    /// Mebibytes.
    #[serde(rename = "MiB")]
    Mebibytes,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Hundredths.
    #[serde(rename = "%")]
    Percent,
    /// A plain number.
    #[serde(rename = "1")]
    Plain,
}

/// Certainty of the wording of a published number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It is printed as it stands here.
    #[default]
    Printed,
    /// The paper's layout is damaged; another table of it confirms the number.
    Reconstructed,
    /// It was computed from printed numbers.
    Derived,
}

/// For which settings something is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub enum At {
    /// For the mean over all settings.
    #[default]
    Mean,
    /// For every one of them.
    Each,
    /// For those with these values of varied keys.
    Setting(BTreeMap<String, String>),
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable {
            text: |text| match text {
                "mean" => Ok(Self::Mean),
                "each" => Ok(Self::Each),
                _ => Err(format!("`{text}` names no setting; expected \"mean\", \"each\" or a table of varied keys")),
            },
            table: Self::Setting,
            example: "\"mean\", \"each\" or a table of varied keys",
        })
    }
}

impl JsonSchema for At {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "At".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "anyOf": [
            { "enum": ["mean", "each"] },
            { "type": "object", "additionalProperties": { "type": "string" } },
        ] })
    }
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
        /// Less of the metric is better.
        #[serde(default)]
        less_is_better: bool,
        /// Every one of the better is better than every one of the worse.
        #[serde(default)]
        all_pairs: bool,
        /// In which settings.
        #[serde(default)]
        at: At,
        /// Under which controller; under each if not given.
        cc: Option<String>,
    },
    /// Each scheduler is better than the next.
    Order {
        /// The claim in words.
        claim: String,
        /// The metric.
        metric: String,
        /// Schedulers from the best to the worst.
        order: Vec<String>,
        /// Less of the metric is better.
        #[serde(default)]
        less_is_better: bool,
        /// In which settings.
        #[serde(default)]
        at: At,
        /// Under which controller; under each if not given.
        cc: Option<String>,
    },
    /// A mean over another.
    Ratio {
        /// The claim in words.
        claim: String,
        /// The metric.
        metric: String,
        /// Whose mean.
        of: String,
        /// Over whose.
        over: String,
        /// Ratio that it should be.
        value: f64,
        /// By which share it may be off; by half of the effect if not given.
        #[serde(default, deserialize_with = "share")]
        #[schemars(with = "Option<Share>")]
        tolerance: Option<f64>,
        /// In which settings.
        #[serde(default)]
        at: At,
        /// In which settings the mean below the line is taken, if in others.
        over_at: Option<At>,
        /// Under which controller; under each if not given.
        cc: Option<String>,
        /// Under which controller the mean below the line is taken, if under another.
        over_cc: Option<String>,
        /// The file that the mean below the line is taken from, if it is another.
        over_file: Option<String>,
    },
    /// Any two schedulers are near each other.
    Near {
        /// The claim in words.
        claim: String,
        /// The metric.
        metric: String,
        /// The schedulers; all if not given.
        #[serde(default)]
        of: Vec<String>,
        /// By which share two may differ.
        #[serde(deserialize_with = "exact_share")]
        #[schemars(with = "Share")]
        tolerance: f64,
        /// In which settings.
        #[serde(default)]
        at: At,
        /// Under which controller; under each if not given.
        cc: Option<String>,
    },
    /// The metric rises or falls from each value of a varied key to the next.
    Monotone {
        /// The claim in words.
        claim: String,
        /// The metric.
        metric: String,
        /// The schedulers; all if not given.
        #[serde(default)]
        of: Vec<String>,
        /// The varied key.
        along: String,
        /// Which way it goes.
        goes: Way,
        /// By which share it may go the other way.
        #[serde(default, deserialize_with = "share")]
        #[schemars(with = "Option<Share>")]
        tolerance: Option<f64>,
        /// Under which controller; under each if not given.
        cc: Option<String>,
    },
    /// Every scheduler's mean is within bounds.
    Bound {
        /// The claim in words.
        claim: String,
        /// The metric.
        metric: String,
        /// The schedulers; all if not given.
        #[serde(default)]
        of: Vec<String>,
        /// At least.
        min: Option<f64>,
        /// At most.
        max: Option<f64>,
        /// In which settings.
        #[serde(default)]
        at: At,
        /// Under which controller; under each if not given.
        cc: Option<String>,
    },
    /// A scheduler sends these packets on these paths, and no others.
    Schedule {
        /// The claim in words.
        claim: String,
        /// The scheduler.
        of: String,
        /// Packets of the connection's data that go before and are not counted.
        #[serde(default)]
        after: u64,
        /// The numbers of the packets that each path carries, from 1, in the order in which it sends them.
        sends: BTreeMap<String, Vec<u64>>,
        /// The packets in the order in which they arrive; a retransmission is its packet.
        #[serde(default)]
        arrivals: Vec<u64>,
    },
    /// Two schedulers make the same decisions.
    Identical {
        /// The claim in words.
        claim: String,
        /// First scheduler.
        of: String,
        /// The other.
        over: String,
    },
}

/// Which way a metric goes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Up.
    Rises,
    /// Down.
    Falls,
}

/// A key whose value the paper leaves open.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Uncertain {
    /// The values that the text allows.
    #[expect(dead_code, reason = "its values are read with their places; here it is only known to be there")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: IgnoredAny,
    /// Why it is open, and why these.
    pub why: String,
}

fn exact_share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Share::deserialize(deserializer).map(Share::get)
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Share::deserialize(deserializer).map(|share| Some(share.get()))
}
