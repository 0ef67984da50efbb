//! Parts that several schedulers use.
//!
//! - `choose`: which paths count at all, the best of them, and when waiting is safe; most rules need only this;
//! - `forecast`: how much the faster paths deliver until a packet on a slow one arrives; `once`: packets that have not gone twice;
//! - `delivery_clock`: when a path will have delivered what it was given;
//! - `recent_rate`: rate of a path's bottleneck at present, by the acknowledgements of packets that waited there;
//! - `copies`: paths that repeat data;
//! - `free_window`, `urgent`: what the switches of two rules each mean;
//! - `per_path`: what is remembered of each path; `rng`: draws from a seed;
//! - `interval`: one choice per interval; `epochs`, `quality`, `norm`: the intervals of a rule's own, what is measured of
//!   each path in one, and the scales that make it dimensionless.
//!
//! Nothing here knows a scheduler.

pub(crate) mod choose;
pub(crate) mod copies;
pub(crate) mod delivery_clock;
pub(crate) mod epochs;
pub(crate) mod forecast;
pub(crate) mod free_window;
pub(crate) mod interval;
pub(crate) mod norm;
pub(crate) mod once;
pub(crate) mod per_path;
pub(crate) mod quality;
pub(crate) mod recent_rate;
pub(crate) mod rng;
pub(crate) mod urgent;
