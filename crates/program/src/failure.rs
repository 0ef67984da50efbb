//! How a command ends: 0 it worked, 1 a run failed, 2 bad input, 130 interrupted, 141 nobody read the results.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::output;
use crate::text::printable;

/// Status of a command whose run failed.
pub const RUN_FAILED: u8 = 1;
/// Status of a command that was given something wrong.
pub const BAD_INPUT: u8 = 2;
/// Status of a command that was interrupted.
pub const INTERRUPTED: u8 = 130;
/// Status of a command whose results nobody read, as a shell says it of a closed pipe.
pub const CLOSED: u8 = 141;

/// Why a command ends before it is done.
#[derive(Debug)]
pub enum Failure {
    /// Something that the user gave is wrong: no waiting makes it right.
    Input(String),
    /// A file that the user named cannot be read or written. A program that lasts may be started again: the file may come later.
    File(String),
    /// A run failed; another may not.
    Run(String),
    /// A message, and a status of its own.
    Status(String, u8),
    /// A status; what there is to say was said.
    Said(u8),
    /// Nobody reads standard output.
    ClosedPipe,
}

/// What a command returns.
pub type Done<T = ()> = Result<T, Failure>;

impl Failure {
    /// Something that the user gave is wrong.
    pub fn input(text: impl ToString) -> Self {
        Self::Input(text.to_string())
    }

    /// A run failed.
    pub fn run(text: impl ToString) -> Self {
        Self::Run(text.to_string())
    }

    /// A file could not be read or written. A full disk and a lack of descriptors or memory are the system's fault, all else
    /// is the user's.
    pub fn file(file: &Path, error: &io::Error) -> Self {
        use nix::errno::Errno;
        let text = format!("{}: {}", file.display(), system_text(error));
        match error.raw_os_error().map(Errno::from_raw) {
            Some(
                Errno::ENOSPC
                | Errno::EDQUOT
                | Errno::EFBIG
                | Errno::EIO
                | Errno::EMFILE
                | Errno::ENFILE
                | Errno::ENOMEM,
            ) => Self::Run(text),
            _ => Self::File(text),
        }
    }

    /// The words of it, if there are some to say.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Input(text) | Self::File(text) | Self::Run(text) | Self::Status(text, _) => Some(text),
            Self::Said(_) | Self::ClosedPipe => None,
        }
    }

    /// The same for a program that lasts: a file that is missing may come later, with its disk or its network. A service is
    /// started again after a run that failed, and not after bad input.
    pub fn of_what_lasts(self) -> Self {
        match self {
            Self::File(text) => Self::Run(text),
            other => other,
        }
    }
}

/// The system's own words for an error, without its number.
pub fn system_text(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

impl From<weftway_transfer::Failure> for Failure {
    fn from(failure: weftway_transfer::Failure) -> Self {
        use weftway_transfer::Failure as Transfer;
        use weftway_transfer::manifest::ManifestError;
        use weftway_transfer::store::StoreError;
        use weftway_udp::tls::IdentityError;
        let text = failure.to_string();
        match failure {
            Transfer::Spec(_)
            | Transfer::Identity(IdentityError::Read(_) | IdentityError::Name(_) | IdentityError::UnknownName { .. })
            | Transfer::Manifest(ManifestError::Kind(..) | ManifestError::Read(..))
            | Transfer::Store(StoreError::Taken(..)) => Self::Input(text),
            _ => Self::Run(text),
        }
    }
}

/// Says why a command ended, and gives its status.
pub fn exit(ended: Done) -> ExitCode {
    let (message, status) = match ended {
        Ok(()) => (None, 0),
        // Names and lines of files may be in it, on several lines.
        Err(Failure::Input(text) | Failure::File(text)) => (Some(printable(&text, "\n\t")), BAD_INPUT),
        // The other end's words, and names of files, may be in it.
        Err(Failure::Run(text)) => (Some(printable(&text, "")), RUN_FAILED),
        Err(Failure::Status(text, status)) => (Some(text), status),
        Err(Failure::Said(status)) => (None, status),
        Err(Failure::ClosedPipe) => (None, CLOSED),
    };
    if let Some(message) = message {
        output::say(&format!("weft: {message}"));
    }
    ExitCode::from(output::finish(status))
}
