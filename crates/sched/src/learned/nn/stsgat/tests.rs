use crate::learned::nn::Network;
use crate::learned::policy_file::PolicyFile;
use crate::learned::policy_file::tests::{CARD, file, withstands};

/// C, Cp and T of the small networks.
const C: usize = 2;
const CP: usize = 1;
const T: usize = 6;
/// F, K, M and L of the small networks.
const F: usize = 8;
const K: usize = 2;
const M: usize = 2;
const L: usize = 2;

/// Numbers in −1 to 1 that look drawn: the high half of a linear congruential generator (Knuth's MMIX).
struct Drawn(u64);

impl Drawn {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// A policy's tensors by name, with their shapes.
type Named = Vec<(String, Vec<usize>, Vec<f32>)>;

/// Random weights for `paths` paths; every tensor but `semb` is the same for any number of them.
fn weights(paths: usize) -> Named {
    let mut drawn = Drawn(7);
    let mut all: Named = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let numbers = drawn.numbers(shape.iter().product());
        all.push((name, shape.to_vec(), numbers.into_iter().map(|number| 0.7 * number).collect()));
    };
    add("temb".into(), &[1, 1, C + CP, T]);
    add("fc_w".into(), &[C + CP, F]);
    add("fc_b".into(), &[F]);
    for (m, l) in (0..M).flat_map(|m| (0..L).map(move |l| (m, l))) {
        add(format!("m{m}.l{l}.w"), &[F, F]);
        add(format!("m{m}.l{l}.src"), &[K, F / K]);
        add(format!("m{m}.l{l}.dst"), &[K, F / K]);
    }
    add("out_w".into(), &[(T - 2 * M) * F, 1]);
    add("out_b".into(), &[1]);
    add("semb".into(), &[1, paths, C + CP, 1]);
    let inputs = (paths * C + CP) * T + paths;
    all.push(("low".into(), vec![inputs], vec![-9.0; inputs]));
    all.push(("high".into(), vec![inputs], vec![9.0; inputs]));
    all
}

fn without_identity(mut all: Named) -> Named {
    all.retain(|(name, ..)| name != "semb");
    all
}

fn spec(paths: usize) -> String {
    format!("stsgat:paths={paths}:steps={T}:features={C}:packet_features={CP}:heads={K}:modules={M}:layers={L}")
}

fn bytes(spec: &str, all: &Named) -> Vec<u8> {
    let card = CARD.map(|(key, value)| if key == "network" { (key, spec) } else { (key, value) });
    let all: Vec<_> = all.iter().map(|(name, shape, numbers)| (&name[..], &shape[..], &numbers[..])).collect();
    file(&card, &all)
}

fn scores(paths: usize, all: &Named, observation: &[f32]) -> Vec<f32> {
    let network = PolicyFile::parse(&bytes(&spec(paths), all)).unwrap().network;
    let mut z = vec![0.0; paths];
    network.forward(&mut network.scratch(), observation, &mut z);
    z
}

/// Something seen: X (N, C, T), c (Cp, T), alive (N).
fn observation(alive: &[f32]) -> Vec<f32> {
    let mut observation = Drawn(11).numbers((alive.len() * C + CP) * T);
    observation.extend(alive);
    observation
}

