//! The reference pages name every key, and the examples are read.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{Scenario, option_rows};

const PAGES: &str = concat!(
    include_str!("../../../../docs/reference/scenario.md"),
    include_str!("../../../../docs/reference/scenario-paths.md"),
    include_str!("../../../../docs/reference/scenario-workload.md"),
    include_str!("../../../../docs/reference/scenario-numbers.md"),
);

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

/// Returns true if the page or an option's row has `word` as a key or choice, or if a section has it as its name.
fn named(word: &str) -> bool {
    if option_rows().any(|(key, _, meaning)| key == word || meaning.contains(&format!("`{word}`"))) {
        return true;
    }
    [format!("`{word}`"), format!("## `[{word}]`"), format!("## `[{word}.NAME]`")]
        .iter()
        .any(|form| PAGES.contains(form))
}

#[test]
fn the_reference_names_every_key() {
    let mut found = BTreeSet::new();
    words(&Scenario::json_schema(), &mut found);
    assert!(found.contains("penalise_first_only") && found.contains("request-response"));
    let absent: Vec<_> = found.iter().filter(|word| !named(word)).collect();
    assert!(absent.is_empty(), "docs/reference/scenario*.md do not name {absent:?}");
}

/// The page of options shows a dash where a stack does not have one.
#[test]
fn the_schema_says_which_stacks_have_an_option_and_that_it_is_above_zero() {
    let schema = Scenario::json_schema();
    let about = |key: &str| schema["$defs"]["Options"]["properties"][key]["description"].as_str().unwrap().to_owned();
    for (key, values, _) in option_rows() {
        assert_eq!(about(key).contains("has no effect"), values.iter().any(|value| value == "–"), "{key}");
    }
    assert!(about("packet_threshold").ends_with("More than zero.\n\nMPQUIC only: elsewhere it has no effect."));
    assert!(about("initial_window").ends_with("More than zero."));
    assert!(about("ecn").ends_with("in place of being dropped."));
}

#[test]
fn the_examples_of_the_reference_are_read() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let examples: Vec<&str> = PAGES.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let whole: Vec<_> = examples.iter().filter(|example| example.contains("[workload]")).collect();
    assert!(!whole.is_empty());
    for example in whole {
        Scenario::parse(example, "scenario.md", root.as_ref(), &[]).unwrap_or_else(|error| panic!("{error}"));
    }
}
