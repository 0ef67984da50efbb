//! `weft pipe`: datagrams that lead to given targets over several links, and are of use for a given time.

use weftway_relay::{Pipe, Pipes};

use crate::failure::Failure;
use crate::options::ProxyOptions;
use crate::programs::proxying::carry;
use crate::progress::Watch;

/// Takes datagrams where each of these pipes says, and has a relay send them to its target, until the user stops it.
/// Answers go back to where the datagrams came from.
pub fn pipe(pipes: Vec<Pipe>, options: ProxyOptions, watch: Watch<'_>) -> Result<(), Failure> {
    carry(|| Pipes::listen(pipes).map_err(Failure::Socket), options, watch)
}
