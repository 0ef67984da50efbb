//! Workloads: data that an application writes.

use weftway_path::{BitRate, Bytes, Span};

/// Workload of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// Sends so many bytes at once; the run ends when the last has arrived.
    Bulk {
        /// Size.
        bytes: Bytes,
    },
    /// Sends without end; the run stops after this long.
    Duration {
        /// Time from the start of the connection.
        span: Span,
    },
    /// Sends messages of mixed sizes at a fixed period.
    Messages {
        /// Sizes, one of which is drawn for each message.
        sizes: Vec<MessageSize>,
        /// Time from one message to the next.
        period: Span,
        /// Number of messages.
        count: u64,
        /// Time after it is written for which a message is of use.
        deadline: Option<Span>,
    },
    /// Writes at a steady rate.
    Limited {
        /// Rate.
        rate: BitRate,
        /// Size in all.
        bytes: Bytes,
    },
    /// Writes a frame at each period, each with a deadline: live video.
    Stream {
        /// The mean rate.
        rate: BitRate,
        /// Time from one frame to the next.
        period: Span,
        /// A key frame every so many frames; 0 for none.
        key_every: u32,
        /// A key frame is so many times as large as another.
        key_ratio: u32,
        /// Time after it is written for which a frame is of use.
        deadline: Span,
        /// Length of the video.
        span: Span,
    },
    /// Sends a request's answer, waits for the next request, and so on.
    RequestResponse {
        /// The size of an answer.
        bytes: Bytes,
        /// Time from the end of an answer to the next request.
        think: Span,
        /// Number of requests.
        count: u64,
    },
    /// Sends a page: a document, and objects that are asked for when what names them has arrived.
    Web {
        /// In the order in which they are asked for; the first is the document. Never empty.
        objects: Vec<WebObject>,
        /// Time from the arrival of an object to the requests that follow from it.
        think: Span,
    },
    /// Sends a packet of speech each period, one way.
    Voip {
        /// The payload of a packet.
        bytes: Bytes,
        /// Time from one packet to the next.
        period: Span,
        /// Time after it is written at which a packet is played.
        deadline: Span,
        /// Length of the call.
        span: Span,
    },
    /// Flows that come at random, each a stream of the connection ([`has_flows`](Workload::has_flows)): all its data
    /// are written when it comes.
    Flows {
        /// Time from one flow to the next, on the mean of an exponential distribution: they are a Poisson process.
        mean_gap: Span,
        /// Number of flows.
        count: u64,
        /// Kinds, one of which is drawn for each flow. Never empty.
        kinds: Vec<FlowKind>,
    },
    /// Sends datagrams, each of use by itself until its deadline, after which it is not sent any more.
    Datagrams {
        /// The size of each.
        bytes: Bytes,
        /// The mean rate, of bursts; none: one datagram at each period.
        rate: Option<BitRate>,
        /// Time from one datagram or burst to the next.
        period: Span,
        /// Time after it is written for which a datagram is of use.
        deadline: Span,
        /// Length of the run.
        span: Span,
    },
    /// A call with both voices and pictures: frames of one size each way, at once.
    Call {
        /// The rate in the direction of the scenario.
        rate: BitRate,
        /// The rate in the other direction.
        back: BitRate,
        /// Time from one frame to the next.
        period: Span,
        /// Time after it is written for which a frame is of use.
        deadline: Span,
        /// Length of the call.
        span: Span,
    },
}

/// An object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebObject {
    /// Its size.
    pub bytes: Bytes,
    /// Number of objects that are asked for when it has arrived. Requests go in the order of arrivals, so they are the
    /// next ones of the page that nobody has asked for.
    pub children: u64,
}

impl Workload {
    /// The call as the other side sends it; `None` for what goes one way.
    pub fn reverse(&self) -> Option<Self> {
        match *self {
            Self::Call { rate, back, period, deadline, span } => {
                Some(Self::Call { rate: back, back: rate, period, deadline, span })
            }
            _ => None,
        }
    }

    /// Returns true if it is made of messages: data that are of use once all of them have arrived.
    pub fn has_messages(&self) -> bool {
        !matches!(self, Self::Bulk { .. } | Self::Duration { .. } | Self::Limited { .. })
    }

    /// Returns true if its messages are flows, each a stream of its own. Where a connection has streams, they arrive in
    /// any order, and what is urgent leaves before what was written earlier.
    pub fn has_flows(&self) -> bool {
        matches!(self, Self::Flows { .. })
    }

    /// Returns true if its messages are datagrams.
    pub fn has_datagrams(&self) -> bool {
        matches!(self, Self::Datagrams { .. })
    }

    /// Returns true if its messages are flows or datagrams: they arrive in any order, and a mux cuts them into records.
    pub fn has_records(&self) -> bool {
        self.has_flows() || self.has_datagrams()
    }

    /// Returns the time after it is written for which a message is of use.
    pub fn deadline(&self) -> Option<Span> {
        match *self {
            Self::Messages { deadline, .. } => deadline,
            Self::Stream { deadline, .. }
            | Self::Voip { deadline, .. }
            | Self::Datagrams { deadline, .. }
            | Self::Call { deadline, .. } => Some(deadline),
            _ => None,
        }
    }
}

/// Flows that are equally urgent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowKind {
    /// Urgency.
    pub class: FlowClass,
    /// Frequency, against the others.
    pub weight: u32,
    /// Half of them are no larger. Sizes are log-normal.
    pub median: Bytes,
    /// The standard deviation of the size's natural logarithm; 0 if all have one size.
    pub sigma: f64,
}

/// Urgency of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowClass {
    /// Somebody waits for it.
    Interactive = 1,
    /// All else.
    Bulk = 2,
}

impl FlowClass {
    /// Both, the more urgent first.
    pub const ALL: [Self; 2] = [Self::Interactive, Self::Bulk];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
        }
    }
}

/// Size that some messages have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSize {
    /// Frequency, against the others.
    pub weight: u32,
    /// The size.
    pub bytes: Bytes,
    /// Urgency of messages of this size; 0 the most.
    pub class: u8,
}

impl MessageSize {
    /// This size, most urgent, with weight 1.
    pub const fn of(bytes: Bytes) -> Self {
        Self { weight: 1, bytes, class: 0 }
    }
}
