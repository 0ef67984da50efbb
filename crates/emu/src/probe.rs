//! Which rights and which parts of the kernel are there, tried rather than guessed.
//!
//! Everything happens on a thread of its own in a namespace of its own, and nothing makes the kernel load a module:
//! MPTCP is asked for only where its settings exist, and `/dev/net/tun` is opened only where its driver is registered.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{setsockopt, sockopt};

use crate::netlink::PathManager;
use crate::{EmuError, Namespace, Tun, priority};

/// Constant of `linux/in.h`, which `libc` has, and `linux/mptcp.h`, which it has not.
const SOL_MPTCP: libc::c_int = 284;
const MPTCP_FULL_INFO: libc::c_int = 4;

const NAMESPACE: &str = "a network namespace";
const TUN: &str = "a TUN device";
const PIDS: &str = "a PID namespace";
const REALTIME: &str = "real-time priority";
const MPTCP: &str = "MPTCP";
const FULL_INFO: &str = "MPTCP_FULL_INFO";
const MANAGER: &str = "MPTCP path manager";
const CONTROLLERS: &str = "congestion controllers";
const KERNEL: &str = "kernel";
const CORES: &str = "processor cores";

const ROOT: &str = "run it as root, with CAP_SYS_ADMIN, or below `unshare --user --map-root-user`";

/// A right or a part of the kernel.
#[derive(Clone, Debug)]
pub struct Part {
    /// Name of what was looked for.
    pub name: &'static str,
    /// Knowledge of it, or why it is not there.
    pub state: Result<String, Absence>,
}

/// Why something is not there.
#[derive(Clone, Debug)]
pub struct Absence {
    /// Reason that the system gives.
    pub reason: String,
    /// Help for the reader.
    pub remedy: &'static str,
}

/// Findings of [`probe`].
#[derive(Clone, Debug)]
pub struct Probe {
    /// All that is looked for, there or not.
    pub parts: Vec<Part>,
}

/// Tries everything. It takes a few milliseconds and leaves no trace.
pub fn probe() -> Probe {
    let attempt = || {
        let inside = Namespace::new().and_then(|namespace| namespace.enter());
        let tun = match &inside {
            Ok(()) => tun(),
            Err(_) => Err(absence("not tried, for want of a network namespace to try it in", ROOT)),
        };
        let [mptcp, full_info, manager] = multipath();
        // Last what changes the thread: one with a PID namespace for its children cannot start threads.
        vec![
            part(NAMESPACE, inside.map(|()| "can be made".to_owned()).map_err(because)),
            part(TUN, tun),
            part(MPTCP, mptcp),
            part(FULL_INFO, full_info),
            part(MANAGER, manager),
            part(CONTROLLERS, controllers()),
            part(KERNEL, release()),
            part(CORES, cores()),
            part(REALTIME, realtime()),
            part(PIDS, pids()),
        ]
    };
    let parts = thread::scope(|scope| scope.spawn(attempt).join());
    Probe { parts: parts.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) }
}

impl Probe {
    /// Checks that links can be emulated for ordinary commands. The error names the first thing that is missing.
    pub fn emulate(&self) -> Result<(), EmuError> {
        self.require(&[NAMESPACE, TUN])
    }

    /// Checks that Linux MPTCP can be measured over emulated links. The error names the first thing that is
    /// missing.
    pub fn kernel(&self) -> Result<(), EmuError> {
        self.require(&[NAMESPACE, TUN, MPTCP, FULL_INFO, MANAGER])
    }

    fn require(&self, names: &[&str]) -> Result<(), EmuError> {
        let wanted = self.parts.iter().filter(|part| names.contains(&part.name));
        let absent = |part: &Part| part.state.as_ref().err().map(|absence| (part.name, absence.clone()));
        match wanted.into_iter().find_map(absent) {
            None => Ok(()),
            Some((what, Absence { reason, remedy })) => {
                Err(EmuError::Missing { what, source: io::Error::other(reason), remedy })
            }
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| writeln!(f, "{part}"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            Ok(detail) => write!(f, "{}: {detail}", self.name),
            Err(Absence { reason, remedy }) => write!(f, "{}: missing: {reason}; {remedy}", self.name),
        }
    }
}

fn part(name: &'static str, state: Result<String, Absence>) -> Part {
    Part { name, state }
}

fn absence(reason: impl fmt::Display, remedy: &'static str) -> Absence {
    Absence { reason: reason.to_string(), remedy }
}

/// The system's answer, without the step that the part's name says already.
fn because(error: EmuError) -> Absence {
    match error {
        EmuError::Missing { source, .. } | EmuError::System { source, .. } => absence(source, ROOT),
        other => absence(other, ROOT),
    }
}

fn tun() -> Result<String, Absence> {
    const DEVICE: &str = "/dev/net/tun";
    const MODULE: &str = "load the module `tun`, and give a container the device /dev/net/tun";
    File::options().read(true).custom_flags(libc::O_PATH).open(DEVICE).map_err(|error| absence(error, MODULE))?;
    let drivers = fs::read_to_string("/proc/misc").unwrap_or_default();
    if !drivers.split_whitespace().any(|word| word == "tun") {
        return Ok("has a device node; the kernel loads the driver on first use".to_owned());
    }
    Tun::open("probe").map(|_| "can be made".to_owned()).map_err(|error| because(error.into()))
}

/// MPTCP itself, its statistics and its path manager. Without the first, none of them is asked for.
fn multipath() -> [Result<String, Absence>; 3] {
    let socket = match mptcp() {
        Ok(socket) => socket,
        Err(absent) => return [Err(absent.clone()), Err(absent.clone()), Err(absent)],
    };
    let answers =
        |result: io::Result<()>, remedy| result.map(|()| "answers".to_owned()).map_err(|e| absence(e, remedy));
    let manager = PathManager::open().map(|_| "answers".to_owned()).map_err(because);
    [Ok("sockets can be opened".to_owned()), answers(full_info(&socket), "it takes Linux 6.5"), manager]
}

fn mptcp() -> Result<OwnedFd, Absence> {
    const BUILD: &str = "it takes a kernel built with CONFIG_MPTCP";
    let enabled = fs::read_to_string("/proc/sys/net/mptcp/enabled");
    if enabled.map_err(|error| absence(error, BUILD))?.trim() == "0" {
        return Err(absence("net.mptcp.enabled is 0", "set it to 1"));
    }
    socket(libc::IPPROTO_MPTCP).map_err(|error| absence(error, BUILD))
}

fn socket(protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: integers go in; what comes out is nobody else's descriptor, or an error.
    #[allow(unsafe_code)]
    unsafe {
        let descriptor = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, protocol);
        Errno::result(descriptor).map(|descriptor| OwnedFd::from_raw_fd(descriptor)).map_err(Into::into)
    }
}

