//! Routes and rules of a tunnel: set, watched, taken back.
