//! eˣ and eˣ − 1 of numbers that are not above 0, as softmax and ELU ask for them: arithmetic
//! without branches, so that a loop over them is vectorised, and the same on every machine.
//!
//! With n the whole number next to x/ln 2, x = n·ln 2 + r and |r| ≤ 0.347: `eˣ = 2ⁿ·(1 + p)`,
//! `eˣ − 1 = 2ⁿ·p + (2ⁿ − 1)`, where p is the Taylor polynomial of eʳ − 1 to r⁷; the next term is below
//! 1.6·10⁻⁸ of p. Both are within 2 ulp.

/// Below this, eˣ counts as 0; 2ⁿ is a normal number from here up.
const LEAST: f32 = -87.0;

/// 1.5·2²³: added, it leaves no room for what comes after the point.
const ROUND: f32 = 12_582_912.0;

/// ln 2 in two parts (fdlibm's expf); n times the first is exact.
const LN2_HIGH: f32 = 6.931_457_5e-1;
const LN2_LOW: f32 = 1.428_606_8e-6;

/// eʳ − 1 and 2ⁿ.
#[inline]
fn parts(x: f32) -> (f32, f32) {
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let inner = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0)));
    let p = r + r * r * (0.5 + r * (1.0 / 6.0 + r * inner));
    // The low bits of `shifted` are n; 127 more is the exponent of 2ⁿ.
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
    (p, f32::from_bits(exponent << 23))
}

/// eˣ, for x ≤ 0.
#[inline]
pub(super) fn exp(x: f32) -> f32 {
    let (p, scale) = parts(x);
    if x < LEAST { 0.0 } else { scale + scale * p }
}

/// eˣ − 1, for x ≤ 0.
#[inline]
pub(super) fn expm1(x: f32) -> f32 {
    let (p, scale) = parts(x);
    if x < LEAST { -1.0 } else { scale * p + (scale - 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance of `found` from `exact`, in steps of float32 numbers beside `exact`.
    fn ulps(found: f32, exact: f64) -> f64 {
        let near = exact as f32;
        let step = f64::from(f32::from_bits(near.abs().to_bits() + 1)) - f64::from(near.abs());
        (f64::from(found) - exact).abs() / step
    }

    #[test]
    fn both_are_within_two_ulp() {
        // Every 997th number from −10⁻³⁰ to −87, and the places where n changes.
        let sweep = (1e-30_f32.to_bits()..=87.0_f32.to_bits()).step_by(997).map(|bits| -f32::from_bits(bits));
        let half = |n: i32| -((f64::from(n) - 0.5) * std::f64::consts::LN_2) as f32;
        let turns = (1..=125).flat_map(|n| [half(n).next_up(), half(n), half(n).next_down()]);
        for x in sweep.chain(turns) {
            assert!(ulps(exp(x), libm::exp(f64::from(x))) <= 2.0, "exp({x}) = {}", exp(x));
            assert!(ulps(expm1(x), libm::expm1(f64::from(x))) <= 2.0, "expm1({x}) = {}", expm1(x));
        }
    }

    #[test]
    fn the_ends() {
        assert_eq!((exp(0.0), expm1(0.0)), (1.0, 0.0));
        for x in [-88.0, -1e9, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!((exp(x), expm1(x)), (0.0, -1.0));
        }
        assert!(exp(f32::NAN).is_nan() && expm1(f32::NAN).is_nan());
    }
}
