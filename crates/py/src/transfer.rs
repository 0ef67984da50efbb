//! Files over several links, for Python.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use weftway_relay::{Accounts, Classes, DEADLINE, Dscp, FIRST_BYTES, Policy, PortAddress, Target, Transport};
use weftway_transfer::manifest::ManifestError;
use weftway_transfer::store::StoreError;
use weftway_transfer::{
    ClientRules, Failure, Link, LinkTerms, Lookup, Options, OtherEnd, Progress, Report, State, doctor, live, proxy,
    receive, relay, send,
};
use weftway_udp::Local;
use weftway_udp::tls::{Identity, IdentityError, Pairing};

use crate::errors::Error;
use crate::scenario::VariantView;

/// A new identity: the text of its file.
#[pyfunction]
pub fn new_identity() -> Result<String, Error> {
    Ok(Identity::generate().map_err(Failure::from)?.store())
}

/// The line that the other end needs to know of an identity, given by the text of its file; or the client of a `name`.
#[pyfunction]
#[pyo3(signature = (identity, name = None))]
pub fn pairing_line(identity: &str, name: Option<&str>) -> Result<String, Error> {
    let identity = load(identity)?;
    let pairing = name.map_or_else(|| Ok(identity.pairing()), |name| identity.pairing_of(name));
    Ok(pairing.map_err(Failure::from)?.line())
}

/// The names of the clients that have lines of their own.
#[pyfunction]
pub fn pairing_names(identity: &str) -> Result<Vec<String>, Error> {
    Ok(load(identity)?.names().map(str::to_owned).collect())
}

/// An identity with a line for the client of this name.
#[pyfunction]
pub fn with_name(identity: &str, name: &str) -> Result<String, Error> {
    let mut identity = load(identity)?;
    identity.add(name).map_err(Failure::from)?;
    Ok(identity.store())
}

/// An identity without the line of this client.
#[pyfunction]
pub fn without_name(identity: &str, name: &str) -> Result<String, Error> {
    let mut identity = load(identity)?;
    identity.revoke(name).map_err(Failure::from)?;
    Ok(identity.store())
}

/// Sends `path`, or receives into it: what came of it, as JSON, and whether there was an interrupt. It came when all
/// was there, or the ends had met and nothing has come of it; one that came before is raised. `pairing` is the line of
/// the end at one of `addresses`, or `identity` the file of this one, which listens at the first of them. `watch` is
/// called with JSON ten times a second; the names that it returns are those of schedulers that take over. In the file
/// `usage` it is counted what links with a cap carry. `name` is the host name and the port of the other end, if it was
/// given by name: it is looked up again for each connection.
#[pyfunction]
#[pyo3(signature = (
    role, path, addresses, pairing, identity, paths, scheduler, cc, watch, qlog = None, checksum = false, sync = true,
    usage = None, name = None
))]
#[expect(clippy::too_many_arguments, reason = "keywords on the Python side")]
pub fn transfer(
    py: Python<'_>,
    role: &str,
    path: PathBuf,
    addresses: Vec<String>,
    pairing: Option<&str>,
    identity: Option<&str>,
    paths: Vec<String>,
    scheduler: String,
    cc: String,
    watch: Py<PyAny>,
    qlog: Option<PathBuf>,
    checksum: bool,
    sync: bool,
    usage: Option<PathBuf>,
    name: Option<(String, u16)>,
) -> PyResult<(Option<String>, bool)> {
    let other = other_end(addresses, pairing, identity)?;
    let (paths, terms) = read_links(&paths)?;
    let (chosen, switches) = channel();
    let switch = Some(switches);
    let lookup = name.map(lookup);
    let options =
        Options { lookup, paths, terms, usage, scheduler, cc, switch, qlog, checksum, sync, ..Options::new(other) };
    let (mut stopped, mut begun) = (Ok(()), false);
    let result = py.detach(|| {
        let mut tell = |progress: &Progress| {
            begun |= progress.state != State::Listening;
            go_on(&mut stopped, |py| told(py, &watch, progress, &chosen))
        };
        if role == "send" { send(&path, options, &mut tell) } else { receive(&path, options, &mut tell) }
    });
    match (stopped, result) {
        (Ok(()), Ok(report)) => Ok((Some(json(&report)), false)),
        (Ok(()), Err(failure)) => Err(Error::from(failure).into()),
        (Err(error), result) if error.is_instance_of::<PyKeyboardInterrupt>(py) => match result {
            Ok(report) => Ok((Some(json(&report)), true)),
            Err(_) if begun => Ok((None, true)),
            Err(_) => Err(error),
        },
        (Err(error), _) => Err(error),
    }
}

