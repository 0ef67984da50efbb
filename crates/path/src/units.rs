//! Bytes, offsets and rates as types, so that bits and bytes cannot be mixed up.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

use crate::Span;
use crate::wide::mul_div;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

/// A position in the connection's data: the data sequence number of MPTCP, the stream offset of
/// QUIC. The first byte is at 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(u64);

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BitRate(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// More than any window holds: an infinite slow-start threshold.
    pub const MAX: Self = Self(u64::MAX);

    /// `n` bytes.
    #[inline]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self - other`, zero when negative.
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The sum of bytes that a host has counted, which is never too large. `+` stays at the largest number, for
    /// forecasts.
    #[inline]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// `self * num / den` without overflow in between, rounded down; `den` must not be 0.
    #[inline]
    pub const fn mul_div(self, num: u64, den: u64) -> Self {
        Self(mul_div(self.0, num, den))
    }

    /// Number of whole packets of `mss` bytes, rounded down.
    #[inline]
    pub const fn packets(self, mss: Self) -> u64 {
        self.0 / mss.0
    }
}

impl Offset {
    /// The first byte.
    pub const ZERO: Self = Self(0);

    /// The position `n` bytes after the first.
    #[inline]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position after `bytes` that a host has ([`Bytes::plus`]).
    #[inline]
    pub const fn plus(self, bytes: Bytes) -> Self {
        Self(self.0 + bytes.0)
    }

    /// Bytes from `earlier` to here; zero when `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Bytes {
        Bytes(self.0.saturating_sub(earlier.0))
    }
}

impl BitRate {
    /// Rate at which no byte moves.
    pub const ZERO: Self = Self(0);

    /// `n` bits per second.
    #[inline]
    pub const fn from_bps(n: u64) -> Self {
        Self(n)
    }

    /// `n` · 10⁶ bits per second.
    #[inline]
    pub const fn from_mbps(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// The mean rate of `bytes` in `span`, rounded down; zero when no time passed.
    #[inline]
    pub const fn of(bytes: Bytes, span: Span) -> Self {
        match span.as_nanos() {
            0 => Self(0),
            ns => Self(mul_div(bytes.0, 8_000_000_000, ns)),
        }
    }

    /// Bits per second.
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Megabits (10⁶) per second, for reports.
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Time to put `bytes` on a wire of this rate, rounded up; [`Span::MAX`] at rate 0, and where
    /// it takes longer than that.
    #[inline]
    pub const fn transmission_time(self, bytes: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        // 2^64 / 8e9 bytes is 2.3 GB: packets fit in 64 bits, whole windows might not.
        if bytes.0 < 2_000_000_000 {
            Span::from_nanos((bytes.0 * 8_000_000_000).div_ceil(self.0))
        } else {
            let ns = (bytes.0 as u128 * 8_000_000_000).div_ceil(self.0 as u128);
            if ns < u64::MAX as u128 { Span::from_nanos(ns as u64) } else { Span::MAX }
        }
    }

    /// Bytes that pass in `span`, rounded down.
    #[inline]
    pub const fn bytes_in(self, span: Span) -> Bytes {
        Bytes(mul_div(self.0, span.as_nanos(), 8_000_000_000))
    }

    /// The bandwidth-delay product for a round trip of `rtt`, rounded down.
    #[inline]
    pub const fn bdp(self, rtt: Span) -> Bytes {
        self.bytes_in(rtt)
    }

    /// `self * num / den`, rounded down; `den` must not be 0.
    #[inline]
    pub const fn mul_div(self, num: u64, den: u64) -> Self {
        Self(mul_div(self.0, num, den))
    }
}

impl Add for Bytes {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        debug_assert!(self.0 >= other.0, "bytes are never negative");
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Bytes {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Add<Bytes> for Offset {
    type Output = Self;
    #[inline]
    fn add(self, bytes: Bytes) -> Self {
        Self(self.0.saturating_add(bytes.0))
    }
}

impl AddAssign<Bytes> for Offset {
    #[inline]
    fn add_assign(&mut self, bytes: Bytes) {
        *self = *self + bytes;
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Debug for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mbit/s", self.as_mbps_f64())
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_time_rounds_up() {
        assert_eq!(BitRate::from_bps(3).transmission_time(Bytes::new(1)).as_nanos(), 2_666_666_667);
    }

    #[test]
    fn rate_of_undoes_bytes_in() {
        let rate = BitRate::from_mbps(70);
        let span = Span::from_millis(80);
        assert_eq!(BitRate::of(rate.bytes_in(span), span), rate);
    }

    #[test]
    fn a_silent_wire_never_finishes() {
        assert_eq!(BitRate::ZERO.transmission_time(Bytes::new(1)), Span::MAX);
        // 10 GB at 1 bit/s: 8 · 10¹⁹ ns, and 2⁶⁴ is 1.8 · 10¹⁹.
        assert_eq!(BitRate::from_bps(1).transmission_time(Bytes::new(10_000_000_000)), Span::MAX);
    }
}
