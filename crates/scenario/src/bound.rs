//! The capacity bound: when what a run sends can have arrived at the earliest, whatever its scheduler.
//!
//! With R(s) bytes released by the application before s, and C_i(s, t) what path i's links carry of packets that come
//! after s and depart by t, no more than
//!   `D(t) = min over s ≤ t of R(s) + Σ_i C_i(s, t − d_i)`
//! can be delivered in order by t: what comes after the first R(s) bytes sets out after s. C_i is of this run: drawn
//! rates, traces, failures, delays, from [`weftway_link::Supply`]; each payload byte takes its share of a full packet's
//! headers; where paths share a link, that link bounds their sum. A window of W bytes adds `D(t) ≤ D(t − r) + W`, r the
//! least delay there and back. R begins when the connection is established; a request sets out when what it waits for
//! can have arrived.
//!
//! It ignores controllers, and whatever else takes time or capacity: acknowledgements, other traffic, queues that drop,
//! random losses, the send buffer, a path's handshake, and that a path is not there for a time. So a run may well be
//! unable to attain it, but none is better.

use std::collections::HashMap;

use weftway_link::{Distribution, SURE};
use weftway_path::{Bytes, Instant, Span};

use crate::config::{SimConfig, Workload};
use crate::workload::App;

mod network;
#[cfg(test)]
mod tests;

use network::{Network, payload};

/// Newest releases that count, of those since the network was last empty; of the others a few do.
const NEWEST: usize = 24;

/// Limits of what any run can have done.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Bound {
    /// Earliest time at which the last byte can have arrived, from when the connection was opened. `None` if not before
    /// the time limit, and where the workload has no end.
    pub completion: Option<Span>,
    /// Least time that each message took, in the order of writing; up to the time limit.
    pub delays: Vec<Span>,
    /// Least times where they are no matter of luck: with what jitter takes off nearly all messages once in 10⁹ runs,
    /// instead of what it takes off one of them. The high percentiles are taken of these.
    pub tail: Vec<Span>,
    /// Most that can have arrived of a workload that runs for a time.
    pub delivered: Option<Bytes>,
}

impl Bound {
    /// The bound of a run of `config` with this seed whose connection was established at `start`.
    pub fn of(config: &SimConfig, seed: u64, start: Instant) -> Self {
        let network = Network::new(config, seed, SURE);
        match config.workload {
            Workload::Duration { span } => {
                let delivered = payload(network.packet, network.work(start, Instant::ZERO + span));
                Self { delivered: Some(delivered), ..Self::default() }
            }
            _ => {
                let deliver = |network: &Network| {
                    Deliveries::new(network).run(App::of(&config.workload, seed), start, &config.workload)
                };
                let mut bound = deliver(&network);
                let odds = odds(config, &bound, start);
                bound.tail = match odds > SURE {
                    true => deliver(&Network::new(config, seed, odds)).delays,
                    false => bound.delays.clone(),
                };
                bound
            }
        }
    }
}

/// The odds of a jitter that nearly all messages have once in 10⁹ runs. They need it in each stretch of time, or for a
/// jitter without memory in each message, for which it is drawn anew, on one of the paths. A twentieth of the messages
/// may do without, so that less than all of them count: two thirds.
fn odds(config: &SimConfig, bound: &Bound, start: Instant) -> f64 {
    let jitters = config.paths.iter().map(|path| &path.data).chain(&config.shared).filter_map(|link| link.jitter);
    let time = bound.completion.unwrap_or(config.time_limit).saturating_sub(start.since(Instant::ZERO));
    let draws = jitters.clone().map(|jitter| match jitter.distribution {
        // After twice its time constant little of a value is left.
        Distribution::Correlated { over, .. } => time.as_nanos() / (over.as_nanos() * 2).max(1),
        _ => bound.delays.len() as u64,
    });
    let draws = draws.min().map_or(0, |draws| draws * 2 / 3);
    if draws == 0 { SURE } else { libm::pow(SURE, 1.0 / draws as f64) / jitters.count() as f64 }
}

/// Releases of data, and the earliest arrival of each.
struct Deliveries<'a> {
    network: &'a Network,
    /// Each message: when it was released, its end in the data, and when it can have arrived.
    released: Vec<(Instant, u64, Instant)>,
    /// The first message that was released after everything before it can have arrived.
    empty_before: usize,
    /// The last message whose end is a window before that at hand.
    window_before: usize,
    /// Least time that so many bytes take on the wire, whenever they set out.
    at_any_time: HashMap<u64, Span>,
}

