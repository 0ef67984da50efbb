//! Runs over time, made small enough for a page: fewer steps, fewer digits, and reasons that a person reads.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

/// A value per step; none where there was none.
type Series = Vec<Option<f64>>;

/// Values of each `stride` of them: their `mean`, `max` or `sum`; none where all are absent.
#[pyfunction]
pub fn thinned(values: Series, stride: usize, how: &str) -> PyResult<Series> {
    let merge = match how {
        "mean" => Merge::Mean,
        "max" => Merge::Max,
        "sum" => Merge::Sum,
        _ => return Err(PyValueError::new_err(format!("{how}: one of mean, max, sum"))),
    };
    Ok(merge.thin(&values, stride.max(1)).collect())
}

/// A run over time, which is JSON as its backend tells it, as JSON for the page: in at most `most` steps, with three
/// digits a number. Nothing of a run without a step.
#[pyfunction]
pub fn shown_run(py: Python<'_>, text: &str, most: usize, with_reasons: bool) -> PyResult<Option<String>> {
    py.detach(|| {
        let told: Told = serde_json::from_str(text)?;
        told.shown(most.max(1), with_reasons).map(|page| serde_json::to_string(&page)).transpose()
    })
    .map_err(|error: serde_json::Error| PyValueError::new_err(format!("a timeline that cannot be read: {error}")))
}

/// Way in which the values of several steps become one.
#[derive(Clone, Copy)]
enum Merge {
    Mean,
    Max,
    Sum,
}

impl Merge {
    fn thin(self, values: &[Option<f64>], stride: usize) -> impl Iterator<Item = Option<f64>> {
        values.chunks(stride).map(move |steps| self.merge(steps))
    }

    /// Value that stands for these; none where all are absent.
    fn merge(self, steps: &[Option<f64>]) -> Option<f64> {
        let told = || steps.iter().flatten().copied();
        match self {
            Self::Max => told().reduce(f64::max),
            Self::Sum => told().reduce(|a, b| a + b),
            Self::Mean => Some(told().reduce(|a, b| a + b)? / told().count() as f64),
        }
    }
}

