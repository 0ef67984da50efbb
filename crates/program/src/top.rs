//! `weft top`.

use crate::failure::{Done, Failure};

/// Is not written yet.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    let Args {} = args;
    Err(Failure::run("weft top: not written yet"))
}
