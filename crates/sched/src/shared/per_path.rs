//! Memory of a scheduler for each path. Grows when a path is first seen, then never moves.

use weftway_path::PathId;

/// Values of type `T`, one for each path, made by default.
#[derive(Clone, Default)]
pub(crate) struct PerPath<T>(Vec<T>);

impl<T: Clone + Default> PerPath<T> {
    /// Value of `path`, if it has one.
    #[inline]
    pub(crate) fn get(&self, path: PathId) -> Option<&T> {
        self.0.get(path.index())
    }

    /// Value of `path`, to change.
    #[inline]
    pub(crate) fn at(&mut self, path: PathId) -> &mut T {
        if path.index() >= self.0.len() {
            self.grow(path);
        }
        &mut self.0[path.index()]
    }

    #[cold]
    fn grow(&mut self, path: PathId) {
        self.0.resize(path.index() + 1, T::default());
    }

    /// Values of the paths, by number.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Forgets `path`: it left, or comes back as new.
    pub(crate) fn reset(&mut self, path: PathId) {
        if let Some(known) = self.0.get_mut(path.index()) {
            *known = T::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_forgotten_is_known_as_a_new_one_and_the_others_stay() {
        let mut known = PerPath::<u32>::default();
        (*known.at(PathId::new(0)), *known.at(PathId::new(2))) = (4, 7);
        known.reset(PathId::new(2));
        known.reset(PathId::new(9));
        assert_eq!([0, 1, 2, 9].map(|n| known.get(PathId::new(n)).copied()), [Some(4), Some(0), Some(0), None]);
    }
}
