//! `weft proxy`, `weft tunnel`, `weft pipe` and `weft relay`: connections of programs over several links.
//!
//! | module | contents |
//! |---|---|
//! | `proxying`, `tunnelling`, `piping` | the end with several links |
//! | `relaying` | the end that dials for programs |
//! | `carried` | connection between them, and the streams on it |
//! | `mux_control`, `policy_exchange` | messages of both ends beside the streams: policies of links |
//! | `client_rules` | rate, connections and places of each client of a relay |
//! | `memory` | memory for bytes that wait for programs |
//! | `pipe_rates` | rate at which the source of a pipe may send |
//! | `pipe_seconds` | which link carried how much of a pipe |
//! | `explaining` | reason for the path of a packet |

mod carried;
pub(crate) mod client_rules;
mod explaining;
mod memory;
mod mux_control;
mod pipe_rates;
mod pipe_seconds;
pub(crate) mod piping;
mod policy_exchange;
pub(crate) mod proxying;
pub(crate) mod relaying;
#[cfg(all(target_os = "linux", feature = "tunnel"))]
pub(crate) mod tunnelling;
