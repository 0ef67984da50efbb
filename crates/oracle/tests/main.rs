//! The tests of the oracle in one program, which is linked once. `cargo test FILE::` runs those of one file.

mod arrivals;
mod missed;
mod oracle;
#[path = "../../sim/tests/setup/mod.rs"]
mod setup;
mod sight;
mod windows;
