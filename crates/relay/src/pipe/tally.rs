//! Datagrams of each second: how many came at one end, and what became of them at the other.
//!
//! Seconds are those of the clock of the end where datagrams came. That end says of each second how many came
//! ([`Coming`]). Once none of them is of use any more the other end says how many it had in time, and how many late
//! ([`Arriving`]). So both know how many were lost ([`Ledger`]), whatever is under way meanwhile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::view::{WayCounts, WaySecond, WayView};

/// Microseconds of a second.
pub const SECOND: u64 = 1_000_000;
/// Most seconds of which something is missing. Then the oldest are given up.
const MOST_SECONDS: usize = 32;
/// Time after which what has not arrived is not waited for, beside the latency.
const GRACE: u64 = SECOND / 4;
/// Steps of a delay between one power of two and the next: each is 3 %.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Longer delays count as this one.
const LONGEST: u64 = (1 << 25) - 1;
const BUCKETS: usize = bucket(LONGEST) + 1;

/// Numbers of delays by their length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays(Vec<u32>);

impl Default for Delays {
    fn default() -> Self {
        Self(vec![0; BUCKETS])
    }
}

/// Place of a delay of so many microseconds: all have their own below [`STEPS`], and then as many as that for each power
/// of two.
const fn bucket(us: u64) -> usize {
    if us < STEPS {
        return us as usize;
    }
    let shift = us.ilog2() - STEP_BITS;
    (STEPS * (shift as u64 + 1) + (us >> shift) % STEPS) as usize
}

/// The middle of the delays that have this place, in microseconds.
fn middle(bucket: usize) -> f64 {
    let (at, steps) = (bucket as u64, STEPS);
    if at < steps {
        return at as f64;
    }
    let shift = at / steps - 1;
    ((steps + at % steps) << shift) as f64 + (1u64 << shift) as f64 / 2.0
}

impl Delays {
    /// Counts one.
    pub fn count(&mut self, us: u64) {
        if let Some(count) = self.0.get_mut(bucket(us.min(LONGEST))) {
            *count = count.saturating_add(1);
        }
    }

    /// Those that there are, as both ends tell them.
    pub fn told(&self) -> Vec<(u16, u32)> {
        (0u16..).zip(&self.0).filter(|&(_, &count)| count > 0).map(|(at, &count)| (at, count)).collect()
    }

    /// Delays that the other end has told. What makes no sense is left out.
    pub fn of_told(told: &[(u16, u32)]) -> Self {
        let mut delays = Self::default();
        for &(at, more) in told {
            if let Some(count) = delays.0.get_mut(usize::from(at)) {
                *count = count.saturating_add(more);
            }
        }
        delays
    }

    /// The delay in milliseconds that so many of a thousand do not exceed; none if there are none.
    pub fn quantile(&self, per_mille: u64) -> Option<f64> {
        let all: u64 = self.0.iter().map(|&count| u64::from(count)).sum();
        let rank = (all * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = self.0.iter().position(|&count| {
            seen += u64::from(count);
            seen >= rank
        });
        found.filter(|_| all > 0).map(|at| (middle(at) / 10.0).round() / 100.0)
    }
}

/// Datagrams of a second that came at an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Came {
    /// The second.
    pub second: u64,
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes of their data.
    pub bytes: u64,
}

/// The datagrams that come at an end.
#[derive(Debug, Default)]
pub struct Coming {
    now: Came,
}

impl Coming {
    /// Counts one that came at `clock`, no earlier than [`Coming::begins`]. Returns the second before, if that is over.
    pub fn count(&mut self, clock: u64, bytes: usize) -> Option<Came> {
        let over = self.close(clock / SECOND);
        self.now.datagrams += 1;
        self.now.bytes += bytes as u64;
        over
    }

    /// Returns what came in this second, if anything did.
    pub fn rest(&self) -> Option<Came> {
        Some(self.now).filter(|now| now.datagrams > 0)
    }

    /// Returns the last second in which something came, if that is over: what came in it may wait in the kernel still.
    pub fn over(&mut self, clock: u64) -> Option<Came> {
        self.close(clock.saturating_sub(GRACE) / SECOND)
    }

    fn close(&mut self, second: u64) -> Option<Came> {
        if second <= self.now.second {
            return None;
        }
        let over = std::mem::replace(&mut self.now, Came { second, ..Came::default() });
        (over.datagrams > 0).then_some(over)
    }

    /// The clock at which the second is over, if something came in it.
    pub fn next(&self) -> Option<u64> {
        (self.now.datagrams > 0).then(|| (self.now.second + 1).saturating_mul(SECOND).saturating_add(GRACE))
    }

    /// The clock at which the second begins: those before are told.
    pub fn begins(&self) -> u64 {
        self.now.second.saturating_mul(SECOND)
    }
}

