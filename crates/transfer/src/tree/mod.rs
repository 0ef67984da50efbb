//! Files and folders as they lie on a machine's disk: at the sender the files that are sent, at the receiver those that
//! are kept.
//!
//! | module | contents |
//! |---|---|
//! | `found` | files and folders below a path, and those that cannot be sent |
//! | [`manifest`] | list of all files, and place of each in the stream of bytes |
//! | [`store`] | folder of the receiver: partial files, names, permissions, lock |
//! | `writer` | stream of bytes into files, with their hashes |

pub(crate) mod found;
pub mod manifest;
pub mod store;
pub(crate) mod writer;
