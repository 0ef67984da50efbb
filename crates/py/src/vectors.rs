//! Vectors through the binding: the same files, the same code, the same verdict.

use pyo3::prelude::*;

use crate::errors::Error;

/// Runs the cases of a vector file's `text`; `kind` is its folder: `sched`, `cc` or `link`. Gives
/// how many cases there were, all of which hold.
#[pyfunction]
pub fn run_vectors(kind: &str, text: &str) -> Result<usize, Error> {
    match kind {
        "sched" => schedulers(text),
        "cc" => weftway_cc::vector::run(text).map(|report| report.cases).map_err(Error::input),
        "link" => weftway_link::vector::run(text).map(|report| report.cases).map_err(Error::input),
        _ => Err(Error::input(format!("no vectors of kind `{kind}`; there are sched, cc and link"))),
    }
}

fn schedulers(text: &str) -> Result<usize, Error> {
    let report = weftway_sched::vector::run(text).map_err(Error::input)?;
    match report.failures().next() {
        None => Ok(report.cases.len()),
        Some(case) => Err(Error::input(format!(
            "case `{}` of {}: expected {}; got {}",
            case.name,
            case.scheduler,
            case.expected.join("; "),
            case.got.join("; ")
        ))),
    }
}
