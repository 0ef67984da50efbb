//! Result of a run on any backend: one row of named figures, each defined in `docs/reference/columns.md`.
//!
//! A backend fills a [`Measurement`] with what it knows; [`Measurement::row`] is the only place where a column is
//! computed. What a backend cannot know is `None`, and null in the row.

mod columns;
mod limits;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use weftway_link::LinkConfig;
use weftway_path::{Bytes, Role, Span, Thresholds};
use weftway_sched::FallbackTally;

pub use self::columns::ColumnType;
use self::columns::Columns;
use crate::bound::Bound;
use crate::config::{FlowClass, PathConfig, PathPolicy, Policy, SimConfig, TransportConfig, Workload};
use crate::workload::App;

/// A row: names and values, in the order of the columns.
pub type Row = Map<String, Value>;

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The workload is done.
    Finished,
    /// Time ran out while at least one path was usable.
    TimeLimit,
    /// Time ran out, or nothing can happen any more, and no path is usable.
    NoPath,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// End of the run.
    pub verdict: Verdict,
    /// Time from when the connection was opened to the end.
    pub elapsed: Span,
    /// Bytes that the receiving application had by then.
    pub delivered: Bytes,
    /// Bytes that the rival's receiving application had by then; `None` without a rival.
    pub rival_delivered: Option<Bytes>,
    /// Goodput of each path alone.
    pub singles: Singles,
    /// Counters of the connection.
    pub counts: Counts,
    /// Data that waited at the receiver for data before them.
    pub reordering: Option<Reordering>,
    /// Use of the scheduler's fallback, if it has one.
    pub fallback: Option<FallbackTally>,
    /// Bytes acknowledged on the path that a scheduler for intervals had chosen at the time.
    pub chosen: Option<Bytes>,
    /// The messages of a workload that has some.
    pub messages: Messages,
    /// Frames of a call that went the other way.
    pub back: Option<Messages>,
    /// Each path, in the order of the configuration.
    pub paths: Vec<PathFigures>,
    /// Punctuality of the emulated links; `None` in virtual time.
    pub real_time: Option<RealTime>,
    /// MPTCP was asked for and became TCP; `None` where that cannot be.
    pub became_tcp: Option<bool>,
}

/// The goodput of one path at a time, in Mbit/s, under the same controller and seed; empty where it was not measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Singles {
    /// Goodput of each path as the only one there is: the connection is opened on it.
    pub alone: Vec<f64>,
    /// Goodput of each path in a connection that is opened as this one is, with the other paths as backups.
    pub fair: Vec<f64>,
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that reached the receiver.
    pub arrived: Option<u64>,
    /// Packets whose data did not continue what had arrived.
    pub out_of_order: Option<u64>,
    /// Packets that were handed back to the connection and sent on another path.
    pub reinjections: Option<u64>,
    /// Packets sent as copies of data in flight.
    pub copies: Option<u64>,
    /// Packets that brought nothing new.
    pub duplicates: Option<u64>,
    /// Packets that the receiver dropped as beyond its window.
    pub window_drops: Option<u64>,
    /// Retransmission or probe timeouts.
    pub timeouts: Option<u64>,
    /// Window reductions that were taken back.
    pub spurious: Option<u64>,
    /// Packets that a capture tool at the receiver would tag as out of order, summed over subflows.
    pub capture_out_of_order: Option<u64>,
    /// Packets that it would tag as retransmissions.
    pub capture_retransmissions: Option<u64>,
    /// Decisions of the scheduler.
    pub decisions: Option<u64>,
    /// Its decisions to wait.
    pub waits: Option<u64>,
    /// Its decisions that broke a rule.
    pub faults: Option<u64>,
}

/// Data that waited at the receiver for data before them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Time that a byte waited, in milliseconds, on the mean over all bytes.
    pub mean_wait_ms: f64,
    /// The most bytes that were held at a time.
    pub held_max: u64,
    /// Bytes held, on the mean over time.
    pub held_mean: f64,
}

/// The messages of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Time that each message took that arrived, in any order.
    pub delays: Vec<Span>,
    /// Messages that were written and did not arrive.
    pub outstanding: u64,
    /// Class of each flow that arrived, in the order of `delays`.
    pub classes: Vec<u8>,
}

impl From<&App> for Messages {
    fn from(app: &App) -> Self {
        Self { delays: app.delays.clone(), outstanding: app.outstanding(), classes: app.classes.clone() }
    }
}

