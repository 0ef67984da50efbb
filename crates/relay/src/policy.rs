//! Destinations of the relay. By default public addresses alone: whoever has a token must not reach, through the relay,
//! what only the relay's machine or its network should.
//!
//! What is judged is the address that is dialled, after a name was resolved. An address of IPv6 that stands for one of
//! IPv4 is judged by that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(a: u16, b: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), length)
}

/// Addresses of IPv4 that are not public (IANA's registry of special-purpose addresses; multicast: RFC 5771), or are
/// public and lead each virtual machine of a cloud to what it trusts. The metadata services of other clouds are in here
/// too: 169.254.0.0/16 of nearly all, 100.100.100.200 of Alibaba, 192.0.0.192 of Oracle; those of IPv6 are unique local
/// or link-local.
const NOT_PUBLIC_V4: [Ipv4Net; 17] = [
    v4(0, 0, 0, 0, 8),          // this network; 0.0.0.0 reaches this machine
    v4(10, 0, 0, 0, 8),         // private
    v4(100, 64, 0, 0, 10),      // shared, of providers
    v4(127, 0, 0, 0, 8),        // loopback
    v4(168, 63, 129, 16, 32),   // WireServer of Azure: names, goal state, certificates of extensions
    v4(169, 254, 0, 0, 16),     // link-local; metadata of clouds
    v4(172, 16, 0, 0, 12),      // private
    v4(192, 0, 0, 0, 24),       // protocols
    v4(192, 0, 2, 0, 24),       // documentation
    v4(192, 88, 99, 0, 24),     // 6to4 relays
    v4(192, 168, 0, 0, 16),     // private
    v4(198, 18, 0, 0, 15),      // benchmarks
    v4(198, 51, 100, 0, 24),    // documentation
    v4(203, 0, 113, 0, 24),     // documentation
    v4(224, 0, 0, 0, 4),        // multicast
    v4(240, 0, 0, 0, 4),        // reserved
    v4(255, 255, 255, 255, 32), // broadcast
];

/// All public addresses of IPv6 are in here: none of loopback, unspecified, unique local, link-local and multicast is.
const PUBLIC_V6: Ipv6Net = v6(0x2000, 0, 3);

/// Addresses of IPv6 that are in there and not public.
const NOT_PUBLIC_V6: [Ipv6Net; 5] = [
    v6(0x2001, 0x2, 48),   // benchmarks
    v6(0x2001, 0x10, 28),  // ORCHID
    v6(0x2001, 0x20, 28),  // ORCHIDv2
    v6(0x2001, 0xdb8, 32), // documentation
    v6(0x3fff, 0, 20),     // documentation
];

const TEREDO: Ipv6Net = v6(0x2001, 0, 32);
const SIX_TO_FOUR: Ipv6Net = v6(0x2002, 0, 16);
/// Networks whose last four bytes are an address of IPv4.
const LAST_BYTES: [Ipv6Net; 4] = [
    v6(0x64, 0xff9b, 96),                                                // NAT64 (RFC 6052)
    v6(0, 0, 96),                                                        // compatible (RFC 4291)
    Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96), // mapped (RFC 4291)
    Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96), // translated (RFC 2765)
];

/// Destinations of the relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    allowed: Vec<IpNet>,
    denied: Vec<IpNet>,
}

/// A text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no network: 192.168.1.0/24 is one, and fd00::/8, and a single address")]
pub struct NoNetwork(String);

impl Policy {
    /// A policy that allows public addresses and those in `allowed`, but none in `denied`.
    pub fn new(allowed: Vec<IpNet>, denied: Vec<IpNet>) -> Self {
        Self { allowed, denied }
    }

    /// Reads a policy from texts: networks such as 192.168.1.0/24, or single addresses.
    pub fn parse(allowed: &[impl AsRef<str>], denied: &[impl AsRef<str>]) -> Result<Self, NoNetwork> {
        Ok(Self::new(networks(allowed)?, networks(denied)?))
    }

    /// Returns true if it connects to `address`.
    pub fn allows(&self, address: IpAddr) -> bool {
        let v4 = |address: Ipv4Addr| {
            let is_public = || !NOT_PUBLIC_V4.iter().any(|net| net.contains(&address));
            !self.denies(address.into()) && (self.exempts(address.into()) || is_public())
        };
        match address {
            IpAddr::V4(address) => v4(address),
            IpAddr::V6(_) if self.denies(address) => false,
            IpAddr::V6(address) if address.is_unspecified() || address.is_loopback() => self.exempts(address.into()),
            IpAddr::V6(address) => match embedded(address) {
                Some(stands_for) => stands_for.into_iter().all(v4),
                None => self.exempts(address.into()) || is_public(address),
            },
        }
    }

    /// Returns true if `address` is allowed by name.
    pub fn exempts(&self, address: IpAddr) -> bool {
        self.allowed.iter().any(|net| net.contains(&address))
    }

    fn denies(&self, address: IpAddr) -> bool {
        self.denied.iter().any(|net| net.contains(&address))
    }
}

fn networks(texts: &[impl AsRef<str>]) -> Result<Vec<IpNet>, NoNetwork> {
    let texts = texts.iter().map(AsRef::as_ref);
    texts.map(|text| network(text).ok_or_else(|| NoNetwork(text.to_owned()))).collect()
}

