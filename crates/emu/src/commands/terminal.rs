//! Reader of the terminal.
//!
//! A shell with job control makes its own process group the terminal's foreground. When it runs as a command and ends,
//! it cannot give the terminal back: its caller's group has no number in its PID namespace. So the caller takes it.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp};

/// The terminal on standard input, if there is one.
#[derive(Clone, Copy)]
pub(super) struct Terminal {
    ours: bool,
}

impl Terminal {
    /// Notes whether the calling process's group is in the foreground. System calls only.
    pub(super) fn current() -> Self {
        Self { ours: foreground() == Some(getpgrp()) }
    }

    /// Puts the calling process's group into the foreground, if that is where its caller was. System calls only.
    pub(super) fn take(self) {
        if !self.ours {
            return;
        }
        // Who is in the background may do this only with SIGTTOU blocked.
        let mut stop = SigSet::empty();
        stop.add(Signal::SIGTTOU);
        let Ok(before) = SigSet::thread_get_mask() else { return };
        let _ = stop.thread_block();
        // SAFETY: two integers go in; nothing else is touched.
        #[allow(unsafe_code)]
        let _ = unsafe { libc::tcsetpgrp(libc::STDIN_FILENO, getpgrp().as_raw()) };
        let _ = before.thread_set_mask();
    }

    /// Takes the terminal back if the group in the foreground is gone.
    pub(super) fn reclaim(self) {
        if foreground().is_some_and(|group| killpg(group, None) == Err(Errno::ESRCH)) {
            self.take();
        }
    }
}

fn foreground() -> Option<Pid> {
    // SAFETY: an integer goes in and one comes out.
    #[allow(unsafe_code)]
    let group = unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) };
    (group > 0).then(|| Pid::from_raw(group))
}
