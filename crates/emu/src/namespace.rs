//! Network namespaces without names.
//!
//! A namespace made here is held by a descriptor and by what runs in it, and by nothing else: when the process ends,
//! however it ends, the kernel takes namespace, devices and routes away. There is nothing to clean up.

use std::fs::File;
use std::os::fd::AsFd;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::EmuError;

/// The namespace of the thread that opens it. A process has no single one: `setns` moves a thread.
const OWN: &str = "/proc/thread-self/ns/net";

const REMEDY: &str = "network namespaces need root, or CAP_SYS_ADMIN";

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// A new namespace, in which only a loopback device exists.
    pub fn new() -> Result<Self, EmuError> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| EmuError::missing("a network namespace", errno.into(), REMEDY))?;
            Self::current()
        })
    }

    /// The calling thread's namespace.
    pub fn current() -> Result<Self, EmuError> {
        let file = File::open(OWN).map_err(EmuError::system(OWN))?;
        Ok(Self { file })
    }

    /// Moves the calling thread into it, for good. Threads and children that it starts are in it too.
    pub fn enter(&self) -> Result<(), EmuError> {
        setns(self.file.as_fd(), CloneFlags::CLONE_NEWNET).map_err(EmuError::errno("entering a network namespace"))
    }

    /// Runs `work` in it, on a thread of its own; the calling thread stays where it is.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T, EmuError> + Send) -> Result<T, EmuError> {
        on_a_thread(|| {
            self.enter()?;
            work()
        })
    }
}

/// A thread that ends takes its namespace memberships along: nothing is to be restored.
fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T, EmuError> + Send) -> Result<T, EmuError> {
    thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// `/proc/net/dev` has two lines of headings, then one for each device.
    fn devices() -> Vec<String> {
        let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        text.lines().skip(2).map(|line| line.split(':').next().unwrap().trim().to_owned()).collect()
    }

    #[test]
    fn a_namespace_has_a_loopback_device_and_leaves_the_caller_alone() {
        let before = devices();
        let namespace = match Namespace::new() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        assert_eq!(namespace.within(|| Ok(devices())).unwrap(), ["lo"]);
        assert_eq!(devices(), before);
    }
}
