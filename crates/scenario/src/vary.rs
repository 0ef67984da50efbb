//! `[vary]`: what is compared. Each entry is an axis; all combinations of their points run.

use serde::Deserialize;

use super::error::{Fault, Mistake};
use super::schema::File;
use super::tree::{Entry, Node, Value};

/// Sections and keys that decide what a run is.
const VARIABLE: &[&str] = &[
    "path",
    "link",
    "workload",
    "options",
    "rival",
    "cross",
    "decision",
    "policy",
    "transport",
    "stack",
    "direction",
    "time_limit",
];
/// Sections whose keys are names that the file gives.
pub(super) const NAMED: &[&str] = &["path", "link", "cross"];
/// More combinations than this are a slip of the pen.
const MOST: usize = 10_000;

/// An entry of `[vary]`: a key, or several that vary together, and the values.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    keys: Vec<String>,
    points: Vec<Vec<Node>>,
    entry: Entry,
}

/// The axes of `[vary]`, without `scheduler` and `cc`, which runs are crossed with later.
pub(super) fn axes(root: &Node) -> Result<Vec<Axis>, Fault> {
    let entries = root.get(&["vary"]).map_or(&[][..], Node::entries);
    let axes = entries.iter().filter(|entry| !matches!(entry.key.as_str(), "scheduler" | "cc"));
    let axes = axes.map(|entry| Axis::new(root, entry)).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<&String> = axes.iter().flat_map(|axis| &axis.keys).collect();
    if let Some(twice) = keys.iter().enumerate().find_map(|(n, key)| keys[..n].contains(key).then_some(key)) {
        return Err(Fault::new(Mistake::Key, format!("`{twice}` is varied twice")).key(&["vary"]));
    }
    let count = axes.iter().try_fold(1usize, |count, axis| count.checked_mul(axis.points.len()));
    if count.is_none_or(|count| count > MOST) {
        return Err(Fault::value(format!("more than {MOST} combinations")).key(&["vary"]));
    }
    Ok(axes)
}

impl Axis {
    fn new(root: &Node, entry: &Entry) -> Result<Self, Fault> {
        let keys = split(&entry.key);
        for key in &keys {
            check(root, key).map_err(|fault| fault.site(&entry.key_site))?;
        }
        let Value::List(values) = &entry.node.value else {
            return Err(Fault::value("expected a list of values").site(&entry.node.site));
        };
        if values.is_empty() {
            return Err(Fault::value("this list is empty; give at least one value").site(&entry.node.site));
        }
        let points = values.iter().map(|value| point(value, keys.len())).collect::<Result<_, _>>()?;
        Ok(Self { keys, points, entry: entry.clone() })
    }

    /// Sets the axis to its point number `n`; what it sets is added to `labels`.
    pub fn apply(&self, n: usize, root: &mut Node, labels: &mut Vec<(String, String)>) -> Result<(), Fault> {
        for (key, value) in self.keys.iter().zip(&self.points[n]) {
            let path: Vec<&str> = key.split('.').collect();
            root.set(&path, value.clone(), &self.entry.key_site)?;
            labels.push((key.clone(), value.to_string()));
        }
        Ok(())
    }
}

/// Refuses a key of `[range]` that cannot be set, and ends that it cannot be set to. `root` has a value for everything
/// that `[vary]` varies.
pub(super) fn check_ranges(root: &Node) -> Result<(), Fault> {
    for entry in root.get(&["range"]).map_or(&[][..], Node::entries) {
        check(root, &entry.key).map_err(|fault| fault.site(&entry.key_site))?;
        let ends = match &entry.node.value {
            Value::Text(text) => text.split_once(".."),
            _ => None,
        };
        let Some((from, to)) = ends else {
            let reason = "expected from where to where, as in \"20 Mbit/s..30 Mbit/s\"";
            return Err(Fault::value(reason).site(&entry.node.site));
        };
        for end in [from, to] {
            let mut node = root.clone();
            let keys: Vec<&str> = entry.key.split('.').collect();
            let value = Node { value: Value::Text(end.trim().to_owned()), site: entry.node.site.clone() };
            node.set(&keys, value, &entry.key_site)?;
            File::deserialize(&node)?;
        }
    }
    Ok(())
}

/// Takes `key` out of `[vary]`, and out of what it varies together with.
pub(super) fn release(root: &mut Node, key: &str) {
    let Some(Value::Table(entries)) = root.get_mut("vary").map(|vary| &mut vary.value) else { return };
    entries.retain_mut(|entry| {
        let mut keys = split(&entry.key);
        if let Some(at) = keys.iter().position(|own| own == key) {
            keys.remove(at);
            drop_column(&mut entry.node, at, keys.len());
            entry.key = keys.join(", ");
        }
        !keys.is_empty()
    });
}

/// Takes the value number `at` out of every point; `left` more remain in each.
fn drop_column(points: &mut Node, at: usize, left: usize) {
    let Value::List(points) = &mut points.value else { return };
    for point in points {
        let Value::List(values) = &mut point.value else { continue };
        // A point of another length is left as it is, and refused where axes are read.
        if left > 0 && values.len() == left + 1 {
            values.remove(at);
            if left == 1 {
                *point = values.remove(0);
            }
        }
    }
}

/// The keys that vary together.
pub(super) fn split(keys: &str) -> Vec<String> {
    keys.split(',').map(|key| key.trim().to_owned()).collect()
}

/// Returns true if `key` may be varied.
fn check(root: &Node, key: &str) -> Result<(), Fault> {
    let path: Vec<&str> = key.split('.').collect();
    if path.iter().any(|part| part.is_empty()) {
        return Err(Fault::new(Mistake::Key, format!("`{key}` is no path of keys")));
    }
    if !VARIABLE.contains(&path[0]) {
        return Err(Fault::unknown(Mistake::Key, "key to vary", path[0], VARIABLE));
    }
    exists(root, &path)
}

/// Whether the path, link or source that `keys` are about is there: a name that is typed wrong
/// would otherwise be a new one.
pub(super) fn exists(root: &Node, keys: &[&str]) -> Result<(), Fault> {
    let [section, name, ..] = keys else { return Ok(()) };
    if !NAMED.contains(section) || root.get(&[section, name]).is_some() {
        return Ok(());
    }
    let names: Vec<&str> =
        root.get(&[section]).map_or(&[][..], Node::entries).iter().map(|entry| &*entry.key).collect();
    Err(Fault::unknown(Mistake::Name, section, name, &names))
}

/// The values of one point: one for each of `count` keys.
pub(super) fn point(value: &Node, count: usize) -> Result<Vec<Node>, Fault> {
    if count == 1 {
        return Ok(vec![value.clone()]);
    }
    match &value.value {
        Value::List(values) if values.len() == count => Ok(values.clone()),
        _ => Err(Fault::value(format!("expected a list of {count} values, one for each key")).site(&value.site)),
    }
}

/// A combination: what it sets, as key and value, and the scenario with it.
pub(super) type Combination = (Vec<(String, String)>, Node);

/// Every combination of the axes' points; the last axis changes fastest.
pub(super) fn combinations(root: &Node, axes: &[Axis]) -> Result<Vec<Combination>, Fault> {
    let mut all = vec![(Vec::new(), root.clone())];
    for axis in axes {
        let mut next = Vec::with_capacity(all.len() * axis.points.len());
        for (labels, node) in &all {
            for n in 0..axis.points.len() {
                let (mut labels, mut node) = (labels.clone(), node.clone());
                axis.apply(n, &mut node, &mut labels)?;
                next.push((labels, node));
            }
        }
        all = next;
    }
    Ok(all)
}
