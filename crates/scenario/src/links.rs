//! [`LinkConfig`] from the keys of a path or a link.

use weftway_link::{
    Arq, Change, Common, Discipline, Distribution, Ecn, Fade, Jitter, Limit, LinkConfig, Loss, Queue, Rate, Redraw, Set,
};
use weftway_path::{BitRate, Bytes, Instant, Span};

use super::drive::{self, Measured};
use super::error::{Fault, Mistake};
use super::schema::{self, Aqm, Directed, LinkTable, PathTable, StateName, Step};
use super::seeds::group;
use super::text::{self, Spread, Window};
use super::traces::Traces;
use super::traffic::sigma;
use super::units::{Dimension, Quantity, Share, Time};

/// Limit of a queue if the scenario does not say: some two round trips of a home link.
const QUEUE: Limit = Limit::Packets(100);
/// The largest packet on the wire that every queue must be able to hold.
const LARGEST: Bytes = Bytes::new(1500);
/// RFC 8289 §4.4.
const CODEL_TARGET: Span = Span::from_millis(5);
/// RFC 8289 §4.3.
const CODEL_INTERVAL: Span = Span::from_millis(100);
/// A link that changes more often has another rate, not fades.
const LEAST_FADE: Span = Span::from_millis(1);

impl<T: Clone> Directed<T> {
    pub fn side(&self, down: bool) -> Option<T> {
        match self {
            Self::Both(value) => Some(value.clone()),
            Self::Each(each) if down => each.down.clone(),
            Self::Each(each) => each.up.clone(),
        }
    }
}

impl PathTable {
    /// The keys of one direction; `data` says whether it carries the data.
    pub fn link(&self, down: bool, data: bool) -> LinkTable {
        // A single loss is meant for the data: papers give one number and mean these.
        let is_loss_of_both = matches!(self.loss, Some(Directed::Each(_)));
        let way = self.way(down);
        LinkTable { loss: way.loss.filter(|_| data || is_loss_of_both), ..way }
    }

    /// The delays of both directions together.
    pub fn round_trip(&self) -> Span {
        let one = |down| self.delay.as_ref().and_then(|delay| delay.side(down)).map_or(Span::ZERO, Time::get);
        one(true) + one(false)
    }
}

/// Surroundings in which a link is read.
pub(super) struct Around<'a> {
    /// The section and the name: `path`, `wifi`.
    pub at: [&'a str; 2],
    /// `down` or `up`, where a key may have one value for each.
    pub side: &'static str,
    /// For queues in bandwidth-delay products; `None` for a shared link, which has no round trip
    /// of its own.
    pub round_trip: Option<Span>,
    /// Measurements of a drive.
    pub measured: Option<Measured>,
    pub traces: &'a mut Traces,
}

impl Around<'_> {
    fn place(&self, fault: Fault, key: &str) -> Fault {
        fault.key(&[self.at[0], self.at[1], key, self.side])
    }

    fn fault(&self, key: &str, reason: impl Into<String>) -> Fault {
        self.place(Fault::value(reason), key)
    }
}

impl LinkTable {
    /// The link that these keys describe.
    pub fn config(&self, around: &mut Around<'_>) -> Result<LinkConfig, Fault> {
        self.sends(around)?;
        Ok(LinkConfig {
            rate: self.capacity(around)?,
            delay: self.latency(around)?,
            jitter: self.variation(around)?,
            // Of the host, which the transport's settings tell.
            host_jitter: Span::ZERO,
            loss: self.losses(around)?,
            arq: self.arq.map(arq),
            queue: Queue { limit: self.limit(around)?, discipline: self.aqm.map_or_else(Default::default, discipline) },
            ecn: self.marks(around)?,
            changes: self.changes(around)?,
            redraw: self.redraw.as_ref().map(|redraw| redraws(redraw, around)).transpose()?,
            fade: self.fade.map(|fade| fades(fade, around)).transpose()?,
        })
    }

    fn capacity(&self, around: &mut Around<'_>) -> Result<Rate, Fault> {
        if let Some(measured) = &around.measured {
            let redrawn = self.redraw.as_ref().and_then(|redraw| redraw.rate.as_ref());
            let given = self.rate.map(|_| "rate").or(self.trace.as_ref().map(|_| "trace"));
            let given = given.or(redrawn.map(|_| "redraw"));
            return match given {
                Some(key) => Err(around.fault(key, format!("the drive takes the place of `{key}`; give one of them"))),
                None => Ok(Rate::Constant(measured.rate)),
            };
        }
        match (self.rate, &self.trace) {
            (Some(rate), None) => Ok(Rate::Constant(rate.get())),
            (None, Some(name)) => {
                let trace = around.traces.get(name);
                trace.map(Rate::Trace).map_err(|fault| around.place(fault, "trace"))
            }
            (Some(_), Some(_)) => Err(around.fault("trace", "a trace takes the place of `rate`; give one of them")),
            (None, None) => {
                let reason = "how fast is this link? Neither `rate` nor `trace` is given for each direction";
                Err(Fault::new(Mistake::Missing, reason).help("for example rate = \"30 Mbit/s\"").key(&around.at))
            }
        }
    }

