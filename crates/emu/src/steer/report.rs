//! Actions of a steering, and what that cost.

use serde_json::{Value, json};
use weftway_path::Span;
use weftway_scenario::Row;

/// Number of times that something was done, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// Number of calls.
    pub calls: u64,
    /// Duration of all calls.
    pub total: Span,
    /// Longest time.
    pub most: Span,
}

/// Actions of a steering so far.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SteeringReport {
    /// Since it was opened.
    pub elapsed: Span,
    /// Connections that it met.
    pub connections: u64,
    /// Answers of the rule that name a path.
    pub decisions: u64,
    /// Answers that name none: everything stays as it is.
    pub waits: u64,
    /// Decisions against the rules: the path with the lowest round-trip time was named in their place.
    pub faults: u64,
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

impl SteeringReport {
    /// The columns that follow those of the run that was steered.
    pub fn columns(&self) -> Row {
        let columns = [
            ("steer_ms", json!(self.elapsed.as_millis_f64())),
            ("steer_connections", json!(self.connections)),
            ("steer_decisions", json!(self.decisions)),
            ("steer_waits", json!(self.waits)),
            ("steer_faults", json!(self.faults)),
            ("steer_switches", json!(self.switches)),
            ("steer_joins", json!(self.joins)),
            ("steer_errors", json!(self.errors)),
            ("steer_last_error", json!(self.last_error)),
            ("steer_looks", self.looks.column()),
            ("steer_questions", self.questions.column()),
            ("steer_orders", self.orders.column()),
        ];
        columns.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Tally {
    /// Calls, their mean and their longest time in µs.
    fn column(&self) -> Value {
        let micros = |span: Span| (span.as_nanos() as f64 / 1e2).round() / 10.0;
        json!([self.calls, micros(self.mean()), micros(self.most)])
    }

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
