//! The driver and the gate in virtual time, in one program, which is linked once. `cargo test FILE::` runs the tests of one
//! file. `many.rs`, which runs on sockets, has a program of its own.

mod addresses;
mod download;
mod duplex;
mod duties;
mod flows;
mod gate;
mod net;
mod policy;
mod stalls;
mod starved;
mod virtual_time;
mod voice;
