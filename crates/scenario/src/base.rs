//! `base = "FILE"`: the keys of another file hold where this one does not have them.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{Fault, Mistake};
use super::source::Sources;
use super::tree::{Entry, Node, Value};

/// A base may have a base; more than so many in a row go in a circle.
const MOST: usize = 8;

/// Lays `root` over its base, if it names one. `folder` is that of the file.
pub(super) fn follow(root: &mut Node, folder: &Path, sources: &mut Sources) -> Result<bool, Fault> {
    let mut folder = folder.to_owned();
    let mut count = 0;
    while let Some(named) = root.remove(&["base"]) {
        count += 1;
        let fault = |reason: String| Fault::new(Mistake::File, reason).site(&named.site);
        let Value::Text(name) = &named.value else { return Err(fault("expected the name of a file".to_owned())) };
        if count > MOST {
            return Err(fault(format!("more than {MOST} files are each the base of the next; they go in a circle")));
        }
        let path: PathBuf = folder.join(name);
        let text = fs::read_to_string(&path)
            .map_err(|error| fault(format!("the base {} cannot be read: {error}", path.display())))?;
        let start = sources.add(&path.display().to_string(), &text);
        let below = Node::parse(&text, start)?;
        *root = over(std::mem::take(root), below);
        folder = path.parent().unwrap_or(Path::new("")).to_owned();
    }
    Ok(count > 0)
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
