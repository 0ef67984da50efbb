//! The capacity bound of datagrams: how many of a run are late or lost at least, whatever its scheduler and controller.
//!
//! A datagram comes in time only if a packet that holds it sets out when it is written or later, and departs on each
//! link of one path early enough to arrive by the deadline. Two things follow. Where no path carries a packet of that
//! size so soon, the datagram is missed. And of the others no more are in time than the links have work for: each takes
//! its share of the fullest packet from what a link carries between its earliest and its latest departure there.
//! Deadlines are in the order of writing, so that each stretch of a link's time serves datagrams in a row: giving each
//! datagram in turn the stretch that the fewest later ones can use brings as many as any other order.
//!
//! Rates, failures and delays are those of the run, from [`weftway_link::Supply`]; so is what jitter takes off. Whoever
//! knows the draws can be lucky with random losses, which count for nothing here, as do controllers, acknowledgements,
//! other traffic, queues that drop, handshakes of further paths, and that a path is not there for a time. A datagram
//! may take its work from several links in parts. Of a shared link and those before it one counts, whichever brings
//! fewer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use weftway_link::{SURE, Supply};
use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Instant, Span};
use weftway_scenario::config::{SimConfig, TransportConfig, Workload};
use weftway_scenario::{DATAGRAM_HEAD, path_seeds, shared_seeds, writes};
use weftway_sim::run::{Job, second};
use weftway_sim::{Pause, Sim};

#[cfg(test)]
mod tests;

/// Bits times 10⁹ in a byte: the unit of [`Supply::work`].
const WORK_PER_BYTE: u128 = 8_000_000_000;
const MOMENT: Span = Span::from_nanos(1);

/// Datagrams of a run, and of these the fewest that can be late or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// Number of datagrams that the application writes.
    pub written: u64,
    /// Number of these that no scheduler brings in time.
    pub least: u64,
}

impl Missed {
    /// The least share that is late or lost.
    pub fn share(self) -> f64 {
        self.least as f64 / self.written.max(1) as f64
    }
}

/// Returns the bound of a run of `job`; none if it sends no datagrams, if it is never established, or if its time limit
/// comes before the last deadline.
pub fn least_missed(job: &Job<'_>) -> Result<Option<Missed>, SpecError> {
    let Workload::Datagrams { bytes, deadline, .. } = job.config.workload else { return Ok(None) };
    let (Some(writes), Some(start)) = (writes(&job.config.workload, job.seed), established(job)?) else {
        return Ok(None);
    };
    let mut bursts: Vec<Burst> = Vec::new();
    for (at, _) in writes {
        let written = start + at;
        match bursts.last_mut() {
            Some(last) if last.written == written => last.datagrams += 1,
            _ => bursts.push(Burst { written, deadline: written + deadline, datagrams: 1 }),
        }
    }
    let end = Instant::ZERO + job.config.time_limit;
    if bursts.last().is_none_or(|last| last.deadline > end) {
        return Ok(None);
    }
    let network = Network::new(job.config, job.seed, end);
    let written = bursts.iter().map(|burst| burst.datagrams).sum();
    let (packet, share) = sizes(bytes, &job.config.transport);
    bursts.retain(|burst| network.carries(burst, packet));
    let in_time = network.most_in_time(&bursts, share);
    Ok(Some(Missed { written, least: written - in_time }))
}

/// Time at which the connection is established. It opens as in a run: until then no scheduler is asked.
fn established(job: &Job<'_>) -> Result<Option<Instant>, SpecError> {
    let mut sim = Sim::new(job.config, job.cc, job.seed)?;
    let mut other = second(&mut sim, job.config)?;
    while sim.connection(0).established().is_none() {
        match (sim.advance(), &mut other) {
            (Pause::Decide(1), Some(other)) => sim.ask(1, other.as_mut()),
            (Pause::Observe(1), Some(other)) => sim.tell(1, other.as_mut()),
            _ => break,
        }
    }
    Ok(sim.connection(0).established())
}

/// Work of a packet that holds one datagram of `bytes`, and the least share of one datagram in a packet of several.
fn sizes(bytes: Bytes, transport: &TransportConfig) -> (u128, u128) {
    let (one, headers) = ((bytes + DATAGRAM_HEAD).get(), transport.packet.saturating_sub(transport.mss).get());
    let together = (transport.mss.get() / one.max(1)).max(1);
    let work = |bytes: u64| u128::from(bytes) * WORK_PER_BYTE;
    (work(one + headers), work(one) + work(headers) / u128::from(together))
}

/// Datagrams that are written at the same time.
#[derive(Clone, Copy, Debug)]
struct Burst {
    written: Instant,
    deadline: Instant,
    datagrams: u64,
}

/// The links of a run, as what they carry at most.
struct Network {
    /// Each path's own link, and the number of the shared one after it.
    paths: Vec<(Supply, Option<usize>)>,
    shared: Vec<Supply>,
}

impl Network {
    fn new(config: &SimConfig, seed: u64, end: Instant) -> Self {
        let own = config.paths.iter().map(|path| {
            let (seeds, _) = path_seeds(seed, 0, &path.name);
            (Supply::new(&path.data, seeds, end, SURE), path.via)
        });
        let shared = config.shared.iter().enumerate();
        let shared = shared.map(|(at, link)| Supply::new(link, shared_seeds(seed, at), end, SURE));
        Self { paths: own.collect(), shared: shared.collect() }
    }

