use super::*;
use weftway_path::{Decision, PathId};
use weftway_vectors::testing::{Bench, path};

fn learner(spec: &[(&str, &str)]) -> QLearning {
    let given: Vec<_> = spec.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let params = Params::new(ENTRY.name, ENTRY.params, &given).unwrap();
    QLearning {
        table: [[0.0; 2]; STATES],
        lr: params.get("lr").unwrap(),
        gamma: params.get("gamma").unwrap(),
        eps: [params.get("eps").unwrap(), params.get("eps_end").unwrap()],
        eps_decisions: params.get("eps_decisions").unwrap(),
        decisions: 0,
        reward: Delivery::new(&params).unwrap(),
        rng: PolicyRng::new(1),
    }
}

#[test]
fn one_update_by_hand() {
    let mut q = learner(&[]);
    q.table[4] = [0.5, 0.2];
    q.update(TableCell { state: 2, action: 1 }, 1.2, 4);
    // 0.1·(1.2 + 0.9·0.5 − 0) = 0.1·1.65.
    assert!((q.table[2][1] - 0.165).abs() < 1e-12);
    assert_eq!(q.table[2][0], 0.0);
}

/// A path of the given class beside one that is high: fast, wide, clean.
fn measured(class: Class) -> PathMeasures {
    let high = PathMeasures { srtt: 0.02, rate: 1e6, loss: 0.0, timeouts: 0 };
    match class {
        Class::High => high,
        Class::Mid => PathMeasures { loss: 0.01, ..high },
        Class::Low => PathMeasures { loss: 0.05, ..high },
    }
}

#[test]
fn every_state_can_be_reached() {
    let classes = [Class::Low, Class::Mid, Class::High];
    let mut reached = [false; STATES];
    for a in classes {
        for b in classes {
            let (first, second) = (measured(a), measured(b));
            reached[3 * first.class(&second) as usize + second.class(&first) as usize] = true;
        }
    }
    assert_eq!(reached, [true; STATES]);
}

#[test]
fn the_worst_sign_decides_the_class() {
    let high = measured(Class::High);
    for (signs, class) in [
        (PathMeasures { srtt: 0.06, ..high }, Class::Low),
        (PathMeasures { srtt: 0.03, ..high }, Class::Mid),
        (PathMeasures { srtt: 0.0299, ..high }, Class::High),
        (PathMeasures { timeouts: 2, ..high }, Class::Low),
        (PathMeasures { timeouts: 1, ..high }, Class::Mid),
        (PathMeasures { rate: 0.249e6, ..high }, Class::Mid),
        (PathMeasures { rate: 0.25e6, ..high }, Class::High),
        (PathMeasures { loss: 0.03, ..high }, Class::Low),
        (PathMeasures { loss: 0.005, ..high }, Class::Mid),
        // Signs of both kinds: low comes first.
        (PathMeasures { srtt: 0.03, loss: 0.03, rate: 1.0, timeouts: 1 }, Class::Low),
    ] {
        assert_eq!(signs.class(&high), class);
    }
}

#[test]
fn exploration_falls_linearly() {
    let mut q = learner(&[]);
    for (decisions, epsilon) in [(0, 0.1), (2500, 0.055), (5000, 0.01), (9000, 0.01)] {
        q.decisions = decisions;
        assert!((q.epsilon() - epsilon).abs() < 1e-12, "after {decisions}");
    }
}

/// The decisions of a run in which both paths deliver, with the paths in either order.
fn trace(swapped: bool) -> (Vec<Option<bool>>, [[f64; 2]; STATES]) {
    let rules = Rules { sticky: true, asks_when_paced: true, asks_when_free: false };
    let mut scheduler = Blocked::new(rules, learner(&[("eps", "0.3"), ("eps_end", "0.3")]));
    let (quick, late) = if swapped { (1, 0) } else { (0, 1) };
    let mut paths = vec![path(quick, 20, 3, 0), path(late, 70, 4, 0)];
    paths.sort_by_key(|path| path.id);
    let mut bench = Bench::new(paths);
    let mut decisions = Vec::new();
    for turn in 0..600 {
        bench.now += Span::from_millis(3);
        let decision = scheduler.select(&bench.context());
        decisions.push(match decision {
            Decision::Send(path) => Some(path == PathId::new(quick)),
            _ => None,
        });
        if let Some(event) = bench.carry(decision) {
            scheduler.observe(&bench.context(), &event);
        }
        for (path, every) in [(quick, 5), (late, 8)] {
            if turn % every == 0
                && let Some(event) = bench.ack(PathId::new(path), None)
            {
                scheduler.observe(&bench.context(), &event);
            }
        }
    }
    (decisions, scheduler.policy.table)
}

#[test]
fn paths_in_the_other_order_transpose_the_table_and_change_nothing_else() {
    let ((one, table), (other, transposed)) = (trace(false), trace(true));
    assert_eq!(one, other);
    assert!(table.iter().flatten().any(|value| *value != 0.0), "nothing was learned");
    for (state, values) in table.iter().enumerate() {
        let [a, b] = transposed[3 * (state % 3) + state / 3];
        // Sums over the pair are taken in the order of roles, so even the last digit agrees.
        assert_eq!(values, &[b, a], "state {state}");
    }
}

#[test]
fn an_update_of_a_value_that_is_not_0_by_hand() {
    let mut q = learner(&[]);
    (q.table[4], q.table[2]) = ([0.5, 0.2], [0.0, 0.5]);
    q.update(TableCell { state: 2, action: 1 }, 1.2, 4);
    // 0.5 + 0.1·(1.2 + 0.9·0.5 − 0.5).
    assert!((q.table[2][1] - 0.615).abs() < 1e-12);
}

#[test]
fn the_state_by_hand() {
    // 20 ms is high, 2; 50 ms, two and a half times that, is mid, 1. The path of smaller number counts three times.
    let meters = crate::learned::pair::meters::Meters::default();
    for (srtts, fast, expected) in [([20, 50], 0, 3 * 2 + 1), ([50, 20], 1, 3 + 2)] {
        let bench = Bench::new(vec![path(0, srtts[0], 10, 0), path(1, srtts[1], 10, 0)]);
        let (fast, slow) = (&bench.paths[fast], &bench.paths[1 - fast]);
        assert_eq!(state(&Question { cx: &bench.context(), fast, slow, meters: &meters }), expected);
        assert_eq!([naming(fast, slow), naming(slow, fast)], [fast.id.index(), slow.id.index()]);
    }
    // 10 packets of 1400 bytes in 20 ms.
    let measured = PathMeasures::of(&path(0, 20, 10, 0), meters.of(PathId::new(0)), 1);
    assert!((measured.rate - 700e3).abs() < 1e-6 && measured.timeouts == 1);
}
