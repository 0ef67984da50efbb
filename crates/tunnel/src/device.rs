//! The device on which packets of programs come. The kernel leaves to a TUN device what a network card would do for it:
//! to cut long segments of TCP (segmentation offload), and to write checksums. So a read brings up to 64 KiB of a
//! connection in one packet.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, readv, writev};
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket, checksum};

/// The longest packet.
pub const LONGEST: usize = 1 << 16;
/// `struct virtio_net_hdr`: flags, kind of segmentation, length of headers, bytes of a segment, begin and place of the
/// checksum.
const HEAD: usize = 10;
/// Times that a device is made again without a packet on it in between.
const MOST_MADE: u32 = 8;
/// The kernel is to write the checksum.
const NEEDS_CHECKSUM: u8 = 1;
const SEGMENTS_V4: u8 = 1;
const SEGMENTS_V6: u8 = 4;
/// Place of the checksum in a header of TCP.
const TCP_CHECKSUM: u16 = 16;

/// A network device, seen from the network.
pub trait Device {
    /// Becomes readable when programs have sent something.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Puts the next packet of a program into `packet`, which has `LONGEST` bytes: how long it is. None if there is
    /// none.
    fn receive(&mut self, packet: &mut [u8]) -> Option<usize>;

    /// The reason why it brings nothing more, if it does not: then it stays readable.
    fn failure(&self) -> Option<&str>;

    /// Hands a packet to the kernel for a program, or drops it. Of TCP the checksum is not written; `segment` is what
    /// the data are to be cut into, if they are longer than one segment may be.
    fn send(&mut self, packet: &[u8], segment: Option<u16>);
}

/// Makes a device again that has been taken away: its descriptor.
type Make = Box<dyn FnMut() -> io::Result<OwnedFd> + Send>;

/// A TUN device with `IFF_VNET_HDR`, whose `TUNSETOFFLOAD` allows checksums and TCP's segments.
pub struct TunDevice {
    fd: OwnedFd,
    make: Make,
    /// Times that it was made again since a packet came.
    made: u32,
    failure: Option<String>,
}

impl TunDevice {
    /// A device of a descriptor. Another program may delete the device: `make` makes it again.
    pub fn new(fd: OwnedFd, make: impl FnMut() -> io::Result<OwnedFd> + Send + 'static) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd, make: Box::new(make), made: 0, failure: None })
    }

    fn make_again(&mut self) -> Result<(), String> {
        self.made += 1;
        if self.made > MOST_MADE {
            return Err(format!("the network device was taken away {} times in a row", self.made));
        }
        let made = (self.make)().and_then(|fd| {
            rustix::io::ioctl_fionbio(&fd, true)?;
            Ok(fd)
        });
        self.fd = made.map_err(|why| format!("the network device is gone, and cannot be made again: {why}"))?;
        Ok(())
    }
}

impl Device for TunDevice {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn receive(&mut self, packet: &mut [u8]) -> Option<usize> {
        let mut head = [0; HEAD];
        loop {
            match readv(&self.fd, &mut [io::IoSliceMut::new(&mut head), io::IoSliceMut::new(packet)]) {
                Ok(count) if count > HEAD => {
                    self.made = 0;
                    return Some(count - HEAD);
                }
                // Nothing that a kernel sends.
                Ok(1..) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Ok(_) | Err(_) => {
                    self.failure = self.make_again().err();
                    return None;
                }
            }
        }
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn send(&mut self, packet: &[u8], segment: Option<u16>) {
        let mut head = [0; HEAD];
        let sum = tcp_head(packet, segment, &mut head);
        // What the kernel does not take is lost, as packets may be.
        let _ = match &sum {
            Some((at, sum)) => {
                let (before, behind) = (&packet[..*at], &packet[*at + sum.len()..]);
                writev(&self.fd, &[&head, before, sum, behind].map(io::IoSlice::new))
            }
            None => writev(&self.fd, &[&head, packet].map(io::IoSlice::new)),
        };
    }
}

/// Fills in the head of a packet of TCP: where its checksum is, and the sum of what the kernel does not sum up itself.
/// None for other packets, which have their checksums.
fn tcp_head(packet: &[u8], segment: Option<u16>, head: &mut [u8; HEAD]) -> Option<(usize, [u8; 2])> {
    let (from, to, protocol, begin): (IpAddr, IpAddr, _, usize) = if packet.first()? >> 4 == 4 {
        let ip = Ipv4Packet::new_checked(packet).ok()?;
        (ip.src_addr().into(), ip.dst_addr().into(), ip.next_header(), ip.header_len().into())
    } else {
        let ip = Ipv6Packet::new_checked(packet).ok()?;
        (ip.src_addr().into(), ip.dst_addr().into(), ip.next_header(), ip.header_len())
    };
    if protocol != IpProtocol::Tcp {
        return None;
    }
    let tcp = TcpPacket::new_checked(packet.get(begin..)?).ok()?;
    let headers = begin + usize::from(tcp.header_len());
    let length = u32::try_from(packet.len() - begin).ok()?;
    let sum = checksum::pseudo_header(&from.into(), &to.into(), protocol, length);
    let mut put = |at: usize, value: u16| head[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    put(2, u16::try_from(headers).ok()?);
    put(4, segment.unwrap_or(0));
    put(6, u16::try_from(begin).ok()?);
    put(8, TCP_CHECKSUM);
    head[0] = NEEDS_CHECKSUM;
    head[1] = match segment {
        None => 0,
        Some(_) if from.is_ipv4() => SEGMENTS_V4,
        Some(_) => SEGMENTS_V6,
    };
    Some((begin + usize::from(TCP_CHECKSUM), sum.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Descriptors that bring nothing more once their other ends are dropped, as that of a device that was deleted.
    fn pairs<const N: usize>() -> ([UnixStream; N], VecDeque<OwnedFd>) {
        let mut devices = VecDeque::new();
        let others = std::array::from_fn(|_| {
            let (device, other) = UnixStream::pair().unwrap();
            devices.push_back(device.into());
            other
        });
        (others, devices)
    }

    fn device(mut devices: VecDeque<OwnedFd>) -> TunDevice {
        let first = devices.pop_front().unwrap();
        TunDevice::new(first, move || devices.pop_front().ok_or_else(|| io::Error::other("its name is taken"))).unwrap()
    }

    #[test]
    fn a_device_that_is_taken_away_is_made_again() {
        let ([first, mut second], devices) = pairs();
        let (mut device, mut packet) = (device(devices), [0; 100]);
        assert_eq!((device.receive(&mut packet), device.failure()), (None, None));
        drop(first);
        assert_eq!((device.receive(&mut packet), device.failure()), (None, None));
        second.write_all(&[&[0; HEAD][..], b"hello"].concat()).unwrap();
        assert_eq!(device.receive(&mut packet), Some(5));
        drop(second);
        assert_eq!(device.receive(&mut packet), None);
        let why = "the network device is gone, and cannot be made again: its name is taken";
        assert_eq!(device.failure(), Some(why));
    }

    #[test]
    fn a_device_that_is_taken_away_again_and_again_is_given_up() {
        let (others, devices) = pairs::<20>();
        let (mut device, mut packet) = (device(devices), [0; 100]);
        drop(others);
        for _ in 0..MOST_MADE {
            assert_eq!((device.receive(&mut packet), device.failure()), (None, None));
        }
        assert_eq!(device.receive(&mut packet), None);
        assert_eq!(device.failure(), Some("the network device was taken away 9 times in a row"));
    }
}
