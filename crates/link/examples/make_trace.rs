//! Writes a made LTE trace in Mahimahi's format to standard output:
//! `cargo run -p weftway-link --example make_trace -- MODEL SEED SECONDS > FILE`.

use std::io::{self, Write};
use std::process::ExitCode;

use weftway_link::{LteModel, Trace, lte};
use weftway_path::Span;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(trace) = make(&arguments) else {
        eprintln!("usage: make_trace MODEL SEED SECONDS, MODEL one of {}", LteModel::NAMES.join(", "));
        return ExitCode::FAILURE;
    };
    match write!(io::stdout(), "{trace}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the trace could not be written: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make(arguments: &[String]) -> Option<Trace> {
    let [model, seed, seconds] = arguments else { return None };
    let model = LteModel::named(model)?;
    Some(lte(&model, seed.parse().ok()?, Span::from_secs(seconds.parse().ok()?)))
}
