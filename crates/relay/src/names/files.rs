//! Servers of names, and names that are known without them: resolv.conf(5) and hosts(5), read again when they change.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use resolv_conf::{Config, ScopedIp};
use weftway_path::{Instant, Span};

use crate::limits::MOST_ADDRESSES;

/// The most servers and search domains that count, as in the C library (MAXNS, MAXDNSRCH of resolv.h).
pub const MOST_SERVERS: usize = 3;
const MOST_DOMAINS: usize = 6;
/// The most that `options ndots` may say.
const MOST_DOTS: u32 = 15;
/// The time after which the files are looked at again: they may have changed.
const LOOK: Span = Span::from_secs(1);
/// The port of servers of names.
const PORT: u16 = 53;
const SERVERS: &str = "/etc/resolv.conf";
const HOSTS: &str = "/etc/hosts";

/// The servers, search domains and hosts with which names are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameConfig {
    /// The servers, the first one first; three at most are asked.
    pub servers: Vec<SocketAddr>,
    /// The domains in which a name is looked for that is not found as it stands.
    pub search: Vec<String>,
    /// A name with fewer dots is looked for in these first.
    pub dots: usize,
    /// Names that are known, in small letters, and their addresses.
    pub hosts: HashMap<String, Vec<IpAddr>>,
}

impl NameConfig {
    /// A configuration with these servers, without search domains or hosts.
    pub fn of_servers(servers: impl Into<Vec<SocketAddr>>) -> Self {
        Self { servers: servers.into(), search: vec![], dots: 1, hosts: HashMap::new() }
    }

    /// Reads the texts of resolv.conf(5) and hosts(5). What makes no sense in them is passed over, as the C library
    /// does.
    pub fn parse(servers: &[u8], hosts: &str) -> Self {
        let (config, _) = Config::parse_with_errors(servers);
        let mut addresses: Vec<SocketAddr> = config.nameservers.iter().filter_map(address).collect();
        if addresses.is_empty() {
            addresses.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        addresses.truncate(MOST_SERVERS);
        let search = config.get_last_search_or_domain().take(MOST_DOMAINS);
        let search = search.map(|domain| domain.trim_matches('.').to_ascii_lowercase());
        Self {
            servers: addresses,
            search: search.filter(|domain| !domain.is_empty()).collect(),
            dots: config.ndots.min(MOST_DOTS) as usize,
            hosts: parse_hosts(hosts),
        }
    }
}

/// The place of a [`NameConfig`].
#[derive(Clone, Debug)]
pub enum NameSource {
    /// Two files: resolv.conf(5) and hosts(5).
    Files(PathBuf, PathBuf),
    /// A configuration that stays as it is.
    Fixed(NameConfig),
}

impl NameSource {
    /// The files of this machine.
    pub fn system() -> Self {
        Self::Files(SERVERS.into(), HOSTS.into())
    }
}

/// The server of names that the system asks first. None if it names none.
pub fn server_of_system() -> Option<SocketAddr> {
    first_server(&fs::read(SERVERS).ok()?)
}

fn first_server(text: &[u8]) -> Option<SocketAddr> {
    Config::parse_with_errors(text).0.nameservers.iter().find_map(address)
}

fn address(server: &ScopedIp) -> Option<SocketAddr> {
    match server {
        ScopedIp::V4(ip) => Some((*ip, PORT).into()),
        ScopedIp::V6(ip, None) => Some((*ip, PORT).into()),
        ScopedIp::V6(ip, Some(scope)) => Some(SocketAddrV6::new(*ip, PORT, 0, number_of(scope)?).into()),
    }
}

/// The number of an interface, which may be given by its name.
fn number_of(interface: &str) -> Option<u32> {
    let from_name = || fs::read_to_string(Path::new("/sys/class/net").join(interface).join("ifindex")).ok();
    interface.parse().ok().or_else(|| from_name()?.trim().parse().ok())
}

fn parse_hosts(text: &str) -> HashMap<String, Vec<IpAddr>> {
    let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse) else { continue };
        for name in words {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let known = hosts.entry(name).or_default();
            if known.len() < MOST_ADDRESSES && !known.contains(&address) {
                known.push(address);
            }
        }
    }
    hosts
}

/// The properties of a file by which a change is seen. None if there is no file.
type Stamp = Option<(u64, i64, i64, u64)>;

/// The configuration, as the files say it.
pub struct Files {
    source: NameSource,
    config: NameConfig,
    stamps: Option<[Stamp; 2]>,
    look_at: Instant,
}

impl Files {
    /// Begins with `source`; files are not read yet.
    pub fn new(source: NameSource) -> Self {
        let config = match &source {
            NameSource::Fixed(config) => config.clone(),
            NameSource::Files(..) => NameConfig::parse(b"", ""),
        };
        Self { source, config, stamps: None, look_at: Instant::ZERO }
    }

    /// The configuration, as it was read last.
    pub fn config(&self) -> &NameConfig {
        &self.config
    }

    /// Reads the files again if they have changed. True if they have.
    pub fn refresh(&mut self, now: Instant) -> bool {
        let NameSource::Files(servers, hosts) = &self.source else { return false };
        if now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK;
        let stamps = Some([stamp(servers), stamp(hosts)]);
        if stamps == self.stamps {
            return false;
        }
        self.stamps = stamps;
        let read = |file: &Path| fs::read(file).unwrap_or_default();
        self.config = NameConfig::parse(&read(servers), &String::from_utf8_lossy(&read(hosts)));
        true
    }
}

fn stamp(file: &Path) -> Stamp {
    let file = fs::metadata(file).ok()?;
    Some((file.ino(), file.mtime(), file.mtime_nsec(), file.size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_read_as_the_c_library_reads_them() {
        let servers = b"; a comment\nnameserver 192.0.2.1\nnameserver nonsense\nnameserver 2001:db8::1\n\
            search A.example b.example.\noptions ndots:2 no-such-option\nnonsense here\n\
            nameserver 192.0.2.2\nnameserver 192.0.2.3\n";
        let hosts = "127.0.0.1 localhost # me\n192.0.2.9 Some.example some\n\n2001:db8::9 some\nnonsense x\n";
        let config = NameConfig::parse(servers, hosts);
        let servers: Vec<String> = config.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"]);
        assert_eq!((config.search, config.dots), (vec!["a.example".to_owned(), "b.example".to_owned()], 2));
        let known = |name: &str| config.hosts.get(name).cloned().unwrap_or_default();
        assert_eq!(known("some.example"), [IpAddr::from([192, 0, 2, 9])]);
        assert_eq!(known("some"), ["192.0.2.9".parse::<IpAddr>().unwrap(), "2001:db8::9".parse().unwrap()]);
        assert!(known("x").is_empty());
        assert_eq!(NameConfig::parse(b"", "").servers, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(first_server(b"search example\n"), None);
    }

    #[test]
    fn files_are_read_again_when_they_change() {
        let folder = std::env::temp_dir().join(format!("weftway-names-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (servers, hosts) = (folder.join("resolv.conf"), folder.join("hosts"));
        let mut files = Files::new(NameSource::Files(servers.clone(), hosts));
        let at = |seconds| Instant::ZERO + Span::from_secs(seconds);
        assert!(files.refresh(at(0)), "the first time");
        fs::write(&servers, "nameserver 192.0.2.1\n").unwrap();
        assert!(!files.refresh(Instant::from_millis(999)) && files.refresh(at(1)) && !files.refresh(at(2)));
        assert_eq!(files.config().servers, ["192.0.2.1:53".parse().unwrap()]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