/// Carries the connections of local programs to a relay at one of `addresses`, until it is stopped: `ports` are where
/// they connect to. Or relays, with the identity of `identity`: `allow` are networks that clients may reach though they
/// are private, `deny` those that they may not reach though they are public. `watch` is called with JSON ten times a
/// second. Where it returns a text, the identity has become that; the names beside it are those of schedulers that take
/// over. In the file `usage` it is counted what links with a cap carry. `classes` is the text of a file of rules.
/// `clients` say how much each client may have. Tunnels that ask the relay for names ask the server at `names`, or that
/// of the system. `name` is the host name and the port of the relay, if it was given by name: it is looked up again for
/// each connection. `passwords` is the text of a file of passwords, one of which programs need.
#[pyfunction]
#[pyo3(signature = (
    addresses, pairing, identity, paths, scheduler, cc, watch, ports = vec![], allow = vec![], usage = None,
    classes = None, clients = vec![], names = None, name = None, deny = vec![], passwords = None
))]
#[expect(clippy::too_many_arguments, reason = "keywords on the Python side")]
pub fn relay_connections(
    py: Python<'_>,
    addresses: Vec<String>,
    pairing: Option<&str>,
    identity: Option<&str>,
    paths: Vec<String>,
    scheduler: String,
    cc: String,
    watch: Py<PyAny>,
    ports: Vec<String>,
    allow: Vec<String>,
    usage: Option<PathBuf>,
    classes: Option<&str>,
    clients: Vec<String>,
    names: Option<&str>,
    name: Option<(String, u16)>,
    deny: Vec<String>,
    passwords: Option<&str>,
) -> PyResult<()> {
    let other = other_end(addresses, pairing, identity)?;
    let (ports, names) = (port_addresses(&ports)?, names.map(socket_address).transpose()?);
    let accounts = passwords.map(Accounts::parse).transpose().map_err(Error::input)?.unwrap_or_default();
    let (policy, rules) = read_limits(&allow, &deny, &clients)?;
    let classes = read_classes(classes)?;
    let connects = matches!(other, OtherEnd::Connect { .. });
    let (paths, terms) = read_links(&paths)?;
    let ((became, identities), (chosen, switches)) = (channel(), channel());
    let (identities, switch) = (Some(identities), Some(switches));
    let lookup = name.map(lookup);
    let options = Options { lookup, paths, terms, usage, scheduler, cc, identities, switch, ..Options::new(other) };
    let mut stopped = Ok(());
    let result = py.detach(|| {
        let mut tell = |progress: &Progress| go_on(&mut stopped, |py| relaying(py, &watch, progress, &became, &chosen));
        if connects {
            proxy(&ports, classes, accounts, options, &mut tell)
        } else {
            relay(policy, rules, names, options, &mut tell)
        }
    });
    stopped.and(result.map_err(|failure| Error::from(failure).into()))
}

/// Refuses what `relay_connections` would refuse of these.
#[pyfunction]
pub fn check_relaying(
    paths: Vec<String>,
    ports: Vec<String>,
    allow: Vec<String>,
    deny: Vec<String>,
    clients: Vec<String>,
    names: Option<&str>,
) -> Result<(), Error> {
    read_links(&paths)?;
    port_addresses(&ports)?;
    read_limits(&allow, &deny, &clients)?;
    names.map(socket_address).transpose().map(drop)
}

