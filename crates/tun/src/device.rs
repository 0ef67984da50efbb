//! The device: made, read and written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::TunError;

const PATH: &str = "/dev/net/tun";

nix::ioctl_write_int!(tunsetiff, b'T', 202);
nix::ioctl_write_int!(tunsetoffload, b'T', 208);

/// Work that the kernel may leave to a device: checksums, and segments of TCP over IPv4 and IPv6 (`TUN_F_CSUM`,
/// `TUN_F_TSO4`, `TUN_F_TSO6` of linux/if_tun.h).
const OFFLOAD: libc::c_ulong = 1 | 2 | 4;

/// An open TUN device. It is not up, and has no address.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Makes the device `name` (at most 15 bytes) in the calling thread's namespace. One that is there is left alone:
    /// that is an error.
    pub fn open(name: &str) -> Result<Self, TunError> {
        Self::with_flags(name, 0)
    }

    /// Makes a device to which the kernel leaves checksums and the cutting of TCP's segments: each packet has a `struct
    /// virtio_net_hdr` before it.
    pub fn offloading(name: &str) -> Result<Self, TunError> {
        let tun = Self::with_flags(name, libc::IFF_VNET_HDR)?;
        // SAFETY: the descriptor is a TUN's, and TUNSETOFFLOAD takes a number.
        #[allow(unsafe_code)]
        unsafe { tunsetoffload(tun.file.as_raw_fd(), OFFLOAD) }
            .map_err(|errno| TunError::new("offload of a TUN device", errno.into(), "it needs Linux 2.6.27"))?;
        Ok(tun)
    }

    fn with_flags(name: &str, more: libc::c_int) -> Result<Self, TunError> {
        let missing = |source| {
            TunError::new("a TUN device", source, "it needs /dev/net/tun (module `tun`) and root, or CAP_NET_ADMIN")
        };
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(PATH);
        let file = file.map_err(missing)?;
        let mut request = blank_request();
        for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL | more) as libc::c_short;
        // SAFETY: the descriptor is a TUN's, and TUNSETIFF reads and writes one `ifreq`, which lives until it returns.
        #[allow(unsafe_code)]
        unsafe { tunsetiff(file.as_raw_fd(), &raw mut request as libc::c_ulong) }
            .map_err(|errno| missing(errno.into()))?;
        Ok(Self { file, name: name.to_owned() })
    }

    /// The descriptor alone.
    pub fn into_fd(self) -> OwnedFd {
        self.file.into()
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
