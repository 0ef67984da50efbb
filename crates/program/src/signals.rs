//! Interrupts: Ctrl-C, and the signals that are as good as one (SIGTERM, SIGHUP), unless the program was told to ignore them.

/// Prepares signals: writing to a closed pipe is an error and not the end.
pub fn prepare() {}

/// Interrupts that came since the program began.
pub fn interrupted() -> bool {
    false
}