/// Asks for the statistics of a socket without subflows: a `struct mptcp_full_info` whose arrays have no room.
fn full_info(socket: &OwnedFd) -> io::Result<()> {
    let mut info = [0_u64; 32];
    let mut bytes = size_of_val(&info) as libc::socklen_t;
    let place = (&raw mut info).cast();
    // SAFETY: `info` has as many bytes as are said, both outlive the call, and all zeros means that no array is given.
    #[allow(unsafe_code)]
    let answer = unsafe { libc::getsockopt(socket.as_raw_fd(), SOL_MPTCP, MPTCP_FULL_INFO, place, &raw mut bytes) };
    Errno::result(answer).map(drop).map_err(Into::into)
}

/// The controllers that this process may choose, of those that are loaded.
fn controllers() -> Result<String, Absence> {
    let unknown = |error: io::Error| absence(error, "it takes TCP over IPv4, and /proc");
    let loaded = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").map_err(unknown)?;
    let socket = socket(libc::IPPROTO_TCP).map_err(unknown)?;
    let allowed = |name: &&str| setsockopt(&socket, sockopt::TcpCongestion, &OsString::from(name)).is_ok();
    Ok(loaded.split_whitespace().filter(allowed).collect::<Vec<_>>().join(" "))
}

fn release() -> Result<String, Absence> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map(|text| format!("Linux {}", text.trim())).map_err(|error| absence(error, "it takes /proc"))
}

fn cores() -> Result<String, Absence> {
    let cores = thread::available_parallelism();
    cores.map(|number| number.to_string()).map_err(|error| absence(error, "it takes /proc and /sys"))
}

fn realtime() -> Result<String, Absence> {
    const EFFECT: &str = "on a busy machine packets are late, and so are the programs at both ends of a transfer; root, \
                          CAP_SYS_NICE or `ulimit -r 50` helps";
    match priority::realtime() {
        true => Ok("can be had".to_owned()),
        false => Err(absence(io::Error::last_os_error(), EFFECT)),
    }
}

fn pids() -> Result<String, Absence> {
    match unshare(CloneFlags::CLONE_NEWPID) {
        Ok(()) => Ok("can be made".to_owned()),
        Err(errno) => Err(absence(io::Error::from(errno), ROOT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking(name: &'static str) -> Probe {
        let state = |part| if part == name { Err(absence("refused", "ask again")) } else { Ok("there".to_owned()) };
        let parts = [NAMESPACE, TUN, MPTCP, FULL_INFO, MANAGER, REALTIME, PIDS];
        Probe { parts: parts.map(|name| part(name, state(name))).to_vec() }
    }

    #[test]
    fn what_is_missing_is_said_in_a_line() {
        let error = lacking(TUN).emulate().unwrap_err();
        assert_eq!(error.to_string(), "a TUN device cannot be had: refused; ask again");
        assert!(lacking(TUN).to_string().contains("a TUN device: missing: refused; ask again\n"));
    }

    #[test]
    fn mptcp_is_needed_to_measure_it_only() {
        for name in [MPTCP, FULL_INFO, MANAGER] {
            assert!(lacking(name).emulate().is_ok(), "{name}");
            assert!(lacking(name).kernel().is_err(), "{name}");
        }
        for name in [REALTIME, PIDS] {
            assert!(lacking(name).kernel().is_ok(), "{name}: there is a way without");
        }
    }

    #[test]
    fn the_prober_stays_where_it_is() {
        let place =
            || ["net", "pid_for_children"].map(|kind| fs::read_link(format!("/proc/thread-self/ns/{kind}")).unwrap());
        let before = place();
        let found = probe();
        assert_eq!(place(), before);
        assert_eq!(found.emulate().is_ok(), Namespace::new().is_ok(), "{found}");
    }
}
