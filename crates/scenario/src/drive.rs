//! Drives: what several links carried at the same moments, measured on one clock.
//!
//! A drive file is a table of comma-separated values. `at_s` counts from the start of a run; `run` numbers the runs,
//! where the file holds several; `NAME_mbps`, and where they were measured `NAME_delay_ms` and `NAME_loss_percent`, are
//! what the link NAME did from then until the next line. An empty field says that nothing new was measured.

use std::collections::BTreeMap;

use weftway_link::{Change, Loss, Rate, Set};
use weftway_path::{BitRate, Instant, Span};

/// Samples of a run are at least so far apart. A run that took no time would begin anew for ever; for finer detail
/// there are traces.
const LEAST_STEP: Span = Span::from_millis(10);
/// Time for which the only sample of a run counts.
const LONE_SAMPLE: Span = Span::from_secs(1);

/// All runs of a drive file.
#[derive(Clone, Debug, PartialEq)]
pub struct Drives {
    links: Vec<String>,
    runs: BTreeMap<u64, Drive>,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    /// Time of the first sample, as the file says.
    begins: Span,
    /// Time of each sample, from the first one on.
    at: Vec<Span>,
    /// Length of the run: the last sample counts as long as the one before it.
    lasts: Span,
    /// By link and sample.
    samples: Vec<Vec<Sample>>,
}

/// State of a link from one moment on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    rate: BitRate,
    delay: Option<Span>,
    /// The share of packets that are lost.
    loss: Option<f64>,
}

/// Content of a column of the file.
#[derive(Clone, Copy)]
enum Column {
    Run,
    At,
    Rate(usize),
    Delay(usize),
    Loss(usize),
}

/// Behaviour of a link while a scenario runs.
pub(super) struct Measured {
    /// Rate at the beginning.
    pub rate: BitRate,
    /// Mean rate over the run.
    pub mean: BitRate,
    /// Its delay at the beginning, if that was measured.
    pub delay: Option<Span>,
    /// Share lost at the beginning, if that was measured.
    pub loss: Option<f64>,
    /// Later changes.
    pub changes: Vec<Change>,
}

impl Drives {
    /// Reads a drive file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
        let (_, head) =
            lines.next().ok_or("the file is empty; expected a line such as `run,at_s,lte_mbps,wifi_mbps`")?;
        let (columns, links) = columns(head)?;
        let mut found = Self { links, runs: BTreeMap::new() };
        let mut last = None;
        for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let line =
                Line::read(line, &columns, found.links.len()).map_err(|fault| format!("line {}: {fault}", at + 1))?;
            let is_new = last != Some(line.run);
            if is_new && found.runs.contains_key(&line.run) {
                return Err(format!(
                    "line {}: run {} goes on after another one; a run's lines stand together",
                    at + 1,
                    line.run
                ));
            }
            last = Some(line.run);
            let run = found.runs.entry(line.run).or_insert_with(|| Drive::new(found.links.len()));
            run.push(&line).map_err(|fault| match fault {
                Pushed::Early => {
                    format!("line {}: `at_s` must grow by {LEAST_STEP} or more from line to line of a run", at + 1)
                }
                Pushed::NoRate(link) => {
                    format!("line {}: the run begins without a rate of `{}`", at + 1, found.links[link])
                }
            })?;
        }
        if found.runs.is_empty() {
            return Err("there is no sample below the names of the columns".to_owned());
        }
        found.runs.values_mut().for_each(Drive::close);
        Ok(found)
    }

    /// The links that were measured.
    pub fn links(&self) -> &[String] {
        &self.links
    }

    /// The run with this number.
    pub fn run(&self, number: u64) -> Option<&Drive> {
        self.runs.get(&number)
    }

    /// The runs by their numbers.
    pub fn runs(&self) -> impl Iterator<Item = (u64, &Drive)> {
        self.runs.iter().map(|(number, run)| (*number, run))
    }
}

impl Drive {
    fn new(links: usize) -> Self {
        Self { begins: Span::ZERO, at: Vec::new(), lasts: Span::ZERO, samples: vec![Vec::new(); links] }
    }

