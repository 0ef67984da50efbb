//! Quality of each path by its measurements in one interval.
//!
//! Per path: throughput TT (acknowledged bytes over the interval), window C, achievable rate
//! `C/srtt`, spare rate `ST = max(C/srtt − TT, 0)`, packets TP, loss PLR (a fraction, smoothed
//! with gain 1/8). Quality (PDAA3C, equation 4, as resolved):
//!   `Q_i = γ·(1 − PLR_i)·rate_i/max rate + η·ST_i/max ST`, γ = 0.7, η = 0.3; 0/0 = 0.
//! Departs from print: the print adds a time (γ·α·(1 − PLR)/ST, with ST a rate) to a rate
//! (η·C/(RTT − TT), with TT a throughput). Its text calls the first denominator the time to send
//! one packet of α bytes, α/rate, which makes both terms rates; each is taken against the best
//! path's. `quality=printed` keeps the sum: TT is the time that one packet takes, α/rate,
//! ST = C/max(RTT − TT, RTT/10), and Q = γ·α·(1 − PLR)/ST + η·ST.

use weftway_path::spec::Param;
use weftway_path::{Counters, Instant, Path, PathId, Span};

use super::norm::{self, Peak};
use crate::shared::per_path::PerPath;

/// Switch for Q as printed.
pub(crate) const QUALITY: Param = Param {
    name: "quality",
    default: "sound",
    values: "sound | printed",
    doc: "rates against the best path's; or PDAA3C's equations 4 and 5 as printed, a time plus a rate",
};

/// A path's first peak rate: 1 Mbit/s, in bytes per second.
const FIRST_RATE: f64 = 125_000.0;

/// The round-trip time that counts as 1; with the largest rate also the scale of windows.
const D0: f64 = 0.25;

/// A loss of one packet in ten counts as 1.
const LOSS_SCALE: f64 = 0.1;

/// Weights of Q.
const GAMMA: f64 = 0.7;
const ETA: f64 = 0.3;

/// PDAA3C's packet, in bytes.
const ALPHA: f64 = 1000.0;

/// Knowledge of every path.
#[derive(Clone, Default)]
pub(crate) struct Qualities(PerPath<Quality>);

/// Knowledge of one path.
#[derive(Clone, Debug)]
pub(crate) struct Quality {
    acked: Counters,
    lost: Counters,
    rtt_sum: Span,
    rtt_samples: u64,
    /// Bytes per second in the last interval.
    pub(crate) throughput: f64,
    /// Smoothed fraction of lost packets.
    pub(crate) loss: f64,
    /// Packets of which the last interval brought news.
    pub(crate) resolved: u64,
    /// The lost fraction of these.
    pub(crate) loss_now: f64,
    /// Mean of the round-trip samples in the last interval, in seconds; without one, srtt.
    pub(crate) mean_rtt: f64,
    peak: Peak,
}

impl Default for Quality {
    fn default() -> Self {
        let (acked, lost, rtt_sum, rtt_samples) = Default::default();
        let (throughput, loss, resolved, loss_now, mean_rtt) = Default::default();
        let peak = Peak::new(FIRST_RATE);
        Self { acked, lost, rtt_sum, rtt_samples, throughput, loss, resolved, loss_now, mean_rtt, peak }
    }
}

impl Quality {
    /// The interval of length `passed` is over.
    fn turn(&mut self, now: Instant, passed: Span, path: &Path) {
        let bytes = path.acked.bytes.saturating_sub(self.acked.bytes).get() as f64;
        self.throughput = if passed.is_zero() { 0.0 } else { bytes / passed.as_secs_f64() };
        let acked = path.acked.packets.saturating_sub(self.acked.packets);
        let lost = path.lost.packets.saturating_sub(self.lost.packets);
        self.resolved = acked + lost;
        self.loss_now = if acked + lost > 0 { lost as f64 / (acked + lost) as f64 } else { 0.0 };
        if acked + lost > 0 {
            self.loss += (self.loss_now - self.loss) / 8.0;
        }
        self.note_rtt(path);
        self.peak.note(now, path.delivery_rate.as_bps() as f64 / 8.0);
        (self.acked, self.lost) = (path.acked, path.lost);
    }