/// Figures of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathFigures {
    /// Data that the path brought first.
    pub delivered: Bytes,
    /// Packets sent, retransmissions included.
    pub packets: u64,
    /// Packets sent again on it.
    pub retransmissions: u64,
    /// Packets of other paths' data sent on it.
    pub reinjections: Option<u64>,
    /// Packets that were lost on the way; with a real-time link, on its own link only.
    pub lost: Option<u64>,
    /// Packets that a full queue dropped; likewise.
    pub queue_drops: Option<u64>,
    /// Packets lost or dropped on its own links and on those that it shares with other paths.
    pub lost_or_dropped: Option<u64>,
    /// Timeouts.
    pub timeouts: Option<u64>,
    /// Smoothed round-trip time at the end.
    pub srtt: Span,
    /// Bytes that packets with data took on the path's own link, retransmissions included.
    pub wire: Option<Bytes>,
}

/// Punctuality of a run over links in real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealTime {
    /// Too many packets were late for the run to be used.
    pub late: bool,
    /// By how much packets were late, on the mean.
    pub mean: Span,
    /// Packets that were more than 1 ms late.
    pub over_1ms: u64,
}

/// The names of all figures that a run of `config` in virtual time can have.
pub fn columns(config: &SimConfig) -> Vec<String> {
    nothing(config).row(config).keys().cloned().collect()
}

/// The figures of a bound: a run of `config` takes no less time, and delivers no more.
pub fn bound(bound: &Bound, config: &SimConfig) -> Row {
    let mut row = Columns::default();
    row.put("bound_fct_ms", bound.completion.map(Span::as_millis_f64));
    row.put("bound_bytes", bound.delivered.map(Bytes::get));
    // Of messages that cannot have arrived in time, no share is known.
    let is_whole = config.workload.has_messages() && bound.completion.is_some();
    let within = |delays: &[Span], percent| {
        let messages = Messages { delays: delays.to_vec(), ..Messages::default() };
        messages.within([percent])[0].filter(|_| is_whole).map(Span::as_millis_f64)
    };
    row.put("bound_p50_ms", within(&bound.delays, 50));
    row.put("bound_p95_ms", within(&bound.tail, 95));
    row.put("bound_p99_ms", within(&bound.tail, 99));
    row.row()
}

/// Every column that some run can have, with the type of its values. A path's columns have `*` for the name of the
/// path.
pub fn schema() -> Vec<(String, ColumnType)> {
    // Speech, both ways, over links in real time: such a run has the columns of all others.
    let link = LinkConfig::default();
    let (name, data, acks) = ("*".to_owned(), link.clone(), link);
    let path = PathConfig { name, role: Role::Active, data, acks, via: None, presence: Vec::new() };
    let (bytes, span) = (Bytes::ZERO, Span::ZERO);
    let workload = Workload::Voip { bytes, period: span, deadline: span, span };
    let policy = Policy { paths: vec![PathPolicy::default()], thresholds: Thresholds::default() };
    let config = SimConfig::new(TransportConfig::mptcp_linux_v1(), vec![path], bytes);
    let config = SimConfig { workload, policy: Some(policy), ..config };
    let punctual = RealTime { late: false, mean: Span::ZERO, over_1ms: 0 };
    let everything = Measurement {
        rival_delivered: Some(Bytes::ZERO),
        back: Some(Messages::default()),
        real_time: Some(punctual),
        ..nothing(&config)
    };
    let mut row = everything.columns(&config);
    everything.messages.flows(&mut row);
    everything.datagrams(&mut row, span);
    row.types()
}

/// A run of which nothing is known.
fn nothing(config: &SimConfig) -> Measurement {
    Measurement {
        verdict: Verdict::TimeLimit,
        elapsed: Span::ZERO,
        delivered: Bytes::ZERO,
        rival_delivered: config.rival.as_ref().map(|_| Bytes::ZERO),
        singles: Singles::default(),
        counts: Counts::default(),
        reordering: None,
        fallback: None,
        chosen: None,
        messages: Messages::default(),
        back: config.is_call().then(Messages::default),
        paths: vec![PathFigures::default(); config.paths.len()],
        real_time: None,
        became_tcp: config.transport.rules.repeats_before_tcp.map(|_| false),
    }
}

impl Measurement {
    /// The figures of a run of `config`.
    pub fn row(&self, config: &SimConfig) -> Row {
        self.columns(config).row()
    }

