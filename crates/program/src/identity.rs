//! Identity of this machine: a file that only its owner may read, and the pairing lines with which others connect: one
//! for all, one for each name.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weftway_udp::tls::{Identity, IdentityError};

use crate::failure::{Done, Failure};
use crate::reading;

/// Time between two looks for a change of the file.
const EVERY: Duration = Duration::from_secs(1);

/// The file of this machine's identity, where no other is named.
pub fn identity_file() -> PathBuf {
    user_folder("XDG_CONFIG_HOME", ".config").join("weftway/identity.json")
}

/// The folder that the environment names, or the one of this name in the user's home.
pub fn user_folder(variable: &str, in_home: &str) -> PathBuf {
    let named = env::var_os(variable).filter(|folder| !folder.is_empty());
    named.map_or_else(|| home().join(in_home), PathBuf::from)
}

/// The user's home.
fn home() -> PathBuf {
    let user = || nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    let named = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    named.or_else(|| user().map(|user| user.dir)).unwrap_or_else(|| PathBuf::from("/"))
}

/// The line that the other end needs, or the client of this `name`. Makes what is missing, or a `new` identity.
pub fn pair(file: &Path, name: Option<&str>, new: bool) -> Done<String> {
    if !new && reading::is_there(file)? {
        let (_, identity) = read_identity(file)?;
        if name.is_none_or(|name| identity.names().any(|one| one == name)) {
            return line(&identity, name);
        }
    }
    let made = change(file, !new, |before| {
        let mut identity = match before {
            Some(identity) if !new => identity,
            _ => Identity::generate().map_err(failed)?,
        };
        if let Some(name) = name {
            identity.add(name).map_err(failed)?;
        }
        Ok(identity)
    })?;
    line(&made, name)
}

fn line(identity: &Identity, name: Option<&str>) -> Done<String> {
    let pairing = name.map_or_else(|| Ok(identity.pairing()), |name| identity.pairing_of(name));
    Ok(pairing.map_err(failed)?.line())
}

/// The names of the clients that have lines of their own.
pub fn names(file: &Path) -> Done<Vec<String>> {
    if !reading::is_there(file)? {
        return Ok(Vec::new());
    }
    Ok(read_identity(file)?.1.names().map(str::to_owned).collect())
}

/// Takes the line of the client of this name away.
pub fn revoke(file: &Path, name: &str) -> Done {
    change(file, true, |before| {
        let told = || Failure::input(format!("this machine has no identity yet, and so no names ({})", file.display()));
        let mut identity = before.ok_or_else(told)?;
        identity.revoke(name).map_err(failed)?;
        Ok(identity)
    })
    .map(drop)
}

/// Reads what nobody else may read, and refuses it if somebody else may. `what` it is, and what is `renewed` if
/// somebody may have read it, are for messages.
pub fn read_private(file: &Path, what: &str, renewed: &str) -> Done<String> {
    let (name, about) = (file.display(), fs::metadata(file).map_err(|error| Failure::file(file, &error))?);
    if about.is_dir() {
        let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        return Err(Failure::input(format!("{name}: {article} {what} is a file, and this is a directory")));
    }
    let mode = about.mode() & 0o777;
    if mode & 0o077 != 0 && !is_credential(file) {
        let quoted = quoted(&name.to_string());
        return Err(Failure::input(format!(
            "{name}: other users of this machine may read or change this {what} (mode {mode:04o}): run `chmod 600 {quoted}`, \
             and {renewed} if somebody may have read it"
        )));
    }
    reading::text(file)
}

/// Reads an identity: its text and what it is. What is none is refused: a disk that was full or lost its power may have
/// left half of one.
pub fn read_identity(file: &Path) -> Done<(String, Identity)> {
    let text = read_private(file, "identity", "`weft pair --new`")?;
    let identity = Identity::load(&text).map_err(|error| {
        Failure::input(format!(
            "{}: {error}: put a copy of it back, or make a new one with `weft pair --new` and copy its line to the other \
             machines again",
            file.display()
        ))
    })?;
    Ok((text, identity))
}

/// Returns true if systemd gives the file to this program alone, by an access list, which shows as rights of a group.
fn is_credential(file: &Path) -> bool {
    env::var_os("CREDENTIALS_DIRECTORY").is_some_and(|folder| file.parent() == Some(Path::new(&folder)))
}

/// A text as a shell takes it for one word.
pub fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@%+=:,./-_".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r#"'"'"'"#))
}

fn failed(error: IdentityError) -> Failure {
    weftway_transfer::Failure::from(error).into()
}

/// Changes of an identity whose file others write.
pub struct Changes {
    file: PathBuf,
    text: String,
    seen: Option<Option<FileState>>,
    due: Option<Instant>,
    every: Duration,
}

/// State of a file that is seen without reading it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileState {
    number: u64,
    seconds: i64,
    nanoseconds: i64,
    size: u64,
    mode: u32,
}

impl Changes {
    /// Looks for changes of `file`, whose `text` is that of the identity.
    pub fn new(file: PathBuf, text: String) -> Self {
        Self { file, text, seen: None, due: None, every: EVERY }
    }

