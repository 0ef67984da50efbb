//! Why there is no device.

use std::{fmt, io};

/// A device that could not be made.
#[derive(Debug)]
pub struct TunError {
    /// The thing that was asked for.
    pub what: &'static str,
    /// The system's answer.
    pub source: io::Error,
    /// Rights and parts of the kernel that would help, if one of them is missing.
    pub remedy: &'static str,
}

/// Returns true if the system's answer says that a right or a part of the kernel is missing. Other answers (too many
/// files, no memory, a name that is taken) are of a step that failed.
pub fn is_absent(answer: &io::Error) -> bool {
    const ABSENT: [i32; 5] = [libc::EPERM, libc::EACCES, libc::ENOENT, libc::ENODEV, libc::EINVAL];
    answer.raw_os_error().is_none_or(|code| ABSENT.contains(&code))
}

impl TunError {
    pub(crate) fn new(what: &'static str, source: io::Error, remedy: &'static str) -> Self {
        Self { what, source, remedy }
    }
}

impl fmt::Display for TunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, source, remedy } = self;
        match is_absent(source) {
            true => write!(f, "{what} cannot be had: {source}; {remedy}"),
            false => write!(f, "making {what}: {source}"),
        }
    }
}

impl std::error::Error for TunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