impl<'a> Deliveries<'a> {
    fn new(network: &'a Network) -> Self {
        Self { network, released: Vec::new(), empty_before: 0, window_before: 0, at_any_time: HashMap::new() }
    }

    /// Lets the application write, and hear of what arrives when it can.
    fn run(mut self, mut app: App, start: Instant, workload: &Workload) -> Bound {
        app.start(start);
        let mut completion = Some(start);
        let mut delays = Vec::new();
        loop {
            // The application forgets a message when it has arrived.
            loop {
                let Some(message) = app.outlook().next().copied() else { break };
                // What cannot arrive in time makes room for others: only its own way counts.
                let arrival = match workload.deadline().filter(|_| workload.has_datagrams()) {
                    Some(deadline) => message.written + deadline.min(self.alone(message.end - message.start)),
                    None => self.deliver(message.written, message.start, message.end),
                };
                if arrival.is_never() {
                    return Bound { delays, ..Bound::default() };
                }
                completion = completion.max(Some(arrival));
                delays.push(match workload {
                    // Every request of a run comes later than here, and may find other rates.
                    // A flow need not wait for those before it.
                    Workload::RequestResponse { .. }
                    | Workload::Web { .. }
                    | Workload::Flows { .. }
                    | Workload::Datagrams { .. } => self.alone(message.end - message.start),
                    _ => arrival.since(message.written),
                });
                match workload.has_records() {
                    true => app.flow_arrived(arrival, message.start),
                    false => app.arrived(arrival, message.end, self.network.request),
                }
            }
            if app.next_event().is_never() {
                break;
            }
            app.run(app.next_event());
        }
        if !app.has_messages() {
            delays.clear();
        }
        Bound { completion: completion.map(|at| at.since(Instant::ZERO)), delays, ..Bound::default() }
    }

    /// Returns the least time that so many bytes take, whenever they set out.
    fn alone(&mut self, bytes: u64) -> Span {
        let network = self.network;
        *self.at_any_time.entry(bytes).or_insert_with(|| network.at_any_time(network.wire(bytes)))
    }

    /// Returns the earliest arrival of the bytes from `start` to `end`, released at `at`.
    fn deliver(&mut self, at: Instant, start: u64, end: u64) -> Instant {
        let number = self.released.len();
        let before = self.released.last().map_or(Instant::ZERO, |last| last.2);
        if before <= at {
            self.empty_before = number;
        }
        let mut arrival = self.network.soonest(at, self.network.wire(end - start), before);
        for earlier in self.earlier(number) {
            let (released, from) =
                (self.released[earlier].0, earlier.checked_sub(1).map_or(0, |at| self.released[at].1));
            arrival = self.network.soonest(released, self.network.wire(end - from), arrival);
        }
        arrival = arrival.max(self.after_the_window(at, start, end, arrival));
        self.released.push((at, end, arrival));
        arrival
    }

    /// Returns the earliest arrival of the byte at `end`: the byte a window before it has arrived, and the sender
    /// knows.
    fn after_the_window(&mut self, at: Instant, start: u64, end: u64, mut arrival: Instant) -> Instant {
        let Some(window) = self.network.window.map(Bytes::get) else { return arrival };
        let round_trip = self.network.round_trip;
        while let Some(known) = self.released.get(self.window_before)
            && known.1.saturating_add(window) <= end
        {
            arrival = arrival.max(known.2 + round_trip);
            self.window_before += 1;
        }
        // The message's own bytes, one, two and more windows before.
        let (mut left, mut since) = ((end - start).saturating_sub(window), round_trip);
        while left > 0 {
            arrival = self.network.soonest(at, self.network.wire(left), arrival - since) + since;
            (left, since) = (left.saturating_sub(window), since + round_trip);
        }
        arrival
    }

    /// The messages since the network was last empty: the newest, and of the older ones fewer and fewer, the first
    /// among them. Leaving some out only makes the bound looser.
    fn earlier(&self, number: usize) -> impl Iterator<Item = usize> + use<> {
        let first = self.empty_before;
        let oldest_of_newest = number.saturating_sub(NEWEST).max(first);
        let mut distance = NEWEST;
        let sparse = std::iter::from_fn(move || {
            distance = distance.saturating_mul(2);
            number.checked_sub(distance).filter(|&at| at > first)
        });
        (oldest_of_newest..number).rev().chain(sparse).chain((first < oldest_of_newest).then_some(first))
    }
}
