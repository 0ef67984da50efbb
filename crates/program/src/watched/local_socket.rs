//! A Unix socket on which a running program tells its snapshots, a line of JSON each, to this user's other programs.
//!
//! They may ask it for something: each request is a line of JSON, too.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::sockopt::set_socket_send_buffer_size;
use serde_json::{Map, Value};

use crate::failure::{Done, Failure};
use crate::output::json_text;

/// Readers at once; more of them wait.
const MOST_READERS: usize = 16;
/// A reader that sends a longer line is left.
const LONGEST_REQUEST: usize = 4096;
/// Room for the longest answer, an hour of all links and clients.
const HOUR_BYTES: usize = 1 << 20;

/// Request of a reader.
pub type Request = Map<String, Value>;

/// The folder of the sockets: in $XDG_RUNTIME_DIR, or in a folder of this user's in the one for temporary files.
pub fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|runtime| !runtime.is_empty()) {
        Some(runtime) => Path::new(&runtime).join("weftway"),
        None => std::env::temp_dir().join(format!("weftway-{}", rustix::process::getuid().as_raw())),
    }
}

/// Refuses a folder that somebody else may have made or may write to.
pub fn check_ours(place: &Path) -> Done {
    let found = fs::symlink_metadata(place).map_err(|error| Failure::file(place, &error))?;
    if found.is_dir() && found.uid() == rustix::process::getuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(Failure::input(format!("{} is no folder of this user's alone (mode 0700): remove it", place.display())))
}

/// Somebody who reads.
struct Reader {
    stream: UnixStream,
    /// The part of the next request that has come.
    rest: Vec<u8>,
    wants_hour: bool,
}

/// The socket of this program. Nothing that a reader does holds the program up: one that does not read is left.
pub struct LocalSocket {
    path: PathBuf,
    listening: UnixListener,
    readers: Vec<Reader>,
}

impl LocalSocket {
    /// The socket of a program of this name, in the folder where `weft top` looks for it.
    pub fn new(program: &str) -> Done<Self> {
        Self::in_folder(&folder(), program)
    }

    fn in_folder(place: &Path, program: &str) -> Done<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(place);
        made.map_err(|error| Failure::file(place, &error))?;
        check_ours(place)?;
        let name = format!("{program}-{}", std::process::id());
        let (unnamed, path) = (place.join(format!(".{name}")), place.join(format!("{name}.sock")));
        let listening = listen(&unnamed, &path).map_err(|error| Failure::file(&path, &error))?;
        Ok(Self { path, listening, readers: Vec::new() })
    }

    /// Sends a snapshot to all that read; to those that asked for it also `hour`.
    pub fn tell(&mut self, snapshot: &Value, hour: impl FnOnce() -> Value) {
        self.let_in();
        if self.readers.iter().any(|reader| !reader.wants_hour) {
            let line = line_of(snapshot);
            self.readers.retain_mut(|reader| reader.wants_hour || reader.take(&line));
        }
        if self.readers.iter().any(|reader| reader.wants_hour) {
            let mut whole = snapshot.clone();
            whole["hour"] = hour();
            let line = line_of(&whole);
            self.readers.retain_mut(|reader| !reader.wants_hour || reader.take_hour(&line));
        }
    }

    /// Lets those in that wait. If this program has no descriptors left, they wait on: that is no reason to end.
    fn let_in(&mut self) {
        while self.readers.len() < MOST_READERS {
            let Ok((stream, _)) = self.listening.accept() else { return };
            if stream.set_nonblocking(true).is_ok() {
                self.readers.push(Reader { stream, rest: Vec::new(), wants_hour: false });
            }
        }
    }

    /// Requests of readers since the last call. The last hour they get with the next snapshot.
    pub fn requests(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        self.readers.retain_mut(|reader| reader.asks(&mut requests));
        requests
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens with a name. It has it only now: whoever finds a socket that does not listen takes it for what a killed
/// program left.
fn listen(unnamed: &Path, path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(unnamed) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listening = UnixListener::bind(unnamed)?;
    fs::set_permissions(unnamed, Permissions::from_mode(0o600))?;
    listening.set_nonblocking(true)?;
    fs::rename(unnamed, path)?;
    Ok(listening)
}

fn line_of(value: &Value) -> Vec<u8> {
    (json_text(value) + "\n").into_bytes()
}

impl Reader {
    /// Sends a line; returns false if the reader is gone or does not take all of it.
    fn take(&mut self, line: &[u8]) -> bool {
        self.stream.write(line).is_ok_and(|taken| taken == line.len())
    }

    fn take_hour(&mut self, line: &[u8]) -> bool {
        self.wants_hour = false;
        let _ = set_socket_send_buffer_size(&self.stream, HOUR_BYTES);
        self.take(line)
    }

    /// Adds what the reader asks for to `requests`; returns false if it is gone, or asks at too great length.
    fn asks(&mut self, requests: &mut Vec<Request>) -> bool {
        let mut part = [0; LONGEST_REQUEST];
        let length = match self.stream.read(&mut part) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => 0,
        };
        self.rest.extend_from_slice(&part[..length]);
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Ok(request) = serde_json::from_slice::<Request>(&line) {
                self.wants_hour |= request.get("hour").is_some_and(is_wanted);
                requests.push(request);
            }
        }
        length > 0 && self.rest.len() <= LONGEST_REQUEST
    }
}

