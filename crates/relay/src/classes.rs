//! Classes of urgency of what programs send: three classes, and rules that say which flow is of which.
//!
//! A class goes before those below it, and leaves them half of what it could take ([`weftway_mux`] decides that). The
//! proxy has the rules, since it knows where programs want to. The relay learns the class with the stream, and with
//! each datagram, and sends what comes back by the same class.

use std::fmt;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use weftway_mux::{Mux, StreamError, StreamId};

use crate::dscp::Dscp;
use crate::policy::network;
use crate::target::{Host, Purpose, Target};

/// Bytes of a flow of bulk that go as interactive, in each direction: a page, the answer to a question.
pub const FIRST_BYTES: u64 = 64 << 10;

/// Class of urgency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It is of no use when it is late: voice, video calls, games.
    Realtime = 0,
    /// Somebody waits for each answer: a shell, names, the beginning of every flow.
    Interactive = 1,
    /// All else.
    #[default]
    Bulk = 2,
}

/// All of them, the most urgent first.
pub const CLASSES: [Class; 3] = [Class::Realtime, Class::Interactive, Class::Bulk];

impl Class {
    /// Its name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Realtime => "realtime",
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
        }
    }

    /// Its number in the mux.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The class of this number; what is less urgent than all is bulk.
    pub fn of_number(number: u8) -> Self {
        CLASSES.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// A flow of this class begins on stream `id`, whose class in the mux it is.
    pub fn begin(self, mux: &mut Mux, id: StreamId) -> Result<(), StreamError> {
        match self {
            Self::Bulk => mux.begin_as(id, Self::Interactive.number(), FIRST_BYTES),
            Self::Realtime | Self::Interactive => Ok(()),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Transport of a flow from the program to the proxy, and from the relay on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// Hosts that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// This name.
    Name(String),
    /// Every name that ends so, with the dot.
    Below(String),
    /// The addresses of a network.
    Network(IpNet),
}

impl Hosts {
    /// Reads `example.org`, `*.example.org`, `192.0.2.1` or `192.0.2.0/24`; none if it is none of these.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(network) = network(text) {
            return Some(Self::Network(network));
        }
        let name = text.strip_prefix("*.").unwrap_or(text);
        let Ok(Target { host: Host::Name(name), .. }) = Target::new(name, 1) else { return None };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        Some(if text.starts_with("*.") { Self::Below(format!(".{name}")) } else { Self::Name(name) })
    }

    /// Returns true if `host` is one of them.
    pub fn have(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Name(name), Host::Name(host)) => host.trim_end_matches('.').eq_ignore_ascii_case(name),
            (Self::Below(end), Host::Name(host)) => {
                let host = host.trim_end_matches('.').as_bytes();
                let at = host.len().checked_sub(end.len());
                at.is_some_and(|at| host[at..].eq_ignore_ascii_case(end.as_bytes()))
            }
            (Self::Network(network), Host::Address(ip)) => network.contains(&ip.to_canonical()),
            _ => false,
        }
    }
}

/// Rule for flows of one kind. What a rule does not name is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Name that the user gave it.
    pub name: String,
    /// Transport of the flows; none: any.
    pub transport: Option<Transport>,
    /// To one of these hosts, as the program names them: nobody looks an address up for a rule.
    pub hosts: Vec<Hosts>,
    /// To one of these ports.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Marked so by the program, as far as that can be seen.
    pub marks: Vec<RangeInclusive<Dscp>>,
    /// Class of the flows.
    pub class: Class,
}

impl Rule {
    fn is_for(&self, transport: Transport, target: &Target, mark: Dscp) -> bool {
        self.transport.is_none_or(|only| only == transport)
            && (self.hosts.is_empty() || self.hosts.iter().any(|hosts| hosts.have(&target.host)))
            && (self.ports.is_empty() || self.ports.iter().any(|ports| ports.contains(&target.port)))
            && (self.marks.is_empty() || self.marks.iter().any(|marks| marks.contains(&mark)))
    }
}

/// Rules: the first that is for a flow decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    rules: Vec<Rule>,
    /// For all that no rule is for.
    rest: Rule,
}

impl Default for Classes {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Classes {
    /// `rules`, and behind them those that hold without any: what a program has marked is what it says, as `ssh` says
    /// of a shell and of `scp`; SSH and DNS are interactive, UDP is realtime, and all else is bulk.
    pub fn new(mut rules: Vec<Rule>) -> Self {
        let marked = |name: &str, transport, marks: &[RangeInclusive<Dscp>], class| Rule {
            name: name.to_owned(),
            transport,
            marks: marks.to_vec(),
            class,
            ..Rule::default()
        };
        rules.push(marked("marked CS1 or LE", None, &Dscp::LOW, Class::Bulk));
        rules.push(marked("marked EF, VA or CS4 to CS7", Some(Transport::Udp), &Dscp::URGENT, Class::Realtime));
        rules.push(marked("marked EF, VA or CS4 to CS7", Some(Transport::Tcp), &Dscp::URGENT, Class::Interactive));
        rules.push(Rule {
            name: "SSH and DNS".to_owned(),
            ports: vec![22..=22, 53..=53],
            class: Class::Interactive,
            ..Rule::default()
        });
        rules.push(Rule {
            name: "UDP".to_owned(),
            transport: Some(Transport::Udp),
            class: Class::Realtime,
            ..Rule::default()
        });
        Self { rules, rest: Rule { name: "all else".to_owned(), ..Rule::default() } }
    }

