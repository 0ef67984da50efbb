//! Reader of what other programs of this user tell on their sockets, a line of JSON each second.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::failure::Done;
use crate::output::json_text;
use crate::watched::{check_ours, folder};

/// Longest wait for a line, or for one to be taken: a line comes every second.
pub const PATIENCE: Duration = Duration::from_secs(3);
const PART: usize = 1 << 16;

/// Reads the snapshots of another program, and may ask it for something.
pub struct Reader {
    /// The program's socket.
    pub path: PathBuf,
    socket: UnixStream,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Reader {
    /// Reads from the socket with this name.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixStream::connect(path)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { path: path.to_owned(), socket, rest: Vec::new() })
    }

    /// The latest snapshot that has come, if one has come whole. Error: the program has ended.
    ///
    /// It has the notes of all that have come, and the hour if one of them has it.
    pub fn read(&mut self) -> io::Result<Option<Value>> {
        let mut part = vec![0; PART];
        let count = self.socket.read(&mut part)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.rest.extend_from_slice(&part[..count]);
        let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') else { return Ok(None) };
        let lines: Vec<u8> = self.rest.drain(..=end).collect();
        latest(&lines).map(Some)
    }

    /// Asks the program for something. Error: it has ended.
    pub fn ask(&mut self, request: &Value) -> io::Result<()> {
        self.socket.write_all((json_text(request) + "\n").as_bytes())
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Snapshot of lines together: of each field the latest, and all notes.
fn latest(lines: &[u8]) -> io::Result<Value> {
    let (mut latest, mut notes) = (serde_json::Map::new(), Vec::new());
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let mut told: serde_json::Map<String, Value> = serde_json::from_slice(line)?;
        if let Some(Value::Array(some)) = told.remove("notes") {
            notes.extend(some);
        }
        latest.extend(told);
    }
    latest.insert("notes".to_owned(), notes.into());
    Ok(Value::Object(latest))
}

/// Readers of all programs that run, but of those that are known. What a killed one left is removed.
pub fn running(known: &[&Path]) -> Done<Vec<Reader>> {
    let ours = folder();
    if ours.exists() {
        check_ours(&ours)?;
    }
    let mut found = Vec::new();
    for path in folders(ours).iter().flat_map(|folder| sockets(folder)).filter(|path| !known.contains(&path.as_path()))
    {
        match Reader::connect(&path) {
            Ok(reader) => found.push(reader),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => _ = fs::remove_file(&path),
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Folders where sockets of this user's programs may be: of those it starts, and of services of the system.
fn folders(ours: PathBuf) -> Vec<PathBuf> {
    let services = entries(Path::new("/run"), |name| name.starts_with("weft"));
    std::iter::once(ours).chain(services.into_iter().map(|folder| folder.join("weftway"))).collect()
}

/// Sockets that have their names: they are listened at.
fn sockets(folder: &Path) -> Vec<PathBuf> {
    entries(folder, |name| name.ends_with(".sock") && !name.starts_with('.'))
}

fn entries(folder: &Path, is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        found.filter(|entry| entry.file_name().to_str().is_some_and(&is_meant)).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use serde_json::json;

    use super::*;

    fn connected() -> (tempfile::TempDir, UnixStream, Reader) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxy-1.sock");
        let listening = UnixListener::bind(&path).unwrap();
        let reader = Reader::connect(&path).unwrap();
        (folder, listening.accept().unwrap().0, reader)
    }

    #[test]
    fn the_latest_snapshot_has_the_notes_of_all_and_the_hour_that_came() {
        let (_folder, mut program, mut reader) = connected();
        program.write_all(b"{\"at\": 1, \"hour\": {}, \"notes\": [\"one\"]}\n{\"at\": 2, \"notes\"").unwrap();
        assert_eq!(reader.read().unwrap(), Some(json!({"at": 1, "hour": {}, "notes": ["one"]})));
        program.write_all(b": [\"two\"]}\n{\"at\": 3, \"hour\": {\"x\": 1}, \"notes\": []}\n{\"at\": 4, \"notes\": [\"three\"]}\n").unwrap();
        assert_eq!(reader.read().unwrap(), Some(json!({"at": 4, "hour": {"x": 1}, "notes": ["two", "three"]})));
        program.write_all(b"{").unwrap();
        assert_eq!(reader.read().unwrap(), None);
        program.write_all(b"nonsense\n").unwrap();
        assert!(reader.read().is_err());
    }

    #[test]
    fn a_program_may_be_asked_until_it_ends() {
        let (_folder, mut program, mut reader) = connected();
        reader.ask(&json!({"scheduler": "ecf"})).unwrap();
        let mut asked = [0; 21];
        program.read_exact(&mut asked).unwrap();
        assert_eq!(&asked, b"{\"scheduler\": \"ecf\"}\n");
        drop(program);
        assert_eq!(reader.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(reader.ask(&json!({})).is_err());
    }

    #[test]
    fn sockets_that_have_no_name_yet_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.sock", "a.sock", ".proxy-1", ".x.sock", "other"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<_> = sockets(folder.path()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["a.sock", "b.sock"]);
    }
}
