//! The links of a run, as what they carry at most.

use weftway_link::Supply;
use weftway_path::{Bytes, Instant, Span};

use crate::config::{Buffer, PathConfig, SimConfig, TransportConfig};
use crate::seeds::{path_seeds, shared_seeds};
use crate::stack::ReceiveWindow;

/// Bits times 10⁹ in a byte.
const WORK_PER_BYTE: u128 = 8_000_000_000;
/// Times are found to this much, below.
const STEP: Span = Span::from_micros(1);

/// The links of a run, as what they carry at most.
pub(super) struct Network {
    paths: Vec<(Supply, Option<usize>)>,
    shared: Vec<Supply>,
    /// A full packet on the wire, and its payload.
    pub(super) packet: (Bytes, Bytes),
    /// The receive window; none, if the links never carry so much in a round trip.
    pub(super) window: Option<Bytes>,
    /// The least delay of a path, and that of the way there and back.
    delay: Span,
    pub(super) round_trip: Span,
    /// Least time of a request.
    pub(super) request: Span,
    /// End of the run; later arrivals do not count.
    end: Instant,
}

impl Network {
    pub(super) fn new(config: &SimConfig, seed: u64, odds: f64) -> Self {
        let end = Instant::ZERO + config.time_limit;
        let of_path = |path: &PathConfig| {
            let (data, acks) = path_seeds(seed, 0, &path.name);
            (Supply::new(&path.data, data, end, odds), Supply::new(&path.acks, acks, end, odds).least_delay())
        };
        let (paths, back): (Vec<_>, Vec<_>) = config.paths.iter().map(of_path).unzip();
        let link = |(at, link)| Supply::new(link, shared_seeds(seed, at), end, odds);
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

    /// Returns the least work that `bytes` of payload are on the wire.
    pub(super) fn wire(&self, bytes: u64) -> u128 {
        let (packet, payload) = self.packet;
        u128::from(bytes) * u128::from(packet.get()) * WORK_PER_BYTE / u128::from(payload.get().max(1))
    }

    /// Returns the most that all paths can have brought by `by` of what set out from `from` on.
    pub(super) fn work(&self, from: Instant, by: Instant) -> u128 {
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
    pub(super) fn soonest(&self, from: Instant, wire: u128, at_least: Instant) -> Instant {
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

    /// Returns the least time that `wire` takes, whenever it sets out.
    pub(super) fn at_any_time(&self, wire: u128) -> Span {
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

/// The most that a receiver announces. Today's Linux doubles a buffer that the application asked for, and makes window
/// of 158/256 of it.
fn largest_window(transport: &TransportConfig) -> Bytes {
    let window = match (transport.receive_buffer, transport.rules.receive_window) {
        (Buffer::Fixed(asked), ReceiveWindow::Measured) => (asked + asked).mul_div(158, 256),
        (Buffer::Fixed(most) | Buffer::Auto { max: most }, _) => most,
    };
    transport.stream_window.map_or(window, |stream| stream.min(window)).max(transport.mss)
}

/// The payload that so much work brings at most in packets of a size and with a payload.
pub(super) fn payload((packet, payload): (Bytes, Bytes), work: u128) -> Bytes {
    let bytes = work * u128::from(payload.get()) / (u128::from(packet.get().max(1)) * WORK_PER_BYTE);
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}
