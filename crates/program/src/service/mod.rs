//! `weft service`.

use crate::failure::{Done, Failure};

/// Is not written yet.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    let Args {} = args;
    Err(Failure::run("weft service: not written yet"))
}