/// Reads a network, or a single address as one. One of IPv4 that is written as one of IPv6 (`::ffff:192.0.2.0/120`)
/// becomes one of IPv4, as do the addresses that it is compared with.
pub fn network(text: &str) -> Option<IpNet> {
    let network = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    let IpNet::V6(mapped) = network else { return Some(network) };
    let inner = mapped.addr().to_ipv4_mapped().zip(mapped.prefix_len().checked_sub(96));
    Some(inner.and_then(|(address, length)| Ipv4Net::new(address, length).ok()).map_or(network, IpNet::V4))
}

fn is_public(address: Ipv6Addr) -> bool {
    PUBLIC_V6.contains(&address) && !NOT_PUBLIC_V6.iter().any(|net| net.contains(&address))
}

/// The addresses of IPv4 that this one stands for: of Teredo a server and a client, else one.
fn embedded(address: Ipv6Addr) -> Option<[Ipv4Addr; 2]> {
    let bytes = address.octets();
    let at = |from: usize| Ipv4Addr::new(bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]);
    if TEREDO.contains(&address) {
        return Some([at(4), Ipv4Addr::from_bits(!at(12).to_bits())]);
    }
    if SIX_TO_FOUR.contains(&address) {
        return Some([at(2); 2]);
    }
    LAST_BYTES.iter().any(|net| net.contains(&address)).then(|| [at(12); 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &[&str] = &[];

    fn allows(policy: &Policy, address: &str) -> bool {
        policy.allows(address.parse().unwrap())
    }

    #[test]
    fn public_addresses_are_allowed_whatever_they_are_written_as() {
        for address in ["1.1.1.1", "100.63.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"]
        {
            assert!(allows(&Policy::default(), address), "{address}");
        }
        // 6to4 of 1.1.1.1; Teredo of the server 1.1.1.1 and the client 8.8.8.8.
        for address in ["2002:101:101::1", "2001:0:101:101:0:0:f7f7:f7f7"] {
            assert!(allows(&Policy::default(), address), "{address}");
        }
    }

    #[test]
    fn what_is_not_public_is_refused_whatever_it_is_written_as() {
        let v4 = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.169.254",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.19.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
        ];
        for address in v4 {
            let [a, b, c, d] = address.parse::<Ipv4Addr>().unwrap().octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let written = [
                address.to_owned(),
                format!("::ffff:{address}"),
                format!("::{high:x}:{low:x}"),
                format!("::ffff:0:{high:x}:{low:x}"),
                format!("64:ff9b::{high:x}:{low:x}"),
                format!("2002:{high:x}:{low:x}::1"),
                format!("2001:0:{high:x}:{low:x}::f7f7:f7f7"),
                format!("2001:0:101:101::{:x}:{:x}", !high, !low),
            ];
            for address in written {
                assert!(!allows(&Policy::default(), &address), "{address}");
            }
        }
        for address in [
            "::",
            "::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12:3456::1",
            "ff02::1",
            "2001:db8::1",
            "3fff::1",
            "100::1",
            "64:ff9b:1::1",
            "2001:2::1",
            "2001:10::1",
            "4000::1",
        ] {
            assert!(!allows(&Policy::default(), address), "{address}");
        }
    }

    #[test]
    fn what_is_exempted_is_allowed_and_nothing_beside_it() {
        let policy = Policy::parse(&["192.168.1.0/24", "fd00::/16"], NONE).unwrap();
        for address in ["192.168.1.0", "192.168.1.255", "::ffff:192.168.1.7", "fd00::1", "1.1.1.1"] {
            assert!(allows(&policy, address), "{address}");
        }
        for address in ["192.168.2.1", "::ffff:192.168.2.1", "fd01::1", "10.0.0.1"] {
            assert!(!allows(&policy, address), "{address}");
        }
        // An address that stands for another one is judged by that alone.
        let policy = Policy::parse(&["::/0"], NONE).unwrap();
        assert!(allows(&policy, "::1") && allows(&policy, "fe80::1"));
        assert!(!allows(&policy, "::ffff:127.0.0.1") && !allows(&policy, "2002:7f00:1::1"));
    }

    #[test]
    fn what_is_denied_is_refused_whatever_it_is_written_as_and_whatever_is_allowed() {
        let denied = ["198.0.0.0/24", "2606:4700::/64", "10.1.0.0/16", "::ffff:8.8.8.0/120"];
        let policy = Policy::parse(&["10.0.0.0/8"], &denied).unwrap();
        for address in
            ["198.0.0.7", "::ffff:198.0.0.7", "64:ff9b::c600:7", "2002:c600:7::1", "2606:4700::1", "10.1.2.3"]
        {
            assert!(!allows(&policy, address), "{address}");
        }
        assert!(!allows(&policy, "8.8.8.8"), "a network of IPv4 that is written as one of IPv6");
        for address in ["198.0.1.7", "64:ff9b::c600:107", "2606:4700:0:1::1", "10.2.0.1"] {
            assert!(allows(&policy, address), "{address}");
        }
        assert_eq!(Policy::parse(NONE, &["198.0.0.0/33"]), Err(NoNetwork("198.0.0.0/33".to_owned())));
    }
}
