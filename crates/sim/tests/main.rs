//! The tests of the engine in one program, which is linked once. `cargo test FILE::` runs those of one file.

mod again;
mod bottlenecks;
mod bound;
mod call;
mod clairvoyant;
mod conformance;
mod datagrams;
mod digests;
mod duties;
mod ecn;
mod fairness;
mod fidelity;
mod flows;
mod hosts;
mod lifecycle;
mod limited;
mod memory;
mod nagle;
mod policy;
mod property;
mod recall;
mod setup;
mod silence;
mod stalls;
mod steady;
mod transport;
