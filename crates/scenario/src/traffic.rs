//! [`Workload`] and [`CrossTraffic`] from the keys of what is sent, and how long that takes.

use weftway_path::{BitRate, Bytes, Span};

use super::error::Fault;
use super::names;
use super::schema::{CrossTable, FlowTable, SizeShare, WebObjects, WorkloadTable};
use super::text::Count;
use super::units::{Rate, Size, Time};
use crate::config::{CrossLink, CrossTraffic, FlowClass, FlowKind, MessageSize, WRITE, WebObject, Workload};

/// The most messages, requests or frames: what a run can hold figures of.
const MOST: u64 = 10_000_000;
/// The most flows: the two ends keep something of each until the end.
const MOST_FLOWS: u64 = 100_000;
/// 95 % of a normal distribution are less than so many standard deviations above its mean.
const NORMAL_95: f64 = 1.644_853_626_951_472_2;

impl WorkloadTable {
    /// The workload that these keys describe.
    pub fn workload(&self) -> Result<Workload, Fault> {
        self.zeros()?;
        Ok(match self {
            Self::Bulk { bytes, .. } => Workload::Bulk { bytes: bytes.get() },
            Self::Duration { duration, .. } => Workload::Duration { span: duration.get() },
            Self::Messages { size, sizes, period, count, deadline } => Workload::Messages {
                sizes: mixture(*size, sizes.as_deref())?,
                period: period.get(),
                count: count.0,
                deadline: deadline.map(Time::get),
            },
            Self::Limited { rate, bytes } => Workload::Limited { rate: rate.get(), bytes: bytes.get() },
            Self::Stream { rate, period, key_every, key_ratio, deadline, duration } => Workload::Stream {
                rate: rate.get(),
                period: period.get(),
                key_every: small(*key_every, "key_every")?,
                key_ratio: small(*key_ratio, "key_ratio")?,
                deadline: deadline.get(),
                span: duration.get(),
            },
            Self::RequestResponse { bytes, think, count } => Workload::RequestResponse {
                bytes: bytes.get(),
                think: think.map_or(Span::ZERO, Time::get),
                count: count.0,
            },
            Self::Web { document, objects, think } => {
                Workload::Web { objects: page(*document, objects)?, think: think.map_or(Span::ZERO, Time::get) }
            }
            Self::Voip { size, period, deadline, duration } => Workload::Voip {
                bytes: size.get(),
                period: period.get(),
                deadline: deadline.get(),
                span: duration.get(),
            },
            Self::Datagrams { size, rate, period, deadline, duration } => {
                let bytes = size.get();
                let (rate, period) = match (rate, period) {
                    (rate, Some(period)) => (rate.map(Rate::get), period.get()),
                    (Some(rate), None) => (None, rate.get().transmission_time(bytes)),
                    (None, None) => {
                        return Err(fault(
                            "kind",
                            "give the `rate` of the datagrams, the `period`, or both for bursts",
                        ));
                    }
                };
                Workload::Datagrams { bytes, rate, period, deadline: deadline.get(), span: duration.get() }
            }
            Self::Call { rate, back_rate, period, deadline, duration } => Workload::Call {
                rate: rate.get(),
                back: back_rate.unwrap_or(*rate).get(),
                period: period.get(),
                deadline: deadline.get(),
                span: duration.get(),
            },
            Self::Flows { mean_gap, count, interactive, bulk } => Workload::Flows {
                mean_gap: mean_gap.get(),
                count: count.0,
                kinds: flow_kinds([(FlowClass::Interactive, *interactive), (FlowClass::Bulk, *bulk)])?,
            },
        })
    }

    /// Returns the size of a write of the application.
    pub fn write(&self) -> Bytes {
        match self {
            Self::Bulk { write, .. } | Self::Duration { write, .. } => write.map_or(WRITE, Size::get),
            _ => WRITE,
        }
    }

