//! Links of a machine: for which each may be used, and how much it may carry.
//!
//! | module | contents |
//! |---|---|
//! | `terms` | tier, cap and price of a link |
//! | `usage` | bytes that links with a cap have carried, counted in a file |
//! | `metering` | links that are open to data at an end that connects |
//! | `peer_policy` | links of the other end |

pub(crate) mod metering;
pub(crate) mod peer_policy;
pub(crate) mod terms;
pub(crate) mod usage;
