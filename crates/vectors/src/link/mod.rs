//! Vectors of links: scripts that a person can check with a pencil.
//!
//! A file holds cases. Each case describes a link under `link`, says `why` in words, and gives a
//! `script` with one event a line: a time in milliseconds, a verb, and what it needs.
//!
//! ```toml
//! [[case]]
//! name = "two packets back to back"
//! why = "1250 B take 1 ms at 10 Mbit/s; the second waits for the first"
//! link = { rate = "10 Mbit/s", delay = "20 ms" }
//! script = """
//! 0   push 1250
//! 0   push 1250
//! 21  arrives 0
//! 22  arrives 1
//! """
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `t push BYTES` | offer a packet, which must be queued; packets are numbered from 0 |
//! | `t push BYTES lost`, `… full`, `… down` | it must be lost, find the queue full, or the link down |
//! | `t arrives N`, `t arrives N marked` | the next arrival is packet N, at t exactly |
//! | `t arrives N by T` | the next arrival is packet N, at t or later and at T at the latest |
//! | `t backlog PACKETS BYTES` | so much waits |
//! | `t rate MBPS`, `t delay MS`, `t fail`, `t heal` | change the link from outside |
//!
//! Lines come in order of time; no packet may arrive that is not in the script. Seeds are given with
//! `seed`, 0 otherwise. The keys of `link` are those of the private type `Spec`, in `link/spec.rs`.

mod run;
mod script;
mod spec;

use serde::Deserialize;

use crate::{Report, VectorError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Subject of the file; for people.
    #[serde(rename = "title")]
    _title: String,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The working, for people.
    #[serde(rename = "why")]
    _why: String,
    #[serde(default)]
    seed: u64,
    link: spec::Spec,
    script: String,
}

/// Runs all cases of a file.
pub fn run(text: &str) -> Result<Report, VectorError> {
    let file: File = toml::from_str(text)?;
    Report::of(&file.case, |case| &case.name, run_case)
}

fn run_case(case: &Case) -> Result<usize, String> {
    let mut runner = run::Runner::new(&case.link.config()?, case.seed);
    for (at, text) in case.script.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let played = script::parse(text).and_then(|line| runner.step(&line));
        played.map_err(|problem| format!("line {} `{}`: {problem}", at + 1, text.trim()))?;
    }
    runner.finish().map_err(|happened| format!("after the script: {happened}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(script: &str) -> Report {
        run(&format!(
            "title = 't'\n[[case]]\nname = 'c'\nwhy = 'w'\nlink = {{ rate = '10 Mbit/s', delay = '20 ms' }}\nscript = '''\n{script}'''"
        ))
        .expect("the text is well formed")
    }

    #[test]
    fn a_right_script_passes() {
        let report = case("0 push 1250\n0.5 backlog 1 1250\n21 arrives 0\n");
        assert_eq!(report, Report { cases: 1, checks: 3, failures: Vec::new() });
    }

    #[test]
    fn wrong_scripts_say_what_happened() {
        let complaint = |script| case(script).failures[0].to_string();
        assert_eq!(
            complaint("0 push 1250\n22 arrives 0\n"),
            "case `c`, line 2 `22 arrives 0`: packet 0 arrives at 21 ms"
        );
        assert_eq!(complaint("0 push 1250\n"), "case `c`, after the script: packet 0 arrives at 21 ms");
        assert_eq!(complaint("0 push 1250 full\n"), "case `c`, line 1 `0 push 1250 full`: the packet is queued");
        assert_eq!(complaint("0 pull 1\n"), "case `c`, line 1 `0 pull 1`: unknown verb `pull`");
        assert_eq!(
            complaint("1 push 1\n0 push 1\n"),
            "case `c`, line 2 `0 push 1`: the script has come to 1 ms: times must not decrease"
        );
    }

    #[test]
    fn unknown_keys_are_refused() {
        let text = "title = 't'\n[[case]]\nname = 'c'\nwhy = 'w'\nlink = { speed = 1 }\nscript = ''";
        assert!(run(text).unwrap_err().to_string().contains("unknown field `speed`"));
    }
}
