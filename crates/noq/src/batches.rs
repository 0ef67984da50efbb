//! Datagrams that wait to be sent, a batch for each path.

use noq::udp::Transmit;
use weftway_udp::Batch;

/// Largest number of paths that have a batch at a time.
pub(crate) const PATHS: usize = 16;

/// At most one batch for each path.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    batches: Vec<Batch>,
    /// The memory of batches that have left.
    spare: Vec<Vec<u8>>,
}

impl Batches {
    /// Adds `transmit`; a call takes so many `segments`. False if there is no room before the batches have left.
    pub(crate) fn push(&mut self, transmit: &Transmit<'_>, segments: usize) -> bool {
        if let Some(batch) = self.batches.iter_mut().find(|batch| batch.leads(transmit)) {
            let takes = batch.takes(transmit, segments);
            if takes {
                batch.push(transmit.contents);
            }
            return takes;
        }
        let has_room = self.batches.len() < PATHS;
        if has_room {
            self.batches.push(Batch::new(transmit, self.spare.pop().unwrap_or_default()));
        }
        has_room
    }

    /// They leave in the order in which they were begun.
    pub(crate) fn first(&self) -> Option<&Batch> {
        self.batches.first()
    }

    /// The first one has left.
    pub(crate) fn pop(&mut self) {
        self.spare.push(self.batches.remove(0).into_room());
    }

    /// Tells whether no packet waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }
}