/// What became of the datagrams of a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Became {
    /// The second.
    pub second: u64,
    /// Datagrams that arrived in time.
    pub delivered: u64,
    /// Datagrams that arrived late.
    pub late: u64,
    /// One-way delays of all that arrived, as [`Delays::told`] has them.
    pub delays: Vec<(u16, u32)>,
}

#[derive(Debug, Default)]
struct Second {
    delivered: u64,
    late: u64,
    delays: Delays,
    /// The other end has said how many came.
    is_asked: bool,
}

/// The datagrams that arrive from the other end.
#[derive(Debug)]
pub struct Arriving {
    latency: u64,
    seconds: BTreeMap<u64, Second>,
    /// Seconds before this one are told, or given up.
    told: u64,
}

impl Arriving {
    /// Datagrams are of use for so many microseconds.
    pub fn new(latency: u64) -> Self {
        Self { latency, seconds: BTreeMap::new(), told: 0 }
    }

    /// Counts one that arrived and came at `came` by the other end's clock, and was under way for so many microseconds.
    pub fn count(&mut self, came: u64, delay: u64) {
        let is_late = delay > self.latency;
        if let Some(second) = self.second(came / SECOND) {
            *(if is_late { &mut second.late } else { &mut second.delivered }) += 1;
            second.delays.count(delay);
        }
    }

    /// The other end has said how many came in a second.
    pub fn asked(&mut self, second: u64) {
        if let Some(second) = self.second(second) {
            second.is_asked = true;
        }
    }

    fn second(&mut self, second: u64) -> Option<&mut Second> {
        if second < self.told {
            return None;
        }
        if self.seconds.len() >= MOST_SECONDS && !self.seconds.contains_key(&second) {
            let (first, _) = self.seconds.pop_first()?;
            self.told = first.saturating_add(1);
        }
        (second >= self.told).then(|| self.seconds.entry(second).or_default())
    }

    /// The other end's clock at which a second is over of which it has asked.
    pub fn next(&self) -> Option<u64> {
        let asked = self.seconds.iter().find(|(_, second)| second.is_asked);
        asked.map(|(&second, _)| second.saturating_add(1).saturating_mul(SECOND).saturating_add(self.latency + GRACE))
    }

    /// What became of the next second that is over, by the other end's clock, and of which it has asked.
    pub fn over(&mut self, clock: u64) -> Option<Became> {
        if self.next()? > clock {
            return None;
        }
        let (&at, _) = self.seconds.iter().find(|(_, second)| second.is_asked)?;
        let second = self.seconds.remove(&at)?;
        // Those before in which nothing came, as the other end says, are over as well.
        self.seconds = self.seconds.split_off(&at);
        self.told = at.saturating_add(1);
        let Second { delivered, late, delays, .. } = second;
        Some(Became { second: at, delivered, late, delays: delays.told() })
    }
}

/// The datagrams of one direction, as far as both ends have told of them.
#[derive(Debug, Default)]
pub struct Ledger {
    came: BTreeMap<u64, Came>,
    view: WayView,
    /// The second of `view`.
    second: u64,
}

impl Ledger {
    /// Adds those that came in a second.
    pub fn came(&mut self, came: Came) {
        if self.came.len() >= MOST_SECONDS {
            self.give_up();
        }
        self.came.insert(came.second, came);
    }

    /// Counts the first second of which nothing was told as lost. Returns false if there is none.
    fn give_up(&mut self) -> bool {
        let Some((_, Came { datagrams, bytes, .. })) = self.came.pop_first() else { return false };
        self.view.total += WayCounts { datagrams, bytes, lost: datagrams, ..WayCounts::default() };
        true
    }

    /// Ends it: nothing more will be told. Returns how many there were in all.
    pub fn over(mut self) -> WayCounts {
        while self.give_up() {}
        self.view.total
    }

    /// Takes what became of those of a second. Of one in which none came nothing is known.
    pub fn became(&mut self, became: &Became) {
        let Some(came) = self.came.remove(&became.second) else { return };
        let arrived = became.delivered.saturating_add(became.late);
        let counts = WayCounts {
            datagrams: came.datagrams,
            bytes: came.bytes,
            delivered: became.delivered,
            late: became.late,
            lost: came.datagrams.saturating_sub(arrived),
        };
        self.view.total += counts;
        let delays = Delays::of_told(&became.delays);
        let [p50_ms, p95_ms, p99_ms] = [500, 950, 990].map(|per_mille| delays.quantile(per_mille));
        (self.second, self.view.second) = (became.second, WaySecond { counts, p50_ms, p95_ms, p99_ms });
    }

