//! Addresses as people write them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs, UdpSocket};

use crate::failure::{Done, Failure};

/// Port where the end listens that was told none.
pub const PORT: u16 = 4433;

/// Port where servers of names answer.
const NAME_SERVER_PORT: u16 = 53;

/// Characters of the longest name, with the dot at its end (RFC 1035).
const LONGEST_NAME: usize = 254;

/// Characters of the longest part of a name between two dots (RFC 1035).
const LONGEST_LABEL: usize = 63;

/// `HOST`, `HOST:PORT`, `:PORT` or `[HOST]:PORT`; the port is the `default` where it is not named.
pub fn split(text: &str, default: u16) -> Done<(Option<String>, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        _ if text.ends_with(']') => (text, ""),
        Some((host, port)) if !host.contains(':') || host.starts_with('[') => (host, port),
        _ => (text, ""),
    };
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = if port.is_empty() { Some(default) } else { port.parse().ok().filter(|_| is_number) };
    let port = port.ok_or_else(|| {
        Failure::input(format!("{text}: a port is a number up to 65535, for example 192.0.2.1:{default}"))
    })?;
    let name = host.trim_matches(['[', ']']);
    if ends_in_number(name) && !is_address(name) {
        return Err(Failure::input(format!("{text}: {name} is no whole address, and no name ends in a number")));
    }
    Ok(((!name.is_empty()).then(|| name.to_owned()), port))
}

/// `[ADDR:]PORT`, or `ADDR` alone.
pub fn split_listening(text: &str, default: u16) -> Done<(Option<String>, u16)> {
    let is_port = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_port { split(&format!(":{text}"), default) } else { split(text, default) }
}

/// All addresses of a name, in the order in which they are best tried.
///
/// What can be no name is bad input. A name that is not found now may be later: the run failed.
pub fn resolve(host: &str, port: u16) -> Done<Vec<SocketAddr>> {
    let name = if is_address(host) { Some(host.to_owned()) } else { plain_name(host) };
    let name =
        name.ok_or_else(|| Failure::input(format!("{host}: this is neither an address nor a name of a machine")))?;
    let found = (name.as_str(), port).to_socket_addrs().map_err(|error| {
        let text = error.to_string();
        let why = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
        Failure::run(format!("{host}: {why}"))
    })?;
    let mut addresses = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// The first address of a name.
pub fn resolve_first(host: &str, port: u16) -> Done<SocketAddr> {
    let first = resolve(host, port)?.into_iter().next();
    first.ok_or_else(|| Failure::run(format!("{host}: this name has no address")))
}

/// The address for a socket that takes what comes over IPv6 and over IPv4, or over IPv4 where there is no IPv6.
pub fn all_addresses() -> &'static str {
    if UdpSocket::bind("[::]:0").is_ok() { "::" } else { "0.0.0.0" }
}

/// `ADDR[:PORT]` of a server of names; ADDR may have the number of its link, as in fe80::1%2.
pub fn name_server(text: &str) -> Done<SocketAddr> {
    let (host, port) = split(text, NAME_SERVER_PORT)?;
    let of_link = |host: &str| format!("[{host}]:{port}").parse::<SocketAddrV6>().ok().map(SocketAddr::V6);
    let address = |host: String| match host.parse::<IpAddr>() {
        Ok(address) => Some(SocketAddr::new(address, port)),
        Err(_) => of_link(&host),
    };
    host.and_then(address).ok_or_else(|| {
        Failure::input(format!("--dns {text}: it is the address of a server of names, for example 9.9.9.9"))
    })
}

/// Returns true for an address of IPv4 or IPv6, which may name the link that it is of: fe80::1%eth0.
pub fn is_address(text: &str) -> bool {
    let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    match zone {
        None => address.parse::<IpAddr>().is_ok(),
        Some(zone) => !zone.is_empty() && !zone.contains('%') && address.parse::<Ipv6Addr>().is_ok(),
    }
}

/// The name of a machine in ASCII, which may be in any script (RFC 5890). None: the text can be no name (RFC 1123).
pub fn plain_name(text: &str) -> Option<String> {
    let plain = if text.is_ascii() { text.to_owned() } else { idna::domain_to_ascii(text).ok()? };
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(is_part)
    };
    let labels = plain.strip_suffix('.').unwrap_or(&plain);
    (plain.len() <= LONGEST_NAME && labels.split('.').all(is_label)).then_some(plain)
}

