//! The tests of links in one program, which is linked once. `cargo test FILE::` runs those of one file.

mod capacity;
mod draws;
mod link;
mod properties;
mod traces;
mod vectors;
