//! Rules for the clients of a relay, as a user says them: `rate=50Mbit/s,connections=200`, or for one of them
//! `laptop,rate=10Mbit/s,memory=64MB`. It is for all connections of a name together.

use std::collections::BTreeMap;

use weftway_mux::Limits;
use weftway_path::spec::nearest;
use weftway_path::{BitRate, Bytes};
use weftway_relay::ClientLimits;
use weftway_scenario::policy::{read_rate, read_size};
use weftway_udp::token::check_name;

const KEYS: [&str; 4] = ["rate", "connections", "memory", "places"];
/// Connections to the relay that a name with limited memory has at once, unless its rule says otherwise: a few machines
/// share a pairing line, or one comes again before the relay knows that it was gone.
const PLACES: usize = 4;
/// Least memory of a client: the streams that it may open are promised 30 MiB to receive, which has half of this.
const LEAST_MEMORY: Bytes = Bytes::new(64_000_000);

/// Clients that a relay has at once. Each may fill the memory of its [`Limits`].
pub(crate) const MOST_CLIENTS: usize = 64;

/// A client has no more, whatever is said. The mux has some more streams: on these the relay says that there are too
/// many.
const MOST_CONNECTIONS: usize = 1500;

/// Rule for a client. What is not said is as for all, or not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClientRule {
    rate: Option<BitRate>,
    connections: Option<usize>,
    memory: Option<Bytes>,
    places: Option<usize>,
}

/// Rules for all clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRules {
    all: ClientRule,
    named: BTreeMap<String, ClientRule>,
}

impl ClientRules {
    /// Reads what a user wrote, a text for all clients or for one, or says what is wrong with it.
    pub fn parse(texts: &[impl AsRef<str>]) -> Result<Self, String> {
        let mut rules = Self::default();
        for text in texts.iter().map(AsRef::as_ref) {
            let fault = |why: String| format!("--client {text}: {why}");
            let mut parts = text.split(',').map(str::trim).peekable();
            let name = parts.next_if(|part| !part.contains('='));
            let said = match name {
                Some("") => return Err(fault("name the client first, or begin with a key as in rate=50Mbit/s".into())),
                Some(name) => {
                    check_name(name).map_err(|why| fault(why.to_string()))?;
                    rules.named.entry(name.to_owned()).or_default()
                }
                None => &mut rules.all,
            };
            if parts.peek().is_none() {
                return Err(fault(format!("say what it may have: {}", KEYS.join(", "))));
            }
            for part in parts {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                said.set(key.trim(), value.trim()).map_err(fault)?;
            }
        }
        Ok(rules)
    }

    /// Rule for the client of this name.
    fn of(&self, name: Option<&str>) -> ClientRule {
        let own = name.and_then(|name| self.named.get(name)).copied().unwrap_or_default();
        ClientRule {
            rate: own.rate.or(self.all.rate),
            connections: own.connections.or(self.all.connections),
            memory: own.memory.or(self.all.memory),
            places: own.places.or(self.all.places),
        }
    }

    /// Limits of it at the relay.
    pub(crate) fn limits(&self, name: Option<&str>) -> ClientLimits {
        let said = self.of(name);
        ClientLimits { connections: said.connections.unwrap_or(MOST_CONNECTIONS), rate: said.rate }
    }

    /// Connections to the relay that it may have at once. With limited memory each has at least [`LEAST_MEMORY`].
    pub(crate) fn places(&self, name: Option<&str>) -> usize {
        let said = self.of(name);
        let Some(memory) = said.memory else { return said.places.unwrap_or(MOST_CLIENTS) };
        said.places.unwrap_or(PLACES).min((memory.get() / LEAST_MEMORY.get()) as usize)
    }

    /// Memory at this end for each of its connections to the relay, an equal part of what the name may have: one half
    /// for what comes from it, and one for what goes to it. Without a rule it is `default`.
    pub(crate) fn memory(&self, name: Option<&str>, default: Limits) -> Limits {
        let parts = 2 * self.places(name) as u64;
        let half = self.of(name).memory.map(|memory| memory.mul_div(1, parts));
        Limits { receive: half.unwrap_or(default.receive), send: half.unwrap_or(default.send), ..default }
    }
}

