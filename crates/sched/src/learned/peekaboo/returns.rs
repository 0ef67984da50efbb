//! Returns of decisions, and the test that an arm still returns what it did.

use weftway_path::spec::{Params, SpecError};
use weftway_path::{Bytes, Instant, Receipt, Span};

use crate::learned::pair::records::{Fate, Outcome};

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
    /// Returns true if the arm no longer returns what it did.
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

/// Results of packets, by serial.
#[derive(Clone)]
pub(super) struct Rewards {
    pub(super) gamma: f64,
    pub(super) late_counts: bool,
    /// Serial, since when, and bytes a second once known.
    packets: Vec<(u64, Instant, f64)>,
    /// Result of the first decision of the round. One unit for a whole round: arms that were
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::pair::records::{Action, Choice};
    use weftway_path::PathId;
    use weftway_vectors::testing::{MSS, path};

    #[test]
    fn a_spread_by_hand() {
        // 4: mean 4, deviation 0. 8: mean 6, off by 2, deviation 0 + 2/2 = 1. 3: mean 5, off by 2: 1 + (2 − 1)/3.
        let mut spread = Spread::default();
        for (value, mean, deviation) in [(4.0, 4.0, 0.0), (8.0, 6.0, 1.0), (3.0, 5.0, 4.0 / 3.0)] {
            spread.note(value);
            assert!((spread.mean - mean).abs() < 1e-12 && (spread.deviation - deviation).abs() < 1e-12, "{spread:?}");
        }
        assert_eq!(spread.count, 3);
    }

    #[test]
    fn an_arm_has_changed_when_four_windows_in_a_row_are_off_by_more_than_three_deviations() {
        let usual = Spread { count: 9, mean: 2.0, deviation: 0.5 };
        // Windows of 50 with these means: 3.5 is three deviations off and not more, 0.25 is 3.5 off.
        let changed = |means: &[f64]| {
            let mut monitor = Monitor::default();
            let notes = means.iter().flat_map(|mean| [*mean; WINDOW as usize]);
            notes.enumerate().find(|(_, value)| monitor.note(*value, usual)).map(|(at, _)| at as u32 + 1)
        };
        assert_eq!(changed(&[3.75; 4]), Some(200));
        assert_eq!(changed(&[0.25; 4]), Some(200));
        assert_eq!(changed(&[3.5; 8]), None);
        assert_eq!(changed(&[3.75, 3.75, 3.75, 2.0, 3.75, 3.75, 3.75, 3.75]), Some(400));
        // It is the window's mean that counts: 25 of 0 and 25 of 4 are as usual.
        let mut monitor = Monitor::default();
        assert!(!(0..400).any(|n| monitor.note(f64::from(n % 2) * 4.0, usual)));
    }

    fn rewards(gamma: &str) -> Rewards {
        let entry = &crate::learned::peekaboo::ENTRY;
        Rewards::new(&Params::new(entry.name, entry.params, &[("gamma".to_owned(), gamma.to_owned())]).unwrap())
            .unwrap()
    }

    fn receipt(serial: u64) -> Receipt {
        Receipt { path: PathId::new(0), offset: Default::default(), bytes: MSS, serial }
    }

    #[test]
    fn the_packets_after_a_decisions_own_count_by_their_discount() {
        // Own packet 4095: 1400 bytes in 10 ms, the unit. 4096 and 4097 take 20 and 5 ms from their own decisions: half
        // and twice the unit. 4098 has not arrived; 4099, 4096 packets later than 3, takes 10 ms.
        let mut rewards = rewards("0.5");
        let ms = Instant::from_millis;
        for (serial, sent, acked) in [(3, 0, 1), (4096, 100, 120), (4097, 100, 105), (4099, 50, 60)] {
            *rewards.place(serial).unwrap() = (serial, ms(sent), 0.0);
            rewards.acked(&receipt(serial), ms(acked));
        }
        *rewards.place(4098).unwrap() = (4098, ms(0), 0.0);
        // News of one that another has taken the place of changes nothing.
        rewards.acked(&receipt(3), ms(1));
        let outcome = |fate| {
            let choice = Choice::new(ms(0), &path(0, 20, 10, 10), &path(1, 60, 10, 0), (Action::Slow, ()));
            Outcome { choice, serial: Some(4095), bytes: MSS, fate, after: Span::from_millis(10) }
        };
        // 1 + 0.5·0.5 + 0.25·2 + 0 + 0.0625·1.
        assert!((rewards.of(&outcome(Fate::Acked)) - 1.8125).abs() < 1e-12);
        // A lost packet leaves what follows it. In a new round, the unit is the first that achieved something.
        assert!((rewards.of(&outcome(Fate::Lost)) - 0.8125).abs() < 1e-12);
        rewards.unit = None;
        assert_eq!(rewards.of(&outcome(Fate::Lost)), 0.0);
        // Without a discount, its own alone.
        let mut alone = self::rewards("0");
        assert!(alone.place(4096).is_none());
        assert_eq!(alone.of(&outcome(Fate::Acked)), 1.0);
    }
}
