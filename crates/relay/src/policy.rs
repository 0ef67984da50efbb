//! Where the relay connects to. By default to public addresses alone: whoever has a token must not reach, through the relay,
//! what only the relay's machine or its network should.
//!
//! What is judged is the address that is dialled, after a name was resolved. An address of IPv6 that stands for one of IPv4 is
//! judged by that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)
}

const fn v6(a: u16, b: u16, length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), length)
}

/// Addresses of IPv4 that are not public (IANA's registry of special-purpose addresses; multicast: RFC 5771).
const NOT_PUBLIC_V4: [Ipv4Net; 16] = [
    v4(0, 0, 0, 0, 8),          // this network; 0.0.0.0 reaches this machine
    v4(10, 0, 0, 0, 8),         // private
    v4(100, 64, 0, 0, 10),      // shared, of providers
    v4(127, 0, 0, 0, 8),        // loopback
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

/// Where the relay connects to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    allowed: Vec<IpNet>,
}

/// A text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no network: 192.168.1.0/24 is one, and fd00::/8, and a single address")]
pub struct NoNetwork(String);

/// Whether this machine has `address`: the kernel would answer from it. Nothing is sent.
fn is_own(address: IpAddr) -> bool {
    // It answers from one of these for all.
    if address.is_loopback() {
        return true;
    }
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // A port that is never reached: UDP only looks for a route.
    let route = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    route.is_ok_and(|local| local.ip() == address)
}

impl Policy {
    /// To public addresses, and to those in `allowed`.
    pub fn new(allowed: Vec<IpNet>) -> Self {
        Self { allowed }
    }

    /// The same, from texts: networks such as 192.168.1.0/24, or single addresses.
    pub fn parse<T: AsRef<str>>(allowed: &[T]) -> Result<Self, NoNetwork> {
        let parse = |text: &T| {
            let text = text.as_ref();
            let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| NoNetwork(text.to_owned()))
        };
        allowed.iter().map(parse).collect::<Result<_, _>>().map(Self::new)
    }

    /// Whether it connects to `address`.
    pub fn allows(&self, address: IpAddr) -> bool {
        let v4 =
            |address: Ipv4Addr| self.exempts(address.into()) || !NOT_PUBLIC_V4.iter().any(|net| net.contains(&address));
        match address {
            IpAddr::V4(address) => v4(address),
            IpAddr::V6(address) if address.is_unspecified() || address.is_loopback() => self.exempts(address.into()),
            IpAddr::V6(address) => match embedded(address) {
                Some(stands_for) => stands_for.into_iter().all(v4),
                None => self.exempts(address.into()) || is_public(address),
            },
        }
    }

    /// The same, and `address` is none of this machine's own, or is named: what listens here behind a firewall is not for
    /// clients either.
    pub fn may_dial(&self, address: IpAddr) -> bool {
        self.allows(address) && (self.exempts(address) || !is_own(address))
    }

    fn exempts(&self, address: IpAddr) -> bool {
        self.allowed.iter().any(|net| net.contains(&address))
    }
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

    fn allows(policy: &Policy, address: &str) -> bool {
        policy.allows(address.parse().unwrap())
    }

    #[test]
    fn this_machine_s_own_addresses_are_known() {
        for own in ["127.0.0.1", "127.1.2.3", "::1"] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        for other in ["192.0.2.1", "8.8.8.8"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
        assert!(Policy::parse(&["127.0.0.0/8"]).unwrap().may_dial("127.0.0.1".parse().unwrap()), "named");
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
        let policy = Policy::new(vec!["192.168.1.0/24".parse().unwrap(), "fd00::/16".parse().unwrap()]);
        for address in ["192.168.1.0", "192.168.1.255", "::ffff:192.168.1.7", "fd00::1", "1.1.1.1"] {
            assert!(allows(&policy, address), "{address}");
        }
        for address in ["192.168.2.1", "::ffff:192.168.2.1", "fd01::1", "10.0.0.1"] {
            assert!(!allows(&policy, address), "{address}");
        }
        // An address that stands for another one is judged by that alone.
        let policy = Policy::new(vec!["::/0".parse().unwrap()]);
        assert!(allows(&policy, "::1") && allows(&policy, "fe80::1"));
        assert!(!allows(&policy, "::ffff:127.0.0.1") && !allows(&policy, "2002:7f00:1::1"));
    }
}
