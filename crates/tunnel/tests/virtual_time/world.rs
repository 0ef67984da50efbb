//! A machine with programs, its tunnel, and a relay that is played.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use bytes::Bytes;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant as Time;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use weftway_mux::{Limits, Mux, Read, Side, StreamId};
use weftway_path::{Instant, Span};
use weftway_relay::{Classes, Front, ProxyLimits};
use weftway_tunnel::{Device, Names, Tunnel};

/// Addresses of the machine.
pub const OWN: [&str; 2] = ["198.18.77.1", "fd77::1"];
const RECORD: usize = 1154;

/// Packets between the machine and its tunnel.
#[derive(Default)]
pub struct Packets {
    pub to_tunnel: VecDeque<Vec<u8>>,
    pub to_programs: VecDeque<Vec<u8>>,
}

/// The tunnel's end of the device.
pub struct Cable {
    packets: Rc<RefCell<Packets>>,
    nothing: File,
}

impl Device for Cable {
    fn fd(&self) -> BorrowedFd<'_> {
        self.nothing.as_fd()
    }

    fn receive(&mut self, packet: &mut [u8]) -> Option<usize> {
        let next = self.packets.borrow_mut().to_tunnel.pop_front()?;
        packet[..next.len()].copy_from_slice(&next);
        Some(next.len())
    }

    fn failure(&self) -> Option<&str> {
        None
    }

    fn send(&mut self, packet: &[u8], segment: Option<u16>) {
        assert!(packet.len() <= 1500 || segment.is_some_and(|segment| segment <= 1460));
        self.packets.borrow_mut().to_programs.push_back(packet.to_vec());
    }
}

/// What the relay does with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is connected to somebody who returns all bytes, or each datagram.
    Echo,
    /// It is connected to somebody who says nothing and ends.
    End,
    /// It resets the stream with this code.
    Refuse(u32),
    /// It says nothing.
    Silence,
}

/// A stream at the relay.
pub struct AtRelay {
    pub target: String,
    /// True if the client has reset it.
    pub is_reset: bool,
    echoes: bool,
}

pub struct World {
    pub now: Instant,
    pub tunnel: Tunnel<Cable>,
    pub muxes: [Mux; 2],
    /// True if the tunnel has a connection to the relay.
    pub is_connected: bool,
    pub answer: Answer,
    pub streams: BTreeMap<StreamId, AtRelay>,
    /// Datagrams that came to the relay.
    pub datagrams: Vec<Vec<u8>>,
    pub packets: Rc<RefCell<Packets>>,
    /// Packets for programs that are none of TCP, and all that are.
    pub others: Vec<Vec<u8>>,
    pub segments: usize,
    interface: Interface,
    sockets: SocketSet<'static>,
}

