//! Data that an answer binds until the interval ends: all that its size class brings by then.

use weftway_path::spec::{Params, Spec, SpecError};
use weftway_path::{Bytes, Flow, Instant};
use weftway_sched::learned::TaskEntry;

use crate::Truth;
use weftway_sim::Connection;

/// For which data the best path is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// The message at hand: right for answers that hold for a message (`hold=message`).
    #[default]
    Message,
    /// All messages of its size class that the paths can take until the interval ends, behind those of the classes
    /// that were answered before: right for answers that hold for the interval.
    Interval,
}

/// Size classes of messages.
const CLASSES: usize = 3;

/// The answers of an interval, and what each of them binds.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    /// The largest messages of all classes but the last.
    bounds: [Bytes; CLASSES - 1],
    /// Each class's path, and until when.
    held: [Option<(usize, Instant)>; CLASSES],
}

impl Binding {
    /// No class has an answer; the bounds are those of the task that `spec` names.
    pub(crate) fn new(entry: &TaskEntry, spec: &str) -> Result<Self, SpecError> {
        let params = Params::new(entry.name, entry.params, &spec.parse::<Spec>()?.given)?;
        let bound = |name| Ok::<_, SpecError>(Bytes::new(params.get(name)?));
        Ok(Self { bounds: [bound("small")?, bound("large")?], held: [None; CLASSES] })
    }

    /// The class of the message at hand goes to `path` until the interval `ends`.
    pub(crate) fn hold(&mut self, flow: &Flow, path: usize, ends: Instant) {
        self.held[self.class(flow.message_end.since(flow.message_start))] = Some((path, ends));
    }

    /// Bytes that the class at hand brings until the interval `ends`; what the others bring goes to the queues of the
    /// paths that they were answered with.
    pub(crate) fn stake(
        &self,
        (conn, now): (&Connection, Instant),
        flow: &Flow,
        ends: Instant,
        truths: &mut [Option<Truth>],
    ) -> Bytes {
        let own = self.class(flow.message_end.since(flow.message_start));
        let carried = |truth: &Truth| truth.rate.bytes_in(ends.since(now));
        let most = truths.iter().flatten().map(carried).fold(Bytes::ZERO, |sum, bytes| sum + bytes);
        let brought = self.brought(conn, (flow.next.get(), own), ends, most);
        for (class, bytes) in brought.iter().enumerate().filter(|(class, _)| *class != own) {
            if let Some((path, until)) = self.held[class]
                && until == ends
                && let Some(truth) = &mut truths[path]
            {
                truth.queue += *bytes;
            }
        }
        // What is at hand counts in any case.
        brought[own].max(flow.message_end.since(flow.next).min(most))
    }

    /// By class, `most` bytes at most from `next` on, of messages that are written before the interval `ends`. What
    /// is no message is all of the class at hand.
    fn brought(&self, conn: &Connection, (next, own): (u64, usize), ends: Instant, most: Bytes) -> [Bytes; CLASSES] {
        let mut app = conn.app().clone();
        app.run(ends);
        let (mut left, mut brought) = (most, [Bytes::ZERO; CLASSES]);
        for message in app.outlook().filter(|message| message.end > next) {
            let bytes = Bytes::new(message.end - message.start.max(next)).min(left);
            let class =
                if conn.app().has_messages() { self.class(Bytes::new(message.end - message.start)) } else { own };
            brought[class] += bytes;
            left -= bytes;
        }
        brought
    }

    fn class(&self, size: Bytes) -> usize {
        self.bounds.iter().filter(|bound| size > **bound).count()
    }
}
