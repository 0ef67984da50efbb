//! A transfer over emulated paths: a lab of its own, set up, used once, and gone.

use std::sync::atomic::AtomicBool;

use weftway_path::{Bytes, Instant};

use crate::entry::{Record, Traffic};
use crate::kernel::{Ends, Opener, Outcome, ReadyTransfer, Transfer};
use crate::record::record;
use crate::{EmuError, EmulatorReport, Lab, LabPlan, Namespace, ReadyLab, client_address, server_address};

/// Size that the kernel starts a socket's buffers with, and their least size (`tcp_rmem`, `tcp_wmem`).
const LEAST_BUFFER: u64 = 4096;
const FIRST_RECEIVE_BUFFER: u64 = 131_072;
const FIRST_SEND_BUFFER: u64 = 16_384;

/// By when the connection's first packet has to be on its link. Both count from the same instant, but a busy machine
/// may stop the thread that is about to connect: the links' schedules then come so much too early for the connection.
const LATEST_START: Instant = Instant::from_millis(5);

/// Settings of both ends.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Backup flag of each path.
    pub backups: Vec<bool>,
    /// Size to which a send buffer grows by itself; `None`: the kernel's own bound.
    pub send_max: Option<Bytes>,
    /// Size to which a receive buffer does.
    pub receive_max: Option<Bytes>,
    /// True if connections negotiate ECN.
    pub ecn: bool,
}

/// Outcome of a measured transfer.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The transfer's outcome.
    pub outcome: Outcome,
    /// Report of the emulator: what the links did, and how punctual they were. Path k's links are number 2k, away from
    /// the client, and 2k + 1.
    pub report: EmulatorReport,
    /// Traffic over each link, if it was recorded.
    pub traffic: Vec<Traffic>,
}

impl Measured {
    /// Returns true if the links were in time: with the packets, and with the start of the connection.
    pub fn is_in_time(&self) -> bool {
        self.report.lateness.is_fit() && self.report.first_entered.is_some_and(|at| at <= LATEST_START)
    }
}

/// Carries out `order`, whose ends and addresses follow from `plan`: the client opens the connection. The links' time
/// zero is the transfer's.
///
/// # Errors
///
/// Where a lab cannot be had, and as [`super::transfer()`].
pub fn measure(
    plan: &LabPlan,
    setup: &Setup,
    order: &Transfer,
    to: Option<Record>,
    stop: &AtomicBool,
) -> Result<Measured, EmuError> {
    let lab = Lab::build(plan)?;
    if order.multipath {
        lab.join_paths(&setup.backups)?;
    }
    settle(&lab, setup)?;
    let subjects = lab.subjects().to_vec();
    let recording = to.map(|to| record(Record { subjects, ..to })).transpose()?;
    let (recorder, recording) = recording.unzip();
    let ReadyLab { emulator, client, server } = lab.ready(recorder)?;
    let order = Transfer { paths: (0..plan.paths.len()).map(client_address).collect(), ..order.clone() };
    let ends = ends(&client, &server, order.opener);
    let transfer = ReadyTransfer::new(&ends, &order)?;
    let emulator = emulator.start();
    let outcome = transfer.start(emulator.clock(), stop);
    let (_, report) = emulator.finish()?;
    let traffic = recording.map_or_else(|| Ok(Vec::new()), |recording| recording.finish())?;
    Ok(Measured { outcome: outcome?, report, traffic })
}

/// The ends of a transfer in a lab, where the client opens the connection.
pub(crate) fn ends<'a>(client: &'a Namespace, server: &'a Namespace, opener: Opener) -> Ends<'a> {
    let (ours, theirs) = (client_address(0), server_address(0));
    match opener {
        Opener::Sender => Ends { sender: client, receiver: server, sender_address: ours, receiver_address: theirs },
        Opener::Receiver => Ends { sender: server, receiver: client, sender_address: theirs, receiver_address: ours },
    }
}

/// Sets buffers and ECN of both ends.
pub(crate) fn settle(lab: &Lab, setup: &Setup) -> Result<(), EmuError> {
    lab.set("net/ipv4/tcp_ecn", if setup.ecn { "1" } else { "0" })?;
    // The kernel keeps them in an `int`.
    let buffer = |first: u64, max: Bytes| {
        let max = max.get().min(i32::MAX as u64);
        format!("{LEAST_BUFFER} {} {max}", first.min(max))
    };
    if let Some(max) = setup.receive_max {
        lab.set("net/ipv4/tcp_rmem", &buffer(FIRST_RECEIVE_BUFFER, max))?;
    }
    if let Some(max) = setup.send_max {
        lab.set("net/ipv4/tcp_wmem", &buffer(FIRST_SEND_BUFFER, max))?;
    }
    Ok(())
}
