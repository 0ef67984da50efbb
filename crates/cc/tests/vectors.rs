//! Every file of `vectors/cc`, and the complaints of its reader.

use std::collections::BTreeSet;
use std::io::{self, Write};

use weftway_vectors::cc::run;
use weftway_vectors::{VectorError, files};

#[test]
fn every_controller_agrees_with_its_vectors_and_every_file_belongs_to_one() {
    let mut left: BTreeSet<_> = weftway_cc::all().iter().map(|entry| entry.name.to_owned()).collect();
    for (path, text) in files("cc") {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        assert!(left.remove(&name), "no controller is named {name}");
        let report = run(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        // Shown by `./test`: the harness keeps what `println!` says to itself.
        writeln!(io::stdout(), "{name}: {} cases, {} checks", report.cases, report.checks).unwrap();
        assert!(report.failures.is_empty(), "{name}: {}", report.failures[0]);
    }
    assert!(left.is_empty(), "no vectors for {left:?}");
}

fn case(expect: &str) -> String {
    format!(
        r#"
        [[case]]
        name = "a case"
        why = "the window begins at 10"
        controller = "newreno"
        flavour = "quic"
        window = 10
        steps = [{{ do = "recovered", expect = {{ {expect} }} }}]
        "#
    )
}

fn complaint(expect: &str) -> String {
    run(&case(expect)).expect("the text is well formed").failures.first().map_or(String::new(), ToString::to_string)
}

#[test]
fn a_wrong_expectation_says_where() {
    assert_eq!(complaint("cwnd = 10"), "");
    assert_eq!(complaint("cwnd = 11"), "case `a case`, step 1: cwnd is 10, expected 11");
}

#[test]
fn an_unpaced_controller_has_no_rate_to_compare() {
    assert_eq!(complaint("pacing = \"1 Mbit/s\""), "case `a case`, step 1: pacing is NaN, expected 1");
}

#[test]
fn a_case_that_expects_nothing_is_refused() {
    assert_eq!(complaint(""), "case `a case`, nothing is expected");
}

#[test]
fn an_unknown_key_is_refused() {
    assert!(matches!(run(&case("window = 1")), Err(VectorError::Text(_))));
}