    /// The new identity, if there is one. What is wrong with it is told once for each change of the file.
    pub fn now(&mut self) -> Done<Option<Identity>> {
        let now = Instant::now();
        if self.due.is_some_and(|due| now < due) {
            return Ok(None);
        }
        self.due = Some(now + self.every);
        let look = self.look();
        if self.seen.replace(look) == Some(look) {
            return Ok(None);
        }
        let (text, identity) = read_identity(&self.file)?;
        if text == self.text {
            return Ok(None);
        }
        self.text = text;
        Ok(Some(identity))
    }

    fn look(&self) -> Option<FileState> {
        let seen = fs::metadata(&self.file).ok()?;
        Some(FileState {
            number: seen.ino(),
            seconds: seen.mtime(),
            nanoseconds: seen.mtime_nsec(),
            size: seen.size(),
            mode: seen.mode(),
        })
    }
}

/// Replaces an identity by what `make` makes of it, while nobody else does the same: the new one. Without `read` the
/// one that is there does not matter.
fn change(file: &Path, read: bool, make: impl FnOnce(Option<Identity>) -> Done<Identity>) -> Done<Identity> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Failure::file(folder, &error))?;
    let _alone = lock(folder).map_err(|error| Failure::file(folder, &error))?;
    let before = if read && reading::is_there(file)? { Some(read_identity(file)?) } else { None };
    let (text, before) = before.map_or((None, None), |(text, identity)| (Some(text), Some(identity)));
    let identity = make(before)?;
    let stored = identity.store();
    if text.as_ref() != Some(&stored) {
        write_private(file, &stored).map_err(|error| Failure::file(file, &error))?;
    }
    Ok(identity)
}

/// Waits until nobody else has the folder's lock. It is had until what is returned is closed, or its process ends.
fn lock(folder: &Path) -> io::Result<fs::File> {
    let opened = fs::File::open(folder)?;
    if opened.lock().is_ok() {
        return Ok(opened);
    }
    // Network file systems lock only files that are open for writing.
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join(".lock"))?;
    file.lock()?;
    Ok(file)
}

/// Writes what nobody else may read, all of it or nothing.
fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let draft = file.with_file_name(name);
    let written = write_draft(&draft, text).and_then(|()| fs::rename(&draft, file));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn write_draft(draft: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(text.as_bytes())?;
    // The name must not be there before the bytes, whenever the power fails.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn told<T>(done: Done<T>) -> String {
        match done {
            Err(failure) => failure.text().unwrap_or_default().to_owned(),
            Ok(_) => panic!("it is refused"),
        }
    }

    fn rights(file: &Path, mode: u32) {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn an_identity_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config/me");
        let line = pair(&file, None, false).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(pair(&file, None, false).unwrap(), line);
        let laptop = pair(&file, Some("laptop"), false).unwrap();
        assert_ne!(laptop, line);
        assert_eq!(pair(&file, Some("laptop"), false).unwrap(), laptop);
        assert_eq!(names(&file).unwrap(), ["laptop"]);
        revoke(&file, "laptop").unwrap();
        assert!(told(revoke(&file, "laptop")).contains("no pairing line has the name laptop"));
        assert_ne!(pair(&file, None, true).unwrap(), line);
        assert!(names(&file).unwrap().is_empty());
        let there = fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(there, 1, "nothing else is left");
    }

    #[test]
    fn what_others_may_read_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it's me");
        pair(&file, None, false).unwrap();
        rights(&file, 0o644);
        let why = told(read_identity(&file));
        assert!(why.contains("may read or change this identity (mode 0644): run `chmod 600 '"), "{why}");
        assert!(why.contains(r#"it'"'"'s me'`, and `weft pair --new` if"#), "{why}");
        assert!(
            told(read_private(folder.path(), "file of passwords", ""))
                .ends_with("a file of passwords is a file, and this is a directory")
        );
    }

    #[test]
    fn programs_at_the_same_time_lose_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("me");
        std::thread::scope(|scope| {
            for one in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    (0..10).for_each(|at| drop(pair(file, Some(&format!("client-{one}-{at}")), false).unwrap()))
                });
            }
        });
        assert_eq!(names(&file).unwrap().len(), 80);
    }

    #[test]
    fn a_change_of_the_file_is_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("me");
        pair(&file, None, false).unwrap();
        let mut changes = Changes::new(file.clone(), fs::read_to_string(&file).unwrap());
        changes.every = Duration::ZERO;
        let mut is_new = || changes.now().map(|identity| identity.is_some());
        assert_eq!((is_new().unwrap(), is_new().unwrap()), (false, false));
        pair(&file, Some("laptop"), false).unwrap();
        assert_eq!((is_new().unwrap(), is_new().unwrap()), (true, false));
        rights(&file, 0o644);
        assert!(told(is_new()).contains("other users of this machine may read"));
        assert!(!is_new().unwrap(), "it was told");
        rights(&file, 0o600);
        assert!(!is_new().unwrap(), "the text is the one before");
        for text in ["", "{}"] {
            fs::write(&file, text).unwrap();
            assert!(told(is_new()).contains("holds no identity"));
        }
        fs::remove_file(&file).unwrap();
        assert!(told(is_new()).contains("No such file"));
        pair(&file, None, false).unwrap();
        assert!(is_new().unwrap());
    }
}
