//! The tests of the controllers in one program, which is linked once. `cargo test FILE::` runs those of one file.

mod conformance;
mod laws;
mod vectors;
