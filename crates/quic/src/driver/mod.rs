//! A connection driven from outside: choose a path, poll a datagram, send it.