    fn columns(&self, config: &SimConfig) -> Columns {
        let mut row = Columns::default();
        self.transfer(&mut row, config);
        self.connection(&mut row);
        self.messages.columns(&mut row, &config.workload);
        if let Workload::Voip { period, deadline, .. } = config.workload {
            self.messages.speech(&mut row, period + deadline, deadline);
        }
        if config.workload.has_flows() {
            self.messages.flows(&mut row);
        }
        if let Some(deadline) = config.workload.deadline().filter(|_| config.workload.has_datagrams()) {
            self.datagrams(&mut row, deadline);
        }
        if let Some(back) = &self.back {
            back.backwards(&mut row, &self.messages, &config.workload);
        }
        if let Some(rival) = self.rival_delivered {
            row.put("rival_delivered_bytes", rival.get());
        }
        self.balance(&mut row, config);
        self.paths(&mut row, config);
        if let Some(became_tcp) = self.became_tcp {
            row.put("fallback", became_tcp);
        }
        if let Some(real_time) = self.real_time {
            real_time.columns(&mut row);
        }
        row
    }

    fn transfer(&self, row: &mut Columns, config: &SimConfig) {
        let goodput = mbps(self.delivered, self.elapsed);
        let elapsed = self.elapsed.as_millis_f64();
        let ends = !matches!(config.workload, Workload::Duration { .. });
        row.put("verdict", self.verdict.name());
        row.put("fct_ms", (self.verdict == Verdict::Finished && ends).then_some(elapsed));
        row.put("goodput_mbps", goodput);
        row.put("goodput_kbytes", goodput * 125.0);
        row.put("sent_mib", self.delivered.get() as f64 / f64::from(1 << 20));
        row.put("delivered_bytes", self.delivered.get());
        row.put("elapsed_ms", elapsed);
        row.put("aggregation_benefit", benefit(goodput, &self.singles.alone));
        row.put("benefit_fair", benefit(goodput, &self.singles.fair));
        row.put("best_single_mbps", self.singles.alone.iter().copied().reduce(f64::max));
        row.put("efficiency", limits::efficiency(config, self.delivered, self.elapsed));
    }

    fn connection(&self, row: &mut Columns) {
        let counts = &self.counts;
        let sum = |count: fn(&PathFigures) -> u64| self.paths.iter().map(count).sum::<u64>();
        let (packets, retransmissions) = (sum(|path| path.packets), sum(|path| path.retransmissions));
        let held = self.reordering.as_ref();
        let out_of_order = counts.out_of_order.zip(counts.arrived);
        row.put("ooo_packets", counts.out_of_order);
        row.put("ooo_share", out_of_order.and_then(|(part, whole)| share(part, whole)));
        row.put("reorder_delay_ms", held.map(|held| held.mean_wait_ms));
        row.put("receive_buffer_max_kb", held.map(|held| held.held_max as f64 / 1e3));
        row.put("receive_buffer_mean_kb", held.map(|held| held.held_mean / 1e3));
        row.put("retransmissions", retransmissions);
        row.put("retransmission_rate", share(retransmissions, packets));
        row.put("reinjections", counts.reinjections);
        row.put("copies", counts.copies);
        row.put("duplicates", counts.duplicates);
        row.put("window_drops", counts.window_drops);
        row.put("timeouts", counts.timeouts);
        row.put("spurious", counts.spurious);
        row.put("ooo_wireshark", counts.capture_out_of_order);
        row.put("retx_wireshark", counts.capture_retransmissions);
        row.put("decisions", counts.decisions);
        row.put("waits", counts.waits);
        row.put("faults", counts.faults);
        row.put("fallback_decided", self.fallback.map(|fallback| fallback.decided));
        row.put("fallback_differs", self.fallback.map(|fallback| fallback.differs));
        row.put("chosen_rate_mbps", self.chosen.map(|bytes| mbps(bytes, self.elapsed)));
    }

    /// Puts the shares of the datagrams that came after `deadline`, and never; and what was sent more than once, as a
    /// share of what was sent first.
    fn datagrams(&self, row: &mut Columns, deadline: Span) {
        let Messages { delays, outstanding, .. } = &self.messages;
        let written = delays.len() as u64 + outstanding;
        let late = delays.iter().filter(|delay| **delay > deadline).count() as u64;
        let again = self.counts.copies.zip(self.counts.reinjections).map(|(copies, again)| copies + again);
        let packets: u64 = self.paths.iter().map(|path| path.packets).sum();
        row.put("late_share", share(late, written));
        row.put("lost_share", share(*outstanding, written));
        row.put("overhead", again.and_then(|again| share(again, packets.saturating_sub(again))));
    }

