//! A datagram of a program on its way. Programs put SOCKS5's header before it (RFC 1928, section 7). Both ends of the
//! connection leave out what is always zero in that: the kind of address, the address and the port are left. In the
//! upper half of the byte with the kind the proxy says of which class the datagram is, and so those that come back from
//! there.

use std::collections::BTreeMap;

use weftway_path::{Bytes as Count, Span};

use crate::classes::{CLASSES, Class};
use crate::socks::{Address, address, address_of_kind};
use crate::target::Target;

/// Beginning of a program's header: two reserved bytes, and the number of the fragment. Fragments are not put together.
pub const WHOLE: [u8; 3] = [0; 3];
/// Time in which a datagram is of use.
pub const DEADLINE: Span = Span::from_millis(500);

/// The most bytes of datagrams that wait to be sent to the other end.
pub const MOST_UNSENT: Count = Count::new(1 << 20);
/// The bytes that those of a flow have room for whatever others have there, as far as the mux has memory.
pub const LEAST_UNSENT: Count = Count::new(32 << 10);

/// Counters of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Datagrams from the program towards the network.
    pub up: u64,
    /// Datagrams from the network towards the program.
    pub down: u64,
    /// Dropped, because no record holds them.
    pub too_long: u64,
    /// Dropped, because too many wait.
    pub no_room: u64,
    /// Dropped, because they waited too long for a connection to the relay.
    pub late: u64,
    /// Dropped for any other reason: they came from elsewhere, lead where nothing may, or are fragments.
    pub dropped: u64,
}

/// Numbers of packets or datagrams that were dropped since the program began, by reason; none that are zero.
pub type Drops = BTreeMap<&'static str, u64>;

impl std::ops::AddAssign for DatagramCounts {
    fn add_assign(&mut self, other: Self) {
        self.up += other.up;
        self.down += other.down;
        self.too_long += other.too_long;
        self.no_room += other.no_room;
        self.late += other.late;
        self.dropped += other.dropped;
    }
}

/// Address to which a datagram leads or from which it comes, and its data.
pub fn read(bytes: &[u8]) -> Option<(Target, &[u8])> {
    let Address::Known { host, port, rest } = address(bytes) else { return None };
    Some((host.target(port)?, rest))
}

/// Puts the class of a datagram into its first byte, which is the kind of its address.
pub fn mark(bytes: &mut [u8], class: Class) {
    if let Some(first) = bytes.first_mut() {
        *first |= class.number() << 4;
    }
}

/// Class of a datagram of a proxy, its destination and its data.
pub fn read_marked(bytes: &[u8]) -> Option<(Class, Target, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let class = *CLASSES.get(usize::from(first >> 4))?;
    let Address::Known { host, port, rest } = address_of_kind(first & 0xf, rest) else { return None };
    Some((class, host.target(port)?, rest))
}

/// Fate of a datagram that was to be sent to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Yes,
    /// No record holds it.
    TooLong,
    /// There is no room for it now.
    Full,
}

impl DatagramCounts {
    /// Number of datagrams that were dropped.
    pub fn drops(&self) -> Drops {
        let all = [
            ("too_long", self.too_long),
            ("no_room", self.no_room),
            ("late", self.late),
            ("not_for_anyone", self.dropped),
        ];
        all.into_iter().filter(|&(_, count)| count > 0).collect()
    }

    /// Counts one that was to be sent, in `direction` if it was.
    pub fn count(&mut self, sent: Sent, direction: fn(&mut Self) -> &mut u64) {
        *match sent {
            Sent::Yes => direction(self),
            Sent::TooLong => &mut self.too_long,
            Sent::Full => &mut self.no_room,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use proptest::prelude::*;
    use weftway_mux::{Limits, Mux, Side};
    use weftway_path::Instant;

    use super::*;
    use crate::pieces::Pieces;
    use crate::socks::put_address;
    use crate::target::Host;

    /// A datagram for `target`, as a program writes it.
    fn written(target: &Target, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &target.host {
            Host::Address(ip) => put_address(&mut bytes, SocketAddr::new(*ip, target.port)),
            Host::Name(name) => {
                bytes.extend([3, name.len() as u8]);
                bytes.extend(name.bytes().chain(target.port.to_be_bytes()));
            }
        }
        bytes.extend(data);
        bytes
    }

    fn target() -> impl Strategy<Value = Target> {
        let name = "[a-z]{1,20}(\\.[a-z]{1,9}){0,3}".prop_map(Host::Name);
        let host = prop_oneof![any::<IpAddr>().prop_map(Host::Address), name];
        (host, 1u16..).prop_map(|(host, port)| Target { host, port })
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written_and_no_part_of_it_is(
            target in target(), data in prop::collection::vec(any::<u8>(), 0..50)
        ) {
            let bytes = written(&target, &data);
            prop_assert_eq!(read(&bytes), Some((target.clone(), &data[..])));
            for class in CLASSES {
                let mut marked = bytes.clone();
                mark(&mut marked, class);
                prop_assert_eq!(read_marked(&marked), Some((class, target.clone(), &data[..])));
            }
            for end in 0..bytes.len() - data.len() {
                prop_assert_eq!(read(&bytes[..end]), None);
            }
        }

        #[test]
        fn whatever_comes_is_read_as_what_it_says_or_not_at_all(
            kind in prop_oneof![Just(1u8), Just(3), Just(4), any::<u8>()], rest in prop::collection::vec(any::<u8>(), 0..300)
        ) {
            let bytes = [vec![kind], rest].concat();
            let is_marked = kind >> 4 < CLASSES.len() as u8;
            let unmarked = [&[kind & 0xf], &bytes[1..]].concat();
            let marked = read_marked(&bytes).map(|(_, target, data)| (target, data));
            prop_assert_eq!(marked, read(&unmarked).filter(|_| is_marked));
            if let Some((target, data)) = read(&bytes) {
                let text = matches!(&target.host, Host::Address(_)) && kind == 3;
                // An address that is written as a name is one, too; anything else says what it was read from.
                prop_assert!(text || written(&target, data) == bytes);
                prop_assert!(bytes.ends_with(data) && target.port != 0);
            }
        }
    }

    #[test]
    fn no_more_wait_than_may() {
        let mut mux = Mux::new(Side::Connecting, Limits::default(), Limits::default()).unwrap();
        let flow = mux.open(Instant::ZERO, 0, b"udp:", None).unwrap();
        let mut now = Instant::ZERO;
        for _ in 0..2 {
            let mut pieces = Pieces::default();
            let mut send = || pieces.send(now, &mut mux, (flow, 1154), Class::Realtime, vec![0; 1000]);
            let taken = (0..2000).filter(|_| send() == Sent::Yes).count();
            assert_eq!(taken, (1 << 20) / 1000);
            // Then they are of no use any more.
            now += DEADLINE;
            assert!(mux.peek(now, 1154).is_some(), "the stream is opened");
        }
    }
}
