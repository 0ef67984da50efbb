//! `--set path.lte.loss=2%`: one value changed from the command line.

use serde::Deserialize as _;

use super::error::{Fault, Mistake};
use super::schema::File;
use super::source::{Site, Sources};
use super::tree::{Node, Value};
use super::vary::{NAMED, exists, release};

/// Changes `root` as all `texts` say, in their order.
///
/// Only MPTCP comes in several stacks: the file's goes with the transport that is set aside. One that is itself set
/// stays, whatever the order, and is then found not to fit.
pub(super) fn apply_all(root: &mut Node, texts: &[String], sources: &mut Sources) -> Result<(), Fault> {
    let set_aside = |text: &&String| {
        text.split_once('=').is_some_and(|(key, value)| key.trim() == "transport" && !names_mptcp(value))
    };
    if texts.iter().any(|text| set_aside(&text)) {
        root.remove(&["stack"]);
    }
    texts.iter().try_for_each(|text| apply(root, text, sources))
}

fn names_mptcp(value: &str) -> bool {
    matches!(read(value, 0), Ok(Node { value: Value::Text(name), .. }) if name == "mptcp")
}

/// Changes `root` as `text` says. A key that `[vary]` varies is fixed by it.
fn apply(root: &mut Node, text: &str, sources: &mut Sources) -> Result<(), Fault> {
    let start = sources.add("--set", text);
    let whole = start..start + text.len();
    let Some((path, value)) = text.split_once('=') else {
        let fault = Fault::new(Mistake::Syntax, "`--set` takes key=value, for example path.lte.loss=2%");
        return Err(fault.site(&whole));
    };
    let site = start..start + path.len();
    let keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    if keys.iter().any(|key| key.is_empty()) {
        return Err(Fault::new(Mistake::Syntax, "a key is empty here").site(&site));
    }
    exists(root, &keys).map_err(|fault| fault.site(&site))?;
    release(root, &keys.join("."));
    let node = read(value, start + path.len() + 1)?;
    if let Some(places) = elsewhere(root, &keys, &node, &site) {
        let fault = Fault::new(Mistake::Key, format!("unknown key `{}`", keys[0]));
        return Err(fault.help(format!("did you mean {places}?")).site(&site));
    }
    root.set(&keys, node, &site)
}

/// The full keys under which the scenario takes `value`, if it does not take it under `keys`: `loss` is a key of a
/// path.
fn elsewhere(root: &Node, keys: &[&str], value: &Node, site: &Site) -> Option<String> {
    let fits = |path: &[&str]| {
        let mut changed = root.clone();
        changed.set(path, value.clone(), site).is_ok() && File::deserialize(&changed).is_ok()
    };
    if root.get(&keys[..1]).is_some() || fits(keys) {
        return None;
    }
    let sections = root.entries().iter().map(|entry| vec![entry.key.as_str()]);
    let named = root.entries().iter().filter(|entry| NAMED.contains(&entry.key.as_str()));
    let tables = named.flat_map(|entry| entry.node.entries().iter().map(|own| vec![entry.key.as_str(), &own.key]));
    let places = sections.chain(tables).map(|place| [&place, keys].concat()).filter(|path| fits(path));
    let places: Vec<_> = places.map(|path| format!("`{}`", path.join("."))).collect();
    (!places.is_empty()).then(|| places.join(" or "))
}

/// A value as TOML, or else as a text without quotes.
fn read(value: &str, start: usize) -> Result<Node, Fault> {
    // `v=` keeps every position in place, two characters early.
    match Node::parse(&format!("v={value}"), 0) {
        Ok(mut table) if table.entries().len() == 1 => {
            let mut node = table.remove(&["v"]).expect("the only key is `v`");
            node.shift(start, 2);
            Ok(node)
        }
        _ => Ok(Node { value: Value::Text(value.trim().to_owned()), site: start..start + value.len() }),
    }
}
