//! `base = "FILE"`: the keys of another file hold where this one does not have them. With `base_metric = { OLD = "NEW"
//! }` what that file shows, has published and claims of one column is said of another.

use std::path::{Path, PathBuf};

use super::error::{Fault, Mistake};
use super::reading;
use super::source::Sources;
use super::tree::{Entry, Node, Value};

/// A base may have a base; more than so many in a row go in a circle.
const MOST: usize = 8;

/// Lays `root` over its base, if it names one. `folder` is that of the file.
pub(super) fn follow(root: &mut Node, folder: &Path, sources: &mut Sources) -> Result<bool, Fault> {
    let mut folder = folder.to_owned();
    let (mut count, mut metrics) = (0, Vec::new());
    while let Some(named) = root.remove(&["base"]) {
        count += 1;
        let fault = |reason: String| Fault::new(Mistake::File, reason).site(&named.site);
        let Value::Text(name) = &named.value else { return Err(fault("expected the name of a file".to_owned())) };
        if count > MOST {
            return Err(fault(format!("more than {MOST} files are each the base of the next; they go in a circle")));
        }
        let path: PathBuf = folder.join(name);
        let text = reading::read(&path)
            .map_err(|error| fault(format!("the base {} cannot be read: {error}", path.display())))?;
        let start = sources.add(&path.display().to_string(), &text);
        let mut below = Node::parse(&text, start)?;
        metrics.extend(root.remove(&["base_metric"]).map(metric_names).transpose()?.into_iter().flatten());
        metrics.iter().for_each(|(old, new)| rename(&mut below, old, new));
        *root = over(std::mem::take(root), below);
        folder = path.parent().unwrap_or(Path::new("")).to_owned();
    }
    match root.get(&["base_metric"]) {
        Some(node) => Err(Fault::value("it says how the file named by `base` is read; there is none").site(&node.site)),
        None => Ok(count > 0),
    }
}

/// Columns, and what stands for each.
fn metric_names(node: Node) -> Result<Vec<(String, Node)>, Fault> {
    let wrong = |node: &Node| Fault::value("expected { COLUMN = \"COLUMN\" }").site(&node.site);
    let Value::Table(entries) = node.value else { return Err(wrong(&node)) };
    let name = |entry: Entry| match entry.node.value {
        Value::Text(_) => Ok((entry.key, entry.node)),
        _ => Err(wrong(&entry.node)),
    };
    entries.into_iter().map(name).collect()
}

/// Puts `new` wherever `root` names the column `old`.
fn rename(root: &mut Node, old: &str, new: &Node) {
    let put = |about: &mut Node, key: &str| {
        if let Some(node) = about.get_mut(key)
            && matches!(&node.value, Value::Text(name) if name == old)
        {
            *node = new.clone();
        }
    };
    for (table, key) in [("expect", "metric"), ("figure", "y")] {
        if let Some(Node { value: Value::Table(entries), .. }) = root.get_mut(table) {
            entries.iter_mut().for_each(|entry| put(&mut entry.node, key));
        }
    }
    let printed = root.get_mut("published").and_then(|published| published.get_mut("values"));
    if let Some(Node { value: Value::List(values), .. }) = printed {
        values.iter_mut().for_each(|value| put(value, "metric"));
    }
}

/// `top` over `below`: tables key by key, anything else as a whole. Order is that of `below`, then of `top`.
fn over(top: Node, below: Node) -> Node {
    let (Value::Table(tops), Value::Table(_)) = (&top.value, &below.value) else { return top };
    // Two kinds of one thing have different keys.
    if let (Some(one), Some(other)) = (top.get(&["kind"]), below.get(&["kind"]))
        && one.to_string() != other.to_string()
    {
        return top;
    }
    let Value::Table(belows) = below.value else { return top };
    let mut rest: Vec<Entry> = tops.clone();
    let mut merged = Vec::with_capacity(belows.len() + rest.len());
    for entry in belows {
        match rest.iter().position(|own| own.key == entry.key) {
            Some(at) => {
                let own = rest.remove(at);
                merged.push(Entry { node: over(own.node, entry.node), ..entry });
            }
            None => merged.push(entry),
        }
    }
    merged.append(&mut rest);
    Node { value: Value::Table(merged), site: top.site }
}
