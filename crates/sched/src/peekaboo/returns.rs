//! What decisions return, and whether an arm still returns what it did.

use weftway_path::spec::{Params, SpecError};
use weftway_path::{Bytes, Instant, Receipt, Span};

use crate::learned::{Fate, Outcome};

/// With discounts up to 0.99 later packets weigh little; with 0.9 less than 0.002.
const TERMS: u64 = 64;

/// Packets whose rewards are remembered, a power of two.
const PACKETS: usize = 4096;

/// Decisions in a window of the monitor.
pub(super) const WINDOW: u32 = 50;

/// Returns that are all alike differ by the rounding of their sums.
const ROUNDING: f64 = 1e-9;

/// Windows in a row that must be off.
const PATIENCE: u32 = 4;

/// An arm's returns while they are learned from.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Spread {
    pub(super) count: u32,
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl Spread {
    pub(super) fn note(&mut self, value: f64) {
        self.count += 1;
        self.mean += (value - self.mean) / f64::from(self.count);
        self.deviation += ((value - self.mean).abs() - self.deviation) / f64::from(self.count);
    }
}

/// An arm's returns since, by windows.
#[derive(Clone, Copy, Default)]
pub(super) struct Monitor {
    count: u32,
    sum: f64,
    off: u32,
}

impl Monitor {
    /// Whether the arm no longer returns what it did.
    pub(super) fn note(&mut self, value: f64, usual: Spread) -> bool {
        (self.count, self.sum) = (self.count + 1, self.sum + value);
        if self.count == WINDOW {
            let shift = (self.sum / f64::from(WINDOW) - usual.mean).abs();
            let is_off = shift > 3.0 * usual.deviation.max(ROUNDING);
            *self = Self { off: if is_off { self.off + 1 } else { 0 }, ..Self::default() };
        }
        self.off >= PATIENCE
    }
}

/// What packets achieved, by serial.
#[derive(Clone)]
pub(super) struct Rewards {
    pub(super) gamma: f64,
    pub(super) late_counts: bool,
    /// Serial, since when, and bytes a second once known.
    packets: Vec<(u64, Instant, f64)>,
    /// What the first decision of the round achieved. One unit for a whole round: arms that were
    /// paid in different units could not be compared.
    pub(super) unit: Option<f64>,
}

fn rate(bytes: Bytes, span: Span) -> f64 {
    bytes.get() as f64 / span.max(Span::from_micros(1)).as_secs_f64()
}

impl Rewards {
    pub(super) fn new(params: &Params) -> Result<Self, SpecError> {
        let gamma = params.within("gamma", 0.0..=0.99)?;
        let size = if gamma > 0.0 { PACKETS } else { 0 };
        Ok(Self {
            gamma,
            late_counts: params.choice("late", &[("elapsed", true), ("zero", false)])?,
            packets: vec![(u64::MAX, Instant::ZERO, 0.0); size],
            unit: None,
        })
    }

    pub(super) fn place(&mut self, serial: u64) -> Option<&mut (u64, Instant, f64)> {
        self.packets.get_mut((serial % PACKETS as u64) as usize)
    }

    pub(super) fn acked(&mut self, receipt: &Receipt, now: Instant) {
        if let Some(place) = self.place(receipt.serial).filter(|place| place.0 == receipt.serial) {
            place.2 = rate(receipt.bytes, now.since(place.1));
        }
    }

    /// The decision's own packet.
    fn own<X>(&self, outcome: &Outcome<X>) -> f64 {
        match outcome.fate {
            Fate::Acked => rate(outcome.bytes, outcome.after),
            Fate::Late if self.late_counts => rate(outcome.bytes, outcome.after),
            Fate::Late | Fate::Lost | Fate::Unsent => 0.0,
        }
    }

    /// The packets after it, as far as they have arrived.
    fn following(&self, serial: u64) -> f64 {
        let mut weight = 1.0;
        let terms = (serial + 1..=serial + TERMS).map(|serial| {
            weight *= self.gamma;
            let (found, _, rate) = self.packets[(serial % PACKETS as u64) as usize];
            if found == serial { weight * rate } else { 0.0 }
        });
        terms.sum()
    }

    /// The return of a decision.
    pub(super) fn of<X>(&mut self, outcome: &Outcome<X>) -> f64 {
        let own = self.own(outcome);
        if own > 0.0 {
            self.unit.get_or_insert(own);
        }
        let rest = outcome.serial.filter(|_| self.gamma > 0.0).map_or(0.0, |serial| self.following(serial));
        self.unit.map_or(0.0, |unit| (own + rest) / unit)
    }
}