impl ClientRule {
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let is_given = match key {
            "rate" => {
                let rate = read_rate(value)?;
                if rate == BitRate::ZERO {
                    return Err(
                        "rate=0: a client that may have nothing is one to revoke (weft pair --revoke)".to_owned()
                    );
                }
                self.rate.replace(rate).is_some()
            }
            "connections" => {
                let count = value.parse().ok().filter(|count| (1..=MOST_CONNECTIONS).contains(count));
                let count = count.ok_or_else(|| {
                    format!("connections={value}: a number from 1 to {MOST_CONNECTIONS}, as in connections=200")
                })?;
                self.connections.replace(count).is_some()
            }
            "memory" => {
                let memory = read_size(value)?;
                if memory < LEAST_MEMORY {
                    let least = LEAST_MEMORY.get() / 1_000_000;
                    return Err(format!("memory={value}: at least {least} MB, for what each connection begins with"));
                }
                self.memory.replace(memory).is_some()
            }
            "places" => {
                let count = value.parse().ok().filter(|count| (1..=MOST_CLIENTS).contains(count));
                let count = count.ok_or_else(|| {
                    format!("places={value}: a number from 1 to {MOST_CLIENTS}, as in places={PLACES}")
                })?;
                self.places.replace(count).is_some()
            }
            _ => {
                let near = nearest(key, KEYS.into_iter()).map(|near| format!("; did you mean `{near}`?"));
                let near = near.unwrap_or_default();
                return Err(format!("`{key}` is no limit; those are {}{near}", KEYS.join(", ")));
            }
        };
        if is_given { Err(format!("`{key}` is given twice")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_one_client_goes_before_what_is_said_of_all() {
        let texts = ["rate=50Mbit/s,connections=200", "laptop,rate=10 Mbit/s,memory=64MB", "laptop,connections=3"];
        let rules = ClientRules::parse(&texts).unwrap();
        let limits = |connections, mbps| ClientLimits { connections, rate: Some(BitRate::from_mbps(mbps)) };
        assert_eq!(rules.limits(Some("laptop")), limits(3, 10));
        assert_eq!(rules.limits(Some("phone")), limits(200, 50));
        assert_eq!(rules.limits(None), limits(200, 50));
        assert_eq!(rules.memory(Some("laptop"), Limits::default()).send, Bytes::new(32_000_000));
        assert_eq!(rules.places(Some("laptop")), 1, "64 MB are the least that a connection has");
        let machine = Limits { receive: Bytes::new(512 << 20), ..Limits::default() };
        assert_eq!(rules.memory(None, machine), machine);
        let most = ClientRules::default().limits(Some("laptop")).connections as u64;
        assert!(most + 32 <= Limits::default().streams, "the relay says that there are no more");
    }

    #[test]
    fn the_least_memory_is_enough_for_a_mux() {
        let rules = ClientRules::parse(&["memory=64MB"]).unwrap();
        let limits = rules.memory(None, Limits::default());
        let made = weftway_mux::Mux::new(weftway_mux::Side::Listening, limits, Limits::default());
        assert!(made.is_ok(), "{:?}", made.err());
    }

    #[test]
    fn the_connections_of_a_name_share_its_memory() {
        let rules = ClientRules::parse(&["phone,memory=200MB", "tv,memory=600MB", "pc,memory=200MB,places=2"]).unwrap();
        let each = |name| (rules.places(Some(name)), rules.memory(Some(name), Limits::default()).receive);
        // Half of 200 MB / 3, of 600 MB / 4 and of 200 MB / 2.
        assert_eq!(each("phone"), (3, Bytes::new(33_333_333)));
        assert_eq!(each("tv"), (4, Bytes::new(75_000_000)));
        assert_eq!(each("pc"), (2, Bytes::new(50_000_000)));
        assert_eq!((rules.places(None), rules.memory(None, Limits::default())), (MOST_CLIENTS, Limits::default()));
    }

    #[test]
    fn what_makes_no_sense_gets_one_clear_error() {
        for (text, words) in [
            ("", "name the client first"),
            ("laptop", "say what it may have"),
            ("a b,rate=1Mbit/s", "cannot be a name"),
            ("laptop,raet=5Mbit/s", "did you mean `rate`?"),
            ("rate=50", "has no unit"),
            ("rate=0 bit/s", "weft pair --revoke"),
            ("connections=0", "a number from 1 to 1500"),
            ("connections=1501", "a number from 1 to 1500"),
            ("connections=many", "a number from 1 to 1500"),
            ("memory=1MB", "at least 64 MB"),
            ("places=0", "a number from 1 to 64"),
            ("places=65", "a number from 1 to 64"),
            ("rate=1Mbit/s,rate=2Mbit/s", "`rate` is given twice"),
            ("laptop,phone", "`phone` is no limit"),
        ] {
            let error = ClientRules::parse(&[text]).unwrap_err();
            assert!(error.starts_with(&format!("--client {text}: ")) && error.contains(words), "{error}");
        }
        let twice = ClientRules::parse(&["a,rate=1Mbit/s", "a,rate=2Mbit/s"]).unwrap_err();
        assert!(twice.contains("given twice"), "{twice}");
    }
}