    /// Jain's index over each path's share of its capacity, in the usual form and in the papers' inverse (Liang et al.
    /// 2022 and Xue et al. 2024, eq. 6), the share of all capacity that was used, and the utility of Popov et al. 2025
    /// (eq. 1) with unit weights.
    fn balance(&self, row: &mut Columns, config: &SimConfig) {
        let rates: Vec<f64> = self.paths.iter().map(|path| mbps(path.delivered, self.elapsed)).collect();
        let bounds = limits::path_rates(config, self.elapsed);
        let ratios = || rates.iter().zip(&bounds);
        row.put("jain", jain(ratios().map(|(rate, bound)| rate / bound)));
        // A path that carried nothing would make it infinite.
        row.put("jain_inverse", jain(ratios().map(|(rate, bound)| bound / rate.max(bound * 1e-3))));
        row.put("capacity_use", rates.iter().sum::<f64>() / bounds.iter().sum::<f64>());
        let delays: f64 = self.paths.iter().map(|path| path.srtt.as_secs_f64()).sum();
        let losses: Option<Vec<f64>> = self.paths.iter().map(PathFigures::loss).collect();
        let utility = losses.map(|losses| rates.iter().sum::<f64>() - delays - losses.iter().sum::<f64>());
        row.put("utility_popov_2025", utility);
    }

    fn paths(&self, row: &mut Columns, config: &SimConfig) {
        let total: u64 = self.paths.iter().map(|path| path.delivered.get()).sum();
        for (path, figures) in config.paths.iter().zip(&self.paths) {
            let name = |column: &str| format!("path.{}.{column}", path.name);
            row.put(&name("bytes"), figures.delivered.get());
            row.put(&name("share"), share(figures.delivered.get(), total));
            row.put(&name("mean_rate_mbps"), mbps(figures.delivered, self.elapsed));
            row.put(&name("packets"), figures.packets);
            row.put(&name("retransmissions"), figures.retransmissions);
            row.put(&name("reinjections"), figures.reinjections);
            row.put(&name("lost"), figures.lost);
            row.put(&name("queue_drops"), figures.queue_drops);
            row.put(&name("timeouts"), figures.timeouts);
            row.put(&name("srtt_ms"), figures.srtt.as_millis_f64());
        }
        if let Some(policy) = &config.policy {
            self.policy(row, config, policy);
        }
    }
}

impl Measurement {
    /// Puts the bytes that each path carried under a policy, and their cost.
    fn policy(&self, row: &mut Columns, config: &SimConfig, policy: &Policy) {
        let costs =
            self.paths.iter().zip(&policy.paths).map(|(figures, path)| figures.wire.map(|wire| path.cost(wire)));
        let costs: Vec<Option<f64>> = costs.collect();
        for (at, path) in config.paths.iter().enumerate() {
            row.put(&format!("path.{}.wire_bytes", path.name), self.paths[at].wire.map(Bytes::get));
            row.put(&format!("path.{}.cost", path.name), costs[at]);
        }
        row.put("cost", costs.into_iter().sum::<Option<f64>>());
    }
}

impl Verdict {
    /// As it stands in a row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::TimeLimit => "time limit",
            Self::NoPath => "no path",
        }
    }
}

impl Messages {
    /// Delays by nearest rank. A message that did not arrive has missed its deadline.
    fn columns(&self, row: &mut Columns, workload: &Workload) {
        let within = if workload.has_messages() { self.within([50, 95, 99]) } else { [None; 3] };
        for (name, within) in ["message_p50_ms", "message_p95_ms", "message_p99_ms"].into_iter().zip(within) {
            row.put(name, within.map(|span| span.as_millis_f64()));
        }
        row.put("deadline_miss_rate", workload.deadline().and_then(|deadline| self.missed(deadline)));
    }

    /// Puts the times of the flows of each class that arrived.
    fn flows(&self, row: &mut Columns) {
        for class in FlowClass::ALL {
            let classes = self.delays.iter().zip(&self.classes);
            let of_class = classes.filter(|(_, other)| **other == class as u8).map(|(delay, _)| *delay);
            let flows = Self { delays: of_class.collect(), ..Self::default() };
            let sum: f64 = flows.delays.iter().map(|delay| delay.as_millis_f64()).sum();
            let mut put = |name: &str, millis: Option<f64>| row.put(&format!("{}_{name}_ms", class.name()), millis);
            put("mean", (!flows.delays.is_empty()).then(|| sum / flows.delays.len() as f64));
            for (name, within) in ["p50", "p95", "p99"].into_iter().zip(flows.within([50, 95, 99])) {
                put(name, within.map(Span::as_millis_f64));
            }
        }
    }

