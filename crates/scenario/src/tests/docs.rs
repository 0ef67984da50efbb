//! The reference page names every key, and its example is read.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Scenario;
use crate::options::ROWS;
use crate::stack::Stack;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/scenario.md");
const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/scenario.md"));

/// Every key and every choice of a JSON Schema.
fn words(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                found.extend(properties.keys().cloned());
            }
            for choice in
                map.get("const").into_iter().chain(map.get("enum").and_then(Value::as_array).into_iter().flatten())
            {
                found.extend(choice.as_str().map(str::to_owned));
            }
            map.values().for_each(|value| words(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| words(item, found)),
        _ => {}
    }
}

/// Returns true if the page has `word` as a key or choice, or as the name of a section.
fn named(word: &str) -> bool {
    [format!("`{word}`"), format!("## `[{word}]`"), format!("## `[{word}.NAME]`")]
        .iter()
        .any(|form| PAGE.contains(form))
}

#[test]
fn the_reference_page_names_every_key() {
    let mut found = BTreeSet::new();
    words(&Scenario::json_schema(), &mut found);
    assert!(found.contains("penalise_first_only") && found.contains("request-response"));
    let absent: Vec<_> = found.iter().filter(|word| !named(word)).collect();
    assert!(absent.is_empty(), "docs/reference/scenario.md does not name {absent:?}");
}

/// Returns the table of the options, as it stands in the page.
fn options() -> String {
    let mut table =
        "| key | MPTCP v0.9x | MPTCP linux-v1 | TCP | MPQUIC | meaning |\n|---|---|---|---|---|---|\n".to_owned();
    for (key, values, owners, meaning) in ROWS {
        let cell = |(stack, value): (Stack, &&str)| match *value {
            _ if !owners.contains(&stack) => "–".to_owned(),
            "_" => "not given".to_owned(),
            value => format!("`{value}`"),
        };
        let values: Vec<String> = Stack::ALL.into_iter().zip(values).map(cell).collect();
        table += &format!("| `{key}` | {} | {} |\n", values.join(" | "), meaning.trim());
    }
    table
}

/// `WRITE=1 cargo test -p weftway-scenario options_of_the_reference_page` writes the table.
#[test]
fn the_options_of_the_reference_page_are_the_rows() {
    let (before, rest) = PAGE.split_once("| key | MPTCP").expect("the page has the table");
    let (_, after) = rest.split_once("\n\n").expect("the table ends");
    let page = format!("{before}{}\n{after}", options());
    if std::env::var_os("WRITE").is_some() {
        std::fs::write(FILE, &page).unwrap();
    } else {
        assert!(PAGE == page, "write docs/reference/scenario.md with WRITE=1; its table should be\n{}", options());
    }
}

#[test]
fn the_examples_of_the_reference_page_are_read() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let examples: Vec<&str> = PAGE.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let whole: Vec<_> = examples.iter().filter(|example| example.contains("[workload]")).collect();
    assert!(!whole.is_empty());
    for example in whole {
        Scenario::parse(example, "scenario.md", root.as_ref(), &[]).unwrap_or_else(|error| panic!("{error}"));
    }
}
