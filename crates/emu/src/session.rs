//! Ordinary commands at both ends of emulated paths.

use std::fs;
use std::thread;
use std::time::{Duration, Instant as Wall};

use crate::commands::{self, Command, Exit, Running};
use crate::emulator::Emulator;
use crate::entry::Record;
use crate::lab::MOST_SUBFLOWS;
use crate::record::{Recording, record};
use crate::watch::Moment;
use crate::{EmuError, EmulatorReport, Lab, LabPlan, Namespace, Traffic, client_address, server_address};

/// Time that a server may take to open a socket before the client starts nevertheless.
const SERVER_START: Duration = Duration::from_secs(5);

/// Time that commands have to end when they are asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Commands to run.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// The command at the client's end; the session ends with it.
    pub client: Command,
    /// The one at the server's end, started first.
    pub server: Option<Command>,
    /// Files to write of the packets.
    pub record: Record,
}

/// Commands at work over emulated paths. Dropping it kills them.
#[derive(Debug)]
pub struct Session {
    client: Running,
    server: Option<Running>,
    emulator: Emulator,
    recording: Recording,
    /// Names of all links, by number.
    names: Vec<String>,
    // Held until the end: the last descriptor of a namespace keeps it.
    _namespaces: [Namespace; 2],
}

/// Outcome of a session.
#[derive(Clone, Debug)]
pub struct Finished {
    /// End of the client's command.
    pub client: Exit,
    /// End of the server's command: by itself, or because it was asked to.
    pub server: Option<Exit>,
    /// The server's program was asked to end: it would have served for ever.
    pub server_was_asked: bool,
    /// The emulator's report.
    pub report: EmulatorReport,
    /// Traffic over each link: up and down of the first path, and so on.
    pub traffic: Vec<Traffic>,
}

impl Session {
    /// Sets up `plan` and starts the commands: the server's first, and the client's when that has opened a socket, or
    /// has ended, or has had five seconds. `go_on` is asked meanwhile. The links' time zero is just before the client's
    /// command is started.
    pub fn start(plan: &LabPlan, order: Order, go_on: &mut dyn FnMut() -> bool) -> Result<Self, EmuError> {
        let lab = Lab::build(plan)?;
        let paths = plan.paths.len();
        // For commands that ask for MPTCP; the others do not miss it.
        let _ = lab.join_paths(&vec![false; paths.min(MOST_SUBFLOWS as usize)]);
        let mut server =
            order.server.as_ref().map(|command| start(lab.server(), command, "server", paths)).transpose()?;
        if let Some(server) = &mut server {
            wait_for(lab.server(), server, go_on)?;
        }
        let subjects = lab.subjects().to_vec();
        let shared = (0..plan.shared.len()).map(|at| format!("shared link {}", at + 1));
        let names = subjects.iter().map(|subject| subject.name.clone()).chain(shared).collect();
        let (recorder, recording) = record(Record { subjects, ..order.record })?;
        let running = lab.start(Some(recorder))?;
        let client = start(&running.client, &order.client, "client", paths)?;
        let namespaces = [running.client, running.server];
        Ok(Self { client, server, emulator: running.emulator, recording, names, _namespaces: namespaces })
    }

    /// Waits at most so long for the client's command to end.
    pub fn wait(&mut self, timeout: Duration) -> Option<Exit> {
        self.client.wait(timeout)
    }

    /// The links' names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// State of the links when this was called before, if that is more than a moment ago.
    pub fn links(&self) -> Moment {
        self.emulator.links()
    }

    /// Ends what still runs; packets under way are given up.
    pub fn finish(mut self) -> Result<Finished, EmuError> {
        let client = self.client.terminate(GRACE);
        // A server that ends by itself after its last client is let.
        let mut server_was_asked = false;
        let server = self.server.as_mut().map(|server| {
            let ended = server.wait(Duration::from_millis(500));
            server_was_asked = ended.is_none();
            ended.unwrap_or_else(|| server.terminate(GRACE))
        });
        let (_, report) = self.emulator.finish()?;
        Ok(Finished { client, server, server_was_asked, report, traffic: self.recording.finish()? })
    }
}

/// Starts a command that knows where its peer is.
fn start(namespace: &Namespace, command: &Command, side: &str, paths: usize) -> Result<Running, EmuError> {
    let list = |address: fn(usize) -> std::net::Ipv4Addr| {
        let addresses: Vec<String> = (0..paths).map(|at| address(at).to_string()).collect();
        addresses.join(" ")
    };
    let (own, peers) = match side {
        "client" => (list(client_address), list(server_address)),
        _ => (list(server_address), list(client_address)),
    };
    let first = peers.split(' ').next().unwrap_or_default().to_owned();
    let mut command = command.clone();
    let variables =
        [("WEFT_SIDE", side.to_owned()), ("WEFT_PEER", first), ("WEFT_PEERS", peers), ("WEFT_ADDRESSES", own)];
    command.env.extend(variables.map(|(name, value)| (name.to_owned(), value)));
    commands::spawn(namespace, &command)
}

fn wait_for(namespace: &Namespace, server: &mut Running, go_on: &mut dyn FnMut() -> bool) -> Result<(), EmuError> {
    let deadline = Wall::now() + SERVER_START;
    while Wall::now() < deadline && server.try_wait().is_none() && !namespace.within(|| Ok(has_socket()))? {
        if !go_on() {
            return Err(EmuError::Interrupted);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Returns true if anybody in the calling thread's namespace listens for connections or datagrams.
fn has_socket() -> bool {
    const LISTEN: &str = "0A";
    const UNCONNECTED: &str = "07";
    let in_state = |file: &str, state: &str| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        // sl, local address, remote address, st
        text.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some(state))
    };
    ["tcp", "tcp6"].iter().any(|file| in_state(file, LISTEN))
        || ["udp", "udp6"].iter().any(|file| in_state(file, UNCONNECTED))
}
