//! A link as a vector describes it: every key carries its unit.

use std::sync::Arc;

use serde::Deserialize;
use weftway_path::{BitRate, Bytes, Instant, Span};

use weftway_link::{
    Arq, Change, Discipline, Distribution, Ecn, Jitter, Limit, LinkConfig, Loss, Queue, Rate, Redraw, Set, Trace,
};

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Spec {
    rate_mbps: Option<f64>,
    trace_ms: Option<Vec<u32>>,
    delay_ms: f64,
    jitter: Option<JitterSpec>,
    host_jitter_ms: f64,
    loss: Option<f64>,
    lose_packets: Option<Vec<u64>>,
    lose_ms: Option<Vec<(f64, f64)>>,
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
    normal_ms: Option<f64>,
    uniform_ms: Option<f64>,
    /// With `normal_ms`: correlated over this time.
    over_ms: Option<f64>,
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
    delay_ms: f64,
    #[serde(default)]
    retry_loss: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoDel {
    target_ms: f64,
    interval_ms: f64,
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
    at_ms: f64,
    rate_mbps: Option<f64>,
    trace_ms: Option<Vec<u32>>,
    delay_ms: Option<f64>,
    loss: Option<f64>,
    up: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RedrawSpec {
    every_ms: f64,
    rate_mbps: Option<(f64, f64)>,
    delay_ms: Option<(f64, f64)>,
    loss: Option<(f64, f64)>,
}

impl Spec {
    pub(super) fn config(&self) -> Result<LinkConfig, String> {
        Ok(LinkConfig {
            rate: one("a rate", [self.rate_mbps.map(constant), trace(&self.trace_ms)?])?.unwrap_or_default(),
            delay: span(self.delay_ms),
            jitter: self.jitter.as_ref().map(JitterSpec::jitter).transpose()?,
            host_jitter: span(self.host_jitter_ms),
            loss: self.loss()?,
            arq: self.arq.as_ref().map(|arq| Arq {
                hides: arq.hides,
                delay: span(arq.delay_ms),
                retry_loss: arq.retry_loss,
            }),
            queue: self.queue()?,
            ecn: self.ecn.as_ref().map(EcnSpec::ecn),
            changes: self.changes.iter().map(ChangeSpec::change).collect::<Result<_, _>>()?,
            redraw: self.redraw.as_ref().map(RedrawSpec::redraw),
        })
    }

    fn loss(&self) -> Result<Loss, String> {
        let windows = |pairs: &Vec<(f64, f64)>| pairs.iter().map(|(from, to)| (instant(*from), instant(*to))).collect();
        let models = [
            self.loss.map(Loss::Bernoulli),
            self.lose_packets.clone().map(Loss::Packets),
            self.lose_ms.as_ref().map(|pairs| Loss::Windows(windows(pairs))),
            self.gilbert_elliott.as_ref().map(GilbertElliott::loss),
        ];
        Ok(one("a loss model", models)?.unwrap_or_default())
    }

    fn queue(&self) -> Result<Queue, String> {
        let bytes = self.queue_bytes.map(|bytes| Limit::Bytes(Bytes::new(bytes)));
        let limit = one("a queue limit", [self.queue_packets.map(Limit::Packets), bytes])?.unwrap_or_default();
        let discipline = self.codel.as_ref().map_or(Discipline::DropTail, |codel| Discipline::CoDel {
            target: span(codel.target_ms),
            interval: span(codel.interval_ms),
        });
        Ok(Queue { limit, discipline })
    }
}

impl JitterSpec {
    fn jitter(&self) -> Result<Jitter, String> {
        let distribution = match (self.normal_ms, self.uniform_ms, self.over_ms) {
            (Some(sd), None, None) => Distribution::Normal { sd: span(sd) },
            (Some(sd), None, Some(over)) => Distribution::Correlated { sd: span(sd), over: span(over) },
            (None, Some(half), None) => Distribution::Uniform { half_width: span(half) },
            _ => return Err("jitter needs `normal_ms`, perhaps with `over_ms`, or `uniform_ms`".to_owned()),
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
            self.rate_mbps.map(|mbps| Set::Rate(constant(mbps))),
            trace(&self.trace_ms)?.map(Set::Rate),
            self.delay_ms.map(|ms| Set::Delay(span(ms))),
            self.loss.map(|p| Set::Loss(Loss::Bernoulli(p))),
            self.up.map(|up| if up { Set::Up } else { Set::Down }),
        ];
        let set = one("a change", sets)?.ok_or("a change needs something to set")?;
        Ok(Change { at: instant(self.at_ms), set })
    }
}

impl RedrawSpec {
    fn redraw(&self) -> Redraw {
        Redraw {
            every: span(self.every_ms),
            rate: self.rate_mbps.map(|(low, high)| (rate(low), rate(high))),
            delay: self.delay_ms.map(|(low, high)| (span(low), span(high))),
            loss: self.loss,
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

fn constant(mbps: f64) -> Rate {
    Rate::Constant(rate(mbps))
}

pub(super) fn rate(mbps: f64) -> BitRate {
    BitRate::from_bps((mbps * 1e6 + 0.5) as u64)
}

pub(super) fn span(ms: f64) -> Span {
    Span::from_nanos((ms * 1e6 + 0.5) as u64)
}

fn instant(ms: f64) -> Instant {
    Instant::ZERO + span(ms)
}
