//! Ends of a command: 0 it worked, 1 a run failed, 2 bad input, 130 interrupted, 141 nobody read the results.

use std::io;
use std::path::Path;

use nix::errno::Errno;

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
    /// A file that the user named cannot be read or written. A program that lasts may be started again: the file may
    /// come later.
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

/// Result of a command.
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

    /// A file could not be read or written. A full disk and a lack of descriptors or memory are the system's fault, all
    /// else is the user's.
    pub fn file(file: &Path, error: &io::Error) -> Self {
        let text = format!("{}: {}", file.display(), system_text(error));
        if is_the_systems(error) { Self::Run(text) } else { Self::File(text) }
    }

    /// Standard output could not be written.
    pub fn standard_output(error: Errno) -> Self {
        match error {
            Errno::EPIPE => Self::ClosedPipe,
            _ => Self::Run(format!("standard output: {}", error.desc())),
        }
    }

    /// The words of it, if there are some to say.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Input(text) | Self::File(text) | Self::Run(text) | Self::Status(text, _) => Some(text),
            Self::Said(_) | Self::ClosedPipe => None,
        }
    }

    /// Failure of a command that a service runs. A file that is missing may come later, with its disk or its network:
    /// it is no bad input, after which a service is not started again.
    pub fn of_what_lasts(self) -> Self {
        match self {
            Self::File(text) => Self::Run(text),
            other => other,
        }
    }
}

/// Returns true if the disk is full, or if the system has no more descriptors or memory now.
fn is_the_systems(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG | Errno::EIO | Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)
    )
}

/// The system's own words for an error, without its number.
pub fn system_text(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_may_come_later_for_a_service() {
        let missing = Failure::file(Path::new("me"), &io::Error::from(Errno::ENOENT));
        assert!(matches!(&missing, Failure::File(text) if text == "me: No such file or directory"));
        assert!(matches!(missing.of_what_lasts(), Failure::Run(_)));
        assert!(matches!(Failure::input("wrong").of_what_lasts(), Failure::Input(_)));
    }

    #[test]
    fn a_full_disk_is_not_the_users_fault() {
        let full = Failure::file(Path::new("out"), &io::Error::from(Errno::ENOSPC));
        assert!(matches!(full, Failure::Run(_)));
        assert!(matches!(Failure::standard_output(Errno::EPIPE), Failure::ClosedPipe));
    }
}
