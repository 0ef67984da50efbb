//! A transfer over emulated paths that is steered: [`kernel::measure`](crate::kernel::measure) with a hand on it.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use super::host::{Rule, Settings, Steering};
use super::report::SteeringReport;
use crate::kernel::{Ends, Measured, Opener, Outcome, Setup, Transfer, ends, settle, transfer};
use crate::{EmuError, Lab, LabPlan, client_address};

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
) -> Result<(Measured, SteeringReport), EmuError> {
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
) -> Result<(Outcome, SteeringReport), EmuError> {
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

/// Gives the calling thread's namespace the userspace path manager, for connections to come.
fn by_program() -> Result<(), EmuError> {
    fs::write("/proc/sys/net/mptcp/pm_type", "1").map_err(EmuError::system("choosing the userspace path manager"))
}
