//! Every file of `vectors/cc`, and the complaints of its reader.

use std::io::{self, Write};
use std::path::Path;

use weftway_cc::vector::{VectorError, run};

#[test]
fn every_controller_agrees_with_its_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/cc");
    for entry in weftway_cc::all() {
        let file = folder.join(entry.name).with_extension("toml");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let report = run(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // Shown by `./test`: the harness keeps what `println!` says to itself.
        writeln!(io::stdout(), "{}: {} cases, {} checks", entry.name, report.cases, report.checks).unwrap();
        assert!(report.cases > 0 && report.checks >= report.cases);
    }
}

#[test]
fn every_file_belongs_to_a_controller() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/cc");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(weftway_cc::find(&name).is_some_and(|entry| entry.name == name), "no controller is named {name}");
    }
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
        step = [{{ do = "recovered", expect = {{ {expect} }} }}]
        "#
    )
}

#[test]
fn a_wrong_expectation_says_where() {
    assert!(run(&case("cwnd = 10")).is_ok());
    let error = run(&case("cwnd = 11")).unwrap_err();
    assert_eq!(error.to_string(), "a case, step 1: cwnd is 10, expected 11");
}

#[test]
fn an_unpaced_controller_has_no_rate_to_compare() {
    assert!(matches!(run(&case("pacing_mbps = 1")), Err(VectorError::Mismatch { value: "pacing_mbps", .. })));
}

#[test]
fn a_case_that_expects_nothing_is_refused() {
    assert!(matches!(run(&case("")), Err(VectorError::Empty(_))));
}

#[test]
fn an_unknown_key_is_refused() {
    assert!(matches!(run(&case("window = 1")), Err(VectorError::Format(_))));
}
