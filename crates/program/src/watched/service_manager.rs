//! Messages to systemd of a service of `Type=notify`: that it is ready, what it does, that it lives (sd_notify(3)).

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use super::snapshot::Snapshot;

/// Variables of the environment: the address, and after how many microseconds without a sign of life the program is
/// killed.
const VARIABLES: [&str; 2] = ["NOTIFY_SOCKET", "WATCHDOG_USEC"];

/// The service manager that started this program. Without one, nothing is told. It hears this process alone
/// (`NotifyAccess=main`), and none of those that this one starts.
pub struct ServiceManager {
    /// A path, or a name after an @.
    address: String,
    /// Time between two signs of life, if they are awaited.
    every: Option<Duration>,
    due: Option<Instant>,
    is_ready: bool,
    status: String,
}

impl ServiceManager {
    /// The one that the environment names.
    pub fn new() -> Self {
        let [address, watchdog] = VARIABLES.map(|name| std::env::var(name).unwrap_or_default());
        Self::at(address, watchdog.parse().unwrap_or(0))
    }

    /// The one at this address, which waits so many microseconds for a sign of life.
    fn at(address: String, watchdog: u64) -> Self {
        let every = (watchdog > 0).then(|| Duration::from_micros(watchdog) / 2);
        Self { address, every, due: None, is_ready: false, status: String::new() }
    }

    /// Tells that the program's loop goes on.
    pub fn alive(&mut self, now: Instant) {
        if let Some(every) = self.every
            && self.due.is_none_or(|due| now >= due)
        {
            self.due = Some(now + every);
            self.send("WATCHDOG=1");
        }
    }

    /// Tells what has changed.
    pub fn tell(&mut self, snapshot: &Snapshot) {
        if snapshot.state == "relaying" && !self.is_ready {
            self.is_ready = true;
            self.send("READY=1");
        }
        let status = format!("{}, {} connections", snapshot.state, snapshot.progress.flows);
        if status != self.status {
            self.send(&format!("STATUS={status}"));
            self.status = status;
        }
    }

    /// Sends a message; nobody waits for it, and it may be lost.
    fn send(&self, text: &str) {
        if self.address.is_empty() {
            return;
        }
        let _ = send(&self.address, text);
    }
}

fn send(address: &str, text: &str) -> std::io::Result<usize> {
    let datagrams = UnixDatagram::unbound()?;
    datagrams.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    if let Some(name) = address.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return datagrams.send_to_addr(text.as_bytes(), &address);
    }
    datagrams.send_to(text.as_bytes(), address)
}

impl Drop for ServiceManager {
    fn drop(&mut self) {
        self.send("STOPPING=1");
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::tests::{progress, snapshot};
    use super::*;

    fn told(datagrams: &UnixDatagram) -> Vec<String> {
        let mut found = Vec::new();
        let mut buffer = [0; 1000];
        while let Ok(length) = datagrams.recv(&mut buffer) {
            found.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        found
    }

    fn it_is_told_what_it_waits_for(datagrams: &UnixDatagram, address: String) {
        datagrams.set_nonblocking(true).expect("a socket");
        let (mut manager, now) = (ServiceManager::at(address, 4_000_000), Instant::now());
        manager.alive(now);
        manager.tell(&Snapshot { state: "connecting".into(), ..snapshot(&progress()) });
        assert_eq!(told(datagrams), ["WATCHDOG=1", "STATUS=connecting, 3 connections"]);
        for _ in 0..2 {
            manager.tell(&snapshot(&progress()));
            manager.alive(now);
        }
        assert_eq!(told(datagrams), ["READY=1", "STATUS=relaying, 3 connections"]);
        manager.alive(now + Duration::from_secs(2));
        drop(manager);
        assert_eq!(told(datagrams), ["WATCHDOG=1", "STOPPING=1"]);
    }

    #[test]
    fn a_service_manager_at_a_path_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let datagrams = UnixDatagram::bind(&path).expect("a socket");
        it_is_told_what_it_waits_for(&datagrams, path.to_string_lossy().into_owned());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_service_manager_at_an_abstract_address_is_told() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("weft-{}", std::process::id());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("an address");
        let datagrams = UnixDatagram::bind_addr(&address).expect("a socket");
        it_is_told_what_it_waits_for(&datagrams, format!("@{name}"));
    }

    #[test]
    fn without_a_service_manager_nothing_is_told() {
        let mut manager = ServiceManager::at(String::new(), 0);
        manager.alive(Instant::now());
        manager.tell(&snapshot(&progress()));
    }
}