    fn zeros(&self) -> Result<(), Fault> {
        let zeros: &[(&str, bool)] = match self {
            Self::Bulk { bytes, write } => &[("bytes", bytes.is_zero()), ("write", write.is_some_and(Size::is_zero))],
            Self::Duration { duration, write } => {
                &[("duration", duration.is_zero()), ("write", write.is_some_and(Size::is_zero))]
            }
            Self::Messages { period, count, .. } => &[("period", period.is_zero()), ("count", count.0 == 0)],
            Self::Limited { rate, bytes } => &[("rate", rate.is_zero()), ("bytes", bytes.is_zero())],
            Self::Stream { rate, period, key_ratio, duration, .. } => &[
                ("rate", rate.is_zero()),
                ("period", period.is_zero()),
                ("key_ratio", key_ratio.0 == 0),
                ("duration", duration.is_zero()),
            ],
            Self::RequestResponse { bytes, count, .. } => &[("bytes", bytes.is_zero()), ("count", count.0 == 0)],
            Self::Web { document, .. } => &[("document", document.is_zero())],
            Self::Voip { size, period, duration, .. } => {
                &[("size", size.is_zero()), ("period", period.is_zero()), ("duration", duration.is_zero())]
            }
            Self::Datagrams { rate, period, deadline, duration, .. } => &[
                ("rate", rate.is_some_and(Rate::is_zero)),
                ("period", period.is_some_and(Time::is_zero)),
                ("deadline", deadline.is_zero()),
                ("duration", duration.is_zero()),
            ],
            Self::Call { rate, back_rate, period, duration, .. } => &[
                ("rate", rate.is_zero()),
                ("back_rate", back_rate.is_some_and(Rate::is_zero)),
                ("period", period.is_zero()),
                ("duration", duration.is_zero()),
            ],
            Self::Flows { mean_gap, count, .. } => &[("mean_gap", mean_gap.is_zero()), ("count", count.0 == 0)],
        };
        if let Some((key, _)) = zeros.iter().find(|(_, zero)| *zero) {
            return Err(fault(key, format!("`{key}` must be more than zero")));
        }
        let most = if matches!(self, Self::Flows { .. }) { MOST_FLOWS } else { MOST };
        match self.pieces() {
            (key, pieces) if pieces > most => {
                Err(fault(key, format!("that makes {pieces}; at most {most} are counted")))
            }
            ("duration", 0) => Err(fault("duration", "nothing is sent: `duration` is shorter than one `period`")),
            _ => Ok(()),
        }
    }

    /// Counts the pieces that are timed one by one, and names the key that says so.
    fn pieces(&self) -> (&'static str, u64) {
        match self {
            Self::Messages { count, .. } | Self::RequestResponse { count, .. } | Self::Flows { count, .. } => {
                ("count", count.0)
            }
            Self::Stream { period, duration, .. }
            | Self::Voip { period, duration, .. }
            | Self::Call { period, duration, .. } => ("duration", duration.smallest() / period.smallest().max(1)),
            Self::Datagrams { size, rate, period, duration, .. } => {
                let span = duration.smallest();
                let bursts = period.map_or(1, |period| span / period.smallest().max(1));
                let each = rate.map(|rate| rate.get().transmission_time(size.get()).as_nanos());
                ("duration", each.filter(|_| bursts > 0).map_or(bursts, |each| span / each.max(1)))
            }
            Self::Web { objects, .. } => {
                ("objects", objects.iter().fold(1, |sum, object| object.count.0.saturating_add(sum)))
            }
            _ => ("kind", 0),
        }
    }
}

fn fault(key: &str, reason: impl Into<String>) -> Fault {
    Fault::value(reason).key(&["workload", key])
}

fn small(count: Count, key: &str) -> Result<u32, Fault> {
    u32::try_from(count.0).map_err(|_| fault(key, "this number is too large"))
}

fn mixture(size: Option<Size>, sizes: Option<&[SizeShare]>) -> Result<Vec<MessageSize>, Fault> {
    let positive = |bytes: Size, key| match bytes.is_zero() {
        true => Err(fault(key, "a message has at least one byte")),
        false => Ok(bytes.get()),
    };
    let share = |size: &SizeShare| {
        Ok(MessageSize {
            weight: small(size.weight, "sizes")?,
            bytes: positive(size.bytes, "sizes")?,
            class: u8::try_from(size.class.0).map_err(|_| fault("sizes", "a `class` is at most 255"))?,
        })
    };
    match (size, sizes) {
        (Some(size), None) => Ok(vec![MessageSize::of(positive(size, "size")?)]),
        (None, Some(sizes)) if sizes.iter().any(|size| size.weight.0 > 0) => sizes.iter().map(share).collect(),
        (None, Some(_)) => Err(fault("sizes", "no size has a weight above zero")),
        _ => Err(fault("kind", "give either `size` or `sizes`")),
    }
}

/// Standard deviation of the logarithm of what is log-normal and has this median and this 95th percentile.
pub(super) fn sigma(median: u64, p95: u64) -> f64 {
    libm::log(p95 as f64 / median as f64) / NORMAL_95
}

fn flow_kinds(tables: [(FlowClass, Option<FlowTable>); 2]) -> Result<Vec<FlowKind>, Fault> {
    let kind = |(class, table): (FlowClass, Option<FlowTable>)| {
        table.map(|FlowTable { weight, median, p95 }| {
            let fault = |key: &str, reason: &str| Fault::value(reason).key(&["workload", class.name(), key]);
            let (low, high) = (median.smallest(), p95.unwrap_or(median).smallest());
            if low == 0 {
                return Err(fault("median", "a flow has at least one byte"));
            }
            if high < low {
                return Err(fault(
                    "p95",
                    "95 of 100 flows cannot be smaller than half of them; give a `p95` above `median`",
                ));
            }
            let weight = u32::try_from(weight.0).map_err(|_| fault("weight", "this number is too large"))?;
            Ok(FlowKind { class, weight, median: median.get(), sigma: sigma(low, high) })
        })
    };
    let kinds: Vec<FlowKind> = tables.into_iter().filter_map(kind).collect::<Result<_, _>>()?;
    if kinds.iter().all(|kind| kind.weight == 0) {
        let example = "`interactive = { median = \"12 kB\", p95 = \"100 kB\" }`";
        return Err(fault("kind", format!("no flows: give `interactive`, `bulk` or both, for example {example}")));
    }
    Ok(kinds)
}