/// Returns true for what is neither false nor nothing.
fn is_wanted(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use serde_json::json;

    use super::super::hour::tests::full;
    use super::*;

    fn nothing() -> Value {
        Value::Null
    }

    fn lines(socket: &LocalSocket) -> BufReader<UnixStream> {
        BufReader::new(UnixStream::connect(&socket.path).expect("a socket that listens"))
    }

    fn read(reader: &mut BufReader<UnixStream>) -> Value {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    fn ask(reader: &mut BufReader<UnixStream>, text: impl AsRef<[u8]>) {
        reader.get_mut().write_all(text.as_ref()).expect("it is taken");
    }

    fn asked(request: Value) -> Vec<Request> {
        vec![request.as_object().expect("an object").clone()]
    }

    #[test]
    fn whoever_reads_gets_lines_and_whoever_does_not_is_left() {
        let runtime = tempfile::tempdir().expect("a folder");
        let folder = runtime.path().join("weftway");
        let mut told = LocalSocket::in_folder(&folder, "proxy").expect("a socket");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!((mode(&told.path), mode(&folder)), (0o600, 0o700));
        let (mut reader, _idle) = (lines(&told), lines(&told));
        for number in 0..100 {
            told.tell(&json!({ "at": number, "notes": ["x".repeat(60_000)] }), nothing);
            assert_eq!(read(&mut reader)["at"], number);
        }
        assert_eq!(told.readers.len(), 1);
        let path = told.path.clone();
        drop(told);
        assert!(!path.exists());
        assert_eq!(reader.read_line(&mut String::new()).expect("the end"), 0);
    }

    #[test]
    fn whoever_reads_may_ask_and_nonsense_is_not_heard() {
        let runtime = tempfile::tempdir().expect("a folder");
        let mut told = LocalSocket::in_folder(&runtime.path().join("weftway"), "proxy").expect("a socket");
        let (mut reader, mut rude) = (lines(&told), lines(&told));
        assert!(told.requests().is_empty(), "nobody has been let in yet");
        told.tell(&json!({ "note": "first" }), nothing);
        ask(&mut reader, "{\"scheduler\": \"ecf\"}\n");
        ask(&mut rude, format!("nonsense\n[1]\n\"word\"\n{}\n{{\"scheduler\": \"late", "[".repeat(3000)));
        assert_eq!(told.requests(), asked(json!({ "scheduler": "ecf" })));
        ask(&mut rude, "\"}\n");
        assert_eq!(told.requests(), asked(json!({ "scheduler": "late" })));
        // A line without an end: nothing more is kept of it than of the longest request.
        ask(&mut rude, "x".repeat(3 * LONGEST_REQUEST));
        for _ in 0..3 {
            assert!(told.requests().is_empty());
        }
        assert_eq!(told.readers.len(), 1);
        ask(&mut reader, "{\"hour\": true}\n");
        assert_eq!(told.requests(), asked(json!({ "hour": true })));
        for note in ["second", "third"] {
            told.tell(&json!({ "note": note }), || json!({ "links": "an hour" }));
        }
        assert_eq!(read(&mut reader), json!({ "note": "first" }));
        assert_eq!(read(&mut reader), json!({ "note": "second", "hour": { "links": "an hour" } }));
        assert_eq!(read(&mut reader), json!({ "note": "third" }), "it was asked for once");
    }

    #[test]
    fn the_longest_hour_fits_into_an_answer_of_which_nothing_is_read_before_it_is_whole() {
        let runtime = tempfile::tempdir().expect("a folder");
        let mut told = LocalSocket::in_folder(&runtime.path().join("weftway"), "proxy").expect("a socket");
        let (hour, last) = full();
        let mut reader = lines(&told);
        told.tell(&last.json(), nothing);
        ask(&mut reader, "{\"hour\": true}\n");
        told.requests();
        told.tell(&last.json(), || hour.told());
        assert!(read(&mut reader).get("hour").is_none());
        assert_eq!(read(&mut reader)["hour"], hour.told());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let runtime = tempfile::tempdir().expect("a folder");
        fs::set_permissions(runtime.path(), Permissions::from_mode(0o777)).expect("it is ours");
        let refused = LocalSocket::in_folder(runtime.path(), "proxy").err();
        assert!(matches!(refused, Some(Failure::Input(text)) if text.contains("0700")));
    }
}
