//! A scheduler that counts for itself what [`Event::Starved`] tells: how often a path had room and nothing new might
//! go.

use std::fmt;

use weftway_path::{Bytes, Context, Decision, Event};
use weftway_sched::{Needs, Scheduler};

use super::min_rtt;

/// Min-RTT. It is asked without a packet too, because it says that it makes copies; it makes none.
#[derive(Clone)]
pub struct Episodes {
    /// Questions about no packet although data are unsent, each run of them counted once: a question about a packet
    /// ends the run.
    pub seen: u64,
    /// Times that the host told of one.
    pub told: u64,
    blocked: bool,
    min_rtt: Box<dyn Scheduler>,
}

impl fmt::Debug for Episodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Episodes").field("seen", &self.seen).field("told", &self.told).finish_non_exhaustive()
    }
}

impl Default for Episodes {
    fn default() -> Self {
        Self { seen: 0, told: 0, blocked: false, min_rtt: min_rtt() }
    }
}

impl Scheduler for Episodes {
    fn needs(&self) -> Needs {
        Needs { flow: true, copies: true, events: true, ..Needs::NONE }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let holds_back = cx.packet.is_none() && cx.flow.is_some_and(|flow| flow.unsent > Bytes::ZERO);
        self.seen += u64::from(holds_back && !self.blocked);
        self.blocked = cx.packet.is_none() && (holds_back || self.blocked);
        self.min_rtt.select(cx)
    }

    fn observe(&mut self, _: &Context<'_>, event: &Event) {
        self.told += u64::from(matches!(event, Event::Starved(_)));
    }
}
