//! The tests of transfers in one program, which is linked once. `cargo test FILE::` runs those of one file. Most of
//! them wait most of the time: they may be more at a time than there are cores.
#![cfg(unix)]

mod door;
mod ends;
mod failures;
mod meeting;
mod packets;
mod pipe;
mod policy;
mod proxy;
mod resume;
mod transfer;