    /// Returns the length of the run.
    pub fn lasts(&self) -> Span {
        self.lasts
    }

    /// Returns the time of its first sample, by the clock of its file.
    pub(super) fn begins(&self) -> Span {
        self.begins
    }

    /// The mean rate of each link, in the order of [`Drives::links`].
    pub fn mean_rates(&self) -> Vec<BitRate> {
        (0..self.samples.len()).map(|link| self.mean(link)).collect()
    }

    fn mean(&self, link: usize) -> BitRate {
        let ends = self.at.iter().skip(1).copied().chain([self.lasts]);
        let sum = self.samples[link].iter().zip(self.at.iter().zip(ends)).fold(0u128, |sum, (sample, (from, to))| {
            sum + u128::from(sample.rate.as_bps()) * u128::from(to.saturating_sub(*from).as_nanos())
        });
        let lasts = u128::from(self.lasts.as_nanos()).max(1);
        BitRate::from_bps(u64::try_from(sum / lasts).unwrap_or(u64::MAX))
    }

    /// Appends a sample: it counts until the next one, and what was not measured is as before.
    fn push(&mut self, line: &Line) -> Result<(), Pushed> {
        if self.at.last().is_some_and(|last| *last + LEAST_STEP > line.at) {
            return Err(Pushed::Early);
        }
        self.at.push(line.at);
        for (link, (samples, new)) in self.samples.iter_mut().zip(&line.values).enumerate() {
            let before = samples.last().copied();
            samples.push(Sample {
                rate: new.0.or(before.map(|one| one.rate)).ok_or(Pushed::NoRate(link))?,
                delay: new.1.or(before.and_then(|one| one.delay)),
                loss: new.2.or(before.and_then(|one| one.loss)),
            });
        }
        Ok(())
    }

    /// Times count from the first sample on.
    fn close(&mut self) {
        self.begins = self.at[0];
        self.at.iter_mut().for_each(|at| *at = at.saturating_sub(self.begins));
        let last = self.at[self.at.len() - 1];
        let step = if let [.., before, last] = self.at[..] { last.saturating_sub(before) } else { LONE_SAMPLE };
        self.lasts = last + step;
    }

    /// Returns the behaviour of `link` from `start` of the run on, which begins anew at its end, until `end` of the
    /// scenario.
    pub(super) fn measured(&self, link: usize, start: Span, end: Span) -> Measured {
        let samples = &self.samples[link];
        let start = Span::from_nanos(start.as_nanos() % self.lasts.as_nanos());
        // The last sample that is not after the start; the first one is at zero.
        let first = self.at.partition_point(|at| *at <= start) - 1;
        let mut now = samples[first];
        let mut found =
            Measured { rate: now.rate, mean: self.mean(link), delay: now.delay, loss: now.loss, changes: Vec::new() };
        let turns = (0..).map(|turn| self.lasts * turn);
        let later = turns.flat_map(|turn| self.at.iter().zip(samples).map(move |(at, sample)| (turn + *at, sample)));
        for (at, sample) in later.skip(first + 1) {
            let at = at.saturating_sub(start);
            if at >= end {
                break;
            }
            let sets = [
                (sample.rate != now.rate).then_some(Set::Rate(Rate::Constant(sample.rate))),
                sample.delay.filter(|_| sample.delay != now.delay).map(Set::Delay),
                sample.loss.filter(|_| sample.loss != now.loss).map(|loss| Set::Loss(bernoulli(loss))),
            ];
            found.changes.extend(sets.into_iter().flatten().map(|set| Change { at: Instant::ZERO + at, set }));
            now = Sample { delay: sample.delay.or(now.delay), loss: sample.loss.or(now.loss), ..*sample };
        }
        found
    }
}

/// Losses of this share of packets, at random.
pub(super) fn bernoulli(share: f64) -> Loss {
    if share > 0.0 { Loss::Bernoulli(share) } else { Loss::None }
}

/// Why a sample cannot follow those before.
enum Pushed {
    Early,
    NoRate(usize),
}

