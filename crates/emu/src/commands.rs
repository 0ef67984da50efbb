//! Ordinary commands in a network namespace, of which nothing survives.
//!
//! ```text
//! this process ── supervisor thread ── init (PID 1) ── the command (PID 2) ── whatever it starts
//!       └───────────── control socket ───┘
//! ```
//!
//! - The command runs in a PID namespace of its own. When its first process ends, the kernel kills all others in it,
//!   daemons included. That process is `init`, a copy of this one that starts the command, waits for it and ends.
//! - `init` ends with the command, with the supervisor (`PR_SET_PDEATHSIG`, which follows the thread that forked: hence
//!   one thread per command) and with the last descriptor of the control socket. The latter two hold for a process that
//!   is killed with SIGKILL, and the socket also for one that is killed before the death signal is set.
//! - Standard streams, terminal, process group and working directory are the caller's, so Ctrl-C reaches the command
//!   and this process; `init` blocks all signals. A caller that wants to outlive Ctrl-C handles SIGINT: one that
//!   ignores it makes the command ignore it too.
//! - Mounts are the command's own, as under `ip netns exec`: `/proc` and `/sys` show its namespaces, or, where the
//!   system refuses to mount them, the caller's.
//!
//! Where PID namespaces are refused, the command gets a process group instead, which is killed in the same cases. What
//! leaves the group (`setsid`) then survives, and while the command runs, Ctrl-C reaches the command alone.
//!
//! It takes Linux 5.9 (`close_range`).

mod init;
mod terminal;

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, killpg};
use nix::sys::socket::{MsgFlags, send};
use nix::unistd::Pid;

use crate::{EmuError, Namespace};
use init::Confinement;
use terminal::Terminal;

/// A command to run.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// The program, searched in `PATH` unless it has a slash, and its arguments.
    pub argv: Vec<OsString>,
    /// Variables added to the caller's environment.
    pub env: Vec<(String, String)>,
    /// True if the command's standard output goes to standard error, so that the caller's own stays clean.
    pub quiet: bool,
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// The exit code as a shell gives it: a signal counts as 128 plus its number.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// A command that runs. Dropping it kills the command and all that it started, and waits for their end.
#[derive(Debug)]
pub struct Running {
    control: UnixStream,
    ended: Receiver<Exit>,
    exit: Option<Exit>,
    supervisor: Option<JoinHandle<()>>,
}

/// Starts `command` in `namespace`. A program that does not exist or may not be executed is an [`EmuError::Command`].
pub fn spawn(namespace: &Namespace, command: &Command) -> Result<Running, EmuError> {
    spawn_confined(namespace, command, None)
}

fn spawn_confined(namespace: &Namespace, command: &Command, want: Option<Confinement>) -> Result<Running, EmuError> {
    let (control, inner) = UnixStream::pair().map_err(EmuError::system("a command's control socket"))?;
    let listener = control.try_clone().map_err(EmuError::system("a command's control socket"))?;
    let (start, started) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let command = command.clone();
    let supervise = move || {
        let confinement = want.unwrap_or_else(confine);
        let terminal = Terminal::current();
        let child = match launch(&command, inner, confinement) {
            Ok(child) => child,
            Err(error) => return drop(start.send(Err(error))),
        };
        let _ = start.send(Ok(()));
        let exit = supervise(child, listener, confinement);
        terminal.reclaim();
        let _ = end.send(exit);
    };
    // A thread that starts inside is inside.
    let supervisor = namespace.within(|| {
        let thread = thread::Builder::new().name("command".to_owned()).spawn(supervise);
        thread.map_err(EmuError::system("a command's supervisor"))
    })?;
    started.recv().expect("the supervisor says how the start went")?;
    Ok(Running { control, ended, exit: None, supervisor: Some(supervisor) })
}

/// Lets the calling thread's next child be the first in a PID namespace, if that may be.
fn confine() -> Confinement {
    match unshare(CloneFlags::CLONE_NEWPID) {
        Ok(()) => Confinement::PidNamespace,
        Err(_) => Confinement::ProcessGroup,
    }
}

/// Starts init and, below it, the command. The child is init; an error of the command's `exec` comes back here.
fn launch(command: &Command, control: UnixStream, confinement: Confinement) -> Result<Child, EmuError> {
    let refused = |source| {
        let command = command.argv.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        EmuError::Command { command, source }
    };
    let empty = || refused(io::Error::new(io::ErrorKind::InvalidInput, "it is empty"));
    let (program, arguments) = command.argv.split_first().ok_or_else(empty)?;
    let mut builder = process::Command::new(program);
    builder.args(arguments).envs(command.env.iter().map(|(name, value)| (name, value)));
    if command.quiet {
        builder.stdout(io::stderr().as_fd().try_clone_to_owned().map_err(refused)?);
    }
    let descriptor = control.as_raw_fd();
    // SAFETY: `divide` makes system calls and nothing else: no allocation, no lock. `control` lives until the child has
    // been forked, and the child has its own copy.
    #[allow(unsafe_code)]
    unsafe {
        builder.pre_exec(move || init::divide(descriptor, confinement))
    };
    builder.spawn().map_err(refused)
}

/// Waits for the command's status, or for the end of init or of the caller's interest, and leaves nothing behind.
fn supervise(mut child: Child, mut control: UnixStream, confinement: Confinement) -> Exit {
    let mut status = [0; size_of::<i32>()];
    let told = control.read_exact(&mut status);
    let _ = match confinement {
        Confinement::PidNamespace => child.kill(),
        // Init leads the group. It has not been waited for, so the number is still its own.
        Confinement::ProcessGroup => killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL).map_err(Into::into),
    };
    // The kernel lets the first process of a PID namespace end after all others.
    let _ = child.wait();
    let status = told.ok().map(|()| ExitStatus::from_raw(i32::from_ne_bytes(status)));
    let code = status.and_then(|status| status.code()).map(Exit::Code);
    let signal = status.and_then(|status| status.signal()).unwrap_or(libc::SIGKILL);
    code.unwrap_or(Exit::Signal(signal))
}

impl Running {
    /// End of the command, or `None` while it runs.
    pub fn try_wait(&mut self) -> Option<Exit> {
        self.wait(Duration::ZERO)
    }

    /// Waits at most `timeout` for the end; `Duration::MAX` waits for as long as it takes. Once there is an exit,
    /// nothing that the command started is left.
    pub fn wait(&mut self, timeout: Duration) -> Option<Exit> {
        if self.exit.is_none() {
            self.exit = match self.ended.recv_timeout(timeout) {
                Ok(exit) => Some(exit),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Exit::Signal(libc::SIGKILL)),
            };
        }
        self.exit
    }

    /// Asks the command to end (SIGTERM, and SIGCONT in case it is stopped) and kills it when it has not done so after
    /// `grace`. Other processes that it started are killed with its end.
    pub fn terminate(&mut self, grace: Duration) -> Exit {
        if self.exit.is_none() {
            // When init is gone already, there is nobody to ask and nothing to kill.
            let asked = [libc::SIGTERM as u8, libc::SIGCONT as u8];
            let _ = send(self.control.as_raw_fd(), &asked, MsgFlags::MSG_NOSIGNAL);
        }
        self.wait(grace).unwrap_or_else(|| self.kill())
    }

    fn kill(&mut self) -> Exit {
        // Both init and the supervisor read an end of file, and each of them ends the command.
        let _ = self.control.shutdown(Shutdown::Both);
        self.wait(Duration::MAX).unwrap_or(Exit::Signal(libc::SIGKILL))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join();
        }
    }
}

#[cfg(test)]
mod tests;
