//! A link as a vector describes it.

use std::sync::Arc;

use serde::Deserialize;
use weftway_path::{Bytes, Instant};

use weftway_link::{
    Arq, Change, Discipline, Distribution, Ecn, Jitter, Limit, LinkConfig, Loss, Queue, Rate, Redraw, Set, Trace,
};

use crate::quantity::{self, Time};

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Spec {
    rate: Option<quantity::Rate>,
    trace_ms: Option<Vec<u32>>,
    delay: Time,
    jitter: Option<JitterSpec>,
    host_jitter: Time,
    loss: Option<f64>,
    lose_packets: Option<Vec<u64>>,
    lose: Option<Vec<(Time, Time)>>,
    gilbert_elliott: Option<GilbertElliott>,
    arq: Option<ArqSpec>,
    queue_packets: Option<u64>,
    queue_bytes: Option<u64>,
    codel: Option<CoDel>,
    ecn: Option<EcnSpec>,
    changes: Vec<ChangeSpec>,
    redraw: Option<RedrawSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JitterSpec {
    normal: Option<Time>,
    uniform: Option<Time>,
    /// With `normal`: correlated over this time.
    over: Option<Time>,
    reorder: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GilbertElliott {
    to_bad: f64,
    to_good: f64,
    loss_good: f64,
    loss_bad: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArqSpec {
    hides: f64,
    delay: Time,
    #[serde(default)]
    retry_loss: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoDel {
    target: Time,
    interval: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EcnSpec {
    Codel,
    AbovePackets(u64),
    AboveBytes(u64),
}

/// Change; exactly one key besides the time.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct ChangeSpec {
    at: Time,
    rate: Option<quantity::Rate>,
    trace_ms: Option<Vec<u32>>,
    delay: Option<Time>,
    loss: Option<f64>,
    up: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RedrawSpec {
    every: Time,
    rate: Option<(quantity::Rate, quantity::Rate)>,
    delay: Option<(Time, Time)>,
    loss: Option<(f64, f64)>,
}

impl Spec {
    pub(super) fn config(&self) -> Result<LinkConfig, String> {
        Ok(LinkConfig {
            rate: one("a rate", [self.rate.map(constant), trace(&self.trace_ms)?])?.unwrap_or_default(),
            delay: self.delay.0,
            jitter: self.jitter.as_ref().map(JitterSpec::jitter).transpose()?,
            host_jitter: self.host_jitter.0,
            loss: self.loss()?,
            arq: self.arq.as_ref().map(|arq| Arq { hides: arq.hides, delay: arq.delay.0, retry_loss: arq.retry_loss }),
            queue: self.queue()?,
            ecn: self.ecn.as_ref().map(EcnSpec::ecn),
            changes: self.changes.iter().map(ChangeSpec::change).collect::<Result<_, _>>()?,
            redraw: self.redraw.as_ref().map(RedrawSpec::redraw),
            fade: None,
        })
    }

    fn loss(&self) -> Result<Loss, String> {
        let windows =
            |pairs: &Vec<(Time, Time)>| pairs.iter().map(|(from, to)| (instant(*from), instant(*to))).collect();
        let models = [
            self.loss.map(Loss::Bernoulli),
            self.lose_packets.clone().map(Loss::Packets),
            self.lose.as_ref().map(|pairs| Loss::Windows(windows(pairs))),
            self.gilbert_elliott.as_ref().map(GilbertElliott::loss),
        ];
        Ok(one("a loss model", models)?.unwrap_or_default())
    }

    fn queue(&self) -> Result<Queue, String> {
        let bytes = self.queue_bytes.map(|bytes| Limit::Bytes(Bytes::new(bytes)));
        let limit = one("a queue limit", [self.queue_packets.map(Limit::Packets), bytes])?.unwrap_or_default();
        let discipline = self.codel.as_ref().map_or(Discipline::DropTail, |codel| Discipline::CoDel {
            target: codel.target.0,
            interval: codel.interval.0,
        });
        Ok(Queue { limit, discipline })
    }
}

impl JitterSpec {
    fn jitter(&self) -> Result<Jitter, String> {
        let distribution = match (self.normal, self.uniform, self.over) {
            (Some(sd), None, None) => Distribution::Normal { sd: sd.0 },
            (Some(sd), None, Some(over)) => Distribution::Correlated { sd: sd.0, over: over.0 },
            (None, Some(half), None) => Distribution::Uniform { half_width: half.0 },
            _ => return Err("jitter needs `normal`, perhaps with `over`, or `uniform`".to_owned()),
        };
        Ok(Jitter { distribution, reorder: self.reorder })
    }
}

impl GilbertElliott {
    fn loss(&self) -> Loss {
        let Self { to_bad, to_good, loss_good, loss_bad } = *self;
        Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad }
    }
}

impl EcnSpec {
    fn ecn(&self) -> Ecn {
        match self {
            Self::Codel => Ecn::CoDel,
            Self::AbovePackets(packets) => Ecn::Above(Limit::Packets(*packets)),
            Self::AboveBytes(bytes) => Ecn::Above(Limit::Bytes(Bytes::new(*bytes))),
        }
    }
}

impl ChangeSpec {
    fn change(&self) -> Result<Change, String> {
        let sets = [
            self.rate.map(|rate| Set::Rate(constant(rate))),
            trace(&self.trace_ms)?.map(Set::Rate),
            self.delay.map(|delay| Set::Delay(delay.0)),
            self.loss.map(|p| Set::Loss(Loss::Bernoulli(p))),
            self.up.map(|up| if up { Set::Up } else { Set::Down }),
        ];
        let set = one("a change", sets)?.ok_or("a change needs something to set")?;
        Ok(Change { at: instant(self.at), set })
    }
}

impl RedrawSpec {
    fn redraw(&self) -> Redraw {
        Redraw {
            every: self.every.0,
            rate: self.rate.map(|(low, high)| (low.0, high.0)),
            delay: self.delay.map(|(low, high)| (low.0, high.0)),
            loss: self.loss,
            common: None,
        }
    }
}

/// The one that is given, if any.
fn one<T, const N: usize>(what: &str, given: [Option<T>; N]) -> Result<Option<T>, String> {
    let mut given = given.into_iter().flatten();
    let first = given.next();
    if given.next().is_some() { Err(format!("{what} is given twice")) } else { Ok(first) }
}

fn trace(times: &Option<Vec<u32>>) -> Result<Option<Rate>, String> {
    let trace = times.clone().map(Trace::new).transpose().map_err(|error| error.to_string())?;
    Ok(trace.map(|trace| Rate::Trace(Arc::new(trace))))
}

fn constant(rate: quantity::Rate) -> Rate {
    Rate::Constant(rate.0)
}

fn instant(time: Time) -> Instant {
    Instant::ZERO + time.0
}