/// The names of the columns, and the links.
fn columns(head: &str) -> Result<(Vec<Column>, Vec<String>), String> {
    let mut links: Vec<String> = Vec::new();
    let mut columns = Vec::new();
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(format!("line 1: two columns are called `{}`", twice.1));
    }
    // The links in the order of their rates; the other columns of a link may stand anywhere.
    links.extend(names.iter().filter_map(|name| name.strip_suffix("_mbps")).map(str::to_owned));
    for name in names {
        let link = |suffix: &str| {
            let link = name.strip_suffix(suffix)?;
            links.iter().position(|known| known == link)
        };
        columns.push(match name {
            "run" => Column::Run,
            "at_s" => Column::At,
            _ => link("_mbps")
                .map(Column::Rate)
                .or_else(|| link("_delay_ms").map(Column::Delay))
                .or_else(|| link("_loss_percent").map(Column::Loss))
                .ok_or_else(|| {
                    format!(
                        "line 1: `{name}` is no column of a drive; there is run, at_s, and for each link NAME_mbps, \
                         NAME_delay_ms and NAME_loss_percent"
                    )
                })?,
        });
    }
    match () {
        () if !columns.iter().any(|column| matches!(column, Column::At)) => {
            Err("line 1: there is no column `at_s`".to_owned())
        }
        () if links.is_empty() => Err("line 1: no column is the rate of a link, such as `lte_mbps`".to_owned()),
        () if links.iter().any(String::is_empty) => Err("line 1: `_mbps` names no link".to_owned()),
        () => Ok((columns, links)),
    }
}

/// A line: of each link its rate, delay and loss, where they are given.
struct Line {
    run: u64,
    at: Span,
    values: Vec<(Option<BitRate>, Option<Span>, Option<f64>)>,
}

impl Line {
    fn read(text: &str, columns: &[Column], links: usize) -> Result<Self, String> {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != columns.len() {
            return Err(format!("{} fields, where the first line names {} columns", fields.len(), columns.len()));
        }
        let mut line = Self { run: 0, at: Span::ZERO, values: vec![(None, None, None); links] };
        for (field, column) in fields.into_iter().zip(columns) {
            match *column {
                Column::Run => {
                    line.run = field.parse().map_err(|_| format!("`{field}` is no number of a run, such as 12"))?;
                }
                Column::At => line.at = time(field)?,
                Column::Rate(link) => {
                    line.values[link].0 = number(field)?.map(|mbps| BitRate::from_bps((mbps * 1e6).round() as u64));
                }
                Column::Delay(link) => line.values[link].1 = number(field)?.map(|ms| seconds(ms / 1e3)),
                Column::Loss(link) => {
                    let percent = number(field)?;
                    if let Some(more) = percent.filter(|percent| *percent > 100.0) {
                        return Err(format!("a loss of {more} %"));
                    }
                    line.values[link].2 = percent.map(|percent| percent / 100.0);
                }
            }
        }
        Ok(line)
    }
}

/// The most that a field may say: of Mbit/s a thousand Tbit/s.
const MOST: f64 = 1e9;
/// The most seconds: some 300 years, so that Unix time is among them.
const MOST_SECONDS: f64 = 1e10;

fn number(field: &str) -> Result<Option<f64>, String> {
    if field.is_empty() {
        return Ok(None);
    }
    within(field, MOST).map(Some)
}

fn within(field: &str, most: f64) -> Result<f64, String> {
    let number: Option<f64> = field.parse().ok();
    let number = number.filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("`{field}` is not a number from 0 to {most}"))
}

/// Reads the time of a line. Thousands of seconds of Unix time are milliseconds.
fn time(field: &str) -> Result<Span, String> {
    if field.is_empty() {
        return Err("`at_s` is empty".to_owned());
    }
    within(field, MOST_SECONDS).map(seconds).map_err(|reason| match within(field, 1e3 * MOST_SECONDS) {
        Ok(_) => format!("{reason}; `at_s` counts seconds, are these milliseconds?"),
        Err(_) => reason,
    })
}

fn seconds(seconds: f64) -> Span {
    Span::from_nanos((seconds * 1e9).round() as u64)
}