/// A run over time: a value per step for each path and for the connection, and what happened.
#[derive(Deserialize)]
#[serde(default)]
struct Told {
    step_ms: f64,
    paths: Vec<String>,
    mbps: Vec<Series>,
    srtt_ms: Vec<Series>,
    cwnd_kb: Vec<Series>,
    inflight_kb: Vec<Series>,
    receive_buffer_kb: Series,
    ooo_kb: Series,
    events: Vec<Happening>,
    decisions: Decisions,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            step_ms: 100.0,
            paths: Vec::new(),
            mbps: Vec::new(),
            srtt_ms: Vec::new(),
            cwnd_kb: Vec::new(),
            inflight_kb: Vec::new(),
            receive_buffer_kb: Vec::new(),
            ooo_kb: Vec::new(),
            events: Vec::new(),
            decisions: Decisions::default(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Happening {
    t_ms: f64,
    path: Option<String>,
    kind: String,
}

/// Number of times that each path was decided for, and how often to wait; a reason has its step, the kind of decision,
/// and the place of the path.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Decisions {
    send: Vec<Series>,
    copy: Vec<Series>,
    wait: Series,
    reasons: Vec<(usize, String, Option<usize>, String)>,
}

/// Figures of a run, in the page. The names are those of the page's script.
#[derive(Serialize)]
struct Page<'a> {
    paths: &'a [String],
    end: f64,
    step: f64,
    #[serde(skip_serializing_if = "is_empty")]
    mbps: Vec<Vec<Option<Short>>>,
    #[serde(skip_serializing_if = "is_empty")]
    srtt: Vec<Vec<Option<Short>>>,
    #[serde(skip_serializing_if = "is_empty")]
    cwnd: Vec<Vec<Option<Short>>>,
    #[serde(skip_serializing_if = "is_empty")]
    flight: Vec<Vec<Option<Short>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    held: Vec<Option<Short>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ooo: Vec<Option<Short>>,
    #[serde(skip_serializing_if = "is_empty")]
    send: Vec<Vec<Option<Short>>>,
    #[serde(skip_serializing_if = "is_empty")]
    copy: Vec<Vec<Option<Short>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wait: Vec<Option<Short>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<(usize, &'a str, Option<usize>, String)>,
    marks: Vec<(f64, usize, &'static str)>,
    down: Vec<(usize, f64, f64)>,
}

fn is_empty(series: &[Vec<Option<Short>>]) -> bool {
    series.iter().all(Vec::is_empty)
}

impl Told {
    fn steps(&self) -> usize {
        let of_paths = [&self.mbps, &self.srtt_ms, &self.cwnd_kb, &self.inflight_kb].into_iter().flatten();
        of_paths.chain([&self.receive_buffer_kb, &self.ooo_kb]).map(Vec::len).max().unwrap_or(0)
    }

    fn shown(&self, most: usize, with_reasons: bool) -> Option<Page<'_>> {
        let stride = self.steps().div_ceil(most);
        if stride == 0 {
            return None;
        }
        let step = self.step_ms * stride as f64;
        let end = step * self.steps().div_ceil(stride) as f64;
        let short = |values: &Series, merge: Merge| -> Vec<_> {
            merge.thin(values, stride).map(|value| value.map(Short::of)).collect()
        };
        let each = |series: &[Series], merge| -> Vec<_> { series.iter().map(|one| short(one, merge)).collect() };
        Some(Page {
            paths: &self.paths,
            end,
            step,
            mbps: each(&self.mbps, Merge::Mean),
            srtt: each(&self.srtt_ms, Merge::Max),
            cwnd: each(&self.cwnd_kb, Merge::Max),
            flight: each(&self.inflight_kb, Merge::Max),
            held: short(&self.receive_buffer_kb, Merge::Max),
            ooo: short(&self.ooo_kb, Merge::Max),
            send: each(&self.decisions.send, Merge::Sum),
            copy: each(&self.decisions.copy, Merge::Sum),
            wait: short(&self.decisions.wait, Merge::Sum),
            why: if with_reasons { self.why(stride) } else { Vec::new() },
            marks: self.marks(step),
            down: (0..self.paths.len()).flat_map(|path| self.outages(path, end)).collect(),
        })
    }

    /// The first reason of each kind in a step.
    fn why(&self, stride: usize) -> Vec<(usize, &str, Option<usize>, String)> {
        let mut found: Vec<(usize, &str, Option<usize>, String)> = Vec::new();
        for (step, kind, path, text) in &self.decisions.reasons {
            let place = (step / stride, kind.as_str(), *path);
            let is_told =
                found.iter().rev().take_while(|one| one.0 == place.0).any(|one| (one.0, one.1, one.2) == place);
            if !is_told {
                found.push((place.0, place.1, place.2, readable(text, &self.paths)));
            }
        }
        found
    }

    /// Losses and timeouts: when, on which path, which of them. Those of one kind in the same step share a stroke.
    fn marks(&self, step: f64) -> Vec<(f64, usize, &'static str)> {
        let mut found = BTreeMap::new();
        for event in &self.events {
            let kind = match event.kind.as_str() {
                "loss" => "loss",
                "rto" | "pto" => "timeout",
                _ => continue,
            };
            if let Some(path) = self.place(event) {
                found.insert(((event.t_ms / step) as u64, path, kind), (event.t_ms * 10.0).round() / 10.0);
            }
        }
        found.into_iter().map(|((_, path, kind), ms)| (ms, path, kind)).collect()
    }

    /// Times in which a path was down; the last time perhaps to the end.
    fn outages(&self, path: usize, end: f64) -> Vec<(usize, f64, f64)> {
        let mut events: Vec<_> = self.events.iter().filter(|event| self.place(event) == Some(path)).collect();
        events.sort_by(|a, b| a.t_ms.total_cmp(&b.t_ms));
        let (mut found, mut since) = (Vec::new(), None);
        for event in events {
            match (event.kind.as_str(), since) {
                ("down", None) => since = Some(event.t_ms),
                ("up", Some(from)) => {
                    found.push((path, from, event.t_ms));
                    since = None;
                }
                _ => {}
            }
        }
        found.extend(since.map(|from| (path, from, end)));
        found
    }

    fn place(&self, event: &Happening) -> Option<usize> {
        self.paths.iter().position(|path| Some(path) == event.path.as_ref())
    }
}

/// A number as JSON writes it shortest.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Short {
    Whole(i64),
    Broken(f64),
}

/// Above this, a float is a whole number anyhow, and may not fit into an `i64`.
const LARGEST: f64 = 9e15;

impl Short {
    /// Three digits of a number.
    fn of(value: f64) -> Self {
        let rounded = digits(value, 2);
        if rounded.fract() == 0.0 && rounded.abs() < LARGEST {
            Self::Whole(rounded as i64)
        } else {
            Self::Broken(rounded)
        }
    }
}

/// A number with so many digits behind its first. It is rounded as it is written: scaling it by a power of ten and back
/// would round twice.
fn digits(value: f64, behind: usize) -> f64 {
    if value == 0.0 { 0.0 } else { format!("{value:.behind$e}").parse().unwrap_or(value) }
}

/// A scheduler's reason with the names of the paths, and with four digits of numbers that have three or more behind the
/// point.
fn readable(reason: &str, paths: &[String]) -> String {
    weftway_sched::reason::named(&shortened(reason), |path| paths.get(path.index()).cloned())
}

fn shortened(reason: &str) -> String {
    let mut out = String::with_capacity(reason.len());
    let mut rest = reason;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        let whole = leading_digits(number);
        let fraction = number[whole..].strip_prefix('.').map_or(0, leading_digits);
        let length = if fraction >= 3 { whole + 1 + fraction } else { whole };
        out.push_str(before);
        match number[..length].parse::<f64>() {
            Ok(value) if fraction >= 3 => out.push_str(&digits(value, 3).to_string()),
            _ => out.push_str(&number[..length]),
        }
        rest = &number[length..];
    }
    out + rest
}

