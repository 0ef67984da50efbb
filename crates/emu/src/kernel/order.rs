//! An order for a transfer, and what came of it.

use std::net::Ipv4Addr;

use weftway_path::{Bytes, Span};
use weftway_scenario::config::WebObject;

use crate::Namespace;
use crate::kernel::counters::Counters;
use crate::kernel::sample::Sample;

/// Between whom.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Namespace that the data come from.
    pub sender: &'a Namespace,
    /// Namespace that they go to; may be the sender's namespace.
    pub receiver: &'a Namespace,
    /// The sender's address on the first path.
    pub sender_address: Ipv4Addr,
    /// The receiver's address on the first path.
    pub receiver_address: Ipv4Addr,
}

/// Which end calls `connect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    /// An upload: the sender connects and writes.
    Sender,
    /// A download: the receiver connects and asks; the sender's application starts when the request arrives.
    Receiver,
}

/// Behaviour of the application.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Writes so much at once.
    Bulk {
        /// Size of the transfer.
        bytes: Bytes,
    },
    /// Writes without end.
    Duration {
        /// Time from time zero to the end.
        span: Span,
    },
    /// Writes messages at given times. One that is empty counts as one byte.
    Messages {
        /// Time at which each is written, counted from the start of the sender's application and never falling; its
        /// size.
        written: Vec<(Span, Bytes)>,
    },
    /// Writes an answer, waits for the request that follows, and so on. Who uploads writes the first one unasked.
    RequestResponse {
        /// The size of an answer; at least one byte.
        bytes: Bytes,
        /// Time from the end of an answer to the next request.
        think: Span,
        /// Number of answers.
        count: u64,
    },
    /// Writes a page: a document unasked, and each other object when it is asked for.
    Web {
        /// The objects, in the order in which they are asked for.
        objects: Vec<WebObject>,
        /// Time from the arrival of an object to the requests that follow from it.
        think: Span,
    },
}

impl Work {
    /// Returns true if the receiver asks for more as it goes on.
    pub fn has_requests(&self) -> bool {
        matches!(self, Self::RequestResponse { .. } | Self::Web { .. })
    }
}

/// A transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// MPTCP; otherwise TCP.
    pub multipath: bool,
    /// Which end connects.
    pub opener: Opener,
    /// The congestion controller, by the kernel's name, on every subflow and at both ends.
    pub cc: String,
    /// Behaviour of the application.
    pub work: Work,
    /// Bytes that the application hands over with one `write` at most; at most 4 MiB.
    pub write: Bytes,
    /// True if the application sets `TCP_NODELAY`.
    pub nodelay: bool,
    /// Time at which to give up, from time zero.
    pub time_limit: Span,
    /// The payload that the sender's socket holds (`SO_SNDBUF`); the kernel reserves as much again for its own
    /// overhead. `None`: it grows as the kernel sees fit.
    pub send_buffer: Option<Bytes>,
    /// The payload that the receiver's socket holds (`SO_RCVBUF`).
    pub receive_buffer: Option<Bytes>,
    /// Time from one sample to the next. A sample of two paths takes about 500 bytes of memory.
    pub sample_every: Span,
    /// Addresses that tell the paths apart: an address of each, in the paths' order. A subflow belongs to the path that
    /// has its address at the sender, or else the one that has its address at the receiver: where one end has a single
    /// address for all subflows, give the other's.
    pub paths: Vec<Ipv4Addr>,
}

impl Transfer {
    /// Interval of samples unless there is a reason for another: often enough to see a round trip of 10 ms, and a
    /// thousandth of a core.
    pub const SAMPLE_EVERY: Span = Span::from_millis(5);
}

/// Outcome of a transfer. Time zero is just before `connect`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Time from time zero to when the receiver had read the last byte, or to the end of the span or of the time limit.
    pub elapsed: Span,
    /// Bytes that the receiver had read by then.
    pub delivered: Bytes,
    /// Everything arrived; for [`Work::Duration`], the span is over.
    pub finished: bool,
    /// Delay of each message or answer that was due, from then to the arrival of its last byte; `None`: it did not
    /// arrive.
    pub message_delays: Vec<Option<Span>>,
    /// Time at which `connect` was through, from time zero; `None`: it never was.
    pub established: Option<Span>,
    /// The sender's statistics over time.
    pub samples: Vec<Sample>,
    /// The sender's at the end: when everything was acknowledged, or a round trip and 40 ms after all was read.
    pub last: Sample,
    /// The receiver's at the end.
    pub received: Sample,
    /// Counts of the sender's namespace meanwhile.
    pub sender_counters: Counters,
    /// Counts of the receiver's namespace meanwhile.
    pub receiver_counters: Counters,
    /// MPTCP was asked for, and this became TCP.
    pub fallback: bool,
}
