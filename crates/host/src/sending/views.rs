//! The paths as schedulers see them, in place: the offered ones first, by number.

use weftway_path::{BitRate, Bytes, Path, PathId, PathSet};

/// Every path of a connection; the first [`Views::usable`] ones are what a scheduler sees. Where no policy closes one,
/// they are all that are up.
#[derive(Clone, Debug)]
pub struct Views {
    paths: Vec<Path>,
    /// Place of each path.
    slot: [u8; PathId::MAX_PATHS],
    up: PathSet,
    closed: PathSet,
    closing: PathSet,
    offered: PathSet,
    count: usize,
}

impl Views {
    /// None of `paths` is usable yet.
    pub fn new(paths: Vec<Path>) -> Self {
        let slot = core::array::from_fn(|at| at as u8);
        let none = PathSet::EMPTY;
        Self { paths, slot, up: none, closed: none, closing: none, offered: none, count: 0 }
    }

    /// Number of paths, usable or not.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns true if there is no path at all.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The paths that a scheduler sees, by number: those that are up and not closed.
    #[inline]
    pub fn usable(&self) -> &[Path] {
        &self.paths[..self.count]
    }

    /// Paths among them that take data where nothing blocks them: they are not about to be closed.
    #[inline]
    pub fn offered(&self) -> PathSet {
        self.offered
    }

    /// The paths that are up, closed or not.
    #[inline]
    pub fn set(&self) -> PathSet {
        self.up
    }

    /// The paths that a policy closes, up or not.
    #[inline]
    pub fn closed(&self) -> PathSet {
        self.closed
    }

    /// The paths that a policy is about to close: what they have under way is not settled.
    #[inline]
    pub fn closing(&self) -> PathSet {
        self.closing
    }

    /// Any path.
    #[inline]
    pub fn get(&self, id: PathId) -> &Path {
        &self.paths[self.place(id)]
    }

    /// Any path.
    #[inline]
    pub fn get_mut(&mut self, id: PathId) -> &mut Path {
        let place = self.place(id);
        &mut self.paths[place]
    }

    /// Any path, and which ones are offered.
    #[inline]
    pub fn get_mut_with_offered(&mut self, id: PathId) -> (&mut Path, &PathSet) {
        let place = self.place(id);
        (&mut self.paths[place], &self.offered)
    }

    #[inline]
    fn place(&self, id: PathId) -> usize {
        // The remainder changes nothing, and spares the test whether it is within bounds.
        usize::from(self.slot[id.index() % PathId::MAX_PATHS])
    }

    /// A path is up from now on, or down.
    pub fn set_usable(&mut self, id: PathId, usable: bool) {
        self.up = self.up.put(id, usable);
        self.sort();
    }

    /// A policy closes a path, or opens it.
    pub fn set_closed(&mut self, id: PathId, closed: bool) {
        self.closed = self.closed.put(id, closed);
        self.closing = self.closing.without(id);
        self.sort();
    }

    /// A policy is about to close a path.
    pub fn set_closing(&mut self, id: PathId) {
        self.closing = self.closing.with(id);
        self.sort();
    }

    /// Window for a path that starts beside others: half of what the last rate of another brings in a round trip of
    /// this path, of the slowest that has delivered `initial_window`. None if none has.
    pub fn window_beside(&self, id: PathId, initial_window: Bytes) -> Option<Bytes> {
        let others = self.up.without(id).iter().map(|other| self.get(other));
        let shown = others.filter(|path| path.acked.bytes >= initial_window && path.delivery_rate > BitRate::ZERO);
        let rate = shown.map(|path| path.delivery_rate).min()?;
        Some(rate.bytes_in(self.get(id).srtt).mul_div(1, 2))
    }

    fn sort(&mut self) {
        let set = self.up.minus(self.closed);
        self.offered = set.minus(self.closing);
        self.count = set.len() as usize;
        self.paths.sort_by_key(|path| (!set.contains(path.id), path.id));
        for (at, path) in self.paths.iter().enumerate() {
            self.slot[path.id.index()] = at as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Bytes;

    #[test]
    fn usable_paths_come_first_by_number() {
        let path = |n| Path::new(PathId::new(n), Bytes::new(1), Bytes::new(1));
        let mut views = Views::new((0..3).map(path).collect());
        views.set_usable(PathId::new(2), true);
        views.set_usable(PathId::new(0), true);
        assert_eq!(views.usable().iter().map(|path| path.id.get()).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(views.get(PathId::new(1)).id, PathId::new(1));
        views.set_usable(PathId::new(0), false);
        assert_eq!(views.usable()[0].id, PathId::new(2));
    }

    /// 8 Mbit/s for 50 ms are 50 kB, and 4 Mbit/s 25 kB. A path that has delivered less than 10 kB has shown nothing.
    #[test]
    fn a_path_starts_with_half_of_what_the_slowest_other_has_shown() {
        let path = |n| Path::new(PathId::new(n), Bytes::new(1000), Bytes::new(10_000));
        let mut views = Views::new((0..3).map(path).collect());
        (0..3).for_each(|n| views.set_usable(PathId::new(n), true));
        let new = PathId::new(2);
        views.get_mut(new).srtt = weftway_path::Span::from_millis(50);
        for (n, mbps, acked) in [(0, 8, 10_000), (1, 4, 9_999)] {
            let view = views.get_mut(PathId::new(n));
            view.delivery_rate = BitRate::from_mbps(mbps);
            view.acked.bytes = Bytes::new(acked);
        }
        let beside = |views: &Views| views.window_beside(new, Bytes::new(10_000)).map(Bytes::get);
        assert_eq!(beside(&views), Some(25_000));
        views.get_mut(PathId::new(1)).acked.bytes = Bytes::new(10_000);
        assert_eq!(beside(&views), Some(12_500));
        (0..2).for_each(|n| views.set_usable(PathId::new(n), false));
        assert_eq!(beside(&views), None);
    }

    #[test]
    fn a_closed_path_is_up_and_not_offered() {
        let path = |n| Path::new(PathId::new(n), Bytes::new(1), Bytes::new(1));
        let mut views = Views::new((0..2).map(path).collect());
        views.set_closed(PathId::new(0), true);
        (0..2).for_each(|n| views.set_usable(PathId::new(n), true));
        assert_eq!(views.usable().iter().map(|path| path.id.get()).collect::<Vec<_>>(), [1]);
        assert!(views.set().contains(PathId::new(0)) && !views.offered().contains(PathId::new(0)));
        assert_eq!(views.get(PathId::new(0)).id, PathId::new(0));
        views.set_closing(PathId::new(1));
        assert!(views.usable().len() == 1 && views.offered().is_empty(), "it is seen until it is closed");
        views.set_closed(PathId::new(0), false);
        assert_eq!(views.usable()[0].id, PathId::new(0));
    }
}
