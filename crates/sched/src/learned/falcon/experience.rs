//! Decisions bound to their delayed rewards, for learning while sending.
//!
//! A decision becomes a transition when both halves are known: what it earned, and what was seen
//! at the next decision. Rewards come late and in any order. Memory is taken once.

use super::trainer::Transition;
use crate::learned::task::Earned;

/// Most decisions that may wait for their rewards; older ones are forgotten. A power of two, and as
/// many as records can be open.
const WAITING: usize = 4096;

/// The newest transitions are kept, so many.
const KEPT: usize = 256;

/// A decision that waits for its reward, or for the decision after it.
#[derive(Clone, Copy, Default)]
struct Pending {
    number: u64,
    action: usize,
    reward: Option<f32>,
    is_followed: bool,
    /// Not learned from yet.
    is_open: bool,
}

/// Decisions, and the newest transitions.
#[derive(Clone)]
pub(crate) struct Experience {
    inputs: usize,
    pending: Vec<Pending>,
    /// Observation at each of them.
    observation: Vec<f32>,
    /// Action and reward of each transition; what was seen, and at the next decision.
    kept: Vec<(usize, f32)>,
    states: Vec<f32>,
    closed: u64,
}

impl Experience {
    /// None, of so many inputs.
    pub(crate) fn new(inputs: usize) -> Self {
        Self {
            inputs,
            pending: vec![Pending::default(); WAITING],
            observation: vec![0.0; WAITING * inputs],
            kept: vec![(0, 0.0); KEPT],
            states: vec![0.0; 2 * KEPT * inputs],
            closed: 0,
        }
    }

    /// Forgets everything; what earlier decisions earn is not learned from.
    pub(crate) fn clear(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.is_open = false);
        self.closed = 0;
    }

    /// Returns the number of transitions that became complete since all was forgotten.
    pub(crate) fn closed(&self) -> u64 {
        self.closed
    }

    /// Decision `number` was `action`, having seen `seen`.
    pub(crate) fn decide(&mut self, number: u64, observation: &[f32], action: usize) {
        let slot = Self::slot(number);
        self.pending[slot] = Pending { number, action, reward: None, is_followed: false, is_open: true };
        self.observation[slot * self.inputs..][..self.inputs].copy_from_slice(observation);
        let Some(before) = number.checked_sub(1) else { return };
        self.change(before, |pending| pending.is_followed = true);
    }

    /// A decision earned something.
    pub(crate) fn pay(&mut self, earned: Earned) {
        self.change(earned.decision, |pending| pending.reward = Some(earned.reward));
    }

    /// Returns one of the kept transitions, for `draw` from [0, 1).
    pub(crate) fn draw(&self, draw: f64) -> Transition<'_> {
        let count = self.closed.min(KEPT as u64);
        let at = (draw * count as f64) as usize;
        let (action, reward) = self.kept[at];
        let (observation, following) = self.states[2 * at * self.inputs..][..2 * self.inputs].split_at(self.inputs);
        Transition { observation, action, reward, following }
    }

    fn slot(number: u64) -> usize {
        (number % WAITING as u64) as usize
    }

    /// Changes the decision `number`, if it waits, and keeps it once it is complete.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Pending)) {
        let slot = Self::slot(number);
        let pending = &mut self.pending[slot];
        if !pending.is_open || pending.number != number {
            return;
        }
        change(pending);
        if let (true, Some(reward)) = (pending.is_followed, pending.reward) {
            pending.is_open = false;
            let action = pending.action;
            self.keep(slot, action, reward);
        }
    }

    /// The next slot is that of the next decision: it is overwritten after this one.
    fn keep(&mut self, slot: usize, action: usize, reward: f32) {
        let at = (self.closed % KEPT as u64) as usize;
        self.kept[at] = (action, reward);
        let of = |slot: usize| &self.observation[slot * self.inputs..][..self.inputs];
        let (observation, following) = self.states[2 * at * self.inputs..][..2 * self.inputs].split_at_mut(self.inputs);
        observation.copy_from_slice(of(slot));
        following.copy_from_slice(of((slot + 1) % WAITING));
        self.closed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pay(experience: &mut Experience, decision: u64, reward: f32) {
        experience.pay(Earned { decision, reward });
    }

    #[test]
    fn rewards_find_their_decisions_late_and_in_any_order() {
        let mut experience = Experience::new(1);
        for number in 0..3 {
            experience.decide(number, &[number as f32], (number % 2) as usize);
        }
        pay(&mut experience, 1, 0.5);
        pay(&mut experience, 2, 0.25);
        // 2 has none after it; 1 is paid once.
        pay(&mut experience, 1, 9.0);
        assert_eq!(experience.closed(), 1);
        let first = experience.draw(0.99);
        assert_eq!((first.observation, first.action, first.reward, first.following), (&[1.0][..], 1, 0.5, &[2.0][..]));
        pay(&mut experience, 0, 0.125);
        experience.decide(3, &[3.0], 1);
        assert_eq!(experience.closed(), 3);
        // Closed in the order 1, 0, 2; 2's reward was known before what followed.
        let last = experience.draw(0.99);
        assert_eq!((last.observation, last.reward, last.following), (&[2.0][..], 0.25, &[3.0][..]));
    }

    #[test]
    fn what_was_decided_before_a_change_is_not_learned_from() {
        let mut experience = Experience::new(1);
        experience.decide(0, &[0.0], 0);
        experience.decide(1, &[1.0], 0);
        experience.clear();
        experience.decide(2, &[2.0], 0);
        (0..3).for_each(|number| pay(&mut experience, number, 1.0));
        assert_eq!(experience.closed(), 0);
        experience.decide(3, &[3.0], 0);
        assert_eq!((experience.closed(), experience.draw(0.0).observation), (1, &[2.0][..]));
    }

    #[test]
    fn the_newest_are_kept_and_the_oldest_that_wait_are_forgotten() {
        let mut experience = Experience::new(1);
        let last = 5000;
        (0..=last).for_each(|number| experience.decide(number, &[number as f32], 0));
        // 5000 − 4096 = 904 has the slot of 5000.
        pay(&mut experience, 904, 1.0);
        assert_eq!(experience.closed(), 0);
        (905..last).for_each(|number| pay(&mut experience, number, 1.0));
        assert_eq!(experience.closed(), last - 905);
        for draw in 0..256 {
            let observation = experience.draw(f64::from(draw) / 256.0).observation[0];
            assert!((4744.0..5000.0).contains(&observation), "{observation}");
        }
    }

    #[test]
    fn transitions_of_several_inputs_keep_them_apart() {
        let mut experience = Experience::new(2);
        let observation = |number: u64| [number as f32, -(number as f32)];
        (0..4).for_each(|number| experience.decide(number, &observation(number), 0));
        (0..3).for_each(|number| pay(&mut experience, number, 1.0));
        // Of three, each third of [0, 1) is one.
        for number in 0..3 {
            let found = experience.draw((number as f64 + 0.5) / 3.0);
            assert_eq!((found.observation, found.following), (&observation(number)[..], &observation(number + 1)[..]));
        }
    }
}
