//! The path of best quality, by the score with which PDAA3C ranks paths and without its policy.
//!
//! Rule: with window C, srtt RTT and loss PLR of the epoch before, in bytes and milliseconds,
//!   `ST = C/(RTT − TT)`,  `Q = γ·α·(1 − PLR)/ST + η·ST`,  γ = 0.7, η = 0.3, α = 1000 bytes;
//! the open path of largest Q carries the packet, the first of equals. TT is the time that α bytes
//! take: at one window a round trip (`tt=packet`), at the rate delivered in the epoch
//! (`delivered`), or that rate itself, in Mbit/s, subtracted as a number (`literal`). Classes and
//! data sent before as in min-RTT.
//! Reference: PDAA3C: multipath data scheduling by asynchronous advantage actor-critic; equations 4 and 5.
//! State: counters at the start of the epoch and the Q that holds, per path.
//! Departs from print: TT is called a throughput there and subtracted from a time; here it is a
//! time of the same unit unless `literal`. `RTT − TT` is never less than RTT/10. As printed, Q is
//! smallest at `ST = √(γ·α·(1 − PLR)/η)`, so that below it the slower of two paths ranks first.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Path, PathId, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::epochs::Epochs;
use crate::shared::per_path::PerPath;
use crate::shared::quality::Qualities;

pub(crate) static ENTRY: Entry = Entry {
    name: "pdaa3c-quality",
    aliases: &["quality"],
    summary: "the open path of best quality: loss and window against round-trip time, once per 100 ms",
    reference: "PDAA3C: multipath data scheduling by asynchronous advantage actor-critic; equations 4 and 5",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Rate, Input::Loss],
    needs: Needs { wake: true, ..Needs::NONE },
    params: &[
        Param {
            name: "tt",
            default: "packet",
            values: "packet | delivered | literal",
            doc: "what is subtracted from the round-trip time: a packet's time at the window's rate or at the delivered one, or that rate",
        },
        Param { name: "gamma", default: "0.7", values: "number, 0 to 1000", doc: "weight of what is not lost" },
        Param { name: "eta", default: "0.3", values: "number, 0 to 1000", doc: "weight of the free rate" },
        Param { name: "alpha", default: "1000", values: "bytes, 1 to 65535", doc: "the size of a packet" },
        Param { name: "interval_ms", default: "100", values: "milliseconds, 1 to 60000", doc: "length of an epoch" },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let tt = [("packet", Tt::Packet), ("delivered", Tt::Delivered), ("literal", Tt::Literal)];
    let epoch = Span::from_millis(params.within("interval_ms", 1..=60_000)?);
    Ok(Box::new(PdaaQuality {
        tt: params.choice("tt", &tt)?,
        gamma: params.within("gamma", 0.0..=1000.0)?,
        eta: params.within("eta", 0.0..=1000.0)?,
        alpha: f64::from(params.within("alpha", 1..=u16::MAX)?),
        epochs: Epochs::new(epoch, Span::ZERO),
        measured: Qualities::default(),
        scores: PerPath::default(),
    }))
}

/// Meaning of TT.
#[derive(Clone, Copy)]
enum Tt {
    Packet,
    Delivered,
    Literal,
}

#[derive(Clone)]
struct PdaaQuality {
    tt: Tt,
    gamma: f64,
    eta: f64,
    alpha: f64,
    epochs: Epochs<()>,
    measured: Qualities,
    /// Q by the epoch before.
    scores: PerPath<f64>,
}

impl PdaaQuality {
    /// Ends the epoch if it is over: what it measured holds for the next.
    fn turn(&mut self, cx: &Context<'_>) {
        if let Some(passed) = self.epochs.turn(cx.now) {
            self.measured.turn(cx.now, passed, cx.paths);
            for path in cx.paths {
                *self.scores.at(path.id) = self.quality(path);
            }
        }
    }

    fn quality(&self, path: &Path) -> f64 {
        let (cwnd, rtt) = (path.cwnd.get() as f64, path.srtt.as_millis_f64());
        if cwnd <= 0.0 || rtt <= 0.0 {
            return 0.0;
        }
        let measured = self.measured.of(path.id);
        let free_rate = cwnd / (rtt - self.tt(cwnd, rtt, measured.throughput)).max(rtt / 10.0);
        self.gamma * self.alpha * (1.0 - measured.loss_now) / free_rate + self.eta * free_rate
    }

    /// TT, of a path that delivered `throughput` bytes per second.
    fn tt(&self, cwnd: f64, rtt: f64, throughput: f64) -> f64 {
        match self.tt {
            Tt::Literal => throughput * 8.0 / 1e6,
            Tt::Delivered if throughput > 0.0 => self.alpha * 1000.0 / throughput,
            // Nothing was delivered to measure by, either.
            Tt::Packet | Tt::Delivered => self.alpha * rtt / cwnd,
        }
    }

    fn score(&self, path: PathId) -> f64 {
        self.scores.get(path).copied().unwrap_or(0.0)
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick(cx, |a, b| self.score(a.id) > self.score(b.id))
    }
}

impl Scheduler for PdaaQuality {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.turn(cx);
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        if let Event::PathUp(id) = *event {
            self.measured.reset(id);
            // Nothing is known of an epoch before: the path as it starts.
            *self.scores.at(id) = cx.path(id).map_or(0.0, |path| self.quality(path));
        }
        self.turn(cx);
    }

    fn wake(&self) -> Option<Instant> {
        self.epochs.wake()
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        Some(format!("{:?} has the best quality, {:.1}", path.id, self.score(path.id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::path;

    #[test]
    fn the_time_that_a_packet_takes_by_hand() {
        let quality = |tt| {
            let epochs = Epochs::new(Span::from_millis(100), Span::ZERO);
            let (measured, scores) = (Qualities::default(), PerPath::default());
            PdaaQuality { tt, gamma: 0.7, eta: 0.3, alpha: 1000.0, epochs, measured, scores }
        };
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        // 1000 of 14 000 bytes that 20 ms carry; 1000 bytes at 500 kB/s; 4 Mbit/s as a number.
        near(quality(Tt::Packet).tt(14_000.0, 20.0, 500e3), 20.0 / 14.0);
        near(quality(Tt::Delivered).tt(14_000.0, 20.0, 500e3), 2.0);
        near(quality(Tt::Delivered).tt(14_000.0, 20.0, 0.0), 20.0 / 14.0);
        near(quality(Tt::Literal).tt(14_000.0, 20.0, 500e3), 4.0);
        // ST = 14 000/(20 − 20/14) = 14 000·14/260 bytes a millisecond.
        near(quality(Tt::Packet).quality(&path(0, 20, 10, 0)), 700.0 * 260.0 / 196e3 + 0.3 * 196e3 / 260.0);
        // Without a window or a time there is none.
        assert_eq!([path(0, 20, 0, 0), path(0, 0, 10, 0)].map(|path| quality(Tt::Packet).quality(&path)), [0.0; 2]);
    }
}
