//! Low latency, high data rate: weigh goodput against round-trip time.
//!
//! Rule: the largest `y`, the first of equals, with β = 0.001,
//!   eq:   `y = GP/GPmax + β·RTTmax/RTT`, maxima over the paths to choose from;
//!   alg1: the same with GPmax = 9999 Mbit/s and RTTmax = 9 999 999 ms, never updated;
//!   code: `y = packets of the last rate sample + 10·⌊9 999 999 / 8·srtt in µs⌋`.
//! Goodput is delivered less lost bytes, over each srtt. Classes and data sent before as in
//! min-RTT.
//! Reference: Lubna, Mahmud, Cho: LLHD, Sensors 22, 9869, 2022; github.com/imtiaztee/LLHD `drs`; equations 2 to 4
//! and Algorithm 1 of the paper.
//! State: per path, the counters at the start of the current srtt and the goodput of the last.
//! Departs from print: Algorithm 1 never keeps its maximum (`Y_curr = Y_max` for `Y_max =
//! Y_curr`), here it does. The paper does not say over what time goodput is taken, nor in what units
//! Algorithm 1 has its constants. It decides with each ACK; here each packet is decided on.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BitRate, Bytes, Context, Decision, Event, Instant, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "llhd",
    aliases: &["drs"],
    summary: "the best of goodput and round-trip time together",
    reference: "Lubna, Mahmud, Cho: LLHD, Sensors 22, 9869, 2022; github.com/imtiaztee/LLHD",
    provenance: Provenance::Paper,
    goal: "throughput and latency",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Loss, Input::Rate],
    needs: Needs { events: true, ..Needs::NONE },
    transport: TransportRules::RP,
    presets: &[
        Preset { name: "llhd-eq", switches: "form=eq", doc: "the paper's equations 2 to 4" },
        Preset {
            name: "llhd-alg1",
            switches: "form=alg1",
            doc: "the paper's Algorithm 1, whose constants let time decide",
        },
        Preset { name: "llhd-code", switches: "form=code", doc: "the authors' kernel module" },
    ],
    params: &[
        Param {
            name: "form",
            default: "eq",
            values: "eq | alg1 | code",
            doc: "the paper's equations (goodput decides), its Algorithm 1 or the authors' code (time decides)",
        },
        Param { name: "beta", default: "0.001", values: "number, 0 to 10", doc: "weight of the round-trip time" },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Llhd {
        form: params.choice("form", &[("eq", Form::Eq), ("alg1", Form::Alg1), ("code", Form::Code)])?,
        beta_ppm: (params.within("beta", 0.0..=10.0)? * 1e6 + 0.5) as u64,
        goodputs: PerPath::default(),
    }))
}

#[derive(Clone, Copy)]
enum Form {
    Eq,
    Alg1,
    Code,
}

#[derive(Clone)]
struct Llhd {
    form: Form,
    beta_ppm: u64,
    goodputs: PerPath<Goodput>,
}

/// Delivered less lost, over one srtt after the other.
#[derive(Clone, Default)]
struct Goodput {
    since: Option<Instant>,
    acked: Bytes,
    lost: Bytes,
    rate: BitRate,
}

impl Goodput {
    fn update(&mut self, now: Instant, path: &Path) {
        if let Some(since) = self.since {
            let elapsed = now.since(since);
            if elapsed.is_zero() || elapsed < path.srtt {
                return;
            }
            let acked = path.acked.bytes.saturating_sub(self.acked);
            let lost = path.lost.bytes.saturating_sub(self.lost);
            self.rate = BitRate::of(acked.saturating_sub(lost), elapsed);
        }
        *self = Self { since: Some(now), acked: path.acked.bytes, lost: path.lost.bytes, rate: self.rate };
    }
}

impl Llhd {
    fn goodput(&self, path: &Path) -> u64 {
        self.goodputs.get(path.id).map_or(0, |goodput| goodput.rate.as_bps())
    }

    /// `GPmax·RTTmax` in bit/s and µs.
    fn scale(&self, cx: &Context<'_>) -> u128 {
        if let Form::Alg1 = self.form {
            // 9999 Mbit/s and 9999999 ms.
            return 9_999_000_000 * 9_999_999_000;
        }
        let largest = |of: &dyn Fn(&Path) -> u64| choose::candidates(cx).map(of).max().unwrap_or(1).max(1);
        largest(&|path| self.goodput(path)) as u128 * largest(&rtt) as u128
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        if let Form::Code = self.form {
            return choose::pick(cx, |a, b| points(a) > points(b));
        }
        let weight = (self.scale(cx) * self.beta_ppm as u128) as i128;
        choose::pick(cx, |a, b| self.is_better(a, b, weight))
    }

    /// Returns true if `y_a > y_b`, both sides times `GPmax·RTT_a·RTT_b·10⁶`.
    fn is_better(&self, a: &Path, b: &Path, weight: i128) -> bool {
        let (rtt_a, rtt_b) = (rtt(a) as i128, rtt(b) as i128);
        let lead = self.goodput(a) as i128 - self.goodput(b) as i128;
        lead * rtt_a * rtt_b * 1_000_000 > weight * (rtt_a - rtt_b)
    }
}

/// Round-trip time in µs, within bounds that keep every product below 2¹²⁷.
fn rtt(path: &Path) -> u64 {
    path.srtt.as_micros().clamp(1, 1_000_000_000)
}

/// `y` of the authors' code. Linux keeps eight times the srtt in µs, and a rate sample spans about
/// one round trip.
fn points(path: &Path) -> u64 {
    path.delivery_rate.bytes_in(path.srtt).packets(path.mss) + 10 * (9_999_999 / (8 * rtt(path)))
}

impl Scheduler for Llhd {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(receipt, _) | Event::Acked(receipt) | Event::Lost(receipt) => {
                if let Some(path) = cx.path(receipt.path) {
                    self.goodputs.at(path.id).update(cx.now, path);
                }
            }
            Event::PathUp(path) => self.goodputs.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        let goodput = BitRate::from_bps(self.goodput(path));
        Some(format!("{:?} is best: goodput {goodput}, srtt {}", path.id, path.srtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::path;

    #[test]
    fn goodput_is_renewed_once_per_round_trip() {
        let mut path = path(0, 20, 10, 0);
        let mut goodput = Goodput::default();
        let mut at = |ms: u64, acked: u64, lost: u64| {
            (path.acked.bytes, path.lost.bytes) = (Bytes::new(acked), Bytes::new(lost));
            goodput.update(Instant::from_millis(ms), &path);
            goodput.rate.as_bps()
        };
        assert_eq!(at(0, 0, 0), 0);
        assert_eq!(at(19, 5_000, 0), 0);
        // (10 000 - 2 500) bytes in 20 ms; then more was lost than arrived.
        assert_eq!(at(20, 10_000, 2_500), 3_000_000);
        assert_eq!(at(39, 10_000, 2_500), 3_000_000);
        assert_eq!(at(40, 11_000, 4_500), 0);
    }
}
