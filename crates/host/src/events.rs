//! Events that a scheduler has not been told yet.

use weftway_path::Event;
use weftway_sched::Needs;

/// Events in the order in which they happened. What the scheduler does not listen to is not kept.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// True if the scheduler listens to everything.
    all: bool,
    /// True if it listens at least to its own wake-ups and to paths that come and go.
    rare: bool,
    list: Vec<Event>,
}

impl Events {
    /// For a scheduler with these needs.
    pub fn new(needs: Needs) -> Self {
        Self { all: needs.events, rare: needs.wake, list: Vec::new() }
    }

    /// Returns true if the scheduler listens to everything.
    #[inline]
    pub fn keeps_all(&self) -> bool {
        self.all
    }

    /// Returns true if there is nothing to tell.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Events that there are to tell.
    #[inline]
    pub fn as_slice(&self) -> &[Event] {
        &self.list
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, event: Event) {
        if self.all {
            self.list.push(event);
        }
    }

    /// Adds an event of those that come seldom: `Wake`, `PathUp`, `PathDown`.
    pub fn push_rare(&mut self, event: Event) {
        if self.all || self.rare {
            self.list.push(event);
        }
    }

    /// The list, to be told; [`Events::give_back`] returns its memory.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.list)
    }

    /// Everything was told.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Takes back the list that was told.
    #[inline]
    pub(crate) fn give_back(&mut self, mut told: Vec<Event>) {
        told.clear();
        self.list = told;
    }
}