    /// View for the user, when the clock of the end where they came shows `clock`. The last second is empty if it was so
    /// long ago that another one should have been told, had anything come.
    pub fn view(&self, clock: u64, latency: u64) -> WayView {
        let is_old = clock / SECOND > self.second.saturating_add(4 + latency / SECOND);
        if is_old { WayView { second: WaySecond::default(), ..self.view } } else { self.view }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_are_those_of_the_delays() {
        let mut delays = Delays::default();
        assert_eq!(delays.quantile(500), None);
        (1..=1000).for_each(|ms| delays.count(ms * 1000));
        for (per_mille, ms) in [(500, 500.0), (950, 950.0), (990, 990.0)] {
            let found = delays.quantile(per_mille).unwrap();
            assert!((found - ms).abs() <= ms / 32.0, "{found} for {ms}");
        }
        assert_eq!(Delays::of_told(&delays.told()), delays);
        // What another version tells may make no sense.
        Delays::of_told(&[(u16::MAX, 7), (3, u32::MAX), (3, 9)]).quantile(990).unwrap();
        delays.count(u64::MAX);
    }

    proptest! {
        #[test]
        fn the_middle_of_a_place_is_near_all_that_have_it(us in 0..LONGEST) {
            prop_assert!((middle(bucket(us)) - us as f64).abs() <= us as f64 / 32.0);
            prop_assert!(bucket(us) <= bucket(us + 1) && bucket(us + 1) < BUCKETS);
        }
    }

    /// Ten come in second 5: seven arrive in time, two late, and one is lost.
    #[test]
    fn both_ends_know_how_many_were_lost() {
        let (mut coming, mut arriving, mut ledger) = (Coming::default(), Arriving::new(200_000), Ledger::default());
        for number in 0..10 {
            let came = 5 * SECOND + number * 100_000;
            assert_eq!(coming.count(came, 100), None);
            match number {
                0..7 => arriving.count(came, 20_000),
                7 | 8 => arriving.count(came, 200_001),
                _ => {}
            }
        }
        assert_eq!((coming.next(), coming.over(6 * SECOND)), (Some(6 * SECOND + GRACE), None));
        let came = coming.over(6 * SECOND + GRACE).unwrap();
        assert_eq!(coming.begins(), 6 * SECOND);
        assert_eq!(came, Came { second: 5, datagrams: 10, bytes: 1000 });
        assert_eq!((coming.over(7 * SECOND), arriving.next()), (None, None));
        ledger.came(came);
        arriving.asked(came.second);
        assert_eq!((arriving.next(), arriving.over(6 * SECOND + 449_999)), (Some(6 * SECOND + 450_000), None));
        let became = arriving.over(6 * SECOND + 450_000).unwrap();
        ledger.became(&became);
        let view = ledger.view(7 * SECOND, 200_000);
        let counts = WayCounts { datagrams: 10, bytes: 1000, delivered: 7, late: 2, lost: 1 };
        assert_eq!((view.total, view.second.counts), (counts, counts));
        assert!((view.second.p50_ms.unwrap() - 20.0).abs() < 0.7 && view.second.p99_ms.unwrap() > 190.0);
        // Said twice, it counts once; later nothing came.
        ledger.became(&became);
        assert_eq!(ledger.view(10 * SECOND, 200_000).second.counts, WayCounts::default());
        assert_eq!(ledger.view(10 * SECOND, 200_000).total, counts);
        // Of more seconds than are kept, and of those that are left at the end, nothing is told: they are lost.
        let seconds = MOST_SECONDS as u64 + 5;
        (0..seconds).for_each(|number| ledger.came(Came { second: 20 + number, datagrams: 2, bytes: 50 }));
        let lost =
            |more: u64| WayCounts { datagrams: 10 + 2 * more, bytes: 1000 + 50 * more, lost: 1 + 2 * more, ..counts };
        assert_eq!(ledger.view(0, 0).total, lost(5));
        assert_eq!(ledger.over(), lost(seconds));
    }

    #[test]
    fn what_arrives_after_its_second_was_told_is_lost() {
        let mut arriving = Arriving::new(1000);
        arriving.count(SECOND, 5);
        arriving.count(2 * SECOND, 5);
        arriving.asked(2);
        assert_eq!(arriving.over(9 * SECOND).map(|became| (became.second, became.delivered)), Some((2, 1)));
        arriving.count(2 * SECOND, 5);
        arriving.count(SECOND, 5);
        arriving.asked(1);
        assert!(arriving.seconds.is_empty() && arriving.over(9 * SECOND).is_none());
    }

    #[test]
    fn a_far_end_that_says_what_it_likes_is_bounded() {
        let (mut arriving, mut ledger) = (Arriving::new(1000), Ledger::default());
        for second in (0..10_000).chain([u64::MAX, u64::MAX - 1]).rev() {
            arriving.asked(second);
            arriving.count(second.saturating_mul(SECOND), u64::MAX);
            ledger.came(Came { second, datagrams: u64::MAX, bytes: u64::MAX });
            assert!(arriving.seconds.len() <= MOST_SECONDS && ledger.came.len() <= MOST_SECONDS);
        }
        for second in 0..10_000 {
            ledger.became(&Became { second, delivered: u64::MAX, late: u64::MAX, delays: vec![(9, 9); 3] });
        }
        while arriving.over(u64::MAX).is_some() {}
        assert!(ledger.view(u64::MAX, 0).total.datagrams > 0);
    }
}
