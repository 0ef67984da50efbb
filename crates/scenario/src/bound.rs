//! The capacity bound: when what a run sends can have arrived at the earliest, whatever its scheduler.
//!
//! With R(s) bytes released by the application before s, and C_i(s, t) what path i's links carry of packets that come
//! after s and depart by t, no more than
//!   `D(t) = min over s ≤ t of R(s) + Σ_i C_i(s, t − d_i)`
//! can be delivered in order by t: what comes after the first R(s) bytes sets out after s. C_i is of this run: drawn rates,
//! traces, failures, delays, from [`Supply`]; each payload byte takes its share of a full packet's headers; where paths
//! share a link, that link bounds their sum. A window of W bytes adds `D(t) ≤ D(t − r) + W`, r the least delay there and
//! back. R begins when the connection is established; a request sets out when what it waits for can have arrived.
//!
//! It ignores controllers, and whatever else takes time or capacity: acknowledgements, other traffic, queues that drop,
//! random losses, the send buffer, a path's handshake, and that a path is not there for a time. So a run may well be unable
//! to attain it, but none is better.

use std::collections::HashMap;

use weftway_link::{Distribution, SURE, Supply};
use weftway_path::{Bytes, Instant, Span};

use crate::config::{Buffer, PathConfig, SimConfig, Transport, Workload};
use crate::seeds::{path_seeds, shared_seed};
use crate::stack::ReceiveWindow;
use crate::workload::App;

/// Bits times 10⁹ in a byte.
const WORK_PER_BYTE: u128 = 8_000_000_000;
/// Times are found to this much, below.
const STEP: Span = Span::from_micros(1);
/// Of the releases since the network was last empty, so many of the newest count, and of the others a few.
const NEWEST: usize = 24;

/// What a run can have done at most.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Bound {
    /// When the last byte can have arrived at the earliest, from when the connection was opened. `None` if not before the
    /// time limit, and where the workload has no end.
    pub completion: Option<Span>,
    /// How long each message took at least, in the order of writing; up to the time limit.
    pub delays: Vec<Span>,
    /// The same where it is no matter of luck: with what jitter takes off nearly all messages once in 10⁹ runs, instead of
    /// what it takes off one of them. Of these the high percentiles are taken.
    pub tail: Vec<Span>,
    /// What can have arrived at most of a workload that runs for a time.
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
                let mut bound = network.deliver(config, seed, start);
                let odds = odds(config, &bound, start);
                bound.tail = match odds > SURE {
                    true => Network::new(config, seed, odds).deliver(config, seed, start).delays,
                    false => bound.delays.clone(),
                };
                bound
            }
        }
    }
}

/// The odds of a jitter that nearly all messages have once in 10⁹ runs. They need it in each stretch of time, or for a jitter
/// without memory in each message, for which it is drawn anew, on one of the paths. A twentieth of the messages may do
/// without, so that less than all of them count: two thirds.
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

/// The links of a run, as what they carry at most.
struct Network {
    paths: Vec<(Supply, Option<usize>)>,
    shared: Vec<Supply>,
    /// A full packet on the wire, and its payload.
    packet: (Bytes, Bytes),
    /// The receive window; none, if the links never carry so much in a round trip.
    window: Option<Bytes>,
    /// The least delay of a path, and that of the way there and back.
    delay: Span,
    round_trip: Span,
    /// How long a request takes at least.
    request: Span,
    /// Nothing that arrives later counts.
    end: Instant,
}

impl Network {
    fn new(config: &SimConfig, seed: u64, odds: f64) -> Self {
        let end = Instant::ZERO + config.time_limit;
        let of_path = |path: &PathConfig| {
            let (data, acks) = path_seeds(seed, 0, &path.name);
            (Supply::new(&path.data, data, end, odds), Supply::new(&path.acks, acks, end, odds).least_delay())
        };
        let (paths, back): (Vec<_>, Vec<_>) = config.paths.iter().map(of_path).unzip();
        let link = |(at, link)| Supply::new(link, shared_seed(seed, at), end, odds);
        let shared: Vec<_> = config.shared.iter().enumerate().map(link).collect();
        let paths: Vec<_> = paths.into_iter().zip(config.paths.iter().map(|path| path.via)).collect();
        let there = paths
            .iter()
            .map(|(supply, via)| supply.least_delay() + via.map_or(Span::ZERO, |via| shared[via].least_delay()));
        let delay = there.min().unwrap_or_default();
        let transport = &config.transport;
        let window = largest_window(transport);
        let round_trip = delay + back.into_iter().min().unwrap_or_default();
        let packet = (transport.packet, transport.mss);
        let carried = paths.iter().map(|(supply, _)| supply.most_within(round_trip)).sum();
        Self {
            packet,
            window: Some(window).filter(|window| payload(packet, carried) > *window),
            delay,
            round_trip,
            request: config.paths.iter().map(|path| path.acks.delay).min().unwrap_or_default(),
            paths,
            shared,
            end,
        }
    }

