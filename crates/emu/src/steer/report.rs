//! What a steering did, and what that cost.

use weftway_path::Span;

/// How often something was done, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// How often.
    pub calls: u64,
    /// How long, all in all.
    pub total: Span,
    /// How long at most.
    pub most: Span,
}

/// What a steering did so far.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Report {
    /// Since it was opened.
    pub elapsed: Span,
    /// Connections that it met.
    pub connections: u64,
    /// Answers of the rule that name a path.
    pub decisions: u64,
    /// Answers that name none: everything stays as it is.
    pub waits: u64,
    /// Decisions for another path than the one before.
    pub switches: u64,
    /// Subflows that were opened.
    pub joins: u64,
    /// Refusals by the kernel.
    pub errors: u64,
    /// The last of them, or why a connection cannot be steered.
    pub last_error: Option<String>,
    /// Reading the statistics of one subflow.
    pub looks: Tally,
    /// Asking the rule.
    pub questions: Tally,
    /// Telling the kernel one priority.
    pub orders: Tally,
}

impl Tally {
    /// Counts one call that took so long.
    pub(super) fn add(&mut self, span: Span) {
        self.calls += 1;
        self.total += span;
        self.most = self.most.max(span);
    }

    /// The mean; zero where there was no call.
    pub fn mean(&self) -> Span {
        if self.calls == 0 { Span::ZERO } else { self.total / self.calls }
    }
}
