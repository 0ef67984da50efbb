//! Offers of a host, and needs of a scheduler.

use weftway_sched::Needs;

/// A host that offers all there is.
pub const EVERYTHING: Needs = Needs {
    flow: true,
    queueing: true,
    copies: true,
    ahead: true,
    recall: true,
    wake: true,
    events: true,
    device: true,
};

/// A driver over sockets: they do not say what a device holds.
pub const OVER_SOCKETS: Needs = Needs { device: false, ..EVERYTHING };

/// Why a scheduler that needs `needs` cannot run on `host`, which offers `offers`; `None` if it can. One line:
///
/// ```
/// use weftway_host::mismatch;
/// use weftway_sched::Needs;
///
/// let needs = Needs { flow: true, ..Needs::NONE };
/// assert_eq!(
///     mismatch(needs, Needs::NONE, "a gate").unwrap(),
///     "it needs a view of the connection's data (flow), which a gate does not offer",
/// );
/// assert_eq!(mismatch(needs, needs, "a gate"), None);
/// ```
pub fn mismatch(needs: Needs, offers: Needs, host: &str) -> Option<String> {
    let lacking = [
        (needs.flow, offers.flow, "a view of the connection's data (flow)"),
        (needs.queueing, offers.queueing, "paths that queue"),
        (needs.copies, offers.copies, "copies"),
        (needs.ahead, offers.ahead, "data out of order (ahead)"),
        (needs.recall, offers.recall, "data taken back from a path's queue (recall)"),
        (needs.wake, offers.wake, "wake-ups (wake)"),
        (needs.events, offers.events, "events"),
        (needs.device, offers.device, "a view of what the sender's device holds (device)"),
    ];
    let lacking: Vec<&str> =
        lacking.into_iter().filter(|(needed, offered, _)| *needed && !offered).map(|(.., what)| what).collect();
    (!lacking.is_empty()).then(|| format!("it needs {}, which {host} does not offer", lacking.join(", ")))
}
