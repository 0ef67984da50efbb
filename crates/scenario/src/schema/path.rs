//! Paths and links.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::policy::TierName;
use crate::forms::TextOrTable;
use crate::text::{Count, Ecn, Jitter, Queue, Spread, Window};
use crate::units::{InRate, InShare, InTime, Price, Rate, Share, Size, Time};

/// A value for both directions, or one for each.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(untagged)]
pub(crate) enum Directed<T> {
    /// A value for both ways.
    Both(T),
    /// A value for each.
    Each(Each<T>),
}

/// A value for each direction.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Each<T> {
    /// Towards the side that opened the connection.
    pub down: Option<T>,
    /// Away from that side.
    pub up: Option<T>,
}

/// Makes the keys of a path and of a link: those of links, which a path has for each direction, and in between those that
/// are the path's alone.
macro_rules! link_keys {
    ($(
        link { $($(#[$doc:meta])+ $key:ident: $type:ty,)+ }
        path { $($(#[$own_doc:meta])+ $own:ident: $own_type:ty,)+ }
    )+) => {
        /// A path: a link each way.
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct PathTable {
            $(
                $($(#[$doc])+ pub $key: Option<Directed<$type>>,)+
                $($(#[$own_doc])+ pub $own: $own_type,)+
            )+
        }

        /// A link in the direction of the data.
        #[derive(Debug, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct LinkTable {
            $($($(#[$doc])+ pub $key: Option<$type>,)+)+
        }

        impl PathTable {
            /// Returns the keys of one direction.
            pub fn way(&self, down: bool) -> LinkTable {
                LinkTable { $($($key: self.$key.as_ref().and_then(|value| value.side(down)),)+)+ }
            }
        }
    };
}

link_keys! {
    link {
        /// Rate.
        rate: Rate,
        /// A Mahimahi trace of delivery opportunities, in place of `rate`.
        trace: String,
    }
    path {
        /// The link of `[drive]` that it is: its rates, in place of `rate`, and its delays and losses where they were
        /// measured.
        drive: Option<String>,
    }
    link {
        /// Time that every packet travels, one way.
        delay: Time,
        /// Variation of delays.
        jitter: Jitter,
        /// Jitter may let packets overtake.
        reorder: bool,
        /// Share of packets that is lost. A single value of a path is for the data; acknowledgements are then not lost.
        loss: Loss,
        /// Limit of the queue before the link.
        queue: Queue,
        /// Management of the queue.
        aqm: Aqm,
        /// Rule for marking packets.
        ecn: Ecn,
        /// Link-layer retransmission, which hides losses at the price of delay.
        arq: Arq,
        /// Changes at given times.
        schedule: Vec<Step>,
        /// Changes at random.
        redraw: Redraw,
        /// Fades at random.
        fade: Fade,
    }
    path {
        /// Active, or only for when no active path works: what the scheduler and the other end see. Active, if not given.
        role: Option<RoleName>,
        /// Tier of the path, by which it is offered to the scheduler, whatever that would do; always, if not given.
        tier: Option<TierName>,
        /// Most that the path may carry in a run, counted in IP bytes of packets with data.
        cap: Option<Size>,
        /// Price of the path, in whatever money.
        price: Option<Price>,
        /// The shared link that data cross after this path's own.
        via: Option<String>,
        /// Times in which the path exists; always, if not given.
        present: Option<Vec<Window>>,
        /// Connection that it belongs to.
        #[serde(default)]
        connection: ConnectionName,
    }
}

/// Use of a path.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RoleName {
    /// At once.
    Active,
    /// Only while no active path works.
    Backup,
}

/// A connection of the scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConnectionName {
    /// The one that is measured.
    #[default]
    Main,
    /// The second one.
    Rival,
}

/// Management of a queue.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "kind")]
pub(crate) enum Aqm {
    /// No management: what does not fit is dropped.
    DropTail {},
    /// CoDel (RFC 8289).
    #[serde(rename = "codel")]
    CoDel {
        /// The standing delay it accepts.
        target: Option<Time>,
        /// For how long it accepts more.
        interval: Option<Time>,
    },
}

/// Link-layer retransmission.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arq {
    /// The share of losses that it repairs.
    pub hides: Share,
    /// Delay that each retry adds.
    pub delay: Time,
    /// The share of retries that fail, and are followed by another.
    pub retry_loss: Option<Share>,
}

/// A change at a given time; what is not given stays.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Time of the change.
    pub at: Time,
    /// The rate from then on.
    pub rate: Option<Rate>,
    /// The delay from then on.
    pub delay: Option<Time>,
    /// The losses from then on.
    pub loss: Option<Loss>,
    /// State of the link from then on; what waits when it fails is dropped.
    pub state: Option<StateName>,
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StateName {
    /// It does.
    Up,
    /// It does not.
    Down,
}

/// Changes at random: each value is drawn anew, uniformly from its range.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redraw {
    /// Time between changes.
    pub every: Time,
    /// Range of rates.
    pub rate: Option<Spread<InRate>>,
    /// Range of delays.
    pub delay: Option<Spread<InTime>>,
    /// Range of shares of losses.
    pub loss: Option<Spread<InShare>>,
    /// Name of what it has in common with other links whose redraws name it, too.
    pub common: Option<String>,
    /// Correlation with another of these links.
    pub correlation: Option<Share>,
}

/// Fades at random: times in which the rate is at most a floor, in both directions of a path at once.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fade {
    /// Share of the time that the link is in a fade.
    pub share: Share,
    /// Median of their lengths.
    pub median: Time,
    /// 95th percentile of their lengths; if not given, all last as long as `median`.
    pub p95: Option<Time>,
    /// Range of floors; zero if not given.
    pub floor: Option<Spread<InRate>>,
}

/// Losses: independent ones, or by another rule.
#[derive(Clone, Debug)]
pub(crate) enum Loss {
    /// Each packet with this probability.
    Independent(Share),
    /// By a rule of more than one number.
    Table(LossTable),
}

/// Losses by one of three rules: in bursts (`enter`, `leave`, `good`, `bad`), of given packets, or
/// at given times.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LossTable {
    /// Gilbert and Elliott: the chance, per packet, of going from the good to the bad state.
    pub enter: Option<Share>,
    /// The chance of returning.
    pub leave: Option<Share>,
    /// Lost in the good state.
    pub good: Option<Share>,
    /// Lost in the bad state.
    pub bad: Option<Share>,
    /// The packets with these numbers, from 0, as they reach the wire.
    pub packets: Option<Vec<Count>>,
    /// Everything during these times.
    pub during: Option<Vec<Window>>,
}

impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable {
            text: |text| Share::read(text).map(Self::Independent),
            table: Self::Table,
            example: "a loss such as \"0.5 %\"",
        })
    }
}

impl JsonSchema for Loss {
    fn schema_name() -> Cow<'static, str> {
        "Loss".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [Share::json_schema(generator), generator.subschema_for::<LossTable>()] })
    }
}