/// Returns true for a host whose last label is a number: an address, or none. The system would take 192.168.1 for
/// 192.168.0.1 (`inet_aton`), and no top-level domain is a number (RFC 1123 §2.1).
fn ends_in_number(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or(host);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_decimal = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_decimal || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(done: Done<impl Sized>) -> String {
        match done {
            Err(Failure::Input(text)) => text,
            _ => panic!("this is bad input"),
        }
    }

    #[test]
    fn a_host_and_its_port_are_told_apart() {
        let some = |host: &str, port| (Some(host.to_owned()), port);
        for (text, found) in [
            ("192.0.2.1:4433", some("192.0.2.1", 4433)),
            ("192.0.2.1", some("192.0.2.1", PORT)),
            ("[::1]:5000", some("::1", 5000)),
            ("[::1]", some("::1", PORT)),
            ("::1", some("::1", PORT)),
            ("fe80::1%eth0", some("fe80::1%eth0", PORT)),
            ("relay-7.example", some("relay-7.example", PORT)),
            ("relay.example:", some("relay.example", PORT)),
            (":80", (None, 80)),
            ("", (None, PORT)),
        ] {
            assert_eq!(split(text, PORT).unwrap(), found, "{text}");
        }
        assert_eq!(split_listening("4433", 1).unwrap(), (None, 4433));
        assert_eq!(split_listening("127.0.0.1", 1).unwrap(), some("127.0.0.1", 1));
        for text in ["h:port", "h:65536", "h:-1", "h:+1", "h:1 "] {
            assert!(input(split(text, PORT)).contains("a port is a number up to 65535, for example 192.0.2.1:4433"));
        }
    }

    /// The system's resolver takes half an address for another one.
    #[test]
    fn a_host_that_no_program_can_name_is_refused() {
        for host in ["192.168.1", "2130706433", "0x7f.1", "192.0.2.1-9", "192.0.2.256", "192.0.2.1."] {
            for text in [format!("{host}:4433"), format!("[{host}]:4433")] {
                let told = input(split(&text, PORT));
                assert!(told.contains("is no whole address, and no name ends in a number"), "{told}");
            }
        }
    }

    #[test]
    fn what_can_be_no_name_is_told_apart_from_what_is_not_found() {
        for host in ["", "a b", "a..b", "a/b", &"x".repeat(64), &["abcdefg"; 40].join("."), "fe80::1%"] {
            assert!(input(resolve(host, 1)).ends_with("this is neither an address nor a name of a machine"), "{host}");
        }
        assert_eq!(plain_name("bücher.example.").as_deref(), Some("xn--bcher-kva.example."));
        assert_eq!(plain_name("a_b-c.example").as_deref(), Some("a_b-c.example"));
        assert!(
            matches!(resolve("nowhere.invalid", 1), Err(Failure::Run(text)) if text.starts_with("nowhere.invalid: "))
        );
    }

    #[test]
    fn an_address_is_its_own() {
        assert_eq!(resolve("127.0.0.1", 7).unwrap(), ["127.0.0.1:7".parse().unwrap()]);
        assert_eq!(resolve("::1", 7).unwrap(), ["[::1]:7".parse().unwrap()]);
        // The number of an interface is its name's, and Linux has 1 for the loopback one.
        for link in ["fe80::1%1", "fe80::1%lo"] {
            assert_eq!(resolve(link, 5).unwrap(), ["[fe80::1%1]:5".parse().unwrap()]);
        }
        assert_eq!(name_server("9.9.9.9").unwrap(), "9.9.9.9:53".parse().unwrap());
        assert_eq!(name_server("[2620:fe::fe]:5353").unwrap(), "[2620:fe::fe]:5353".parse().unwrap());
        for text in ["fe80::1%2", "[fe80::1%2]", "[fe80::1%2]:53"] {
            assert_eq!(name_server(text).unwrap(), "[fe80::1%2]:53".parse().unwrap());
        }
        assert!(input(name_server("fe80::1%")).starts_with("--dns fe80::1%: it is the address"));
        assert!(input(name_server("dns.example")).starts_with("--dns dns.example: it is the address"));
    }
}
