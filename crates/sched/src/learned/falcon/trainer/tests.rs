use super::*;
use crate::learned::nn::Network;
use crate::learned::policy_file::PolicyFile;
use crate::learned::policy_file::tests::{CARD, file};
use crate::shared::rng::PolicyRng;

/// Layers of these widths, weights and biases drawn evenly from [−1/2, 1/2).
fn drawn(widths: &[usize], network: &'static str) -> Mlp {
    let mut rng = PolicyRng::new(7);
    let mut tensors = Vec::new();
    for bound in ["low", "high"] {
        tensors.push((bound.to_owned(), vec![widths[0]], vec![0.0; widths[0]]));
    }
    for (at, pair) in widths.windows(2).enumerate() {
        let mut draw = |count| (0..count).map(|_| rng.unit() as f32 - 0.5).collect::<Vec<_>>();
        tensors.push((format!("w{}", at + 1), pair.to_vec(), draw(pair[0] * pair[1])));
        tensors.push((format!("b{}", at + 1), vec![pair[1]], draw(pair[1])));
    }
    let tensors: Vec<_> = tensors.iter().map(|(name, shape, all)| (name.as_str(), &shape[..], &all[..])).collect();
    let card = CARD.map(|(key, value)| if key == "network" { (key, network) } else { (key, value) });
    match PolicyFile::parse(&file(&card, &tensors)).unwrap().network {
        Network::Mlp(mlp) => mlp,
        other => panic!("{other:?}"),
    }
}

/// The loss in double precision, written once more: no part of the code under test.
fn loss(mlp: &Mlp, observation: &[f32], action: usize, wanted: f64, is_tanh: bool) -> f64 {
    let mut x: Vec<f64> = observation.iter().map(|x| f64::from(*x)).collect();
    for (at, layer) in mlp.layers.iter().enumerate() {
        let outputs = layer.b.len();
        let sum = |j: usize| {
            let products = x.iter().enumerate().map(|(i, x)| x * f64::from(layer.w[i * outputs + j]));
            f64::from(layer.b[j]) + products.sum::<f64>()
        };
        let y: Vec<f64> = (0..outputs).map(sum).collect();
        let bend = |y: f64| if is_tanh { y.tanh() } else { y.max(0.0) };
        x = if at + 1 < mlp.layers.len() { y.into_iter().map(bend).collect() } else { y };
    }
    let error = (x[action] - wanted).abs();
    if error <= 1.0 { error * error / 2.0 } else { error - 0.5 }
}

/// The gradient of one weight, against the difference of losses at 2⁻¹⁰ to either side.
fn check(network: &'static str, action: usize, wanted: f32) {
    const STEP: f32 = 1.0 / 1024.0;
    let mlp = drawn(&[7, 13, 9, 2], network);
    let observation = [0.3, 1.2, 0.0, 2.0, 0.7, 0.1, 4.0];
    let transition = Transition { observation: &observation, action, reward: 0.0, following: &observation };
    let mut trainer = Trainer::new(&mlp);
    trainer.add(&mlp, &transition, wanted);
    let is_tanh = network.ends_with("tanh");
    let difference = |change: &dyn Fn(&mut Mlp, f32)| {
        let [above, below] = [STEP, -STEP].map(|step| {
            let mut moved = mlp.clone();
            change(&mut moved, step);
            loss(&moved, &observation, action, f64::from(wanted), is_tanh)
        });
        (above - below) / f64::from(2.0 * STEP)
    };
    let mut some = 0;
    for (at, gradient) in trainer.gradients.iter().enumerate() {
        for (n, found) in gradient.w.iter().enumerate() {
            let expected = difference(&|mlp, step| mlp.layers[at].w[n] += step);
            assert!((f64::from(*found) - expected).abs() < 2e-3, "{network} w{} {n}: {found}, {expected}", at + 1);
            some += usize::from(expected.abs() > 0.01);
        }
        for (n, found) in gradient.b.iter().enumerate() {
            let expected = difference(&|mlp, step| mlp.layers[at].b[n] += step);
            assert!((f64::from(*found) - expected).abs() < 2e-3, "{network} b{} {n}: {found}, {expected}", at + 1);
        }
    }
    assert!(some > 20, "only {some} weights matter");
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    for action in [0, 1] {
        // Far away, where Huber's loss is linear, to either side; 0 may lie within 1.
        for wanted in [-20.0, 20.0, 0.0] {
            check("mlp", action, wanted);
            check("mlp:activation=tanh", action, wanted);
        }
    }
}

