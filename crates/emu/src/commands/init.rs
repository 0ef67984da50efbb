//! The least that can be the first process of a PID namespace.
//!
//! All of this runs between `fork` and `exec`, or never reaches an `exec`, in a copy of a process whose other threads
//! are gone with whatever locks they held. So it consists of system calls: nothing here allocates, locks or panics.

use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::{set_name, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, setpgid};

use super::terminal::Terminal;

/// Confinement of a command, which is killed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confinement {
    /// A PID namespace, which nothing leaves.
    PidNamespace,
    /// A process group, which a process can leave.
    ProcessGroup,
}

/// Divides the calling process in two: init, which never returns from here, and its child, which returns to execute the
/// command. `control` is init's end of the control socket.
pub(super) fn divide(control: RawFd, confinement: Confinement) -> io::Result<()> {
    match confinement {
        Confinement::PidNamespace => {
            set_pdeathsig(Signal::SIGKILL)?;
            own_views();
        }
        Confinement::ProcessGroup => lead_group()?,
    }
    let mut watch: RawFd = -1;
    match fork_watched(&mut watch)? {
        0 => Ok(set_pdeathsig(Signal::SIGKILL)?),
        command => Init { control, watch, command: Pid::from_raw(command), confinement }.run(),
    }
}

/// A mount namespace in which `/proc` and `/sys` show this process's namespaces. Whatever is refused stays the
/// caller's.
fn own_views() {
    const NONE: Option<&CStr> = None;
    // A slave follows the caller's mounts, as a file system that is unmounted there, and tells the caller nothing.
    let slave = MsFlags::MS_SLAVE | MsFlags::MS_REC;
    if unshare(CloneFlags::CLONE_NEWNS).is_err() || mount(NONE, c"/", NONE, slave, NONE).is_err() {
        return;
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let _ = mount(Some(c"proc"), c"/proc", Some(c"proc"), flags, NONE);
    let _ = mount(Some(c"sysfs"), c"/sys", Some(c"sysfs"), flags, NONE);
}

/// A process group of this process's own, with the terminal if the caller had it.
fn lead_group() -> nix::Result<()> {
    let terminal = Terminal::current();
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    terminal.take();
    Ok(())
}

/// `fork`, with a descriptor of the child that becomes readable when it ends. It is the system call itself, since
/// libc's `fork` runs handlers that other libraries registered, which may allocate and lock.
fn fork_watched(watch: &mut RawFd) -> nix::Result<libc::pid_t> {
    let flags = (libc::CLONE_PIDFD | libc::SIGCHLD) as libc::c_ulong;
    let none: libc::c_ulong = 0;
    // SAFETY: without CLONE_VM the child has a copy of the memory, stack included, as after `fork`. The kernel writes
    // the descriptor to `watch`, which outlives the call.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, none, &raw mut *watch, none, none) };
    Errno::result(pid).map(|pid| pid as libc::pid_t)
}

struct Init {
    control: RawFd,
    watch: RawFd,
    command: Pid,
    confinement: Confinement,
}

impl Init {
    /// Waits for the command, passes signals on to it, and reports its status. An end of file on `control` says that
    /// nobody waits any more.
    fn run(self) -> ! {
        // SIGKILL cannot be blocked. What a terminal sends is for the command, and the caller's handlers not for here.
        let _ = SigSet::all().thread_set_mask();
        let _ = set_name(c"weft-init");
        // The caller's descriptors would keep its pipes and devices open, and `spawn` waiting.
        let kept = close_all_but(self.control, self.watch);
        while kept && self.go_on() {}
        self.end()
    }

    /// Handles what happens next; `false` when that is the end.
    fn go_on(&self) -> bool {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries = [entry(self.watch), entry(self.control)];
        // SAFETY: `entries` is an array of the length given, and lives until the call returns.
        #[allow(unsafe_code)]
        let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, -1) };
        match entries {
            _ if ready < 0 => Errno::last() == Errno::EINTR,
            [watch, _] if watch.revents != 0 => {
                self.report();
                false
            }
            _ => self.pass_on(),
        }
    }

    /// Takes a signal's number from `control` and sends it to the command; `false` at the end of file.
    fn pass_on(&self) -> bool {
        let mut number = 0_u8;
        // SAFETY: one byte is read to a place of one byte.
        #[allow(unsafe_code)]
        let bytes = unsafe { libc::read(self.control, (&raw mut number).cast(), 1) };
        if let (1, Ok(signal)) = (bytes, Signal::try_from(libc::c_int::from(number))) {
            let _ = kill(self.command, signal);
        }
        bytes == 1
    }

    fn report(&self) {
        let mut status: libc::c_int = 0;
        // SAFETY: the kernel writes one integer to `status`, and the second call reads it. SIGPIPE is blocked.
        #[allow(unsafe_code)]
        unsafe {
            if libc::waitpid(self.command.as_raw(), &raw mut status, 0) == self.command.as_raw() {
                libc::write(self.control, (&raw const status).cast(), size_of_val(&status));
            }
        }
    }

    fn end(&self) -> ! {
        if self.confinement == Confinement::ProcessGroup {
            // This process is one of the group.
            let _ = kill(Pid::from_raw(0), Signal::SIGKILL);
        }
        // SAFETY: `_exit` runs no handlers and has no conditions.
        #[allow(unsafe_code)]
        unsafe {
            libc::_exit(0)
        }
    }
}

/// Closes every descriptor but two, and says whether that worked.
fn close_all_but(one: RawFd, other: RawFd) -> bool {
    let (low, high) = (one.min(other), one.max(other));
    let gaps = [(0, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)];
    gaps.into_iter().filter(|(first, last)| first <= last).all(|(first, last)| {
        // SAFETY: this process uses no descriptor but the two, and executes nothing that could.
        #[allow(unsafe_code)]
        let closed = unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, last as libc::c_uint, 0) };
        closed == 0
    })
}
