//! Other end of a connection: at an address and known by its pairing line, or it comes to where this one listens.

use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weftway_transfer::{Connect, Lookup};
use weftway_udp::tls::Pairing;

use crate::address::{self, PORT};
use crate::failure::{Done, Failure};
use crate::options::{IdentityFile, Pair, To};
use crate::{identity, reading};

/// Variable of the environment with the pairing line, which other users of the machine can read on a command line.
const PAIR_VARIABLE: &str = "WEFT_PAIR";

/// End that listens on this machine, and the file of its identity.
pub struct Listening {
    /// Place and identity.
    pub listen: weftway_transfer::Listen,
    /// File of the identity.
    pub file: PathBuf,
    /// Text of that file.
    pub text: String,
}

/// Reads the end at `host`, which may name a port. `pair` is its pairing line, a file with it, or `-`. `option` is the
/// one that names the host, for messages.
pub fn connect(host: &str, pair: Option<&str>, option: &str) -> Done<Connect> {
    let line = pairing(pair)?.ok_or_else(|| {
        Failure::input(format!("{option} needs --pair LINE: `weft pair` prints it on the machine that listens"))
    })?;
    to(host, &line)
}

/// Reads the relay of `verb`.
pub fn relay(to: &To, pair: &Pair, verb: &str) -> Done<Connect> {
    let needs = || Failure::input(format!("{verb} needs --to HOST:PORT, where `weft relay` listens"));
    connect(to.to.as_deref().ok_or_else(needs)?, pair.pair.as_deref(), "--to")
}

/// Reads the end that listens at `place`, which may be a port alone, with the identity of a file.
pub fn listen(place: &str, identity: &IdentityFile) -> Done<Listening> {
    at(place, identity.identity.clone().unwrap_or_else(identity::identity_file))
}

/// Refuses a pairing line at an end that listens. `option` is the one that names a host to connect to.
pub fn refuse_pair(pair: &Pair, option: &str) -> Done {
    match pair.pair {
        None => Ok(()),
        Some(_) => {
            Err(Failure::input(format!("--pair goes with {option}: the end that listens has the identity itself")))
        }
    }
}

/// Reads a pairing line: `given` itself, the first line of standard input if it is `-`, or the file of this name.
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

/// Reads the end at `host`, which may name a port, and its pairing line.
fn to(host: &str, line: &str) -> Done<Connect> {
    let (host, port) = address::split(host, PORT)?;
    // A port alone is one of this machine.
    let host = host.unwrap_or_else(|| "localhost".to_owned());
    let addresses = address::resolve(&host, port)?;
    if addresses.is_empty() {
        return Err(Failure::run(format!("{host}: this name has no address")));
    }
    let pairing = Pairing::parse(line).map_err(Failure::input)?;
    let lookup =
        if address::is_address(&host) { None } else { address::plain_name(&host).map(|name| lookup(name, port)) };
    Ok(Connect { addresses, pairing, lookup })
}

/// Looks a name up as the system does.
fn lookup(name: String, port: u16) -> Lookup {
    Arc::new(move || Ok((name.as_str(), port).to_socket_addrs()?.collect()))
}

fn at(place: &str, file: PathBuf) -> Done<Listening> {
    if !reading::is_there(&file)? {
        let why = "this machine has no identity yet: run `weft pair` here, and copy its line";
        return Err(Failure::File(format!("{}: {why}", file.display())));
    }
    let (host, port) = address::split_listening(place, PORT)?;
    let address = address::resolve_first(host.as_deref().unwrap_or_else(|| address::all_addresses()), port)?;
    let (text, identity) = identity::read_identity(&file)?;
    Ok(Listening { listen: weftway_transfer::Listen { address, identity }, file, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<T>(done: Done<T>) -> String {
        match done {
            Err(failure) => failure.text().unwrap_or_default().to_owned(),
            Ok(_) => panic!("it is refused"),
        }
    }

    #[test]
    fn an_end_that_connects_has_a_line_and_one_that_listens_an_identity() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("me");
        let identity_file = IdentityFile { identity: Some(file.clone()) };
        let missing = told(listen("127.0.0.1:7", &identity_file));
        assert_eq!(
            missing,
            format!("{}: this machine has no identity yet: run `weft pair` here, and copy its line", file.display())
        );
        let line = identity::pair(&file, None, false).unwrap();
        let end = listen("127.0.0.1:7", &identity_file).unwrap();
        assert_eq!(end.listen.address, "127.0.0.1:7".parse().unwrap());
        assert_eq!((end.text, end.file), (std::fs::read_to_string(&file).unwrap(), file));
        let end = connect("localhost:7", Some(&line), "--to").unwrap();
        let address = end.addresses[0];
        assert!(address.ip().is_loopback() && end.lookup.is_some_and(|lookup| lookup().unwrap().contains(&address)));
        let kept = folder.path().join("line");
        std::fs::write(&kept, format!("\u{feff}{line}\r\n")).unwrap();
        let end = connect("127.0.0.1", kept.to_str(), "--to").unwrap();
        assert!(end.addresses[0].port() == PORT && end.lookup.is_none());
        assert_eq!(end.pairing.line(), line);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let refused = |host, pair| told(connect(host, pair, "--from"));
        let pair = Pair { pair: Some("weft1-x".to_owned()) };
        assert!(told(refuse_pair(&pair, "--from")).starts_with("--pair goes with --from"));
        let nowhere = told(relay(&To { to: None }, &pair, "weft proxy"));
        assert_eq!(nowhere, "weft proxy needs --to HOST:PORT, where `weft relay` listens");
        assert!(refused("127.0.0.1:port", Some("weft1-x")).contains("a port is a number"));
        assert!(refused("127.0.0.1", Some("weft1-x")).starts_with("this is no line of `weft pair`"));
        assert!(refused("127.0.0.1", Some("/no/where")).starts_with("/no/where: No such file"));
    }
}