    fn note_rtt(&mut self, path: &Path) {
        let (sum, samples) = (path.rtt_sum, path.rtt_samples);
        let count = samples.saturating_sub(self.rtt_samples);
        let mean = if count == 0 { path.srtt } else { sum.saturating_sub(self.rtt_sum) / count };
        (self.mean_rtt, self.rtt_sum, self.rtt_samples) = (mean.as_secs_f64(), sum, samples);
    }
}

/// Window over smoothed round-trip time, in bytes per second.
fn achievable(path: &Path) -> f64 {
    if path.srtt.is_zero() { 0.0 } else { path.cwnd.get() as f64 / path.srtt.as_secs_f64() }
}

impl Qualities {
    /// The interval of length `passed` is over for each of `paths`.
    pub(crate) fn turn(&mut self, now: Instant, passed: Span, paths: &[Path]) {
        paths.iter().for_each(|path| self.0.at(path.id).turn(now, passed, path));
    }

    /// Forgets `path`.
    pub(crate) fn reset(&mut self, path: PathId) {
        self.0.reset(path);
    }

    /// Knowledge of `path`.
    pub(crate) fn of(&self, path: PathId) -> Quality {
        self.0.get(path).cloned().unwrap_or_default()
    }

    /// The largest rate that any of `paths` has shown, in bytes per second: the scale of rates,
    /// so that what is seen keeps their ratios and nothing else.
    pub(crate) fn scale(&self, paths: &[Path]) -> f64 {
        paths.iter().map(|path| self.of(path.id).peak.get()).fold(0.0, f64::max)
    }

    /// The sum of the largest rates that `paths` have shown, in bytes per second: what a sender
    /// knows of their capacity.
    pub(crate) fn capacity(&self, paths: &[Path]) -> f64 {
        paths.iter().map(|path| self.of(path.id).peak.get()).sum()
    }

    /// Observation of `path`, each number within [0, 4]: spare rate, throughput, window, packets, loss,
    /// round-trip time. Packets are those of the interval, computed from the throughput as in
    /// PDAA3C, so that on the scale of rates they say the same again.
    pub(crate) fn observation(&self, path: &Path, scale: f64) -> [f32; 6] {
        let quality = self.of(path.id);
        let spare = (achievable(path) - quality.throughput).max(0.0);
        let through = norm::ratio(quality.throughput, scale);
        [
            norm::ratio(spare, scale),
            through,
            norm::ratio(path.cwnd.get() as f64, scale * D0),
            through,
            norm::ratio(quality.loss, LOSS_SCALE),
            norm::ratio(path.srtt.as_secs_f64(), D0),
        ]
        .map(|value| value as f32)
    }

    /// Q of each of `paths`, in their order.
    pub(crate) fn qualities(&self, paths: &[&Path], is_printed: bool) -> Vec<f64> {
        let rates: Vec<f64> = paths.iter().map(|path| achievable(path)).collect();
        let known: Vec<Quality> = paths.iter().map(|path| self.of(path.id)).collect();
        if is_printed {
            let of = |((path, rate), known): ((&&Path, &f64), &Quality)| printed(path, *rate, known.loss);
            return paths.iter().zip(&rates).zip(&known).map(of).collect();
        }
        let spare: Vec<f64> =
            rates.iter().zip(&known).map(|(rate, known)| (rate - known.throughput).max(0.0)).collect();
        let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let (most_rate, most_spare) = (most(&rates), most(&spare));
        let of = |((rate, spare), known): ((&f64, &f64), &Quality)| {
            GAMMA * (1.0 - known.loss) * norm::ratio(*rate, most_rate) + ETA * norm::ratio(*spare, most_spare)
        };
        rates.iter().zip(&spare).zip(&known).map(of).collect()
    }

    /// The throughput of `paths` together, over the sum of their largest rates.
    pub(crate) fn share(&self, paths: &[Path]) -> f64 {
        let throughput = paths.iter().map(|path| self.of(path.id).throughput).sum();
        norm::ratio(throughput, self.capacity(paths))
    }

    /// PDAA3C's and RLDS's reward of an interval: the sum over `paths` of
    /// `ln((TT + 1 kB/s)/(125 kB/s))`, each within [−5, 5]. Print has `Σ ln TT`, which an idle
    /// path makes −∞.
    pub(crate) fn reward(&self, paths: &[Path]) -> f64 {
        let of = |path: &Path| libm::log((self.of(path.id).throughput + 1e3) / 125e3).clamp(-5.0, 5.0);
        paths.iter().map(of).sum()
    }
}