    /// Links of paths, each with the shared link after it.
    fn own(&self) -> impl Iterator<Item = Server<'_>> {
        self.paths.iter().map(|(link, via)| Server {
            link,
            before: Span::ZERO,
            after: via.and_then(|via| self.shared.get(via)),
        })
    }

    /// Shared links, each after the nearest of the links that lead to it, and the links that lead to none.
    fn merged(&self) -> impl Iterator<Item = Server<'_>> {
        let shared = self.shared.iter().enumerate().filter_map(|(at, link)| {
            let users = self.paths.iter().filter(|(_, via)| *via == Some(at));
            let before = users.map(|(own, _)| own.least_delay()).min()?;
            Some(Server { link, before, after: None })
        });
        shared.chain(self.own().filter(|server| server.after.is_none()))
    }

    /// Returns true if some path carries a packet of so much work in time for these datagrams.
    fn carries(&self, burst: &Burst, packet: u128) -> bool {
        self.own().any(|own| {
            let after = own.after.map(|link| Server { link, before: own.before + own.link.least_delay(), after: None });
            [Some(own), after].iter().flatten().all(|server| server.work(burst) >= packet)
        })
    }

    /// The most datagrams of `bursts` that come in time, if each takes `share` of work.
    fn most_in_time(&self, bursts: &[Burst], share: u128) -> u64 {
        let own = most_in_time(self.own(), bursts, share);
        if self.shared.is_empty() { own } else { own.min(most_in_time(self.merged(), bursts, share)) }
    }
}

/// A link on the way of datagrams.
#[derive(Clone, Copy)]
struct Server<'a> {
    link: &'a Supply,
    /// Least time from when a datagram is written until it reaches the link.
    before: Span,
    /// A link after it.
    after: Option<&'a Supply>,
}

impl Server<'_> {
    /// Earliest time at which anything is done for these datagrams.
    fn opens(&self, burst: &Burst) -> Instant {
        burst.written + self.before
    }

    /// Latest departure in time for these datagrams.
    fn last(&self, burst: &Burst) -> Option<Instant> {
        let by = self.after.map_or(Some(burst.deadline), |after| after.last_departure(burst.deadline))?;
        self.link.last_departure(by)
    }

    fn work(&self, burst: &Burst) -> u128 {
        self.last(burst).map_or(0, |last| self.link.work(self.opens(burst), last))
    }

    /// Stretches between the times at which bursts open or end.
    fn stretches(&self, bursts: &[Burst]) -> Vec<Stretch> {
        let opens: Vec<Instant> = bursts.iter().map(|burst| self.opens(burst)).collect();
        // What departs at the last moment is in time.
        let ends: Vec<Instant> =
            bursts.iter().map(|burst| self.last(burst).map_or(Instant::ZERO, |last| last + MOMENT)).collect();
        let mut edges: Vec<Instant> = opens.iter().chain(&ends).copied().collect();
        edges.sort_unstable();
        edges.dedup();
        let of_pair = |pair: &[Instant]| {
            let (from, to) = (*pair.first()?, *pair.last()?);
            let (first, end) = (ends.partition_point(|end| *end < to), opens.partition_point(|open| *open <= from));
            let last = Instant::from_nanos(to.as_nanos() - 1);
            (first < end).then(|| Stretch { first, last: end - 1, work: self.link.work(from, last) })
        };
        edges.windows(2).filter_map(of_pair).collect()
    }
}

/// A stretch of a link's time, which serves the bursts from `first` to `last` and no others.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: usize,
    last: usize,
    work: u128,
}

/// The most datagrams of `bursts` that `servers` bring in time, if each takes `share` of work.
fn most_in_time<'a>(servers: impl Iterator<Item = Server<'a>>, bursts: &[Burst], share: u128) -> u64 {
    let stretches = servers.flat_map(|server| server.stretches(bursts)).collect();
    let needs = bursts.iter().map(|burst| share * u128::from(burst.datagrams));
    let most = filled(stretches, needs) / share.max(1);
    u64::try_from(most).unwrap_or(u64::MAX)
}

/// The most of `needs`, in the order of bursts, that `stretches` fill.
fn filled(mut stretches: Vec<Stretch>, needs: impl Iterator<Item = u128>) -> u128 {
    stretches.sort_unstable_by_key(|stretch| stretch.first);
    let mut coming = stretches.into_iter().peekable();
    // Those that serve the burst at hand; on top the one that ends first.
    let mut open = BinaryHeap::new();
    let mut sum = 0;
    for (number, need) in needs.enumerate() {
        while let Some(stretch) = coming.next_if(|stretch| stretch.first <= number) {
            open.push(Reverse((stretch.last, stretch.work)));
        }
        let mut left = need;
        while left > 0
            && let Some(mut top) = open.peek_mut()
        {
            let Reverse((last, work)) = &mut *top;
            let took = if *last < number { 0 } else { left.min(*work) };
            (left, *work) = (left - took, *work - took);
            if *last < number || *work == 0 {
                PeekMut::pop(top);
            }
        }
        sum += need - left;
    }
    sum
}
