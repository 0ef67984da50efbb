//! Position of a path that repeats the connection's data: after everything it has carried,
//! never before the oldest unacknowledged byte.

use weftway_path::{Decision, Event, Flow, Offset, Path, PathId};

use crate::shared::per_path::PerPath;

/// The pointers of the copying paths.
///
/// A host may know that everything past a pointer has arrived out of order; its `Repeat` then
/// finds nothing. Some event other than `Sent` comes next, and the pointer skips that stretch:
/// else the path would ask for it again and again and keep new data from going.
#[derive(Clone, Default)]
pub(crate) struct Copies {
    barren: PerPath<Offset>,
    asked: Option<(PathId, Offset)>,
}

impl Copies {
    /// The next offset that `path` has a use for.
    #[inline]
    pub(crate) fn pointer(&self, path: &Path, flow: &Flow) -> Offset {
        let barren = self.barren.get(path.id).copied().unwrap_or_default();
        path.next.max(flow.una).max(barren)
    }

    /// Asks for the copy that is due on `path`, if data past its pointer have been sent.
    #[inline]
    pub(crate) fn repeat(&mut self, path: &Path, flow: &Flow) -> Option<Decision> {
        let pointer = self.pointer(path, flow);
        (pointer < flow.next).then(|| {
            self.asked = Some((path.id, flow.next));
            Decision::Repeat(path.id, pointer)
        })
    }

    /// Learns whether the last copy that was asked for went out.
    #[inline]
    pub(crate) fn observe(&mut self, event: &Event) {
        let asked = self.asked.take();
        match (*event, asked) {
            (Event::Sent(..), _) | (_, None) => {}
            (_, Some((path, end))) => *self.barren.at(path) = end,
        }
        if let Event::PathUp(path) = *event {
            self.barren.reset(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::{Receipt, SendKind};
    use weftway_vectors::testing::{MSS, packets, path};

    #[test]
    fn a_copy_that_did_not_go_out_is_not_asked_for_again() {
        let at = |n| Offset::ZERO + packets(n);
        let mut path = path(1, 20, 10, 0);
        path.next = at(3);
        let mut flow = Flow { next: at(10), ..Flow::default() };
        let mut copies = Copies::default();
        // The path has carried 0 to 2, so that 3 is due. It goes out: nothing is known to be barren.
        assert_eq!(copies.repeat(&path, &flow), Some(Decision::Repeat(path.id, at(3))));
        let receipt = Receipt { path: path.id, offset: at(3), bytes: MSS, serial: 0 };
        copies.observe(&Event::Sent(receipt, SendKind::Duplicate));
        copies.observe(&Event::Wake);
        assert_eq!(copies.pointer(&path, &flow), at(3));
        // Asked for again, and something else happens: all that had been sent by then, up to 10, is passed over.
        assert_eq!(copies.repeat(&path, &flow), Some(Decision::Repeat(path.id, at(3))));
        copies.observe(&Event::Wake);
        assert_eq!(copies.repeat(&path, &flow), None);
        flow.next = at(12);
        assert_eq!(copies.repeat(&path, &flow), Some(Decision::Repeat(path.id, at(10))));
        // A path that comes up anew begins anew.
        copies.observe(&Event::Sent(receipt, SendKind::Duplicate));
        copies.observe(&Event::PathUp(path.id));
        assert_eq!(copies.pointer(&path, &flow), at(3));
    }
}
