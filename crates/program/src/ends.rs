//! The other end: at an address and known by its pairing line, or it comes to where this one listens.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weftway_transfer::{Lookup, Options, OtherEnd};
use weftway_udp::tls::Pairing;

use crate::address::{self, PORT};
use crate::failure::{Done, Failure};
use crate::{identity, reading};

/// Where the pairing line may be that is not to stand on a command line, which other users of the machine can read.
const PAIR_VARIABLE: &str = "WEFT_PAIR";

/// The other end as the options say it.
pub struct End {
    /// End that opens the connection.
    pub other: OtherEnd,
    /// Its first address, or where it is awaited.
    pub address: SocketAddr,
    /// Looks its name up again, if it was given by one.
    pub lookup: Option<Lookup>,
    /// File and text of the identity, where this end listens.
    pub identity: Option<(PathBuf, String)>,
}

impl End {
    /// The settings of a transfer or of what carries connections, with nothing set but the other end.
    pub fn options(self) -> Options {
        Options { lookup: self.lookup, ..Options::new(self.other) }
    }
}

/// The other end: `host` with the pairing line `pair`, which may be the line, a file or `-`; or it comes to `listen`, where this
/// machine has the identity of a file. `option` is the one that names the host, for messages.
pub fn other_end(
    host: Option<&str>,
    listen: Option<&str>,
    pair: Option<&str>,
    identity: Option<&Path>,
    option: &str,
) -> Done<End> {
    let Some(host) = host else {
        if pair.is_some() {
            return Err(Failure::input(format!(
                "--pair goes with {option}: the end that listens has the identity itself"
            )));
        }
        return at(listen.unwrap_or_default(), identity.map_or_else(identity::identity_file, Path::to_owned));
    };
    let line = pairing(pair)?.ok_or_else(|| {
        Failure::input(format!("{option} needs --pair LINE: `weft pair` prints it on the machine that listens"))
    })?;
    to(host, &line)
}

/// A pairing line: `given` itself, the first line of standard input if it is `-`, or the file of this name.
///
/// Without it, WEFT_PAIR in the environment is taken for it.
fn pairing(given: Option<&str>) -> Done<Option<String>> {
    let variable = || std::env::var(PAIR_VARIABLE).ok().filter(|text| !text.is_empty());
    match given.map(str::to_owned).or_else(variable).as_deref() {
        None => Ok(None),
        Some("-") => {
            let line = reading::first_line()?;
            let told = "--pair -: nothing came on standard input; give it the line that `weft pair` printed";
            if line.is_empty() { Err(Failure::input(told)) } else { Ok(Some(line)) }
        }
        Some(text) if text.starts_with("weft1-") => Ok(Some(text.to_owned())),
        Some(file) => reading::text(Path::new(file)).map(Some),
    }
}

/// The end at `host`, which may name a port, and its pairing line.
fn to(host: &str, line: &str) -> Done<End> {
    let (host, port) = address::split(host, PORT)?;
    // A port alone is one of this machine.
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    let addresses = address::resolve(&host, port)?;
    let address = *addresses.first().ok_or_else(|| Failure::run(format!("{host}: this name has no address")))?;
    let pairing = Pairing::parse(line).map_err(Failure::input)?;
    let lookup =
        if address::is_address(&host) { None } else { address::plain_name(&host).map(|name| lookup(name, port)) };
    Ok(End { other: OtherEnd::Connect { addresses, pairing }, address, lookup, identity: None })
}

/// Looks a name up as the system does.
fn lookup(name: String, port: u16) -> Lookup {
    Arc::new(move || Ok((name.as_str(), port).to_socket_addrs()?.collect()))
}

/// The end that comes to `listen`, which may be a port alone, where this machine has the identity in `file`.
fn at(listen: &str, file: PathBuf) -> Done<End> {
    if !reading::is_there(&file)? {
        let why = "this machine has no identity yet: run `weft pair` here, and copy its line";
        return Err(Failure::File(format!("{}: {why}", file.display())));
    }
    let (host, port) = address::split_listening(listen, PORT)?;
    let address = address::resolve_first(host.as_deref().unwrap_or_else(|| address::all_addresses()), port)?;
    let (text, identity) = identity::read_identity(&file)?;
    Ok(End { other: OtherEnd::Listen { address, identity }, address, lookup: None, identity: Some((file, text)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(done: Done<End>) -> String {
        match done {
            Err(failure) => failure.text().unwrap_or_default().to_owned(),
            Ok(_) => panic!("it is refused"),
        }
    }

    #[test]
    fn an_end_that_connects_has_a_line_and_one_that_listens_an_identity() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("me");
        let missing = told(other_end(None, Some("127.0.0.1:7"), None, Some(&file), "--to"));
        assert_eq!(
            missing,
            format!("{}: this machine has no identity yet: run `weft pair` here, and copy its line", file.display())
        );
        let line = identity::pair(&file, None, false).unwrap();
        let end = other_end(None, Some("127.0.0.1:7"), None, Some(&file), "--to").unwrap();
        assert_eq!(end.address, "127.0.0.1:7".parse().unwrap());
        assert!(end.identity.is_some_and(|(_, text)| text == std::fs::read_to_string(&file).unwrap()));
        let end = other_end(Some("localhost:7"), None, Some(&line), None, "--to").unwrap();
        assert!(
            end.address.ip().is_loopback() && end.lookup.is_some_and(|lookup| lookup().unwrap().contains(&end.address))
        );
        let kept = folder.path().join("line");
        std::fs::write(&kept, format!("\u{feff}{line}\r\n")).unwrap();
        let end = other_end(Some("127.0.0.1"), None, kept.to_str(), None, "--to").unwrap();
        assert!(end.address.port() == PORT && end.lookup.is_none());
        assert!(matches!(end.options().other, OtherEnd::Connect { pairing, .. } if pairing.line() == line));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let refused = |host, pair| told(other_end(host, None, pair, None, "--from"));
        assert!(refused(None, Some("weft1-x")).starts_with("--pair goes with --from"));
        assert!(refused(Some("127.0.0.1:port"), Some("weft1-x")).contains("a port is a number"));
        assert!(refused(Some("127.0.0.1"), Some("weft1-x")).starts_with("this is no line of `weft pair`"));
        assert!(refused(Some("127.0.0.1"), Some("/no/where")).starts_with("/no/where: No such file"));
    }
}
