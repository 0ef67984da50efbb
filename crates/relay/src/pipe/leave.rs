//! Targets of pipes that a relay allows: none unless it is told. What is allowed by name is dialled whatever addresses
//! the name has, and whatever the policy for connections says.

use std::ops::RangeInclusive;

use crate::classes::Hosts;
use crate::target::Target;

/// A text that allows nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is no target of pipes: 192.0.2.1:9001 is one, and example.org:9000-9010, 10.0.0.0/8:*, *.example.org:9001 and \
     [fd00::/8]:9001"
)]
pub struct NoLeave(String);

/// Targets that pipes may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipeLeave {
    allowed: Vec<(Hosts, RangeInclusive<u16>)>,
}

impl PipeLeave {
    /// Reads texts, each of which allows some targets: a name, the names below one, an address or a network, and a port,
    /// a range of ports or all.
    pub fn parse(texts: &[impl AsRef<str>]) -> Result<Self, NoLeave> {
        let one = |text: &str| allowed(text).ok_or_else(|| NoLeave(text.to_owned()));
        Ok(Self { allowed: texts.iter().map(|text| one(text.as_ref())).collect::<Result<_, _>>()? })
    }

    /// Returns true if pipes may lead to `target`.
    pub fn allows(&self, target: &Target) -> bool {
        self.allowed.iter().any(|(hosts, ports)| ports.contains(&target.port) && hosts.have(&target.host))
    }
}

fn allowed(text: &str) -> Option<(Hosts, RangeInclusive<u16>)> {
    let (host, port) = text.rsplit_once(':')?;
    let inner = host.strip_prefix('[').map(|rest| rest.strip_suffix(']'));
    let host = match inner {
        Some(inner) => inner?,
        // One of IPv6 would be cut at any of its colons.
        None if host.contains(':') => return None,
        None => host,
    };
    let number = |text: &str| text.parse().ok().filter(|&port: &u16| port > 0);
    let ports = match port.split_once('-') {
        _ if port == "*" => 1..=u16::MAX,
        Some((first, last)) => number(first)?..=number(last)?,
        None => number(port)?..=number(port)?,
    };
    Hosts::parse(host).filter(|_| !ports.is_empty()).map(|hosts| (hosts, ports))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_may_be_and_nothing_beside_it() {
        let texts =
            ["192.0.2.1:9001", "10.0.0.0/8:9000-9002", "Media.example:*", "*.below.example:7", "[fd00::/8]:9001"];
        let leave = PipeLeave::parse(&texts).unwrap();
        for (target, may) in [
            ("192.0.2.1:9001", true),
            ("[::ffff:192.0.2.1]:9001", true),
            ("192.0.2.1:9002", false),
            ("192.0.2.2:9001", false),
            ("10.1.2.3:9002", true),
            ("10.1.2.3:9003", false),
            ("media.example:1", true),
            ("media.example.:65535", true),
            ("a.media.example:1", false),
            ("a.below.example:7", true),
            ("below.example:7", false),
            ("[fd12::1]:9001", true),
            ("[fe80::1]:9001", false),
        ] {
            assert_eq!(leave.allows(&target.parse().unwrap()), may, "{target}");
        }
        assert!(!PipeLeave::default().allows(&"192.0.2.1:9001".parse().unwrap()), "nothing is allowed by default");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in
            ["", "a", "a:", "a:0", "a:9-8", "a:70000", "a:1-", ":9", "fd00::1:9", "[fd00::1:9", "a b:9", "1.2.3:9"]
        {
            assert_eq!(PipeLeave::parse(&[text]), Err(NoLeave(text.to_owned())));
        }
    }
}
