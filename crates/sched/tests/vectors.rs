//! Every vector file passes, and every scheduler has one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use weftway_sched::vector;

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/sched");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|file| file.expect("the folder can be listed").path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn vectors_pass_and_cover_the_registry() {
    let mut counts: BTreeMap<_, usize> = weftway_sched::all().iter().map(|entry| (entry.name, 0)).collect();
    let mut failures = Vec::new();
    for file in files() {
        let text = fs::read_to_string(&file).expect("the file can be read");
        let report = vector::run(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        *counts.get_mut(report.scheduler).expect("a scheduler of the registry") += report.cases.len();
        for case in report.failures() {
            let lines = case.expected.iter().zip(&case.got).enumerate().filter(|(_, (expected, got))| expected != got);
            for (n, (expected, got)) in lines {
                failures.push(format!(
                    "{}: {}, `{}`, question {}\n  expected {expected}\n  got      {got}",
                    file.display(),
                    case.scheduler,
                    case.name,
                    n + 1
                ));
            }
        }
    }
    for (name, count) in &counts {
        // Shown by `./test`: the harness keeps what `println!` says to itself.
        writeln!(io::stdout(), "{name:16} {count:3} cases").expect("the counts can be printed");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let bare: Vec<_> = counts.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    assert!(bare.is_empty(), "no vectors for {}", bare.join(", "));
}

#[test]
fn a_wrong_expectation_fails() {
    let text = r#"
        scheduler = "min-rtt"
        [[case]]
        name   = "the slow path"
        why    = "it is not the fast one"
        paths  = [{ name = "F", srtt = "5 ms" }, { name = "S", srtt = "10 ms" }]
        expect = "S"
    "#;
    let report = vector::run(text).expect("the text is well formed");
    assert_eq!(report.failures().next().map(|case| case.got.clone()), Some(vec!["F".to_owned()]));
}

#[test]
fn mistakes_say_where() {
    let file = |row: &str| {
        format!(
            "scheduler = \"min-rtt\"\n[[case]]\nname = \"n\"\nwhy = \"w\"\nexpect = \"F\"\npaths = [{{ name = \"F\", {row} }}]"
        )
    };
    let error = vector::run(&file("srtt = \"5 lightyears\"")).unwrap_err().to_string();
    assert_eq!(error, "case `n`, step 0: `5 lightyears` is not a number with one of the units ns, us, ms, s");
    assert!(vector::run(&file("rtt = \"5 ms\"")).unwrap_err().to_string().contains("unknown field `rtt`"));
    assert!(
        vector::run("scheduler = \"min-rrt\"\ncase = []").unwrap_err().to_string().contains("did you mean `min-rtt`")
    );
}
