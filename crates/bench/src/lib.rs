//! Speed of the simulator. `weft bench` prints what the binary of this crate measures.

pub mod bare;
pub mod decisions;
pub mod environment;
pub mod inference;
pub mod scenarios;
