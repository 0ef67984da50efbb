//! Which path for the next interval?
//!
//! Every 100 ms, one choice. Seen of each of `slots` paths: spare rate, throughput, window,
//! packets, loss (5 numbers, [`crate::shared::quality`]), all 0 for an empty slot; `action=direct`
//! adds each path's quality Q.
//! Actions: `direct`: the number of a slot. `ternary`: with the paths ranked by Q, 0 (positive)
//! takes the best, 1 (negative) the one of rank ⌈N/2⌉, of two the second, 2 (zero) the last.
//! Earned when the interval is over (`reward`): `log`, `Σ ln((TT + 1 kB/s)/(125 kB/s))` over the paths;
//! `rate`, the throughput of all paths over the sum of the largest rates that they have shown.
//! During the interval the choice carries new data alone (`mode=exclusive`) or first
//! (`preferred`); data sent before go where min-RTT sends them.
//! Reference: PDAA3C (A3C for MPTCP), Algorithm 1 and equations 4 to 5; RLDS (Luo et al., 2019),
//! whose inputs are not printed, is given the same.
//! Departs from print: Algorithm 1 sends on the path of best Q in line 8 before it takes its action
//! in line 10; "positive, negative, zero" are read as ranks, which makes one chooser of the two.
//! Scales are ours: rates over the largest that any path has shown.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Path, PathId, Span};

use crate::learned::intervals::slots;
use crate::learned::intervals::task::{IntervalTask, Rule};
use crate::learned::task::{Actions, Input, Ledger, Shape, Task, TaskEntry};
use crate::shared::epochs::{self, Epochs};
use crate::shared::interval::ChosenBytes;
use crate::shared::quality::{self, Qualities};
use crate::{Mode, Needs};

pub(crate) static TASK: TaskEntry = TaskEntry {
    name: "path",
    summary: "the path of the next interval, by its slot or by its rank",
    needs: Needs { wake: true, ..Needs::NONE },
    params: &[
        Param {
            name: "action",
            default: "ternary",
            values: "ternary | direct",
            doc: "best, middle or worst by quality; or a path by its number, with the qualities seen",
        },
        Param {
            name: "reward",
            default: "log",
            values: "log | rate",
            doc: "the sum of the paths' log throughputs, as printed, which pays for using all of them; or the connection's throughput",
        },
        slots::SLOTS,
        slots::INTERVAL,
        epochs::MODE,
        epochs::DELAY,
        quality::QUALITY,
    ],
    build,
};

/// Observation of a path.
const FEATURES: [&str; 5] = ["spare", "throughput", "cwnd", "packets", "loss"];

fn build(params: &Params) -> Result<Box<dyn Task>, SpecError> {
    let slots = params.within("slots", 1..=PathId::MAX_PATHS)?;
    let is_direct = params.choice("action", &[("ternary", false), ("direct", true)])?;
    let length = Span::from_millis(params.within("interval_ms", 1..=60_000)?);
    let delay = Span::from_millis(params.within("decision_delay_ms", 0..=10_000)?);
    let mut inputs = slots::inputs(slots, &FEATURES);
    if is_direct {
        inputs.extend((0..slots).map(|slot| Input::share(format!("quality.{slot}"))));
    }
    let actions = Actions::Discrete(if is_direct { slots } else { 3 });
    let rule = PathRule {
        observation: vec![0.0; inputs.len()],
        slots,
        is_direct,
        pays_rate: params.choice("reward", &[("log", false), ("rate", true)])?,
        is_printed: params.choice("quality", &[("sound", false), ("printed", true)])?,
        mode: epochs::mode(params)?,
        qualities: Qualities::default(),
        ranked: Vec::new(),
        at: vec![None; slots],
        carried: ChosenBytes::default(),
    };
    let shape = Shape { inputs, actions, interval: Some(length) };
    Ok(Box::new(IntervalTask::new(shape, Epochs::new(length, delay), rule)))
}

#[derive(Clone)]
struct PathRule {
    slots: usize,
    is_direct: bool,
    pays_rate: bool,
    is_printed: bool,
    mode: Mode,
    qualities: Qualities,
    /// As of the last interval's end: what is seen, the paths from best to worst, who is in which slot.
    observation: Vec<f32>,
    ranked: Vec<PathId>,
    at: Vec<Option<PathId>>,
    carried: ChosenBytes,
}

impl PathRule {
    fn look(&mut self, cx: &Context<'_>) {
        let standing: Vec<&Path> = crate::shared::choose::standing(cx).collect();
        let quality = self.qualities.qualities(&standing, self.is_printed);
        let order = quality::ranked(&quality);
        self.ranked.clear();
        self.ranked.extend(order.iter().take(self.slots).map(|at| standing[*at].id));
        slots::assign(&mut self.at, &self.ranked);
        let scale = self.qualities.scale(cx.paths);
        self.observation.fill(0.0);
        for (slot, path) in self.at.iter().enumerate() {
            let Some(at) = path.and_then(|path| standing.iter().position(|other| other.id == path)) else { continue };
            let observation = self.qualities.observation(standing[at], scale);
            self.observation[slot * FEATURES.len()..][..FEATURES.len()].copy_from_slice(&observation[..FEATURES.len()]);
            if self.is_direct {
                self.observation[self.slots * FEATURES.len() + slot] = quality[at].clamp(0.0, 1.0) as f32;
            }
        }
    }

