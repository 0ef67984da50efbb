//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::errno::Errno;

use crate::failure::{Done, Failure};

/// Writes a file beside its name, and gives it its name when it is whole. An error names the file.
///
/// What a link leads to is replaced, not the link. A device or a pipe, as `/dev/stdout`, stays: it is written to.
pub fn write(file: &Path, content: impl AsRef<[u8]>) -> Done {
    written(file, content.as_ref()).map_err(|error| Failure::file(file, &error))
}

fn written(file: &Path, content: &[u8]) -> io::Result<()> {
    if fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return OpenOptions::new().write(true).open(file)?.write_all(content);
    }
    let followed = if file.is_symlink() { fs::canonicalize(file).ok() } else { None };
    let file = followed.as_deref().unwrap_or(file);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().ok_or_else(|| io::Error::from(Errno::EISDIR))?;
    fs::create_dir_all(folder)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    // As of any file that is made: what the user's mask takes away of it is taken away.
    let permissions = Permissions::from_mode(0o666);
    let mut half = tempfile::Builder::new().prefix(&hidden).permissions(permissions).tempfile_in(folder)?;
    half.write_all(content)?;
    half.as_file().sync_all()?;
    half.persist(file).map_err(|error| error.error)?;
    on_disk(folder)
}

/// Waits until a folder is on the disk; some file systems cannot say it of one.
fn on_disk(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(error)
            if ![Errno::EINVAL, Errno::ENOTSUP, Errno::EBADF]
                .map(|one| Some(one as i32))
                .contains(&error.raw_os_error()) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_a_link_leads_to_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("new/file"), folder.path().join("link"));
        write(&file, "one").unwrap();
        symlink(&file, &link).unwrap();
        write(&link, "two").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_to_and_stays() {
        write(Path::new("/dev/null"), "nothing").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn an_error_names_the_file() {
        let Err(Failure::File(text)) = write(Path::new("/dev/null/x"), "") else { panic!("it was written") };
        assert!(text.starts_with("/dev/null/x: "), "{text}");
    }
}
