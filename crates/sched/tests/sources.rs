//! Rules for the sources of the schedulers: a file each, which says once where its rule comes from; and who may use
//! what.

use std::fs;
use std::path::{Path, PathBuf};

/// The Rust files of a folder of the crate and of those in it, with their texts.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    fn list(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).expect("the folder can be listed") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                list(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = fs::read_to_string(&path).expect("the file can be read");
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder), &mut found);
    assert!(!found.is_empty(), "{folder}");
    found
}

/// Returns the text after `label` in the head of a file, in one line and without marks.
fn said(text: &str, label: &str) -> Option<String> {
    let head = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let head = head.collect::<Vec<_>>().join(" ").replace('`', "");
    head.split_once(label).map(|(_, said)| said.trim().to_owned())
}

#[test]
fn the_head_of_each_scheduler_names_the_reference_of_its_entry() {
    let files = ["rules", "learned"].into_iter().flat_map(sources);
    let mut named = Vec::new();
    for (path, text) in files {
        let Some((_, entry)) = text.split_once("static ENTRY: Entry") else { continue };
        let name = entry.split_once("name: \"").and_then(|(_, rest)| rest.split_once('"')).expect("a name").0;
        let entry = weftway_sched::find(name).unwrap_or_else(|| panic!("{} is not listed", path.display()));
        let reference = said(&text, "Reference:").unwrap_or_else(|| panic!("{} has no reference", path.display()));
        assert!(reference.starts_with(entry.reference), "{}:\n{reference}\n{}", path.display(), entry.reference);
        named.push(entry.name);
    }
    assert_eq!(named.len(), weftway_sched::all().len(), "one file, one scheduler");
}

#[test]
fn rules_use_what_is_shared_and_not_each_other() {
    let barred: [(&str, &[&str]); 3] = [
        ("rules", &["crate::rules", "crate::learned"]),
        ("shared", &["crate::rules", "crate::learned"]),
        ("learned", &["crate::rules"]),
    ];
    for (folder, barred) in barred {
        for (path, text) in sources(folder) {
            // It is that rule, with a learned estimate in it.
            let text =
                if path.ends_with("foreseen.rs") { text.replace("crate::rules::earliest_delivery", "") } else { text };
            let used: Vec<_> = barred.iter().filter(|other| text.contains(**other)).collect();
            assert!(used.is_empty(), "{} uses {used:?}", path.display());
        }
    }
}

#[test]
fn a_file_of_rules_is_a_scheduler_or_belongs_to_one() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules");
    for (path, text) in sources("rules") {
        let folder = path.parent().expect("a folder");
        let owner = if folder == rules { path.clone() } else { folder.with_extension("rs") };
        assert!(owner.is_file(), "{} belongs to no scheduler", path.display());
        assert_eq!(text.contains("static ENTRY: Entry"), owner == path, "{}", path.display());
    }
}