    /// The path that `action` names.
    fn named(&self, action: usize) -> Option<PathId> {
        if self.is_direct {
            return self.at.get(action).copied().flatten();
        }
        let count = self.ranked.len();
        let rank = match action {
            0 => 1,
            1 => count.div_ceil(2).max(2.min(count)),
            _ => count,
        };
        self.ranked.get(rank.checked_sub(1)?).copied()
    }
}

impl Rule for PathRule {
    type Choice = PathId;

    const NEEDS: Needs = TASK.needs;

    fn mode(&self) -> Option<Mode> {
        Some(self.mode)
    }

    fn end(&mut self, cx: &Context<'_>, passed: Span) -> f64 {
        self.qualities.turn(cx.now, passed, cx.paths);
        self.look(cx);
        match self.pays_rate {
            true => self.qualities.share(cx.paths),
            false => self.qualities.reward(cx.paths),
        }
    }

    fn hold(&mut self, cx: &Context<'_>, chosen: Option<&PathId>) {
        self.carried.turn(cx, chosen.copied());
    }

    fn asks(&self, _: &Context<'_>, is_due: bool) -> bool {
        is_due && !self.ranked.is_empty()
    }

    fn see(&self, _: &Context<'_>, observation: &mut [f32]) {
        observation.copy_from_slice(&self.observation);
    }

    fn mask(&self, mask: &mut [bool]) {
        if self.is_direct {
            mask.iter_mut().zip(&self.at).for_each(|(open, path)| *open = path.is_some());
        } else {
            mask.fill(true);
        }
    }

    fn answer(&mut self, _: &Context<'_>, action: &[f32]) -> Option<PathId> {
        let named = action.first().and_then(|action| self.named(*action as usize));
        // A slot without a path: the best one.
        named.or(self.ranked.first().copied())
    }

    #[inline]
    fn select(&self, cx: &Context<'_>, chosen: Option<&PathId>) -> Decision {
        slots::send_chosen(cx, chosen.copied(), self.mode)
    }

    fn observe(&mut self, _: &Context<'_>, event: &Event, _: &mut Ledger) {
        if let Event::PathUp(path) | Event::PathDown(path) = *event {
            self.qualities.reset(path);
        }
    }

    fn chosen_bytes(&self) -> Option<Bytes> {
        Some(self.carried.total())
    }