/// Network of one input and one output: Q = w·x + b with w = 2, b = 1.
fn line() -> Mlp {
    let mut mlp = drawn(&[1, 1], "mlp");
    (mlp.layers[0].w[0], mlp.layers[0].b[0]) = (2.0, 1.0);
    mlp
}

fn near(found: f32, expected: f32) {
    assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
}

#[test]
fn two_steps_of_adam_by_hand() {
    let (mut mlp, mut trainer) = (line(), Trainer::new(&line()));
    let a = Transition { observation: &[1.0], action: 0, reward: 0.0, following: &[0.0] };
    let b = Transition { observation: &[3.0], ..a };
    // Q is 3 and 7; wanted 2.5 and 9: errors 0.5 and −2, losses 1/8 and 3/2, slopes 0.5 and −1.
    near(trainer.add(&mlp, &a, 2.5), 0.125);
    near(trainer.add(&mlp, &b, 9.0), 1.5);
    trainer.step(&mut mlp, 0.1);
    // g_w = (0.5·1 − 1·3)/2 = −1.25, g_b = (0.5 − 1)/2 = −0.25; the first step is lr·sign(g).
    near(mlp.layers[0].w[0], 2.1);
    near(mlp.layers[0].b[0], 1.1);
    // Q(1) = 3.2, wanted 3.2 − 0.5: g_w = g_b = 0.5.
    let wanted = mlp.layers[0].w[0] + mlp.layers[0].b[0] - 0.5;
    trainer.add(&mlp, &a, wanted);
    trainer.step(&mut mlp, 0.1);
    // w: m = 0.9·(−0.125) + 0.05 = −0.0625, m̂ = −0.0625/0.19 = −0.328947;
    // v = 0.999·0.0015625 + 0.00025 = 0.0018109375, v̂ = v/0.001999 = 0.905922; step 0.0345606.
    near(mlp.layers[0].w[0], 2.1 + 0.034_560_6);
    // b: m = 0.9·(−0.025) + 0.05 = 0.0275, m̂ = 0.144737; v = 0.999·0.0000625 + 0.00025 =
    // 0.0003124375, v̂ = 0.156297; step −0.0366106.
    near(mlp.layers[0].b[0], 1.1 - 0.036_610_6);
}

#[test]
fn what_is_wanted_by_hand() {
    let (mlp, mut trainer) = (line(), Trainer::new(&line()));
    let transition = Transition { observation: &[0.0], action: 0, reward: 0.25, following: &[4.0] };
    // 0.25 + 0.9·(2·4 + 1).
    near(trainer.wanted(&mlp, &transition, 0.9), 8.35);
}

#[test]
fn after_a_reset_a_step_is_a_first_step() {
    let transition = Transition { observation: &[1.0], action: 0, reward: 0.0, following: &[0.0] };
    let (mut used, mut trainer) = (line(), Trainer::new(&line()));
    trainer.add(&used, &transition, 9.0);
    trainer.step(&mut used, 0.1);
    trainer.add(&used, &transition, 9.0);
    trainer.reset();
    used.copy_from(&line());
    let (mut fresh, mut other) = (line(), Trainer::new(&line()));
    for (mlp, trainer) in [(&mut used, &mut trainer), (&mut fresh, &mut other)] {
        trainer.add(mlp, &transition, -9.0);
        trainer.step(mlp, 0.1);
    }
    assert_eq!(used.layers, fresh.layers);
}

/// Run with `--ignored --nocapture` in release: what a step costs.
#[test]
#[ignore = "measures time"]
fn cost() {
    let mut mlp = drawn(&[7, 64, 64, 2], "mlp");
    let target = mlp.clone();
    let mut trainer = Trainer::new(&mlp);
    let observation = [0.3, 1.2, 0.0, 2.0, 0.7, 0.1, 4.0];
    let transition = Transition { observation: &observation, action: 1, reward: 0.5, following: &observation };
    let start = std::time::Instant::now();
    for _ in 0..2000 {
        for _ in 0..32 {
            let wanted = trainer.wanted(&target, &transition, 0.9);
            trainer.add(&mlp, &transition, wanted);
        }
        trainer.step(&mut mlp, 1e-9);
    }
    println!("{:.1} us a step of 32 transitions", start.elapsed().as_secs_f64() * 1e6 / 2000.0);
}