    /// What the application writes, and when it can have arrived.
    fn deliver(&self, config: &SimConfig, seed: u64, start: Instant) -> Bound {
        Deliveries::new(self).run(App::of(&config.workload, seed), start, &config.workload)
    }

    /// What `bytes` of payload take on the wire at least.
    fn wire(&self, bytes: u64) -> u128 {
        let (packet, payload) = self.packet;
        u128::from(bytes) * u128::from(packet.get()) * WORK_PER_BYTE / u128::from(payload.get().max(1))
    }

    /// What all paths can have brought by `by` of what set out from `from` on.
    fn work(&self, from: Instant, by: Instant) -> u128 {
        let mut via = vec![0; self.shared.len()];
        let mut sum = 0u128;
        for (supply, shared) in &self.paths {
            let by = shared.map_or(Some(by), |at| self.shared[at].last_departure(by));
            let work = by.and_then(|by| supply.last_departure(by)).map_or(0, |last| supply.work(from, last));
            match shared {
                Some(at) => via[*at] += work,
                None => sum += work,
            }
        }
        for (link, work) in self.shared.iter().zip(via) {
            let own = link.last_departure(by).map_or(0, |last| link.work(from, last));
            sum += work.min(own);
        }
        sum
    }

    /// A time not after the one at which `wire` can have arrived of what set out from `from` on, and at most [`STEP`]
    /// before it; not before `at_least`.
    fn soonest(&self, from: Instant, wire: u128, at_least: Instant) -> Instant {
        let mut low = at_least.max(from + self.delay);
        if self.work(from, low) >= wire {
            return low;
        }
        let mut step = STEP;
        loop {
            let next = low + step;
            if self.work(from, next) >= wire {
                break;
            }
            if next > self.end {
                return Instant::NEVER;
            }
            (low, step) = (next, step * 2);
        }
        while step > STEP {
            step = step / 2;
            let next = low + step;
            if self.work(from, next) < wire {
                low = next;
            }
        }
        low
    }

    /// How long `wire` takes at least, whenever it sets out.
    fn at_any_time(&self, wire: u128) -> Span {
        let enough = |span: Span| {
            let within = |supply: &Supply| {
                let left = span.as_nanos().checked_sub(supply.least_delay().as_nanos());
                left.map_or(0, |left| supply.most_within(Span::from_nanos(left)))
            };
            self.paths.iter().map(|(supply, _)| within(supply)).sum::<u128>() >= wire
        };
        let (mut low, mut step) = (self.delay, STEP);
        if enough(low) {
            return low;
        }
        while !enough(low + step) {
            (low, step) = (low + step, step * 2);
            if Instant::ZERO + low > self.end {
                return Span::MAX;
            }
        }
        while step > STEP {
            step = step / 2;
            if !enough(low + step) {
                low += step;
            }
        }
        low
    }
}

/// The most that a receiver announces. Today's Linux doubles a buffer that the application asked for, and makes window of
/// 158/256 of it.
fn largest_window(transport: &Transport) -> Bytes {
    let window = match (transport.receive_buffer, transport.rules.receive_window) {
        (Buffer::Fixed(asked), ReceiveWindow::Measured) => (asked + asked).mul_div(158, 256),
        (Buffer::Fixed(most) | Buffer::Auto { max: most }, _) => most,
    };
    transport.stream_window.map_or(window, |stream| stream.min(window)).max(transport.mss)
}

