//! The tests of the schedulers in one program, which is linked once. `cargo test FILE::` runs those of one file.

mod conformance;
mod in_place;
mod inputs;
mod learned;
mod properties;
mod sources;
mod vectors;
