//! A transfer over emulated paths that is steered: [`kernel::measure`](crate::kernel::measure) with a hand on it.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use weftway_path::Bytes;

use super::host::{Rule, Settings, Steering};
use super::report::Report;
use crate::kernel::{Ends, Measured, Opener, Outcome, Setup, Transfer, transfer};
use crate::{EmuError, Lab, LabPlan, Namespace, client_address, server_address};

/// What the kernel starts a socket's buffers with, and their least size (`tcp_rmem`, `tcp_wmem`).
const LEAST_BUFFER: u64 = 4096;
const FIRST_RECEIVE_BUFFER: u64 = 131_072;
const FIRST_SEND_BUFFER: u64 = 16_384;

/// Carries out `order` in a lab of its own while `rule` steers at the sender, as `settings` say.
///
/// The client's path manager is the in-kernel one, steered or not, so that subflows are joined alike. A server has one
/// address for all subflows: there, they are steered by the userspace path manager.
///
/// # Errors
///
/// Where a lab cannot be had, where the transfer fails, and where steering fails.
pub fn measure(
    (plan, setup, order): (&LabPlan, &Setup, &Transfer),
    settings: Settings,
    rule: &mut Rule<'_>,
    stop: &AtomicBool,
) -> Result<(Measured, Report), EmuError> {
    let lab = Lab::build(plan)?;
    lab.join_paths(&setup.backups)?;
    settle(&lab, setup)?;
    let running = lab.start(None)?;
    let order = Transfer { paths: (0..plan.paths.len()).map(client_address).collect(), ..order.clone() };
    let ends = ends(&running.client, &running.server, order.opener);
    if order.opener == Opener::Receiver {
        ends.sender.within(by_program)?;
    }
    let (outcome, report) = steered(&ends, &order, (settings, rule), stop)?;
    let (_, links) = running.emulator.finish()?;
    Ok((Measured { outcome, report: links, traffic: Vec::new() }, report))
}

/// The transfer, with the steering beside it from before its start to its end.
fn steered(
    ends: &Ends<'_>,
    order: &Transfer,
    (settings, rule): (Settings, &mut Rule<'_>),
    stop: &AtomicBool,
) -> Result<(Outcome, Report), EmuError> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (ready, is_ready) = channel();
        let over = &over;
        let steering = scope.spawn(move || {
            ends.sender.within(|| {
                let steering = Steering::open(settings)?;
                // If nobody waits any more, the loop ends at once.
                let _ = ready.send(());
                steering.run(rule, over)
            })
        });
        // An error says what is wrong when the thread is asked.
        let outcome = is_ready.recv().map(|()| transfer(ends, order, stop));
        over.store(true, Ordering::Relaxed);
        let report = steering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((outcome.expect("a steering that began has said so")?, report))
    })
}

fn ends<'a>(client: &'a Namespace, server: &'a Namespace, opener: Opener) -> Ends<'a> {
    let (ours, theirs) = (client_address(0), server_address(0));
    match opener {
        Opener::Sender => Ends { sender: client, receiver: server, sender_address: ours, receiver_address: theirs },
        Opener::Receiver => Ends { sender: server, receiver: client, sender_address: theirs, receiver_address: ours },
    }
}

/// Gives the calling thread's namespace the userspace path manager, for connections to come.
fn by_program() -> Result<(), EmuError> {
    fs::write("/proc/sys/net/mptcp/pm_type", "1").map_err(EmuError::system("choosing the userspace path manager"))
}

/// Buffers and ECN as [`kernel::measure`](crate::kernel::measure) sets them.
fn settle(lab: &Lab, setup: &Setup) -> Result<(), EmuError> {
    lab.set("net/ipv4/tcp_ecn", if setup.ecn { "1" } else { "0" })?;
    let buffer = |first: u64, max: Bytes| format!("{LEAST_BUFFER} {} {}", first.min(max.get()), max.get());
    if let Some(max) = setup.receive_max {
        lab.set("net/ipv4/tcp_rmem", &buffer(FIRST_RECEIVE_BUFFER, max))?;
    }
    if let Some(max) = setup.send_max {
        lab.set("net/ipv4/tcp_wmem", &buffer(FIRST_SEND_BUFFER, max))?;
    }
    Ok(())
}
