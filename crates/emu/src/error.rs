//! Errors at the edge to the operating system.

use std::io;

/// Why something could not be emulated.
#[derive(Debug, thiserror::Error)]
pub enum EmuError {
    /// A right or a part of the kernel is missing; [`probe`](crate::probe) says so beforehand.
    #[error("{what} cannot be had: {source}; {remedy}")]
    Missing {
        /// Right or part that was asked for.
        what: &'static str,
        /// Answer of the system.
        source: io::Error,
        /// Help for the reader.
        remedy: &'static str,
    },
    /// The kernel refused a step of the set-up.
    #[error("{step}: {source}")]
    System {
        /// Step that was being done, with its object.
        step: String,
        /// Answer of the system.
        source: io::Error,
    },
    /// A command could not be started.
    #[error("`{command}` cannot be started: {source}")]
    Command {
        /// The command's first word.
        command: String,
        /// Answer of the system.
        source: io::Error,
    },
    /// The connection that was measured broke off.
    #[error("the transfer broke off: {0}")]
    Transfer(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl EmuError {
    /// Error where a right or a part of the kernel was needed for `what`. Other refusals (too many files, no memory, a
    /// name that is taken) are failed steps.
    pub(crate) fn missing(what: &'static str, source: io::Error, remedy: &'static str) -> Self {
        if weftway_tun::is_absent(&source) {
            return Self::Missing { what, source, remedy };
        }
        Self::System { step: format!("making {what}"), source }
    }

    /// A failed step of the set-up.
    pub(crate) fn system(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| Self::System { step, source }
    }

    /// Error of a failed step, for errors of `nix`.
    pub(crate) fn errno(step: impl Into<String>) -> impl FnOnce(nix::Error) -> Self {
        let system = Self::system(step);
        move |errno| system(errno.into())
    }
}

impl From<weftway_tun::TunError> for EmuError {
    fn from(error: weftway_tun::TunError) -> Self {
        Self::missing(error.what, error.source, error.remedy)
    }
}
