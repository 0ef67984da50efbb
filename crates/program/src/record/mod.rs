//! `weft record`.

mod arrivals;
mod channel;
mod places;
mod probes;
mod window;
mod wire;

use crate::failure::{Done, Failure};

/// Is not written yet.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(args: Args) -> Done {
    let Args {} = args;
    Err(Failure::run("weft record: not written yet"))
}
