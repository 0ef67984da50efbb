//! Traffic: of the application, of a second connection, of others on the same links.

use schemars::JsonSchema;
use serde::Deserialize;

use super::transport::TransportName;
use crate::text::Count;
use crate::units::{Packets, Rate, Size, Time};

/// Workload of the application.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "kind")]
pub(crate) enum WorkloadTable {
    /// Sends so many bytes at once.
    Bulk {
        /// Size.
        bytes: Size,
        /// Size of one write of the application.
        write: Option<Size>,
    },
    /// Sends without end for a time.
    Duration {
        /// Length of the transfer.
        duration: Time,
        /// Size of one write of the application.
        write: Option<Size>,
    },
    /// Sends messages at a fixed period.
    Messages {
        /// The size of each, or …
        size: Option<Size>,
        /// … a mixture of sizes.
        sizes: Option<Vec<SizeShare>>,
        /// Time from one message to the next.
        period: Time,
        /// Number of messages.
        count: Count,
        /// Time for which a message is of use.
        deadline: Option<Time>,
    },
    /// Writes at a steady rate.
    Limited {
        /// Rate.
        rate: Rate,
        /// Size in all.
        bytes: Size,
    },
    /// Writes the frames of a live video.
    Stream {
        /// The mean rate.
        rate: Rate,
        /// Time from one frame to the next.
        period: Time,
        /// A key frame every so many; none if not given.
        #[serde(default)]
        key_every: Count,
        /// Size of a key frame, as a multiple of another's.
        #[serde(default = "Count::one")]
        key_ratio: Count,
        /// Time for which a frame is of use.
        deadline: Time,
        /// Length of the video.
        duration: Time,
    },
    /// Answers requests, one after the other.
    RequestResponse {
        /// The size of an answer.
        bytes: Size,
        /// Time from the end of an answer to the next request.
        think: Option<Time>,
        /// Number of requests.
        count: Count,
    },
    /// Sends a web page: a document, and objects that are asked for when what names them has arrived.
    Web {
        /// The size of the document.
        document: Size,
        /// Objects that the document and other objects name.
        #[serde(default)]
        objects: Vec<WebObjects>,
        /// Time from the arrival of an object to the requests that follow from it.
        think: Option<Time>,
    },
    /// Sends a packet of speech each period, one way.
    Voip {
        /// The payload of a packet, its RTP header included.
        size: Size,
        /// Time from one packet to the next.
        period: Time,
        /// Time after it is written at which a packet is played.
        deadline: Time,
        /// Length of the call.
        duration: Time,
    },
    /// Sends datagrams, each of use by itself until its deadline.
    Datagrams {
        /// The size of each.
        size: Size,
        /// The mean rate; with a `period` that of its bursts.
        rate: Option<Rate>,
        /// Time from one datagram to the next, or with a `rate` from one burst to the next.
        period: Option<Time>,
        /// Time for which a datagram is of use.
        deadline: Time,
        /// Length of the run.
        duration: Time,
    },
    /// A video call: frames of one size in both directions at once.
    Call {
        /// The rate in the direction of the scenario.
        rate: Rate,
        /// The rate in the other direction; as `rate` if not given.
        back_rate: Option<Rate>,
        /// Time from one frame to the next.
        period: Time,
        /// Time for which a frame is of use.
        deadline: Time,
        /// Length of the call.
        duration: Time,
    },
    /// Opens flows at random, each a stream of the connection.
    Flows {
        /// Time from one flow to the next, on the mean (a Poisson process).
        mean_gap: Time,
        /// Number of flows.
        count: Count,
        /// Flows that somebody waits for: they leave first.
        interactive: Option<FlowTable>,
        /// All others.
        bulk: Option<FlowTable>,
    },
}

/// Flows of one class, whose sizes are log-normal.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowTable {
    /// Frequency, against flows of the other class; 1 if not given.
    #[serde(default = "Count::one")]
    pub weight: Count,
    /// Half of them are no larger.
    pub median: Size,
    /// 95 of 100 are no larger. All have the size `median` if not given.
    pub p95: Option<Size>,
}

/// Objects of a page that are alike.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebObjects {
    /// Name for other objects' `after`.
    pub name: Option<String>,
    /// The size of each.
    pub bytes: Size,
    /// Number of objects; one if not given.
    #[serde(default = "Count::one")]
    pub count: Count,
    /// The object whose arrival makes them known, which stands above; the document if not given.
    pub after: Option<String>,
}

/// A size of a mixture.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SizeShare {
    /// Frequency, against the other sizes.
    pub weight: Count,
    /// The size.
    pub bytes: Size,
    /// Urgency of messages of this size, for schedulers that ask; 0 the most, and if not given.
    #[serde(default)]
    pub class: Count,
}

/// A second connection. Its paths are those with `connection = "rival"`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RivalTable {
    /// Its transport; the scenario's, options included, if not given.
    pub transport: Option<TransportName>,
    /// Its scheduler; min-RTT if not given.
    pub scheduler: Option<String>,
    /// Its congestion controller; CUBIC if not given.
    pub cc: Option<String>,
    /// Its window at the start; its transport's, if not given.
    pub initial_window: Option<Packets>,
    /// Start of the connection; with the first, if not given.
    pub start: Option<Time>,
}

/// A source without feedback.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CrossTable {
    /// The path or the shared link that it uses.
    pub on: String,
    /// Its mean rate while it sends.
    pub rate: Rate,
    /// Its packets on the wire; 1500 B if not given.
    pub packet: Option<Size>,
    /// Gaps are random (Poisson); equal if not given.
    #[serde(default)]
    pub poisson: bool,
    /// The mean time it sends; always, if not given.
    pub on_time: Option<Time>,
    /// The mean time it is silent.
    pub off_time: Option<Time>,
}