impl World {
    pub fn new(names: Names) -> Self {
        let packets = Rc::<RefCell<Packets>>::default();
        let cable = Cable { packets: packets.clone(), nothing: File::open("/dev/null").unwrap() };
        let limits = Limits::default();
        let mux = |side| Mux::new(side, limits, limits).unwrap();
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut Machine(packets.clone()), Time::ZERO);
        interface.update_ip_addrs(|all| {
            OWN.iter().for_each(|own| all.push(IpCidr::new(own.parse::<IpAddress>().unwrap(), 0)).unwrap());
        });
        Self {
            now: Instant::from_millis(1),
            tunnel: Tunnel::new(cable, 1500, names, ProxyLimits::default(), Classes::default(), 7),
            muxes: [mux(Side::Connecting), mux(Side::Listening)],
            is_connected: true,
            answer: Answer::Echo,
            streams: BTreeMap::new(),
            datagrams: Vec::new(),
            packets,
            others: Vec::new(),
            segments: 0,
            interface,
            sockets: SocketSet::new(Vec::new()),
        }
    }

    /// A program connects.
    pub fn connect(&mut self, to: &str, port: u16) -> SocketHandle {
        let to: SocketAddr = to.parse().unwrap();
        let buffer = || SocketBuffer::new(vec![0; 1 << 16]);
        let handle = self.sockets.add(Socket::new(buffer(), buffer()));
        let from: IpAddress = OWN[usize::from(to.is_ipv6())].parse().unwrap();
        let socket = self.sockets.get_mut::<Socket<'_>>(handle);
        socket.connect(self.interface.context(), to, (from, port)).unwrap();
        handle
    }

    /// The socket of a program.
    pub fn socket(&mut self, handle: SocketHandle) -> &mut Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// A program is gone.
    pub fn forget(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
    }

    /// A packet of a program.
    pub fn send(&mut self, packet: Vec<u8>) {
        self.packets.borrow_mut().to_tunnel.push_back(packet);
        self.settle();
    }

    /// Everything happens that happens at once.
    pub fn settle(&mut self) {
        for _ in 0..64 {
            self.step();
        }
    }

    /// Time passes.
    pub fn pass(&mut self, span: Span) {
        self.now += span;
        self.settle();
    }

    pub fn step(&mut self) {
        let time = Time::from_micros(self.now.as_micros() as i64);
        let [near, far] = &mut self.muxes;
        self.tunnel.turn(self.now, self.is_connected.then_some(near));
        if self.is_connected {
            carry(self.now, near, far);
            self.relay();
            let [near, far] = &mut self.muxes;
            carry(self.now, far, near);
        }
        let packets = self.packets.borrow();
        let of_tcp = |packet: &Vec<u8>| if packet[0] >> 4 == 4 { packet[9] == 6 } else { packet[6] == 6 };
        self.segments += packets.to_programs.iter().filter(|packet| of_tcp(packet)).count();
        let others = packets.to_programs.iter().filter(|packet| !of_tcp(packet)).cloned();
        self.others.extend(others);
        drop(packets);
        self.interface.poll(time, &mut Machine(self.packets.clone()), &mut self.sockets);
    }

    fn relay(&mut self) {
        let mux = &mut self.muxes[1];
        while let Some(accepted) = mux.accept() {
            let target = String::from_utf8(accepted.target.to_vec()).unwrap();
            match self.answer {
                Answer::Echo => drop(mux.write(self.now, accepted.id, Bytes::from_static(&[0]))),
                Answer::End => {
                    let _ = mux.write(self.now, accepted.id, Bytes::from_static(&[0]));
                    let _ = mux.finish(accepted.id);
                }
                Answer::Refuse(code) => drop(mux.reset(accepted.id, code)),
                Answer::Silence => {}
            }
            let echoes = self.answer == Answer::Echo;
            self.streams.insert(accepted.id, AtRelay { target, is_reset: false, echoes });
        }
        while mux.poll_ready().is_some() {}
        for (&id, stream) in self.streams.iter_mut().filter(|(_, stream)| !stream.is_reset) {
            loop {
                let read = match mux.read(id) {
                    Ok(Read::Wait) => break,
                    Ok(Read::Bytes(bytes)) => Bytes::copy_from_slice(bytes),
                    Ok(Read::End) => {
                        let _ = mux.finish(id);
                        break;
                    }
                    Err(_) => {
                        stream.is_reset = true;
                        break;
                    }
                };
                if !stream.echoes {
                    break;
                }
                let Ok(count @ 1..) = mux.write(self.now, id, read) else { break };
                mux.took(self.now, id, count).unwrap();
            }
        }
        while let Some((id, bytes)) = mux.next_datagram() {
            self.datagrams.push(bytes.to_vec());
            // As it came, but that the class is told by the client alone.
            let mut back = bytes.to_vec();
            back[0] &= 0xf;
            mux.send_datagram(self.now, id, 0, Some(Span::from_secs(1)), back.into()).unwrap();
        }
    }
}

/// All records go from one to the other, and arrive.
fn carry(now: Instant, from: &mut Mux, to: &mut Mux) {
    while let Some(record) = from.cut(now, RECORD) {
        to.receive(now, record.place, &record.payload).unwrap();
        from.acked(record.place);
    }
}

/// The machine's end of the device. It looks at no checksum of TCP, since the tunnel leaves these to it.
struct Machine(Rc<RefCell<Packets>>);

impl phy::Device for Machine {
    type RxToken<'a> = Came;
    type TxToken<'a> = Leaves;

    fn receive(&mut self, _: Time) -> Option<(Came, Leaves)> {
        let packet = self.0.borrow_mut().to_programs.pop_front()?;
        Some((Came(packet), Leaves(self.0.clone())))
    }

    fn transmit(&mut self, _: Time) -> Option<Leaves> {
        Some(Leaves(self.0.clone()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities
    }
}

struct Came(Vec<u8>);

impl phy::RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Leaves(Rc<RefCell<Packets>>);

impl phy::TxToken for Leaves {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut packet = vec![0; length];
        let result = f(&mut packet);
        self.0.borrow_mut().to_tunnel.push_back(packet);
        result
    }
}