fn leading_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(told: &Value, most: usize) -> Value {
        let told: Told = serde_json::from_value(told.clone()).expect("a timeline");
        serde_json::to_value(told.shown(most, true)).expect("a page")
    }

    #[test]
    fn steps_are_merged_and_absent_ones_do_not_count() {
        let values = vec![Some(1.0), Some(4.0), None, Some(6.0), None, None, Some(2.0)];
        for (how, told) in [
            ("mean", [Some(2.5), Some(6.0), None, Some(2.0)]),
            ("max", [Some(4.0), Some(6.0), None, Some(2.0)]),
            ("sum", [Some(5.0), Some(6.0), None, Some(2.0)]),
        ] {
            assert_eq!(thinned(values.clone(), 2, how).expect("a way to merge"), told, "{how}");
        }
        assert_eq!(thinned(values.clone(), 1, "sum").expect("a way to merge"), values);
        assert_eq!(thinned(vec![], 3, "sum").expect("a way to merge"), []);
    }

    #[test]
    fn three_digits_are_kept_and_whole_numbers_have_no_point() {
        let told = json!({
            "step_ms": 10.0, "paths": ["wifi"],
            "mbps": [[0.0, 1234.0, 12.345, 0.000_456_78, 99.96, null]],
        });
        let page = shown(&told, 10);
        let told = json!({
            "paths": ["wifi"], "end": 60.0, "step": 10.0, "mbps": [[0, 1230, 12.3, 0.000457, 100, null]],
            "marks": [], "down": [],
        });
        assert_eq!(page, told);
    }

    #[test]
    fn rates_are_averaged_peaks_kept_and_decisions_added_up() {
        let told = json!({
            "step_ms": 10.0, "paths": ["wifi"],
            "mbps": [[1.0, 2.0, 4.0]], "cwnd_kb": [[1.0, 2.0, 4.0]],
            "decisions": { "send": [[1, 2, 4]], "wait": [0, 1, 1] },
        });
        let page = shown(&told, 2);
        assert_eq!((&page["mbps"], &page["cwnd"]), (&json!([[1.5, 4]]), &json!([[2, 4]])));
        assert_eq!((&page["send"], &page["wait"]), (&json!([[3, 4]]), &json!([1, 1])));
        // Three steps are two of 20 ms.
        assert_eq!((&page["step"], &page["end"]), (&json!(20.0), &json!(40.0)));
    }

    #[test]
    fn a_run_without_a_step_is_not_shown() {
        assert_eq!(shown(&json!({ "paths": ["wifi"], "mbps": [[]] }), 200), Value::Null);
    }

    #[test]
    fn reasons_name_paths_and_have_four_digits() {
        let paths = ["wifi".to_owned(), "lte".to_owned()];
        let cases = [
            ("p1 has 20.51234 ms, p0 12.34", "lte has 20.51 ms, wifi 12.34"),
            ("cap p0x xp0 p_0 p7 p", "cap p0x xp0 p_0 p7 p"),
            ("12345.6789 of 0.00012346", "12350 of 0.0001235"),
            ("größer: p0", "größer: wifi"),
            ("1.234", "1.234"),
        ];
        for (reason, told) in cases {
            assert_eq!(readable(reason, &paths), told);
        }
    }

    #[test]
    fn the_first_reason_of_a_kind_in_a_step_is_told() {
        let reasons = json!([[0, "send", 0, "a"], [1, "send", 0, "b"], [1, "wait", null, "c"], [2, "send", 0, "d"]]);
        let told = json!({ "paths": ["wifi"], "mbps": [[1, 1, 1, 1]], "decisions": { "reasons": reasons } });
        assert_eq!(shown(&told, 2)["why"], json!([[0, "send", 0, "a"], [0, "wait", null, "c"], [1, "send", 0, "d"]]));
    }

    #[test]
    fn losses_of_a_step_share_a_stroke_and_an_outage_may_last_to_the_end() {
        let events = json!([
            { "t_ms": 12.04, "path": "lte", "kind": "loss" }, { "t_ms": 13.06, "path": "lte", "kind": "loss" },
            { "t_ms": 15.0, "path": "lte", "kind": "pto" }, { "t_ms": 20.0, "path": "lte", "kind": "down" },
            { "t_ms": 25.0, "path": "lte", "kind": "up" }, { "t_ms": 30.0, "path": "lte", "kind": "down" },
            { "t_ms": 31.0, "path": null, "kind": "more" },
        ]);
        let told = json!({ "step_ms": 10.0, "paths": ["wifi", "lte"], "ooo_kb": [0, 0, 0, 0], "events": events });
        let page = shown(&told, 200);
        assert_eq!(page["marks"], json!([[13.1, 1, "loss"], [15.0, 1, "timeout"]]));
        assert_eq!(page["down"], json!([[1, 20.0, 25.0], [1, 30.0, 40.0]]));
    }
}
