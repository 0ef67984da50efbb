//! The path on which the packet would arrive first, counting what the sender's own device holds.
//!
//! Rule: `argmin (n + 1)/μ + srtt/2` over the paths that may send, the first of equals; `n` packets
//! are in the device, which serves μ a second. Classes and data sent before as in min-RTT.
//! μ is the delivery rate, before there is one the window over srtt. In bytes: `n` packets are what
//! the device holds, and the one more is a full packet.
//! Reference: Shreedhar, Mohan, Kaul, Kangasharju: QAware: A Cross-Layer Approach to MPTCP Scheduling, IFIP Networking
//! 2018, from its summary.
//! State: none.
//! Departs from print: the authors measure the service times of their device; here the sender's
//! estimate of the path stands for its rate. The paper's text was not at hand. By its abstract (arXiv 1808.04390) the
//! rule joins estimates of the end-to-end delay with what the device holds. A reader's notes on the whole text
//! (KevinashoUWU/cengarde docs/historias/012-bonding/ejes.md) have it as `argmin (n + 1)·Ŝ`, Ŝ the estimated service
//! time, with no term for the way. They do not say whether Ŝ ends at the device or at the receiver, so the term here
//! stays.

use weftway_path::{Context, Decision, Path, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::forecast;

pub(crate) static ENTRY: Entry = Entry {
    name: "qaware",
    aliases: &["q-aware", "queue-aware"],
    summary: "the path of earliest arrival, counting what the sender's device holds",
    reference: "Shreedhar, Mohan, Kaul, Kangasharju: QAware: A Cross-Layer Approach to MPTCP Scheduling, IFIP Networking 2018",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "general",
    inputs: &[Input::Rtt, Input::Rate, Input::Queue],
    needs: Needs { device: true, ..Needs::NONE },
    build: |_| Ok(Box::new(QAware)),
    ..Entry::NEW
};

#[derive(Clone)]
struct QAware;

/// Returns the time from now until a packet that is sent on `path` now has arrived.
#[inline]
fn arrival(path: &Path) -> Span {
    forecast::rate(path).transmission_time(path.device_queue + path.mss) + path.srtt / 2
}

fn pick<'a>(cx: &Context<'a>) -> Option<&'a Path> {
    choose::pick_least(cx, arrival)
}

impl Scheduler for QAware {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = pick(cx)?;
        Some(format!(
            "{:?} arrives first, in {}: {} before it at {}",
            path.id,
            arrival(path),
            path.device_queue,
            forecast::rate(path)
        ))
    }
}