/// The rule of the file's header, as it stands, over all 3N nodes of a window with a mask, in float64.
fn slow(paths: usize, all: &Named, observation: &[f32]) -> Vec<f64> {
    let tensor = |name: &str| all.iter().find(|(own, ..)| own == name).map(|(.., numbers)| &numbers[..]);
    let at = |name: &str, place: usize| f64::from(tensor(name).unwrap()[place]);
    let (channels, alive) = (C + CP, &observation[(paths * C + CP) * T..]);
    let mut h: Vec<Vec<f64>> = Vec::new();
    for (step, node) in (0..T).flat_map(|step| (0..paths).map(move |node| (step, node))) {
        let input = |channel: usize| {
            let x = if channel < C { (node * C + channel) * T } else { (paths * C + channel - C) * T };
            let known = tensor("semb").map_or(0.0, |semb| f64::from(semb[node * channels + channel]));
            f64::from(observation[x + step]) + at("temb", channel * T + step) + known
        };
        let output = |f: usize| at("fc_b", f) + (0..channels).map(|c| input(c) * at("fc_w", c * F + f)).sum::<f64>();
        h.push((0..F).map(output).collect());
    }
    // A node of a window is (step, path); its place in the window is step·N + path.
    let is_open = |(q, i): (usize, usize), (p, j): (usize, usize)| {
        (q == p && (i == j || alive[j] != 0.0)) || (q.abs_diff(p) == 1 && i == j)
    };
    for m in 0..M {
        let mut next = Vec::new();
        for window in 0..h.len() / paths - 2 {
            let mut nodes = h[window * paths..(window + 3) * paths].to_vec();
            let mut most = vec![vec![f64::NEG_INFINITY; F]; 3 * paths];
            for l in 0..L {
                nodes = slow_layer(
                    &nodes,
                    |part, place| at(&format!("m{m}.l{l}.{part}"), place),
                    |i, j| is_open((i / paths, i % paths), (j / paths, j % paths)),
                );
                for (most, node) in most.iter_mut().zip(&nodes) {
                    most.iter_mut().zip(node).for_each(|(most, value)| *most = most.max(*value));
                }
            }
            next.extend_from_slice(&most[paths..2 * paths]);
        }
        h = next;
    }
    let score = |node: usize| {
        let part = |step: usize, f: usize| h[step * paths + node][f] * at("out_w", step * F + f);
        at("out_b", 0) + (0..h.len() / paths).flat_map(|step| (0..F).map(move |f| part(step, f))).sum::<f64>()
    };
    (0..paths).map(|node| if alive[node] == 0.0 { -1e9 } else { score(node) }).collect()
}

