//! A scheduler inside an application that uses noq: a congestion controller per path whose window admits what the scheduler decided.
