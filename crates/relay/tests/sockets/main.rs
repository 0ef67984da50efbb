//! A proxy and a relay on loopback, with a mux at each end and, instead of paths, a table of records that come late,
//! twice or never. The programs and the servers are ordinary sockets.

#![cfg(unix)]

mod associated;
mod bursts;
mod carried;
mod datagrams;
mod doors;
mod ended;
mod limited;
mod name_server;
mod pipes;
#[path = "../../../transfer/tests/ends/ports.rs"]
mod ports;
mod programs;
mod refused;
mod servers;
mod waited;
mod wire;
mod world;
