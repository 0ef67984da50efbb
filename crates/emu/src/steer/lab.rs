//! A transfer over emulated paths that is steered: [`kernel::measure`](crate::kernel::measure) with a hand on it.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use super::host::{Rule, Settings, Steering};
use super::report::SteeringReport;
use crate::kernel::{Measured, Opener, ReadyTransfer, Setup, Transfer, ends, settle};
use crate::{EmuError, Lab, LabPlan, Namespace, ReadyLab, client_address};

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
    let ReadyLab { emulator, client, server } = lab.ready(None)?;
    let order = Transfer { paths: (0..plan.paths.len()).map(client_address).collect(), ..order.clone() };
    let ends = ends(&client, &server, order.opener);
    if order.opener == Opener::Receiver {
        ends.sender.within(by_program)?;
    }
    let transfer = ReadyTransfer::new(&ends, &order)?;
    let ((outcome, links), report) = steered(ends.sender, settings, rule, || {
        let emulator = emulator.start();
        let outcome = transfer.start(emulator.clock(), stop);
        let (_, links) = emulator.finish()?;
        Ok((outcome?, links))
    })?;
    Ok((Measured { outcome, report: links, traffic: Vec::new() }, report))
}

/// Result of `work`, with the steering beside it in `namespace` from before its start to its end.
fn steered<T>(
    namespace: &Namespace,
    settings: Settings,
    rule: &mut Rule<'_>,
    work: impl FnOnce() -> Result<T, EmuError>,
) -> Result<(T, SteeringReport), EmuError> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (ready, is_ready) = channel();
        let over = &over;
        let steering = scope.spawn(move || {
            namespace.within(|| {
                let steering = Steering::open(settings)?;
                // If nobody waits any more, the loop ends at once.
                let _ = ready.send(());
                steering.run(rule, over)
            })
        });
        // An error says what is wrong when the thread is asked.
        let worked = is_ready.recv().map(|()| work());
        over.store(true, Ordering::Relaxed);
        let report = steering.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((worked.expect("a steering that began has said so")?, report))
    })
}

/// Gives the calling thread's namespace the userspace path manager, for connections to come.
fn by_program() -> Result<(), EmuError> {
    fs::write("/proc/sys/net/mptcp/pm_type", "1").map_err(EmuError::system("choosing the userspace path manager"))
}
