//! Departures of probes: in each step a train of full packets back to back, then single small ones.

use std::ops::Range;

use super::wire::Ns;

/// Time from one line of the drive to the next: as in the drives that Weftway comes with.
pub const STEP_NS: Ns = 500_000_000;
/// Packets of a train. Two tell the least about a rate, many are load.
pub const TRAIN: u32 = 4;
/// Times in a step when the single ones leave.
pub const SINGLES_NS: [Ns; 4] = [100_000_000, 200_000_000, 300_000_000, 400_000_000];
/// Payload of a single one.
pub const SINGLE_BYTES: usize = 64;

/// Probes of a step.
pub const PER_STEP: u32 = TRAIN + SINGLES_NS.len() as u32;

/// Time when the probe with this number leaves, from the path's begin.
pub fn due_ns(number: u32) -> Ns {
    let (step, place) = (number / PER_STEP, number % PER_STEP);
    let single = place.checked_sub(TRAIN).and_then(|at| SINGLES_NS.get(at as usize));
    Ns::from(step) * STEP_NS + single.copied().unwrap_or(0)
}

/// The number of the train that the probe belongs to.
pub fn in_train(number: u32) -> Option<u32> {
    (number % PER_STEP < TRAIN).then_some(number / PER_STEP)
}

/// The probes that leave from `begin_ns` on and before `end_ns`.
pub fn between(begin_ns: Ns, end_ns: Ns) -> Range<u32> {
    from(begin_ns)..from(end_ns)
}

/// The first probe that leaves at this time or later.
fn from(time_ns: Ns) -> u32 {
    if time_ns <= 0 {
        return 0;
    }
    let (step, rest) = (time_ns / STEP_NS, time_ns % STEP_NS);
    let past = SINGLES_NS.iter().filter(|one| rest > **one).count() as u32;
    let place = if rest == 0 { 0 } else { TRAIN + past };
    u32::try_from(step).unwrap_or(u32::MAX).saturating_mul(PER_STEP).saturating_add(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_leaves_at_once_and_then_one_at_a_time() {
        let due: Vec<_> = (0..10).map(|number| due_ns(number) / 1_000_000).collect();
        assert_eq!(due, [0, 0, 0, 0, 100, 200, 300, 400, 500, 500]);
        assert_eq!([0, 3, 4, 7, 8].map(in_train), [Some(0), Some(0), None, None, Some(1)]);
        assert_eq!((between(100_000_000, 500_000_000), between(0, 1)), (4..8, 0..4));
    }
}