/// Layer of attention, pair by pair.
fn slow_layer(
    nodes: &[Vec<f64>],
    at: impl Fn(&str, usize) -> f64,
    is_open: impl Fn(usize, usize) -> bool,
) -> Vec<Vec<f64>> {
    let project = |h: &Vec<f64>| (0..F).map(|f| (0..F).map(|i| h[i] * at("w", i * F + f)).sum()).collect();
    let u: Vec<Vec<f64>> = nodes.iter().map(project).collect();
    let node = |i: usize| {
        let value = |f: usize| {
            let head = f / (F / K) * (F / K)..(f / (F / K) + 1) * (F / K);
            let score = |j: usize| {
                let e: f64 = head.clone().map(|f| at("dst", f) * u[i][f] + at("src", f) * u[j][f]).sum();
                if e < 0.0 { 0.2 * e } else { e }
            };
            let among = || (0..nodes.len()).filter(|&j| is_open(i, j));
            let total: f64 = among().map(|j| score(j).exp()).sum();
            let sum: f64 = among().map(|j| score(j).exp() / total * u[j][f]).sum();
            if sum < 0.0 { sum.exp() - 1.0 } else { sum }
        };
        (0..F).map(value).collect()
    };
    (0..nodes.len()).map(node).collect()
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn it_is_what_the_rule_says() {
    // Four paths take the way of four rows at once, the others row by row.
    for alive in [&[1.0, 1.0, 1.0][..], &[1.0, 0.0, 1.0], &[1.0; 4], &[0.0, 1.0, 0.0, 1.0], &[1.0; 5], &[1.0]] {
        let (all, observation) = (weights(alive.len()), observation(alive));
        for all in [all.clone(), without_identity(all)] {
            let expected: Vec<f32> = slow(alive.len(), &all, &observation).iter().map(|&z| z as f32).collect();
            assert!(expected.iter().any(|z| z.abs() > 0.01), "{expected:?}");
            assert_close(&scores(alive.len(), &all, &observation), &expected);
        }
    }
}

#[test]
fn paths_in_another_order_have_their_scores_in_that_order() {
    const ORDER: [usize; 3] = [2, 0, 1];
    let permuted = |numbers: &[f32], size: usize| -> Vec<f32> {
        ORDER.iter().flat_map(|&from| numbers[from * size..][..size].to_vec()).collect()
    };
    let (all, observation) = (weights(3), observation(&[1.0; 3]));
    let mut other = all.clone();
    let semb = other.iter_mut().find(|(name, ..)| name == "semb").unwrap();
    semb.2 = permuted(&semb.2, C + CP);
    let mut moved = permuted(&observation, C * T);
    moved.extend(&observation[3 * C * T..]);
    let z = scores(3, &all, &observation);
    assert_close(&scores(3, &other, &moved), &permuted(&z, 1));
    assert!((z[0] - z[1]).abs() > 1e-3 && (z[1] - z[2]).abs() > 1e-3, "{z:?}");
}

#[test]
fn the_last_step_counts() {
    let (all, observation) = (weights(3), observation(&[1.0; 3]));
    let before = scores(3, &all, &observation);
    for node in 0..3 {
        let mut changed = observation.clone();
        changed[node * C * T + T - 1] += 1.0;
        let after = scores(3, &all, &changed);
        assert!((before[node] - after[node]).abs() > 1e-6, "{before:?} {after:?}");
    }
}

#[test]
fn dead_paths_are_as_if_they_were_not_there() {
    let full = observation(&[1.0, 0.0, 1.0]);
    let living: Vec<f32> = [&full[..C * T], &full[2 * C * T..][..(C + CP) * T], &[1.0, 1.0]].concat();
    let found = scores(3, &without_identity(weights(3)), &full);
    let expected = scores(2, &without_identity(weights(2)), &living);
    assert_eq!(found[1], -1e9);
    assert_close(&[found[0], found[2]], &expected);
}

#[test]
fn what_is_too_large_or_does_not_fit_is_refused() {
    let refused = |spec: &str, all: &Named| PolicyFile::parse(&bytes(spec, all)).unwrap_err().to_string();
    let all = weights(3);
    let found = refused("stsgat:steps=1000", &all);
    assert_eq!(found, "its card's network: `stsgat:steps=1000`: expected steps, 3 to 64");
    let found = refused("stsgat:paths=65", &all);
    assert_eq!(found, "its card's network: `stsgat:paths=65`: expected paths, 1 to 64");
    let with = |name: &str, shape: &[usize]| {
        let mut all = all.clone();
        let tensor = all.iter_mut().find(|(own, ..)| own == name).unwrap();
        (tensor.1, tensor.2) = (shape.to_vec(), vec![0.0; shape.iter().product()]);
        all
    };
    let fc_b = |shape: &[usize]| refused(&spec(3), &with("fc_b", shape));
    assert_eq!(fc_b(&[514]), "its tensor `fc_b` is of 514 numbers; expected a multiple of 2 heads, at most 512");
    assert_eq!(fc_b(&[9]), "its tensor `fc_b` is of 9 numbers; expected a multiple of 2 heads, at most 512");
    assert_eq!(
        fc_b(&[1 << 62, 0]),
        "its tensor `fc_b` is of shape [4611686018427387904, 0]; expected 1 dimensions, none of them 0"
    );
    assert_eq!(refused(&spec(2), &all), "its tensor `semb` is of shape [1, 3, 3, 1]; expected [1, 2, 3, 1]");
}

#[test]
fn broken_files_do_no_harm() {
    withstands(&bytes(&spec(3), &weights(3)));
}

/// Prints what a pass takes at the defaults; the best of 7 times 200.
#[test]
#[ignore = "a measurement; run it with --release -- --ignored --nocapture"]
fn pace() {
    let (paths, steps, hidden, heads, channels) = (4, 12, 64, 4, 8);
    let mut drawn = Drawn(3);
    let mut all: Named = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let scale = 1.0 / (shape[0] as f32).sqrt();
        let numbers = drawn.numbers(shape.iter().product()).iter().map(|number| scale * number).collect();
        all.push((name, shape.to_vec(), numbers));
    };
    add("temb".into(), &[1, 1, channels, steps]);
    add("semb".into(), &[1, paths, channels, 1]);
    add("fc_w".into(), &[channels, hidden]);
    add("fc_b".into(), &[hidden]);
    for (m, l) in (0..2).flat_map(|m| (0..3).map(move |l| (m, l))) {
        add(format!("m{m}.l{l}.w"), &[hidden, hidden]);
        add(format!("m{m}.l{l}.src"), &[heads, hidden / heads]);
        add(format!("m{m}.l{l}.dst"), &[heads, hidden / heads]);
    }
    add("out_w".into(), &[(steps - 4) * hidden, 1]);
    add("out_b".into(), &[1]);
    let inputs = (paths * 6 + 2) * steps + paths;
    all.push(("low".into(), vec![inputs], vec![-9.0; inputs]));
    all.push(("high".into(), vec![inputs], vec![9.0; inputs]));
    let network: Network = PolicyFile::parse(&bytes("stsgat", &all)).unwrap().network;
    let mut observation = drawn.numbers(inputs);
    observation[inputs - paths..].fill(1.0);
    let (mut scratch, mut z) = (network.scratch(), [0.0; 4]);
    let mut times: Vec<_> = (0..7)
        .map(|_| {
            let start = std::time::Instant::now();
            (0..200).for_each(|_| network.forward(&mut scratch, std::hint::black_box(&observation), &mut z));
            start.elapsed() / 200
        })
        .collect();
    times.sort();
    eprintln!("best {:?}, median {:?}, z {z:?}", times[0], times[3]);
}