/// Which networks clients may reach, and how much each of them may have.
fn read_limits(allow: &[String], deny: &[String], clients: &[String]) -> Result<(Policy, ClientRules), Error> {
    let policy = Policy::parse(allow, deny).map_err(Error::input)?;
    Ok((policy, ClientRules::parse(clients).map_err(Error::input)?))
}

/// Refuses the text of a file of rules that makes no sense.
#[pyfunction]
pub fn check_classes(rules: &str) -> Result<(), Error> {
    read_classes(Some(rules)).map(drop)
}

/// Which rule decides for a flow to `target`, and what it is then, as JSON. `rules` is the text of a file of rules; a target
/// is HOST:PORT, of datagrams udp:HOST:PORT; `mark` is how the program marks its packets (DSCP).
#[pyfunction]
pub fn decide_class(rules: Option<&str>, target: &str, mark: Option<&str>) -> PyResult<String> {
    let classes = read_classes(rules)?;
    let (transport, place) = match target.strip_prefix("udp:") {
        Some(place) => (Transport::Udp, place),
        None => (Transport::Tcp, target),
    };
    let place: Target = place.parse().map_err(|error| Error::input(format!("{target}: {error}")))?;
    let none = Ok(Dscp::NONE);
    let mark = mark.map_or(none, str::parse).map_err(|()| {
        let text = mark.unwrap_or_default();
        Error::input(format!("dscp={text}: a mark is EF, CS5, AF41 and such, or a number from 0 to 63"))
    })?;
    let rule = classes.decide(transport, &place, mark);
    Ok(serde_json::json!({
        "target": place.to_string(),
        "transport": transport.to_string(),
        "mark": (mark != Dscp::NONE).then(|| mark.to_string()),
        "rule": rule.name,
        "class": rule.class.name(),
        "first_bytes": FIRST_BYTES,
        "deadline_ms": DEADLINE.as_millis_f64(),
    })
    .to_string())
}

pub fn read_classes(text: Option<&str>) -> Result<Classes, Error> {
    text.map_or_else(|| Ok(Classes::default()), Classes::parse).map_err(Error::input)
}

/// Who the other end is: at one of `addresses`, known by `pairing`; or it comes to the first of them, with `identity` here.
pub fn other_end(addresses: Vec<String>, pairing: Option<&str>, identity: Option<&str>) -> Result<OtherEnd, Error> {
    let addresses = socket_addresses(&addresses)?;
    let address = *addresses.first().ok_or_else(|| Error::input("no address"))?;
    match (pairing, identity) {
        (Some(line), _) => {
            let pairing = Pairing::parse(line).map_err(Error::input)?;
            Ok(OtherEnd::Connect { addresses, pairing })
        }
        (None, Some(text)) => Ok(OtherEnd::Listen { address, identity: load(text)? }),
        (None, None) => Err(Error::input("neither pairing nor identity")),
    }
}

/// Looks a name up as the system does.
fn lookup((name, port): (String, u16)) -> Lookup {
    Arc::new(move || Ok((name.as_str(), port).to_socket_addrs()?.collect()))
}

/// The paths, and what each with terms is for.
pub type Links = (Vec<Local>, Vec<(Local, LinkTerms)>);

/// Where paths begin, and what some of them are for.
pub fn read_links(texts: &[String]) -> Result<Links, Error> {
    let links = texts.iter().map(|text| Link::parse(text)).collect::<Result<Vec<_>, _>>();
    let links = links.map_err(Error::input)?;
    let terms = links.iter().filter_map(|link| Some((link.local.clone(), link.terms.clone()?))).collect();
    Ok((links.into_iter().map(|link| link.local).collect(), terms))
}

fn port_addresses(texts: &[String]) -> Result<Vec<PortAddress>, Error> {
    texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(Error::input)
}