    fn latency(&self, around: &Around<'_>) -> Result<Span, Fault> {
        match (around.measured.as_ref().and_then(|measured| measured.delay), self.delay) {
            (Some(_), Some(_)) => Err(around.fault("delay", "the drive has measured the delay; give one of them")),
            (Some(measured), None) => Ok(measured),
            (None, given) => Ok(given.map_or(Span::ZERO, Time::get)),
        }
    }

    fn losses(&self, around: &Around<'_>) -> Result<Loss, Fault> {
        match (around.measured.as_ref().and_then(|measured| measured.loss), &self.loss) {
            (Some(_), Some(_)) => Err(around.fault("loss", "the drive has measured the losses; give one of them")),
            (Some(measured), None) => Ok(drive::bernoulli(measured)),
            (None, given) => given.as_ref().map_or(Ok(Loss::None), |rule| loss(rule, around, "loss")),
        }
    }

    /// A link that never carries anything is a slip of the pen, not an experiment.
    fn sends(&self, around: &Around<'_>) -> Result<(), Fault> {
        let steps = self.schedule.iter().flatten().filter_map(|step| step.rate);
        let drawn = self.redraw.iter().filter_map(|redraw| redraw.rate.map(|rate| rate.most));
        let silent = self.rate.is_some_and(|rate| rate.is_zero());
        if silent && steps.chain(drawn).all(|rate| rate.is_zero()) {
            let help = "raise it in `schedule`, leave the path out, or fail it with `present`";
            return Err(around.fault("rate", "at this rate nothing is ever sent").help(help));
        }
        Ok(())
    }

    fn variation(&self, around: &Around<'_>) -> Result<Option<Jitter>, Fault> {
        let reorder = self.reorder.unwrap_or(false);
        let Some(jitter) = self.jitter else {
            return if reorder { Err(around.fault("reorder", "without `jitter` nothing reorders")) } else { Ok(None) };
        };
        let distribution = match jitter {
            text::Jitter::Normal(sd) => Distribution::Normal { sd: sd.get() },
            text::Jitter::Uniform(half) => Distribution::Uniform { half_width: half.get() },
            text::Jitter::Correlated(sd, over) => Distribution::Correlated { sd: sd.get(), over: over.get() },
        };
        Ok(Some(Jitter { distribution, reorder }))
    }

    fn limit(&self, around: &Around<'_>) -> Result<Limit, Fault> {
        let Some(queue) = self.queue else { return Ok(QUEUE) };
        let limit = match queue {
            text::Queue::Unlimited => Limit::Unlimited,
            text::Queue::Packets(n) => Limit::Packets(n.get()),
            text::Queue::Bytes(n) => Limit::Bytes(n.get()),
            text::Queue::Bdp(n) => Limit::Bytes(self.bdp(around)?.mul_div(n.get(), 1000).max(LARGEST)),
        };
        match limit {
            Limit::Packets(0) => Err(around.fault("queue", "nothing passes a queue for no packets")),
            Limit::Bytes(bytes) if bytes < LARGEST => {
                Err(around.fault("queue", format!("no full packet passes a queue of {bytes}; it takes 1500 B")))
            }
            limit => Ok(limit),
        }
    }

    fn bdp(&self, around: &Around<'_>) -> Result<Bytes, Fault> {
        let measured = around.measured.as_ref().map(|measured| measured.mean);
        let rate = self.rate.map(Quantity::get).or(measured);
        let rate = rate.ok_or_else(|| around.fault("queue", "\"BDP\" needs a `rate`; a trace has no single one"))?;
        let round_trip = around.round_trip;
        round_trip
            .map(|rtt| rate.bdp(rtt))
            .ok_or_else(|| around.fault("queue", "a shared link has no round trip of its own; give packets or bytes"))
    }

    fn marks(&self, around: &Around<'_>) -> Result<Option<Ecn>, Fault> {
        let codel = matches!(self.aqm, Some(Aqm::CoDel { .. }));
        match self.ecn {
            None => Ok(None),
            Some(text::Ecn::CoDel) if codel => Ok(Some(Ecn::CoDel)),
            Some(text::Ecn::CoDel) => Err(around.fault("ecn", "this link has no CoDel; set aqm = \"codel\"")),
            Some(text::Ecn::Packets(n)) => Ok(Some(Ecn::Above(Limit::Packets(n.get())))),
            Some(text::Ecn::Bytes(n)) => Ok(Some(Ecn::Above(Limit::Bytes(n.get())))),
        }
    }

    fn changes(&self, around: &Around<'_>) -> Result<Vec<Change>, Fault> {
        let mut changes = around.measured.as_ref().map_or_else(Vec::new, |measured| measured.changes.clone());
        for step in self.schedule.iter().flatten() {
            let sets = step.sets(around)?;
            if sets.is_empty() {
                return Err(around.fault("schedule", "this step changes nothing; give rate, delay, loss or state"));
            }
            changes.extend(sets.into_iter().map(|set| Change { at: instant(step.at), set }));
        }
        Ok(changes)
    }
}