    /// The class of what a stream is for. One for datagrams carries next to nothing: they have classes of their own.
    pub fn of(&self, purpose: &Purpose, mark: Dscp) -> Class {
        match purpose {
            Purpose::Connection(target) => self.decide(Transport::Tcp, target, mark).class,
            Purpose::NamesByTcp | Purpose::Pipe(_) => Class::Interactive,
            Purpose::Datagrams | Purpose::Echo | Purpose::Names => Class::Realtime,
        }
    }

    /// The rule that decides for a flow whose program has set `mark`, as far as that can be seen.
    pub fn decide(&self, transport: Transport, target: &Target, mark: Dscp) -> &Rule {
        self.rules.iter().find(|rule| rule.is_for(transport, target, mark)).unwrap_or(&self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(classes: &Classes, transport: Transport, target: &str) -> (String, Class) {
        decided_marked(classes, transport, target, "CS0")
    }

    fn decided_marked(classes: &Classes, transport: Transport, target: &str, mark: &str) -> (String, Class) {
        let rule = classes.decide(transport, &target.parse().unwrap(), mark.parse().unwrap());
        (rule.name.clone(), rule.class)
    }

    #[test]
    fn a_mark_says_more_than_a_port() {
        let rules = Classes::default();
        for (transport, target, mark, class) in [
            (Transport::Tcp, "192.0.2.1:22", "CS1", Class::Bulk),
            (Transport::Tcp, "192.0.2.1:22", "AF21", Class::Interactive),
            (Transport::Tcp, "192.0.2.1:443", "EF", Class::Interactive),
            (Transport::Udp, "192.0.2.1:53", "EF", Class::Realtime),
            (Transport::Udp, "192.0.2.1:443", "LE", Class::Bulk),
            (Transport::Tcp, "192.0.2.1:443", "CS5", Class::Interactive),
            (Transport::Tcp, "192.0.2.1:443", "CS3", Class::Bulk),
        ] {
            assert_eq!(decided_marked(&rules, transport, target, mark).1, class, "{target} {mark}");
        }
        // A rule of a file comes first.
        let marks = vec!["CS1".parse().unwrap()..="CS1".parse().unwrap()];
        let own = Classes::new(vec![Rule { name: "own".into(), marks, class: Class::Interactive, ..Rule::default() }]);
        assert_eq!(decided_marked(&own, Transport::Udp, "192.0.2.1:443", "CS1").0, "own");
        assert_eq!(decided(&own, Transport::Udp, "192.0.2.1:443").0, "UDP");
    }

    #[test]
    fn without_rules_shells_names_and_datagrams_are_urgent() {
        let class = |transport, target| decided(&Classes::default(), transport, target).1;
        assert_eq!(class(Transport::Tcp, "example.org:22"), Class::Interactive);
        assert_eq!(class(Transport::Udp, "192.0.2.1:53"), Class::Interactive);
        assert_eq!(class(Transport::Udp, "192.0.2.1:443"), Class::Realtime);
        assert_eq!(class(Transport::Tcp, "example.org:443"), Class::Bulk);
    }

    #[test]
    fn the_first_rule_that_is_for_a_flow_decides() {
        let rule = |name: &str, hosts: &[&str], ports: &[RangeInclusive<u16>], class| Rule {
            name: name.to_owned(),
            hosts: hosts.iter().map(|text| Hosts::parse(text).unwrap()).collect(),
            ports: ports.to_vec(),
            class,
            ..Rule::default()
        };
        let classes = Classes::new(vec![
            rule("calls", &["*.call.example", "192.0.2.0/24"], &[3478..=3480, 443..=443], Class::Realtime),
            rule("exactly", &["Backup.Example", "2001:db8::1"], &[], Class::Bulk),
            rule("scp", &["copies.example"], &[22..=22], Class::Bulk),
        ]);
        for (target, name) in [
            ("a.b.call.example:443", "calls"),
            ("A.Call.Example.:3479", "calls"),
            ("call.example:443", "all else"),
            ("notcall.example:443", "all else"),
            ("a.call.example:80", "all else"),
            ("192.0.2.77:443", "calls"),
            ("[::ffff:192.0.2.77]:443", "calls"),
            ("192.0.3.1:443", "all else"),
            ("backup.example:22", "exactly"),
            ("www.backup.example:22", "SSH and DNS"),
            ("[2001:db8::1]:22", "exactly"),
            ("copies.example:22", "scp"),
            ("copies.example:2222", "all else"),
        ] {
            assert_eq!(decided(&classes, Transport::Tcp, target).0, name, "{target}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in ["", "*", "*.", "a b", "*.*.example", "192.0.2.0/33", "example.org:80", "a..b"] {
            assert_eq!(Hosts::parse(text), None, "{text}");
        }
    }
}
