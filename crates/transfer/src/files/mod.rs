//! `weft send` and `weft recv`: files over a connection.
//!
//! | module | contents |
//! |---|---|
//! | `sending`, `receiving` | the two ends, a loop each |
//! | `rounds` | connections one after another, until all files are there |
//! | `source` | bytes of the next record, and the sender's hashes |
//! | `incoming` | manifest that arrives |
//! | `arrived` | bytes that have arrived and are not with the disk yet |
//! | `disk` | thread that writes files |
//! | `outcome` | report at the end |
//! | `qlog` | log of the sender |

mod arrived;
mod disk;
mod incoming;
pub(crate) mod outcome;
mod qlog;
pub(crate) mod receiving;
mod rounds;
pub(crate) mod sending;
mod source;
