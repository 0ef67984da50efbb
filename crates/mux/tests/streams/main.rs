//! Two ends in virtual time, without sockets: what is delivered, how late, what any history of operations comes to, and
//! what a peer that means ill can do.

mod adversary;
mod classes;
mod delay;
mod delivery;
mod histories;
mod load;
mod memory;
mod network;
mod sequence;
mod stopped;