impl Step {
    fn sets(&self, around: &Around<'_>) -> Result<Vec<Set>, Fault> {
        let rate = self.rate.map(|rate| Set::Rate(Rate::Constant(rate.get())));
        let delay = self.delay.map(|delay| Set::Delay(delay.get()));
        let loss = self.loss.as_ref().map(|rule| loss(rule, around, "schedule").map(Set::Loss)).transpose()?;
        let state = self.state.map(|state| if state == StateName::Up { Set::Up } else { Set::Down });
        Ok([rate, delay, loss, state].into_iter().flatten().collect())
    }
}

fn loss(rule: &schema::Loss, around: &Around<'_>, key: &str) -> Result<Loss, Fault> {
    let table = match rule {
        schema::Loss::Independent(share) if share.is_zero() => return Ok(Loss::None),
        schema::Loss::Independent(share) => return Ok(Loss::Bernoulli(share.get())),
        schema::Loss::Table(table) => table,
    };
    let bursts = [table.enter, table.leave, table.good, table.bad];
    let given = (bursts.iter().any(Option::is_some), &table.packets, &table.during);
    match given {
        (true, None, None) => match (table.enter, table.leave) {
            (Some(enter), Some(leave)) => Ok(Loss::GilbertElliott {
                to_bad: enter.get(),
                to_good: leave.get(),
                loss_good: table.good.map_or(0.0, Share::get),
                loss_bad: table.bad.map_or(1.0, Share::get),
            }),
            _ => Err(around.fault(key, "losses in bursts need both `enter` and `leave`")),
        },
        (false, Some(numbers), None) => Ok(Loss::Packets(numbers.iter().map(|number| number.0).collect())),
        (false, None, Some(windows)) => Ok(Loss::Windows(windows.iter().map(ends).collect())),
        _ => Err(around.fault(key, "give one rule: `enter` and `leave`, or `packets`, or `during`")),
    }
}

fn arq(arq: schema::Arq) -> Arq {
    Arq { hides: arq.hides.get(), delay: arq.delay.get(), retry_loss: arq.retry_loss.map_or(0.0, Share::get) }
}

fn discipline(aqm: Aqm) -> Discipline {
    match aqm {
        Aqm::DropTail {} => Discipline::DropTail,
        Aqm::CoDel { target, interval } => Discipline::CoDel {
            target: target.map_or(CODEL_TARGET, Time::get),
            interval: interval.map_or(CODEL_INTERVAL, Time::get),
        },
    }
}

fn redraws(redraw: &schema::Redraw, around: &Around<'_>) -> Result<Redraw, Fault> {
    if redraw.every.is_zero() {
        return Err(around.fault("redraw", "`every` must be more than no time"));
    }
    Ok(Redraw {
        every: redraw.every.get(),
        rate: redraw.rate.map(bounds),
        delay: redraw.delay.map(bounds),
        loss: redraw.loss.map(bounds),
        common: common(redraw, around)?,
    })
}

fn common(redraw: &schema::Redraw, around: &Around<'_>) -> Result<Option<Common>, Fault> {
    match (&redraw.common, redraw.correlation) {
        (None, None) => Ok(None),
        (Some(name), Some(share)) => Ok(Some(Common { group: group("common", name), correlation: share.get() })),
        _ => {
            let reason = "links with draws in common need both: a name in `common`, and their `correlation`";
            let help = "for example common = \"operator\", correlation = \"40 %\"";
            Err(around.fault("redraw", reason).help(help))
        }
    }
}

fn fades(fade: schema::Fade, around: &Around<'_>) -> Result<Fade, Fault> {
    let fault = |reason: &str| Err(around.fault("fade", reason));
    let (median, p95) = (fade.median, fade.p95.unwrap_or(fade.median));
    if fade.share.is_zero() || fade.share.get() >= 1.0 {
        return fault("`share` is the part of the time that the link is in a fade: more than 0 % and less than 100 %");
    }
    if median.get() < LEAST_FADE {
        return fault("a fade has a `median` of 1 ms or more");
    }
    if p95 < median {
        return fault("95 of 100 fades cannot be shorter than half of them; give a `p95` above `median`");
    }
    Ok(Fade {
        share: fade.share.get(),
        median: median.get(),
        sigma: sigma(median.smallest(), p95.smallest()),
        floor: fade.floor.map_or((BitRate::ZERO, BitRate::ZERO), bounds),
        // Whatever blocks a radio link blocks it both ways.
        group: group(around.at[0], around.at[1]),
    })
}

fn bounds<D: Dimension>(spread: Spread<D>) -> (D::Value, D::Value) {
    (spread.least.get(), spread.most.get())
}

/// The instant so long after the start.
pub(super) fn instant(time: Time) -> Instant {
    Instant::ZERO + time.get()
}

/// Both ends of a stretch of time.
pub(super) fn ends(window: &Window) -> (Instant, Instant) {
    (instant(window.from), window.to.map_or(Instant::NEVER, instant))
}
