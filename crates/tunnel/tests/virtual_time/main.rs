//! A tunnel in virtual time: programs' TCP is smoltcp's, the relay is played, and nothing has a socket.

#![cfg(target_os = "linux")]

mod connections;
mod datagrams;
mod fragments;
mod packets;
mod world;
