//! Rules that say which connections go first.
