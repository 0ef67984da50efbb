//! Every vector file passes, and every scheduler has one.

use std::collections::BTreeMap;
use std::io::{self, Write};

use weftway_vectors::{Report, files, sched};

#[test]
fn vectors_pass_and_cover_the_registry() {
    let mut counts: BTreeMap<_, usize> = weftway_sched::all().iter().map(|entry| (entry.name, 0)).collect();
    let mut failures = Vec::new();
    for (path, text) in files("sched") {
        let (name, report) = sched::run(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        *counts.get_mut(name).expect("a scheduler of the registry") += report.cases;
        failures.extend(report.failures.iter().map(|failure| format!("{}: {failure}", path.display())));
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
    assert_eq!(complaint(text), "case `the slow path`, step 0: expected S; got F");
}

fn complaint(text: &str) -> String {
    let (_, Report { failures, .. }) = sched::run(text).expect("the text is well formed");
    failures[0].to_string()
}

#[test]
fn mistakes_say_where() {
    let file = |row: &str| {
        format!(
            "scheduler = \"min-rtt\"\n[[case]]\nname = \"n\"\nwhy = \"w\"\nexpect = \"F\"\npaths = [{{ name = \"F\", {row} }}]"
        )
    };
    let error = sched::run(&file("srtt = \"5 lightyears\"")).unwrap_err().to_string();
    assert!(error.contains("`5 lightyears` is not a number with one of the units ns, us, ms, s"), "{error}");
    assert!(sched::run(&file("rtt = \"5 ms\"")).unwrap_err().to_string().contains("unknown field `rtt`"));
    assert!(
        sched::run("scheduler = \"min-rrt\"\ncase = []").unwrap_err().to_string().contains("did you mean `min-rtt`")
    );
}