/// A page's objects in the order in which they are asked for: those that the document names, then those that the first
/// of them names, and so on.
fn page(document: Size, groups: &[WebObjects]) -> Result<Vec<WebObject>, Fault> {
    let named = |at: usize, name: &str| groups[..at].iter().position(|group| group.name.as_deref() == Some(name));
    let mut parents = Vec::with_capacity(groups.len());
    for (at, group) in groups.iter().enumerate() {
        let bad = |reason: String| Err(fault("objects", reason));
        match &group.name {
            Some(name) if named(at, name).is_some() => return bad(format!("two objects are called `{name}`")),
            Some(name) if group.count.0 != 1 => {
                return bad(format!(
                    "`{name}` is {} objects; one that others come after is a single one",
                    group.count.0
                ));
            }
            _ => {}
        }
        if group.bytes.is_zero() || group.count.0 == 0 {
            return bad(format!("object number {}: `bytes` and `count` must be more than zero", at + 1));
        }
        parents.push(match &group.after {
            None => None,
            Some(name) => match named(at, name) {
                Some(parent) => Some(parent),
                None => {
                    return bad(format!(
                        "`after = \"{name}\"`: no object above this one has `name = \"{name}\"`; without `after` it \
                         comes after the document"
                    ));
                }
            },
        });
    }
    let children = |of: Option<usize>| (0..groups.len()).filter(|at| parents[*at] == of).collect::<Vec<_>>();
    let count = |group: &usize| groups[*group].count.0;
    let first = children(None);
    let mut page = vec![WebObject { bytes: document.get(), children: first.iter().map(count).sum() }];
    let mut waiting = std::collections::VecDeque::from(first);
    while let Some(group) = waiting.pop_front() {
        let next = children(Some(group));
        let object = WebObject { bytes: groups[group].bytes.get(), children: next.iter().map(count).sum() };
        // Objects that are alike name nothing, so that `children` counts what a single one names.
        page.extend((0..groups[group].count.0).map(|_| object));
        waiting.extend(next);
    }
    Ok(page)
}

/// Returns the time that `workload` takes if nothing holds it up; zero when its own sending is no limit.
pub(super) fn least_time(workload: &Workload) -> Span {
    match workload {
        Workload::Duration { span }
        | Workload::Stream { span, .. }
        | Workload::Voip { span, .. }
        | Workload::Datagrams { span, .. }
        | Workload::Call { span, .. } => *span,
        Workload::Messages { period, count, .. } => *period * *count,
        Workload::Flows { mean_gap, count, .. } => *mean_gap * *count,
        Workload::RequestResponse { think, count, .. } => *think * *count,
        Workload::Limited { rate, bytes } => rate.transmission_time(*bytes),
        Workload::Bulk { .. } | Workload::Web { .. } => Span::ZERO,
    }
}

impl CrossTable {
    /// The source called `name`, on one of `paths` or one of `links`.
    pub fn source(&self, name: &str, paths: &[&str], links: &[&str]) -> Result<CrossTraffic, Fault> {
        let fault = |key: &str, reason: &str| Fault::value(reason).key(&["cross", name, key]);
        let on = match (paths.iter().position(|path| *path == self.on), links.iter().position(|link| *link == self.on))
        {
            (Some(_), Some(_)) => return Err(fault("on", "a path and a link have this name; rename one of them")),
            (Some(path), None) => CrossLink::Path(path),
            (None, Some(link)) => CrossLink::Shared(link),
            (None, None) => {
                let all = [paths, links].concat();
                return Err(names::position("path or link", &self.on, &all).unwrap_err().key(&["cross", name, "on"]));
            }
        };
        let packet = self.packet.map_or(Bytes::new(1500), Size::get);
        if self.rate.get() == BitRate::ZERO {
            return Err(fault("rate", "a source that sends nothing; leave it out"));
        }
        if packet == Bytes::ZERO {
            return Err(fault("packet", "a packet has at least one byte"));
        }
        let on_off = match (self.on_time, self.off_time) {
            (None, None) => None,
            (Some(on), Some(off)) if !on.is_zero() => Some((on.get(), off.get())),
            (Some(_), Some(_)) => return Err(fault("on_time", "a source that is never on; leave it out")),
            _ => return Err(fault("on", "give both `on_time` and `off_time`, or neither")),
        };
        Ok(CrossTraffic { on, rate: self.rate.get(), packet, on_off, poisson: self.poisson })
    }
}
