//! Parts of the traffic, as `--only` names them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::Family;

/// A part of the traffic: to a network, to ports, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    network: Option<IpNet>,
    ports: Option<(u16, u16)>,
}

/// A packet as a rule selects it. Without anything all are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Network to which it goes.
    pub to: Option<IpNet>,
    /// Its protocol, and the first and the last port.
    pub ports: Option<(&'static str, u16, u16)>,
}

/// Text that is no part of the traffic.
#[derive(Debug)]
pub struct NoPart;

/// The protocols that have ports.
const PROTOCOLS: [&str; 2] = ["tcp", "udp"];

impl Part {
    /// Everything.
    pub const ALL: Self = Self { network: None, ports: None };

    /// The selectors of rules of a family. There are none if the network is of the other one.
    pub fn selectors(&self, family: Family) -> Vec<Selector> {
        if self.network.is_some_and(|network| Family::of(network.addr()) != family) {
            return Vec::new();
        }
        let with = |ports| Selector { to: self.network, ports };
        match self.ports {
            None => vec![with(None)],
            Some((first, last)) => PROTOCOLS.map(|protocol| with(Some((protocol, first, last)))).to_vec(),
        }
    }

    /// Part as `nft` says it: each text is empty or ends in a space.
    pub fn matches(&self) -> Vec<String> {
        let to = self.network.map_or_else(String::new, |network| match network {
            IpNet::V4(_) => format!("ip daddr {network} "),
            IpNet::V6(_) => format!("ip6 daddr {network} "),
        });
        match self.ports {
            None => vec![to],
            Some((first, last)) => {
                PROTOCOLS.map(|protocol| format!("{to}{protocol} dport {} ", range(first, last))).to_vec()
            }
        }
    }
}

impl FromStr for Part {
    type Err = NoPart;

    /// Reads NET, NET:PORT, :PORT or :PORT-PORT; a network of IPv6 before a port stands in brackets.
    fn from_str(text: &str) -> Result<Self, NoPart> {
        let (place, port) = split(text)?;
        let network = if place.is_empty() { None } else { Some(network(place)?) };
        let ports = port.map(ports).transpose()?;
        if network.is_none() && ports.is_none() { Err(NoPart) } else { Ok(Self { network, ports }) }
    }
}

fn split(text: &str) -> Result<(&str, Option<&str>), NoPart> {
    if let Some((place, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(NoPart)?) };
        return if place.is_empty() { Err(NoPart) } else { Ok((place, port)) };
    }
    match text.split_once(':') {
        // Two colons: an address of IPv6.
        Some((_, rest)) if rest.contains(':') => Ok((text, None)),
        Some((place, port)) => Ok((place, Some(port))),
        None => Ok((text, None)),
    }
}

/// A network: ADDR, ADDR/BITS or ADDR/MASK. What an address has behind the network's bits does not count.
fn network(text: &str) -> Result<IpNet, NoPart> {
    let address = |text: &str| text.parse::<IpAddr>().map_err(|_| NoPart);
    let network = match text.split_once('/') {
        None => IpNet::from(address(text)?),
        Some((place, bits)) if bits.bytes().all(|one| one.is_ascii_digit()) => {
            IpNet::new(address(place)?, bits.parse().map_err(|_| NoPart)?).map_err(|_| NoPart)?
        }
        Some((place, mask)) => IpNet::with_netmask(address(place)?, address(mask)?).map_err(|_| NoPart)?,
    };
    Ok(network.trunc())
}

/// PORT or PORT-PORT.
fn ports(text: &str) -> Result<(u16, u16), NoPart> {
    let port = |text: &str| {
        let digits = text.bytes().all(|one| one.is_ascii_digit());
        text.parse().ok().filter(|port| digits && *port > 0).ok_or(NoPart)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first <= last { Ok((first, last)) } else { Err(NoPart) }
}

/// Ports, as `ip` and `nft` take them.
fn range(first: u16, last: u16) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

impl fmt::Display for NoPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is a network, ports, or both: 10.0.0.0/8, :443, 192.0.2.0/24:8000-8080, [2001:db8::/32]:443")
    }
}

impl fmt::Display for Selector {
    /// The words of a rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = self.to.map(|network| format!("to {network}"));
        let ports =
            self.ports.map(|(protocol, first, last)| format!("ipproto {protocol} dport {}", range(first, last)));
        f.write_str(&[to, ports].into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str, family: Family) -> Vec<String> {
        text.parse::<Part>().unwrap().selectors(family).iter().map(ToString::to_string).collect()
    }

    fn of_both(to: &str) -> Vec<String> {
        PROTOCOLS.map(|protocol| to.replace('*', protocol)).to_vec()
    }

    #[test]
    fn a_part_of_the_traffic_is_said_by_network_and_ports() {
        let web = of_both("ipproto * dport 443");
        for (text, rules_of_4, rules_of_6) in [
            ("10.0.0.0/8", vec!["to 10.0.0.0/8".to_owned()], vec![]),
            ("10.0.0.0/255.0.0.0", vec!["to 10.0.0.0/8".to_owned()], vec![]),
            ("10.1.2.3", vec!["to 10.1.2.3/32".to_owned()], vec![]),
            ("10.1.2.3/8", vec!["to 10.0.0.0/8".to_owned()], vec![]),
            (":443", web.clone(), web),
            ("10.0.0.0/8:80-90", of_both("to 10.0.0.0/8 ipproto * dport 80-90"), vec![]),
            ("2001:db8::/32", vec![], vec!["to 2001:db8::/32".to_owned()]),
            ("[2001:db8::/32]:443", vec![], of_both("to 2001:db8::/32 ipproto * dport 443")),
        ] {
            assert_eq!(rules(text, Family::V4), rules_of_4, "{text}");
            assert_eq!(rules(text, Family::V6), rules_of_6, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_part_is_refused() {
        let wrong = [
            "",
            ":",
            "10.0.0.0/33",
            "example.org",
            ":0",
            ":65536",
            ":9-8",
            "10.0.0.0/8:",
            ":a",
            ":1-2-3",
            "[]",
            "[]:443",
            "[2001:db8::/32]",
            "[2001:db8::/32]443",
            "[2001:db8::/32]:",
            "10.0.0.0/",
            "10.0.0.0/8/8",
            ":+1",
        ];
        for text in wrong {
            assert_eq!(text.parse::<Part>().is_ok(), text == "[2001:db8::/32]", "{text}");
        }
    }

    #[test]
    fn nft_is_told_the_same() {
        let matches = |text: &str| text.parse::<Part>().unwrap().matches();
        assert_eq!(Part::ALL.matches(), [""]);
        assert_eq!(matches("2001:db8::/32"), ["ip6 daddr 2001:db8::/32 "]);
        let web = ["tcp", "udp"].map(|protocol| format!("ip daddr 10.0.0.0/8 {protocol} dport 80-90 "));
        assert_eq!(matches("10.0.0.0/8:80-90"), web);
        assert_eq!(matches(":443"), ["tcp dport 443 ", "udp dport 443 "]);
    }
}
