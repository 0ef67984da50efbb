//! Connection to the other end, from its address to its last packet.
//!
//! | module | contents |
//! |---|---|
//! | `session` | sockets, connections and the user, for all programs |
//! | `opening` | the end that connects: path and address over which the connection is made |
//! | `whereabouts` | addresses of the other end's name |
//! | `listener` | the end that listens: connections that have shown a token |
//! | `control_stream` | messages beside the data |
//! | `pulse` | end that says nothing any more |
//! | `switching` | schedulers that take over |

pub(crate) mod control_stream;
pub(crate) mod listener;
pub(crate) mod opening;
pub(crate) mod pulse;
pub(crate) mod session;
pub(crate) mod switching;
pub(crate) mod whereabouts;
