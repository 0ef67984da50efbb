use crate::learned::policy_file::PolicyFile;
use crate::learned::policy_file::tests::{CARD, file, withstands};

/// Tensors with their names and shapes.
type Named<'a> = Vec<(&'a str, &'a [usize], &'a [f32])>;

/// ln 3 and ln 2: σ(ln 3) = 3/4, tanh(ln 2) = (2 − 1/2)/(2 + 1/2) = 0.6.
const LN3: f32 = 1.098_612_3;
const LN2: f32 = std::f32::consts::LN_2;

fn bytes(tensors: &Named<'_>) -> Vec<u8> {
    file(&CARD.map(|(key, value)| if key == "network" { (key, "lstm") } else { (key, value) }), tensors)
}

/// Network of one cell, H = 1, on one input, two steps; y = 10·h + 1.
fn one_cell() -> Named<'static> {
    vec![
        ("low", &[2], &[0.0, 0.0]),
        ("high", &[2], &[1.0, 1.0]),
        ("l0.wx", &[1, 4], &[LN3, 0.0, LN2, LN3]),
        ("l0.wh", &[1, 4], &[0.0, 1.0, 2.0, -1.0]),
        ("l0.b", &[4], &[0.0; 4]),
        ("w1", &[1, 1], &[10.0]),
        ("b1", &[1], &[1.0]),
    ]
}

/// Two layers of H = 2 and 1 on three inputs, two steps, and a dense head of two outputs.
fn two_layers() -> Named<'static> {
    vec![
        ("low", &[6], &[-1.0; 6]),
        ("high", &[6], &[1.0; 6]),
        ("l0.wx", &[3, 8], &[0.25; 24]),
        ("l0.wh", &[2, 8], &[-0.5; 16]),
        ("l0.b", &[8], &[0.125; 8]),
        ("l1.wx", &[2, 4], &[0.5; 8]),
        ("l1.wh", &[1, 4], &[0.25; 4]),
        ("l1.b", &[4], &[0.0; 4]),
        ("w1", &[1, 2], &[1.0, -1.0]),
        ("b1", &[2], &[0.0, 0.5]),
    ]
}

#[test]
fn two_steps_by_hand() {
    let network = PolicyFile::parse(&bytes(&one_cell())).unwrap().network;
    let (mut scratch, mut y) = (network.scratch(), [0.0]);
    // Step 1, x = 1: i = 0.75, f = 0.5, g = 0.6, o = 0.75; c = 0.75·0.6 = 0.45, tanh c = 0.421899,
    // h = 0.316424. Step 2, x = 0: i = σ(0) = 0.5, f = σ(h) = 0.578453, g = tanh(2h) = 0.560011,
    // o = σ(−h) = 0.421547; c = f·0.45 + 0.5·g = 0.540309, tanh c = 0.493222, h = 0.207916.
    for _ in 0..2 {
        // The second time as the first: nothing is left over from the pass before.
        network.forward(&mut scratch, &[1.0, 0.0], &mut y);
        assert!((y[0] - 3.07916).abs() < 1e-5, "{y:?}");
    }
}

#[test]
fn a_layer_takes_what_the_layer_below_gives() {
    let network = PolicyFile::parse(&bytes(&two_layers())).unwrap().network;
    let mut y = [0.0; 2];
    network.forward(&mut network.scratch(), &[0.5, -0.25, 0.75, 1.0, 0.0, -0.5], &mut y);
    // Every gate of a layer is the same number a, for all weights of a tensor are equal; so with s = σ(a):
    // c = s·c + s·tanh a, h = s·tanh c. Steps of inputs that add up to 1 and 0.5, two cells below.
    let cell = |a: f64, (_, c): (f64, f64)| {
        let s = 1.0 / (1.0 + (-a).exp());
        let c = s * c + s * a.tanh();
        (s * c.tanh(), c)
    };
    let (mut below, mut above) = ((0.0, 0.0), (0.0, 0.0));
    for x in [1.0, 0.5] {
        below = cell(0.25 * x - 0.5 * 2.0 * below.0 + 0.125, below);
        above = cell(0.5 * 2.0 * below.0 + 0.25 * above.0, above);
    }
    assert!((f64::from(y[0]) - above.0).abs() < 1e-6, "{y:?} {above:?}");
    assert!((f64::from(y[1]) - (0.5 - above.0)).abs() < 1e-6, "{y:?} {above:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let with = |name: &str, shape: &[usize]| {
        let numbers = vec![0.0; shape.iter().product()];
        let mut all = one_cell();
        let tensor = all.iter_mut().find(|(own, ..)| *own == name).unwrap();
        *tensor = (tensor.0, shape, &numbers);
        PolicyFile::parse(&bytes(&all)).unwrap_err().to_string()
    };
    let huge = "of shape [4611686018427387904, 0]; expected 2 dimensions, none of them 0";
    assert_eq!(with("l0.wh", &[1 << 62, 0]), format!("its tensor `l0.wh` is {huge}"));
    assert_eq!(with("l0.wx", &[1 << 62, 0]), format!("its tensor `l0.wx` is {huge}"));
    assert_eq!(with("l0.wh", &[513, 1]), "its tensor `l0.wh` is for a state of 513; expected at most 512");
    assert_eq!(with("l0.wh", &[1, 5]), "its tensor `l0.wh` is of shape [1, 5]; expected [1, 4]");
    assert_eq!(with("low", &[0]), "its tensor `low` is of shape [0]; expected 1 dimensions, none of them 0");
    assert_eq!(with("l0.wx", &[3, 4]), "its tensor `low` is of 2 numbers; expected some steps of 3 inputs");
    assert_eq!(with("w1", &[2, 1]), "its tensor `w1` is for 2 inputs; expected the last layer's 1");
}

#[test]
fn broken_files_do_no_harm() {
    withstands(&bytes(&two_layers()));
}
