//! Products that need more than 64 bits in the middle.

/// `a * b / c`, rounded down, in 64 bits where the product fits: most do, and a division of 128
/// bits costs several times as much.
#[inline]
pub(crate) const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => (a as u128 * b as u128 / c as u128) as u64,
    }
}
