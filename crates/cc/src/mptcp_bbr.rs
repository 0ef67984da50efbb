//! MPTCP-BBR: BBRv1 on each path, where those that share a bottleneck together take what the best of them would.
//!
//! ```text
//! bottleneck known, and shared by n ≥ 2 paths     coupled as in coupled BBR, over these n
//! otherwise                                       BBRv1
//! ```
//!
//! Reference: Wei et al., "BBR-Based Congestion Control and Packet Scheduling for Bottleneck Fairness Considered
//! Multipath TCP in Heterogeneous Wireless Networks" (IEEE Trans. Veh. Technol. 70(1), 2021). **A reconstruction:** its
//! aim is known to us (no more than one flow at a shared bottleneck, a full flow at each that is not shared), its text
//! is not. The rule for the paths of one bottleneck is that of [`crate::coupled_bbr`]; cycles have BBRv1's eight
//! phases from a random one, so that without a shared bottleneck it is BBRv1 packet for packet.
//! State: BBRv1's.
//! Departures: unknown.

use crate::bbr1::Cycles;
use crate::coupled_bbr::{Scope, coupled};
use crate::registry::Entry;

pub(crate) const ENTRY: Entry = Entry {
    name: "mptcp-bbr",
    aliases: &["bccps-cc"],
    version: 2,
    summary: "BBRv1, coupled among the paths that are known to share a bottleneck",
    reference: "a reconstruction of Wei et al., IEEE Trans. Veh. Technol. 70(1), 2021",
    coupled: true,
    paced: true,
    params: &[],
    build: |_, setup| Ok(coupled(Scope::Known, Cycles::Alike, setup)),
};