    /// Puts the frames of a call that went the other way; and the call as a whole, which is as good as its worse
    /// direction.
    fn backwards(&self, row: &mut Columns, forth: &Self, workload: &Workload) {
        let millis = |span: Option<Span>| span.map(|span| span.as_millis_f64());
        let [half, most, nearly_all] = self.within([50, 95, 99]);
        row.put("back_p50_ms", millis(half));
        row.put("back_p95_ms", millis(most));
        row.put("back_p99_ms", millis(nearly_all));
        let missed = |of: &Self| workload.deadline().and_then(|deadline| of.missed(deadline));
        row.put("back_miss_rate", missed(self));
        let worse = nearly_all.zip(forth.within([99])[0]).map(|(back, forth)| back.max(forth));
        row.put("call_p99_ms", millis(worse));
        let worse = missed(self).zip(missed(forth)).map(|(back, forth)| back.max(forth));
        row.put("call_miss_rate", worse);
    }

    /// Rates how well the speech is understood that is played `mouth_to_ear` after it was spoken, where what comes
    /// after `deadline` is not played: the transmission rating of ITU-T G.107 and the mean opinion score that goes with
    /// it.
    ///
    /// `R = 93.2 − Id − Ie,eff`: 93.2 is the rating that G.107's default values give without delay and loss. `Id =
    /// 0.024 d + 0.11 (d − 177.3) H(d − 177.3)`, d in ms, is its delay impairment as Cole and Rosenbluth fit it ("Voice
    /// over IP performance monitoring", CCR 31(2), 2001). `Ie,eff = Ie + (95 − Ie) · Ppl / (Ppl + Bpl)` (G.107 §7.5,
    /// losses independent) with Ie = 0 and Bpl = 25.1: G.711 with concealment of lost packets (G.113 Appendix I).
    fn speech(&self, row: &mut Columns, mouth_to_ear: Span, deadline: Span) {
        let rating = self.missed(deadline).map(|missed| {
            let (delay, percent) = (mouth_to_ear.as_millis_f64(), missed * 100.0);
            let delayed = 0.024 * delay + 0.11 * (delay - 177.3).max(0.0);
            93.2 - delayed - 95.0 * percent / (percent + 25.1)
        });
        row.put("r_factor", rating);
        row.put("mos", rating.map(opinion));
    }

    /// The delays that so many per cent keep, by nearest rank; none where nothing arrived.
    fn within<const N: usize>(&self, percents: [usize; N]) -> [Option<Span>; N] {
        let mut delays = self.delays.clone();
        percents.map(|percent| {
            let rank = (delays.len() * percent).div_ceil(100).max(1) - 1;
            (rank < delays.len()).then(|| *delays.select_nth_unstable(rank).1)
        })
    }

    /// The share that came after `deadline` or never.
    fn missed(&self, deadline: Span) -> Option<f64> {
        let late = self.delays.iter().filter(|delay| **delay > deadline).count() as u64;
        let written = self.delays.len() as u64 + self.outstanding;
        (written > 0).then(|| (late + self.outstanding) as f64 / written as f64)
    }
}

impl PathFigures {
    /// The share of its packets that were lost or dropped.
    fn loss(&self) -> Option<f64> {
        self.lost_or_dropped.map(|packets| packets as f64 / self.packets.max(1) as f64)
    }
}

impl RealTime {
    fn columns(self, row: &mut Columns) {
        row.put("late", self.late);
        row.put("late_mean_us", self.mean.as_nanos() as f64 / 1e3);
        row.put("late_over_1ms", self.over_1ms);
    }
}

/// The mean opinion score of a rating (ITU-T G.107 Annex B): 1 is bad, 4.5 as good as it gets.
fn opinion(rating: f64) -> f64 {
    let rating = rating.clamp(0.0, 100.0);
    // Between 0 and 6.5 the polynomial is below 1, which no opinion is.
    (1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6).max(1.0)
}

/// Mbit/s; zero for no time.
fn mbps(bytes: Bytes, span: Span) -> f64 {
    if span.is_zero() { 0.0 } else { bytes.get() as f64 * 8.0 / span.as_secs_f64() / 1e6 }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// 0: as fast as the best single path; 1: as fast as all of them together.
fn benefit(goodput: f64, singles: &[f64]) -> Option<f64> {
    let best = singles.iter().copied().fold(0.0, f64::max);
    let sum: f64 = singles.iter().sum();
    (singles.len() > 1 && sum - best > sum * 1e-6).then(|| (goodput - best) / (sum - best))
}

fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (values.len() as f64 * squares)
}
