//! Number that stands for everything that decides results.

use sha2::{Digest, Sha256};

use super::traces::Traces;
use super::tree::{Node, Value};

/// Keys that decide which runs are made and how they are shown, not what comes out of one.
const ASIDE: &[&str] = &[
    "title",
    "description",
    "seeds",
    "scheduler",
    "cc",
    "backend",
    "vary",
    "range",
    "figure",
    "published",
    "expect",
    OPEN,
];
/// Values that a paper leaves open.
const OPEN: &str = "uncertain";
/// Tables whose order numbers what they name.
const ORDERED: &[&str] = &["path", "link", "cross"];

/// The first 16 hexadecimal digits of the SHA-256 of `root` in a canonical form, in which the
/// order of keys, comments and the names of trace and drive files do not matter but their content does.
pub(super) fn hash(root: &Node, traces: &Traces) -> String {
    let mut digest = Sha256::new();
    for entry in sorted(root) {
        if !ASIDE.contains(&entry.0) {
            add(&mut digest, entry.0, entry.1, traces);
        }
    }
    hex(digest)
}

fn sorted(node: &Node) -> Vec<(&str, &Node)> {
    let mut entries: Vec<(&str, &Node)> = node.entries().iter().map(|entry| (&*entry.key, &entry.node)).collect();
    entries.sort_by_key(|entry| entry.0);
    entries
}

fn add(digest: &mut Sha256, key: &str, node: &Node, traces: &Traces) {
    text(digest, 'k', key);
    match &node.value {
        Value::Text(value) => match traces.digest(value) {
            Some(content) if matches!(key, "trace" | "file" | "down" | "up") => digest.update(content),
            _ => text(digest, 't', &value.split_whitespace().collect::<Vec<_>>().join(" ")),
        },
        Value::List(items) => {
            digest.update([b'l']);
            items.iter().for_each(|item| add(digest, "", item, traces));
            digest.update([b'e']);
        }
        Value::Table(entries) => {
            digest.update([b'd']);
            if ORDERED.contains(&key) {
                entries.iter().for_each(|entry| add(digest, &entry.key, &entry.node, traces));
            } else {
                sorted(node).into_iter().for_each(|(key, node)| add(digest, key, node, traces));
            }
            digest.update([b'e']);
        }
        _ => text(digest, 'v', &node.to_string()),
    }
}

/// A text with its length before it, so that no two sequences of texts look the same.
fn text(digest: &mut Sha256, kind: char, text: &str) {
    digest.update(format!("{kind}{}:{text}", text.len()));
}

/// Joins several numbers into one; the number itself if there is one.
pub(super) fn of_all(hashes: &[String]) -> String {
    match hashes {
        [only] => only.clone(),
        all => hex(Sha256::new().chain_update(all.concat())),
    }
}

/// 16 hexadecimal digits: among a million scenarios, two agree by chance once in 4·10⁷ times.
fn hex(digest: Sha256) -> String {
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
