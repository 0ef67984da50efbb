//! A server of names on this machine, by UDP and TCP, which says what a test wants. Its threads end with the test
//! program.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

/// An answer to a question.
#[derive(Clone)]
#[allow(dead_code, reason = "some tests need only some of these")]
pub enum Say {
    /// These are the addresses of that family, for a minute.
    Addresses(&'static [&'static str]),
    /// There is no such name.
    NoName,
    /// It cannot tell.
    Failure,
    /// The answer does not fit into a datagram. By TCP these are the addresses.
    TooLong(&'static [&'static str]),
    /// No answer, until [`NameServer::release`].
    Nothing,
}

/// A question: the name, whether it is for addresses of IPv4, and its number.
type Asked = (String, bool, [u8; 2]);
/// A question that has no answer yet: from where, and its bytes.
type Question = (SocketAddr, Vec<u8>);

/// The server.
pub struct NameServer {
    pub address: SocketAddr,
    udp: UdpSocket,
    asked: Arc<Mutex<BTreeSet<Asked>>>,
    held: Arc<Mutex<Vec<Question>>>,
}

impl NameServer {
    /// Begins to answer as `say` says for a name and a family: IPv4, if the second argument is true.
    pub fn new(say: impl Fn(&str, bool) -> Say + Clone + Send + 'static) -> Self {
        let (udp, address, listener) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = udp.local_addr().unwrap();
            // Somebody else may have the same port of TCP.
            if let Ok(listener) = TcpListener::bind(address) {
                break (udp, address, listener);
            }
        };
        let (asked, held) = (Arc::new(Mutex::default()), Arc::new(Mutex::new(Vec::new())));
        let server = Self { address, udp: udp.try_clone().unwrap(), asked: asked.clone(), held: held.clone() };
        let of_datagrams = say.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            loop {
                // The other end of the last datagram may be gone.
                let Ok((count, peer)) = udp.recv_from(&mut buffer) else { continue };
                let question = &buffer[..count];
                let (name, is_v4) = read(question);
                asked.lock().unwrap().insert((name.clone(), is_v4, [question[0], question[1]]));
                match of_datagrams(&name, is_v4) {
                    Say::Nothing => held.lock().unwrap().push((peer, question.to_vec())),
                    say => drop(udp.send_to(&answer(question, &say, false), peer)),
                }
            }
        });
        std::thread::spawn(move || listener.incoming().for_each(|socket| by_tcp(socket.unwrap(), &say)));
        server
    }

    /// The number of questions for the addresses of IPv4 of a name. A question that comes again counts once.
    pub fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|(asked, is_v4, _)| asked == name && *is_v4).count()
    }

    /// Answers all questions that had no answer with these addresses.
    pub fn release(&self, addresses: &'static [&'static str]) {
        for (peer, question) in self.held.lock().unwrap().drain(..) {
            let _ = self.udp.send_to(&answer(&question, &Say::Addresses(addresses), false), peer);
        }
    }
}

fn by_tcp(mut socket: std::net::TcpStream, say: &impl Fn(&str, bool) -> Say) {
    let mut length = [0; 2];
    socket.read_exact(&mut length).unwrap();
    let mut question = vec![0; u16::from_be_bytes(length).into()];
    socket.read_exact(&mut question).unwrap();
    let (name, is_v4) = read(&question);
    let answer = answer(&question, &say(&name, is_v4), true);
    // In two parts, as streams may come.
    let whole = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
    socket.write_all(&whole[..7]).unwrap();
    socket.write_all(&whole[7..]).unwrap();
}

/// The name that is asked for, and whether its addresses of IPv4 are.
fn read(question: &[u8]) -> (String, bool) {
    let (mut labels, mut at) = (Vec::new(), 12);
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8(question[at + 1..end].to_vec()).unwrap());
        at = end;
    }
    (labels.join("."), question[at + 1..at + 3] == [0, 1])
}

/// The bytes of an answer (RFC 1035, section 4).
fn answer(question: &[u8], say: &Say, by_tcp: bool) -> Vec<u8> {
    let (flags, addresses): ([u8; 2], &[&str]) = match say {
        Say::Addresses(addresses) => ([0x81, 0x80], addresses),
        Say::TooLong(addresses) if by_tcp => ([0x81, 0x80], addresses),
        Say::TooLong(_) => ([0x83, 0x80], &[]),
        Say::NoName => ([0x81, 0x83], &[]),
        Say::Failure | Say::Nothing => ([0x81, 0x82], &[]),
    };
    let (_, is_v4) = read(question);
    let addresses = addresses.iter().map(|text| text.parse::<IpAddr>().unwrap());
    let addresses: Vec<IpAddr> = addresses.filter(|ip| ip.is_ipv4() == is_v4).collect();
    let mut bytes = question.to_vec();
    bytes[2..4].copy_from_slice(&flags);
    bytes[6..8].copy_from_slice(&(addresses.len() as u16).to_be_bytes());
    for address in addresses {
        let (kind, data) = match address {
            IpAddr::V4(ip) => (1, ip.octets().to_vec()),
            IpAddr::V6(ip) => (28, ip.octets().to_vec()),
        };
        // The name asked for, the kind, the Internet, a minute.
        bytes.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        bytes.extend(data);
    }
    bytes
}