    fn explain(&self, _: &Context<'_>, chosen: Option<&PathId>) -> Option<String> {
        Some(format!("chosen {chosen:?}; from best to worst {:?}", self.ranked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::build_task;
    use weftway_path::Instant;
    use weftway_vectors::testing::{Bench, path};

    fn bench(paths: u8) -> Bench {
        // The larger the number, the larger the window and so the quality.
        Bench::new((0..paths).map(|n| path(n, 20, 10 * (u64::from(n) + 1), 0)).collect())
    }

    fn chosen(spec: &str, paths: u8, action: f32) -> Decision {
        let (_, mut task) = build_task(spec).unwrap();
        let bench = bench(paths);
        let mut observation = vec![0.0; task.shape().inputs.len()];
        assert!(task.question(&bench.context(), &mut observation));
        task.answer(&bench.context(), &[action]);
        assert!(!task.question(&bench.context(), &mut observation));
        task.select(&bench.context())
    }

    #[test]
    fn ternary_actions_are_ranks() {
        // Best, middle, worst of 2, 3, 4 paths: ⌈N/2⌉ of 3 and 4 is 2, of 2 paths the second.
        for (paths, expected) in [(2, [1, 0, 0]), (3, [2, 1, 0]), (4, [3, 2, 0])] {
            for (action, id) in expected.into_iter().enumerate() {
                let answer = chosen("path", paths, action as f32);
                assert_eq!(answer, Decision::Send(PathId::new(id)), "{paths} paths, action {action}");
            }
        }
    }

    #[test]
    fn direct_actions_are_slots_and_empty_ones_are_closed() {
        assert_eq!(chosen("path:action=direct", 3, 1.0), Decision::Send(PathId::new(1)));
        assert_eq!(chosen("path:action=direct", 3, 3.0), Decision::Send(PathId::new(2)));
        let (_, mut task) = build_task("path:action=direct").unwrap();
        let bench = bench(3);
        let mut observation = vec![9.0; 24];
        assert!(task.question(&bench.context(), &mut observation));
        assert_eq!(observation[15..20], [0.0; 5]);
        let mut open = [false; 4];
        task.mask(&bench.context(), &mut open);
        assert_eq!(open, [true, true, true, false]);
    }

    #[test]
    fn an_interval_earns_what_it_delivered() {
        let (_, mut task) = build_task("path").unwrap();
        let mut bench = bench(2);
        let mut observation = vec![0.0; 20];
        task.ledger().open();
        assert!(task.question(&bench.context(), &mut observation));
        task.answer(&bench.context(), &[0.0]);
        bench.paths[1].acked.bytes = weftway_vectors::testing::packets(40);
        bench.now = Instant::from_millis(100);
        task.observe(&bench.context(), &Event::Wake);
        assert!(task.question(&bench.context(), &mut observation));
        // ln(561/125) of 40 packets of 1400 B in 100 ms, and ln(1/125), within −5.
        let expected = (4.488_f64.ln() + (1.0_f64 / 125.0).ln()) as f32;
        let earned = task.ledger().earned()[0];
        assert_eq!(earned.decision, 0);
        assert!((earned.reward - expected).abs() < 1e-5, "{earned:?} is not {expected}");
    }

    #[test]
    fn a_full_choice_is_waited_for_or_stood_in_for() {
        for (mode, answer) in [("exclusive", Decision::Wait), ("preferred", Decision::Send(PathId::new(0)))] {
            let (_, mut task) = build_task(&format!("path:mode={mode}")).unwrap();
            let mut bench = bench(2);
            let mut observation = vec![0.0; 20];
            assert!(task.question(&bench.context(), &mut observation));
            task.answer(&bench.context(), &[0.0]);
            bench.paths[1].bytes_in_flight = bench.paths[1].cwnd;
            bench.refresh();
            assert_eq!(task.select(&bench.context()), answer);
        }
    }

    /// Two paths of 20 and 40 ms, after 100 ms in which they delivered 560 and 140 kB/s.
    fn measured(spec: &str) -> (Box<dyn Task>, Bench) {
        let (_, mut task) = build_task(spec).unwrap();
        task.ledger().open();
        let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 40, 10, 0)]);
        let mut observation = vec![0.0; task.shape().inputs.len()];
        assert!(task.question(&bench.context(), &mut observation));
        task.answer(&bench.context(), &[1.0]);
        for (path, count) in bench.paths.iter_mut().zip([40, 10]) {
            path.acked = weftway_path::Counters { bytes: weftway_vectors::testing::packets(count), packets: count };
        }
        bench.now = Instant::from_millis(100);
        (task, bench)
    }

    /// Spare rate, throughput, window, packets, loss, on the scale of 700 kB/s and, for 250 ms, 175 kB.
    const SEEN: [f32; 10] = [0.2, 0.8, 0.08, 0.8, 0.0, 0.3, 0.2, 0.08, 0.2, 0.0];

    fn near(found: &[f32], expected: &[f32]) -> bool {
        found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5)
    }

    #[test]
    fn what_is_seen_by_hand() {
        let (mut task, bench) = measured("path:action=direct");
        let mut observation = [9.0; 24];
        assert!(task.question(&bench.context(), &mut observation));
        assert!(near(&observation[..10], &SEEN), "{observation:?}");
        // Q of the larger rate is 0.7 + 0.3·140/210, of the other 0.7·0.5 + 0.3; nothing of empty slots.
        assert!(near(&observation[20..], &[0.9, 0.65, 0.0, 0.0]), "{observation:?}");
        assert_eq!(observation[10..20], [0.0; 10]);
        assert_eq!(task.wake(), Some(Instant::from_millis(200)));
    }

    #[test]
    fn an_interval_that_is_cut_short_earns_and_shows_what_it_came_to() {
        let (mut task, bench) = measured("path:reward=rate");
        let mut observation = [9.0; 20];
        task.finish(&bench.context(), &mut observation);
        assert!(near(&observation[..10], &SEEN), "{observation:?}");
        // 700 kB/s of 1050.
        let earned = task.ledger().earned();
        assert!(earned.len() == 1 && (earned[0].reward - 700.0 / 1050.0).abs() < 1e-5, "{earned:?}");
    }

    #[test]
    fn what_was_measured_of_a_path_that_comes_or_goes_is_forgotten() {
        // 40 packets more: of a path that came up anew the first 40, of one that stayed 80 in all.
        for (event, acked) in [(Event::PathUp(PathId::new(0)), 40), (Event::PathUp(PathId::new(9)), 80)] {
            let (mut task, mut bench) = measured("path");
            task.observe(&bench.context(), &Event::Wake);
            task.observe(&bench.context(), &event);
            bench.paths[0].acked =
                weftway_path::Counters { bytes: weftway_vectors::testing::packets(acked), packets: acked };
            bench.now = Instant::from_millis(200);
            let mut observation = [9.0; 20];
            assert!(task.question(&bench.context(), &mut observation));
            assert!((observation[1] - 0.8).abs() < 1e-3, "{event:?}: {observation:?}");
        }
    }
}