/// The payload that so much work brings at most in packets of a size and with a payload.
fn payload((packet, payload): (Bytes, Bytes), work: u128) -> Bytes {
    let bytes = work * u128::from(payload.get()) / (u128::from(packet.get().max(1)) * WORK_PER_BYTE);
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// What was released when, and by when it can have arrived.
struct Deliveries<'a> {
    network: &'a Network,
    /// Each message: when it was released, its end in the data, and when it can have arrived.
    released: Vec<(Instant, u64, Instant)>,
    /// The first message that was released after everything before it can have arrived.
    empty_before: usize,
    /// The last message whose end is a window before that at hand.
    window_before: usize,
    /// How long so much takes on the wire at least, whenever it sets out.
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
                let arrival = self.deliver(message.written, message.start, message.end);
                if arrival.is_never() {
                    return Bound { delays, ..Bound::default() };
                }
                completion = completion.max(Some(arrival));
                delays.push(match workload {
                    // Every request of a run comes later than here, and may find other rates.
                    Workload::RequestResponse { .. } | Workload::Web { .. } => {
                        let (network, bytes) = (self.network, message.end - message.start);
                        *self.at_any_time.entry(bytes).or_insert_with(|| network.at_any_time(network.wire(bytes)))
                    }
                    _ => arrival.since(message.written),
                });
                app.arrived(arrival, message.end, self.network.request);
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

    /// When the bytes from `start` to `end`, released at `at`, can have arrived.
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

    /// When the byte at `end` can have arrived, since that a window before it has arrived, and the sender knows.
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

    /// The messages since the network was last empty: the newest, and of the older ones fewer and fewer, the first among
    /// them. To leave some out makes the bound no wrong one.
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

#[cfg(test)]
mod tests {
    use weftway_link::{Change, LinkConfig, Loss, Set};
    use weftway_path::{BitRate, Role};

    use super::*;
    use crate::config::MessageSize;

    /// 10 Mbit/s are 1250 B a millisecond. Packets have no headers here, so that payload is what the links carry.
    fn path(name: &str, mbps: u64, ms: u64) -> PathConfig {
        let rate = BitRate::from_mbps(mbps).into();
        let data = LinkConfig { rate, delay: Span::from_millis(ms), ..LinkConfig::default() };
        let (name, acks) = (name.to_owned(), LinkConfig { delay: Span::from_millis(ms), ..LinkConfig::default() });
        PathConfig { name, role: Role::Active, data, acks, via: None, presence: Vec::new() }
    }

    fn config(paths: Vec<PathConfig>, workload: Workload) -> SimConfig {
        let base = Transport::mpquic();
        let transport = Transport { packet: base.mss, ..base };
        SimConfig { workload, ..SimConfig::new(transport, paths, Bytes::ZERO) }
    }

    fn bulk(bytes: u64) -> Workload {
        Workload::Bulk { bytes: Bytes::new(bytes) }
    }

    fn messages(bytes: u64, every: u64, count: u64) -> Workload {
        let sizes = vec![MessageSize::of(Bytes::new(bytes))];
        Workload::Messages { sizes, period: Span::from_millis(every), count, deadline: None }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// In milliseconds, rounded: times are found to a microsecond below.
    fn ms(span: Span) -> f64 {
        (span.as_millis_f64() * 100.0).round() / 100.0
    }

    fn completion(config: &SimConfig, start: u64) -> Option<f64> {
        Bound::of(config, 1, at(start)).completion.map(ms)
    }

    /// From 50 ms on, 10 Mbit/s with 10 ms and 10 Mbit/s with 30 ms of delay: by 60 + t ms 1250·t arrive on one, and
    /// 1250·(t − 20) on the other. 100 000 B: 2t − 20 = 80, t = 50. Alone, the first would need 80 ms.
    #[test]
    fn bulk_data_arrive_as_fast_as_all_links_bring_them() {
        let two = config(vec![path("a", 10, 10), path("b", 10, 30)], bulk(100_000));
        assert_eq!(completion(&two, 50), Some(110.0));
        assert_eq!(completion(&config(vec![path("a", 10, 10)], bulk(100_000)), 50), Some(140.0));
    }

    /// Headers take 80 of 1280 B: 93 750 B of payload take 100 000 on the wire.
    #[test]
    fn headers_take_their_share() {
        let mut one = config(vec![path("a", 10, 10)], bulk(93_750));
        one.transport = Transport::mpquic();
        assert_eq!(completion(&one, 50), Some(140.0));
    }

    /// Both paths go through one link of 10 Mbit/s with 5 ms: 80 ms of it, and at least 10 + 5 before.
    #[test]
    fn paths_share_what_their_common_link_carries() {
        let mut two = config(vec![path("a", 10, 10), path("b", 10, 30)], bulk(100_000));
        two.shared = vec![path("s", 10, 5).data];
        two.paths.iter_mut().for_each(|path| path.via = Some(0));
        // What leaves the shared link sets out there at 50 ms at the earliest, as far as the bound knows.
        assert_eq!(completion(&two, 50), Some(135.0));
        // Twice as fast, it is the paths that bound: as above, and 5 ms.
        two.shared = vec![path("s", 40, 5).data];
        assert_eq!(completion(&two, 50), Some(115.0));
    }

    /// 40 of 80 ms are done when the link fails at 90 ms; it returns at 190.
    #[test]
    fn a_failure_stops_the_data() {
        let mut one = config(vec![path("a", 10, 10)], bulk(100_000));
        one.paths[0].data.changes =
            [(90, Set::Down), (190, Set::Up)].map(|(ms, set)| Change { at: at(ms), set }).into();
        assert_eq!(completion(&one, 50), Some(240.0));
        one.paths[0].data.changes.pop();
        one.time_limit = Span::from_secs(2);
        assert_eq!(completion(&one, 50), None);
        // A loss that is random takes nothing: a sender that knew it would send it a packet of one byte.
        one.paths[0].data = LinkConfig { loss: Loss::Bernoulli(0.2), ..path("a", 10, 10).data };
        assert_eq!(completion(&one, 50), Some(140.0));
    }

    /// A message of 12 500 B takes 10 ms and 10 of delay. One every 8 ms: each waits 2 ms longer than the one before it.
    /// One every 20 ms: none waits.
    #[test]
    fn a_message_waits_for_those_before_it() {
        let delays = |every| -> Vec<f64> {
            let one = config(vec![path("a", 10, 10)], messages(12_500, every, 4));
            Bound::of(&one, 1, at(50)).delays.into_iter().map(ms).collect()
        };
        assert_eq!(delays(8), [20.0, 22.0, 24.0, 26.0]);
        assert_eq!(delays(20), [20.0; 4]);
    }

    /// With 30 ms of delay beside 10, the second path helps a message of 62 500 B from 20 ms on: t + (t − 20) = 50, t = 35,
    /// so that it takes 45 ms. The next, 10 ms later, waits for it: 2t − 20 = 100, t = 60, and 60 + 10 − 10 are 60 ms.
    #[test]
    fn messages_use_all_paths() {
        let two = config(vec![path("a", 10, 10), path("b", 10, 30)], messages(62_500, 10, 2));
        assert_eq!(Bound::of(&two, 1, at(50)).delays.into_iter().map(ms).collect::<Vec<_>>(), [45.0, 60.0]);
    }

    /// 12 500 B of window are 10 ms of the link, and each round takes 20 ms: the last window sets out when all before it
    /// has arrived, and the sender knows. Of 100 000 B: 7 rounds, then 10 ms and 10 of delay.
    #[test]
    fn a_window_opens_once_a_round_trip() {
        let mut one = config(vec![path("a", 10, 10)], bulk(100_000));
        one.transport.receive_buffer = Buffer::Fixed(Bytes::new(12_500));
        assert_eq!(completion(&one, 50), Some(50.0 + 7.0 * 20.0 + 20.0));
        // 8 messages of 12 500 B at once: the same.
        one.workload = messages(12_500, 0, 8);
        assert_eq!(completion(&one, 50), Some(50.0 + 7.0 * 20.0 + 20.0));
        // Twice as much is what the link carries in a round trip.
        one.transport.receive_buffer = Buffer::Fixed(Bytes::new(25_001));
        assert_eq!(completion(&one, 50), Some(140.0));
    }

    /// An answer of 12 500 B takes 20 ms; thinking takes 5 ms and the request 10. Three of them: 3·20 + 2·15.
    #[test]
    fn a_request_waits_for_the_answer_before_it() {
        let (bytes, think) = (Bytes::new(12_500), Span::from_millis(5));
        let one = config(vec![path("a", 10, 10)], Workload::RequestResponse { bytes, think, count: 3 });
        let bound = Bound::of(&one, 1, at(50));
        assert_eq!(bound.completion.map(ms), Some(50.0 + 90.0));
        assert_eq!(bound.delays.into_iter().map(ms).collect::<Vec<_>>(), [20.0; 3]);
    }

    /// Requests later in a run may find the faster rate: 25 Mbit/s bring 12 500 B in 4 ms.
    #[test]
    fn an_answer_may_find_the_best_rate() {
        let (bytes, think) = (Bytes::new(12_500), Span::from_millis(5));
        let mut one = config(vec![path("a", 10, 10)], Workload::RequestResponse { bytes, think, count: 1 });
        one.paths[0].data.changes = vec![Change { at: at(5000), set: Set::Rate(BitRate::from_mbps(25).into()) }];
        let bound = Bound::of(&one, 1, at(50));
        assert_eq!((bound.completion.map(ms), bound.delays.into_iter().map(ms).collect()), (Some(70.0), vec![14.0]));
    }

    /// From 50 ms to a second at 1250 B a millisecond, the last 10 ms of which have not arrived.
    #[test]
    fn what_runs_for_a_time_has_an_amount() {
        let one = config(vec![path("a", 10, 10)], Workload::Duration { span: Span::from_secs(1) });
        assert_eq!(Bound::of(&one, 1, at(50)).delivered, Some(Bytes::new(940 * 1250)));
    }
}
