//! Addresses that the relay dials: those that the policy allows and that are not its own machine's. What listens there
//! behind a firewall is not for clients.
//!
//! The kernel is asked each time, since addresses come and go; for the datagrams of a program, once a second for each
//! destination. The sockets with which it is asked are open from the start: a relay that has no file descriptor left
//! knows its own addresses still.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rustix::io::Errno;
use rustix::net::connect_unspec;

use crate::policy::Policy;

/// The addresses that the relay dials.
#[derive(Debug)]
pub struct Boundary {
    policy: Policy,
    own: OwnAddresses,
}

impl Boundary {
    /// A boundary with this policy. An error if the kernel cannot be asked for this machine's own addresses.
    pub fn new(policy: Policy) -> io::Result<Self> {
        Ok(Self { policy, own: OwnAddresses::new()? })
    }

    /// Returns true if it dials `address`.
    pub fn may_dial(&self, address: IpAddr) -> bool {
        self.policy.allows(address) && (self.policy.exempts(address) || !self.own.has(address))
    }
}

/// The addresses of this machine.
#[derive(Debug)]
struct OwnAddresses {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

impl OwnAddresses {
    fn new() -> io::Result<Self> {
        Ok(Self { v4: socket(Ipv4Addr::UNSPECIFIED.into())?, v6: socket(Ipv6Addr::UNSPECIFIED.into())? })
    }

    /// Returns true if this machine has `address`: the kernel would answer from it. Nothing is sent. An address that it
    /// does not tell of counts as one.
    fn has(&self, address: IpAddr) -> bool {
        // It answers from one of these for all.
        if address.is_loopback() {
            return true;
        }
        let socket = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        socket.as_ref().is_some_and(|socket| is_own(source(socket, address), address))
    }
}

/// A socket of the family of `any`. None if this machine does not know the family: then it has no address of it,
/// either.
fn socket(any: IpAddr) -> io::Result<Option<UdpSocket>> {
    match UdpSocket::bind((any, 0)) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if [Some(Errno::AFNOSUPPORT), Some(Errno::ADDRNOTAVAIL)].contains(&Errno::from_io_error(&error)) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The address from which this machine would send to `address`.
fn source(socket: &UdpSocket, address: IpAddr) -> io::Result<IpAddr> {
    // The source that was chosen for the address before would be kept. Some systems say that there is no such family.
    match connect_unspec(socket) {
        Ok(()) | Err(Errno::AFNOSUPPORT) => {}
        Err(error) => return Err(error.into()),
    }
    // A port that is never reached: UDP only looks for a route.
    socket.connect(SocketAddr::new(address, 9))?;
    Ok(socket.local_addr()?.ip())
}

/// Returns true if `address` is this machine's own, as the kernel says.
fn is_own(source: io::Result<IpAddr>, address: IpAddr) -> bool {
    match source {
        Ok(source) => source == address,
        // There is no way to it, and to one's own there always is.
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NetworkUnreachable
                | ErrorKind::HostUnreachable
                | ErrorKind::AddrNotAvailable
                | ErrorKind::PermissionDenied
                | ErrorKind::InvalidInput
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn this_machine_s_own_addresses_are_known() {
        let own = OwnAddresses::new().unwrap();
        for address in ["127.0.0.1", "127.1.2.3", "::1"] {
            assert!(own.has(at(address)), "{address}");
        }
        for address in ["192.0.2.1", "8.8.8.8", "2001:db8::1"] {
            assert!(!own.has(at(address)), "{address}");
        }
        let boundary = Boundary::new(Policy::parse(&["127.0.0.0/8"], &[""; 0]).unwrap()).unwrap();
        assert!(boundary.may_dial(at("127.0.0.1")), "named");
    }

    #[test]
    fn each_address_is_asked_for_anew() {
        let own = OwnAddresses::new().unwrap();
        // What the kernel would send from is another one for each, if this machine has any network at all.
        let socket = own.v4.as_ref().unwrap();
        assert_eq!(source(socket, at("127.0.0.2")).unwrap(), at("127.0.0.1"));
        let Ok(elsewhere) = source(socket, at("192.0.2.1")) else {
            return eprintln!("skipped: this machine has no route");
        };
        assert!(own.has(elsewhere), "{elsewhere}");
        assert_eq!(source(socket, at("127.0.0.2")).unwrap(), at("127.0.0.1"));
    }

    #[test]
    fn what_the_kernel_does_not_tell_counts_as_own() {
        let address = at("192.0.2.1");
        assert!(is_own(Ok(address), address) && !is_own(Ok(at("192.0.2.2")), address));
        for (error, expected) in [
            (Errno::MFILE, true),
            (Errno::NOBUFS, true),
            (Errno::NOMEM, true),
            (Errno::NETUNREACH, false),
            (Errno::HOSTUNREACH, false),
            // Of IPv6, where no address of this machine may be the source; a broadcast; a route that refuses or
            // swallows.
            (Errno::ADDRNOTAVAIL, false),
            (Errno::ACCESS, false),
            (Errno::INVAL, false),
        ] {
            assert_eq!(is_own(Err(error.into()), address), expected, "{error}");
        }
    }

    #[test]
    fn own_addresses_are_known_when_no_descriptor_is_left() {
        // In a process of its own: all of them are taken.
        if std::env::var_os("NO_DESCRIPTORS").is_none() {
            let me = std::env::current_exe().unwrap();
            let name = "boundary::tests::own_addresses_are_known_when_no_descriptor_is_left";
            let mut alone = std::process::Command::new(me);
            let run = alone.args([name, "--exact", "--nocapture"]).env("NO_DESCRIPTORS", "1").output().unwrap();
            let said = String::from_utf8_lossy(&run.stderr);
            return assert!(
                run.status.success() && String::from_utf8_lossy(&run.stdout).contains("1 passed"),
                "{said}"
            );
        }
        let own = OwnAddresses::new().unwrap();
        let elsewhere = source(own.v4.as_ref().unwrap(), at("192.0.2.1"));
        let mut taken = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        assert!(UdpSocket::bind("127.0.0.1:0").is_err());
        match elsewhere {
            Ok(elsewhere) => assert!(own.has(elsewhere), "{elsewhere}"),
            Err(_) => eprintln!("skipped: this machine has no route"),
        }
        assert!(!own.has(at("192.0.2.1")));
    }
}
