//! Loads of the paths of late: sums of sent bytes that fade.

use weftway_path::{Bytes, Instant, Path, Span};

/// Over how long loads are compared, and how far O2 looks ahead.
pub(crate) const HORIZON: Span = Span::from_secs(1);

/// Sums over the paths' counters; what was sent a [`HORIZON`] ago counts 1/e.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    loads: Vec<f64>,
    counted: Vec<Bytes>,
    at: Instant,
}

impl Shares {
    /// Loads of so many paths on which nothing was sent.
    pub(crate) fn new(paths: usize) -> Self {
        Self { loads: vec![0.0; paths], counted: vec![Bytes::ZERO; paths], at: Instant::ZERO }
    }

    /// Takes in what `paths` have sent by `now`.
    pub(crate) fn note(&mut self, now: Instant, paths: &[Path]) {
        let faded = libm::exp(-now.since(self.at).as_secs_f64() / HORIZON.as_secs_f64());
        self.loads.iter_mut().for_each(|load| *load *= faded);
        for path in paths {
            let (load, counted) = (&mut self.loads[path.id.index()], &mut self.counted[path.id.index()]);
            // A path that came up anew counts from zero.
            *load += path.sent.bytes.saturating_sub(*counted).get() as f64;
            *counted = path.sent.bytes;
        }
        self.at = now;
    }

    /// Bytes, by path.
    pub(crate) fn loads(&self) -> &[f64] {
        &self.loads
    }
}
