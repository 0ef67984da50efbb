//! TUN devices: a network device on one side, a descriptor that gives and takes IP packets on the other.
//!
//! A device lands in the namespace of the thread that opens it and goes away with its descriptor.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::EmuError;

const PATH: &str = "/dev/net/tun";

nix::ioctl_write_int!(tunsetiff, b'T', 202);

/// An open TUN device. It is not up, and has no address.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Makes the device `name` (at most 15 bytes) in the calling thread's namespace.
    pub fn open(name: &str) -> Result<Self, EmuError> {
        let missing = |source| {
            EmuError::missing("a TUN device", source, "it needs /dev/net/tun (module `tun`) and root, or CAP_NET_ADMIN")
        };
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(PATH);
        let file = file.map_err(missing)?;
        let mut request = blank_request();
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the descriptor is a TUN's, and TUNSETIFF reads and writes one `ifreq`, which lives until it returns.
        #[allow(unsafe_code)]
        unsafe { tunsetiff(file.as_raw_fd(), &raw mut request as libc::c_ulong) }
            .map_err(|errno| missing(errno.into()))?;
        Ok(Self { file, name: name.to_owned() })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes a packet that the kernel sent: its length, or `None` when there is none.
    pub fn receive(&self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(packet) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands a packet to the kernel.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(|_| ())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn blank_request() -> libc::ifreq {
    // SAFETY: an `ifreq` is plain data, for which all zeros is a value.
    #[allow(unsafe_code)]
    unsafe {
        std::mem::zeroed()
    }
}
