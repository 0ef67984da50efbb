//! Tests with bounds on the real clock, in one program. `./test` runs it when nothing else runs.

mod lab;
mod links;
mod on_time;
mod steer;
mod time_zero;
mod transfer;