fn printed(path: &Path, rate: f64, loss: f64) -> f64 {
    if rate <= 0.0 {
        return 0.0;
    }
    let rtt = path.srtt.as_secs_f64();
    let spare = path.cwnd.get() as f64 / (rtt - ALPHA / rate).max(rtt / 10.0);
    GAMMA * ALPHA * (1.0 - loss) / spare + ETA * spare
}

/// The indices of `qualities` from best to worst; among equals the first.
pub(crate) fn ranked(qualities: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..qualities.len()).collect();
    order.sort_by(|a, b| qualities[*b].total_cmp(&qualities[*a]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Bytes;
    use weftway_vectors::testing::{packets, path};

    fn after(paths: &mut [Path], acked: &[u64], lost: &[u64]) -> Qualities {
        let mut qualities = Qualities::default();
        qualities.turn(Instant::ZERO, Span::ZERO, paths);
        for ((path, acked), lost) in paths.iter_mut().zip(acked).zip(lost) {
            path.acked = Counters { bytes: packets(*acked), packets: *acked };
            path.lost = Counters { bytes: packets(*lost), packets: *lost };
        }
        qualities.turn(Instant::from_millis(100), Span::from_millis(100), paths);
        qualities
    }

    #[test]
    fn q_by_hand() {
        // Rates 10·1400/0.02 = 700 kB/s and 10·1400/0.04 = 350 kB/s. Throughputs 40 and 10 packets in
        // 100 ms, 560 and 140 kB/s: spare 140 and 210 kB/s. The second lost 10 of 20: PLR 0.5/8.
        let mut paths = [path(0, 20, 10, 0), path(1, 40, 10, 0)];
        let qualities = after(&mut paths, &[40, 10], &[0, 10]);
        let found = qualities.qualities(&paths.iter().collect::<Vec<_>>(), false);
        assert!((found[0] - (0.7 + 0.3 * 140.0 / 210.0)).abs() < 1e-9);
        assert!((found[1] - (0.7 * (1.0 - 0.0625) * 0.5 + 0.3)).abs() < 1e-9);
        assert_eq!(ranked(&found), [0, 1]);
        // ln((560 + 1)/125) + ln((140 + 1)/125).
        assert!((qualities.reward(&paths) - (4.488_f64.ln() + 1.128_f64.ln())).abs() < 1e-9);
    }

    #[test]
    fn q_falls_with_loss_rises_with_the_window_and_knows_no_scale() {
        let q = |windows: [u64; 2], acked: [u64; 2], lost: [u64; 2]| {
            let mut paths = [path(0, 20, windows[0], 0), path(1, 20, windows[1], 0)];
            let qualities = after(&mut paths, &acked, &lost);
            qualities.qualities(&paths.iter().collect::<Vec<_>>(), false)
        };
        let base = q([20, 10], [20, 20], [0, 0])[1];
        assert!(q([20, 10], [20, 20], [0, 5])[1] < base);
        assert!(q([20, 14], [20, 20], [0, 0])[1] > base);
        assert!((q([200, 100], [200, 200], [0, 0])[1] - base).abs() < 1e-12);
    }

    #[test]
    fn what_is_seen_knows_no_scale_and_silence_is_no_fault() {
        let observation = |factor: u64| {
            let mut paths = [path(0, 20, 10 * factor, 0), path(1, 40, 20 * factor, 0)];
            for path in &mut paths {
                path.delivery_rate = weftway_path::BitRate::of(packets(100 * factor), Span::from_millis(100));
            }
            let qualities = after(&mut paths, &[30 * factor, 20 * factor], &[factor, 0]);
            paths.each_ref().map(|path| qualities.observation(path, qualities.scale(&paths)))
        };
        let (small, large) = (observation(1), observation(10));
        assert!(small.iter().flatten().zip(large.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-6));
        let mut silent = path(0, 0, 10, 0);
        silent.cwnd = Bytes::ZERO;
        let qualities = Qualities::default();
        assert!(qualities.observation(&silent, 0.0).iter().all(|value| *value == 0.0));
        assert_eq!(qualities.qualities(&[&silent], false), [0.0]);
    }

    #[test]
    fn equals_are_ranked_by_number() {
        assert_eq!(ranked(&[0.5, 0.9, 0.5, 0.9]), [1, 3, 0, 2]);
    }

    #[test]
    fn an_interval_by_hand() {
        // As above: 560 and 140 kB/s delivered, peaks of 700 and 350 kB/s; PLR 0 and 0.0625.
        let mut paths = [path(0, 20, 10, 0), path(1, 40, 10, 0)];
        let mut qualities = after(&mut paths, &[40, 10], &[0, 10]);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} is not {b}");
        near(qualities.scale(&paths), 700e3);
        near(qualities.capacity(&paths), 1050e3);
        near(qualities.share(&paths), 700.0 / 1050.0);
        // Spare, delivered, window of the 175 kB that 700 kB/s are in 250 ms, delivered, loss in tenths, time of 250
        // ms.
        let expected = [[0.2, 0.8, 0.08, 0.8, 0.0, 0.08], [0.3, 0.2, 0.08, 0.2, 0.625, 0.16]];
        for (path, expected) in paths.iter().zip(expected) {
            let observation = qualities.observation(path, 700e3);
            observation.iter().zip(expected).for_each(|(a, b)| near(f64::from(*a), b));
        }
        // No news of the second in the next interval, which leaves its PLR; then all of 10 arrive: less an eighth.
        for (ms, acked, loss_now, loss) in [(200, 10, 0.0, 0.0625), (300, 20, 0.0, 0.0625 * 7.0 / 8.0)] {
            paths[1].acked = Counters { bytes: packets(acked), packets: acked };
            qualities.turn(Instant::from_millis(ms), Span::from_millis(100), &paths);
            let of = qualities.of(paths[1].id);
            assert_eq!((of.loss_now, of.loss), (loss_now, loss), "at {ms} ms");
        }
        qualities.reset(paths[1].id);
        assert_eq!((qualities.of(paths[1].id).throughput, qualities.of(paths[1].id).loss), (0.0, 0.0));
    }

    #[test]
    fn the_mean_round_trip_is_of_the_interval_alone() {
        // One sample of 20 ms before; then 30 and 50 ms; then none, where srtt stands in.
        let mut paths = [path(0, 20, 10, 0)];
        let mut qualities = after(&mut paths, &[1], &[0]);
        let mut mean = |sum: u64, samples: u64| {
            (paths[0].rtt_sum, paths[0].rtt_samples) = (Span::from_millis(sum), samples);
            qualities.turn(Instant::from_millis(200), Span::from_millis(100), &paths);
            qualities.of(PathId::new(0)).mean_rtt
        };
        assert_eq!([mean(100, 3), mean(100, 3)], [0.040, 0.020]);
    }

    #[test]
    fn q_as_printed_by_hand() {
        let q = |paths: &[&Path], qualities: &Qualities| qualities.qualities(paths, true);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} is not {b}");
        // Rates 700 and 350 kB/s: 1000 bytes take 1/700 and 1/350 s, which leaves 13/700 of 20 ms and 13/350 of 40 ms.
        // ST = 14000·700/13 and 14000·350/13; the second lost 1/16.
        let mut paths = [path(0, 20, 10, 0), path(1, 40, 10, 0)];
        let qualities = after(&mut paths, &[40, 10], &[0, 10]);
        let found = q(&[&paths[0], &paths[1]], &qualities);
        near(found[0], 700.0 * 13.0 / 9.8e6 + 0.3 * 9.8e6 / 13.0);
        near(found[1], 700.0 * (15.0 / 16.0) * 13.0 / 4.9e6 + 0.3 * 4.9e6 / 13.0);
        // 100 bytes a second: 1000 bytes would take 10 s, so that a tenth of the second is left: ST = 1000.
        let mut slow = path(2, 1000, 1, 0);
        slow.cwnd = Bytes::new(100);
        near(q(&[&slow], &qualities)[0], 700.0 / 1000.0 + 300.0);
        // The same with half of it lost, so that it counts: PLR 0.5/8.
        let mut lossy = [slow];
        let qualities = after(&mut lossy, &[1], &[1]);
        near(q(&[&lossy[0]], &qualities)[0], 0.7 * (1.0 - 0.0625) + 300.0);
        // Without a rate there is nothing to rank.
        lossy[0].srtt = Span::ZERO;
        assert_eq!(q(&[&lossy[0]], &qualities), [0.0]);
    }
}