/// Refuses the text of a file of passwords that makes no sense.
#[pyfunction]
pub fn check_passwords(passwords: &str) -> Result<(), Error> {
    Accounts::parse(passwords).map(drop).map_err(Error::input)
}

fn socket_addresses(texts: &[String]) -> Result<Vec<SocketAddr>, Error> {
    texts.iter().map(|text| socket_address(text)).collect()
}

/// An address and a port.
pub fn socket_address(text: &str) -> Result<SocketAddr, Error> {
    text.parse().map_err(|error| Error::input(format!("{text}: {error}")))
}

/// How many bytes a run of `variant` sends over so many links, or why it cannot: that is a refusal in the second place.
#[pyfunction]
pub fn live_bytes(variant: &VariantView, scheduler: &str, links: usize) -> (Option<u64>, Option<String>) {
    match live::bytes(&variant.variant, scheduler, links) {
        Ok(bytes) => (Some(bytes.get()), None),
        Err(why) => (None, Some(why)),
    }
}

/// The row of a run of `variant` whose sender reports this, as JSON. `alone` is the goodput of each link alone, in Mbit/s.
#[pyfunction]
pub fn live_row(variant: &VariantView, report: &str, links: Vec<String>, alone: Vec<f64>) -> Result<String, Error> {
    let report: Report = serde_json::from_str(report).map_err(Error::input)?;
    Ok(serde_json::Value::Object(live::row(&variant.variant.config, &links, &report, &alone)).to_string())
}

/// What this machine's links and sockets allow, as JSON.
#[pyfunction]
pub fn links() -> PyResult<String> {
    let (interfaces, sockets) = (doctor::interfaces()?, doctor::sockets()?);
    Ok(serde_json::json!({ "interfaces": interfaces, "sockets": sockets }).to_string())
}

fn load(text: &str) -> Result<Identity, Error> {
    Ok(Identity::load(text).map_err(Failure::from)?)
}

fn json(report: &Report) -> String {
    serde_json::json!(report).to_string()
}

/// Tells the user something, unless that has failed before; whether to go on.
pub fn go_on(stopped: &mut PyResult<()>, tell: impl FnOnce(Python<'_>) -> PyResult<()>) -> bool {
    if stopped.is_ok() {
        *stopped = Python::attach(tell);
    }
    stopped.is_ok()
}

/// Tells the user how far it is, and passes on the schedulers that are to take over.
pub fn told(py: Python<'_>, watch: &Py<PyAny>, progress: &Progress, switch: &Sender<String>) -> PyResult<()> {
    take_over(answer(py, watch, progress)?, switch);
    Ok(())
}

fn relaying(
    py: Python<'_>,
    watch: &Py<PyAny>,
    progress: &Progress,
    became: &Sender<Identity>,
    switch: &Sender<String>,
) -> PyResult<()> {
    let (identity, schedulers) = answer::<(Option<String>, Vec<String>)>(py, watch, progress)?;
    if let Some(text) = identity {
        // An end that connects has none.
        let _ = became.send(load(&text)?);
    }
    take_over(schedulers, switch);
    Ok(())
}

fn take_over(schedulers: Vec<String>, switch: &Sender<String>) {
    for name in schedulers {
        // A receiver schedules nothing.
        let _ = switch.send(name);
    }
}

/// What the user says to how far it is.
fn answer<A: for<'py> FromPyObjectOwned<'py>>(py: Python<'_>, watch: &Py<PyAny>, progress: &Progress) -> PyResult<A> {
    py.check_signals()?;
    let answer = watch.call1(py, (serde_json::json!(progress).to_string(),))?;
    answer.extract(py).map_err(Into::into)
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        match failure {
            Failure::Spec(_)
            | Failure::Identity(IdentityError::Read(_) | IdentityError::Name(_) | IdentityError::UnknownName { .. })
            | Failure::Manifest(ManifestError::Kind(..) | ManifestError::Read(..))
            | Failure::Store(StoreError::Taken(..)) => Self::Input(text),
            _ => Self::Transfer(text),
        }
    }
}
