//! BBR version 2: paces at the bottleneck's rate, and keeps what is in flight below what lost.
//!
//! ```text
//! max_bw  = largest delivery rate of two cycles          rtt = smallest of 10 s
//! bw      = min(max_bw, bw_lo)                           cwnd = cwnd_gain · bw · rtt, and within
//! pacing  = pacing_gain · bw · 99 %                      inflight_lo and inflight_hi
//!
//! STARTUP     both gains 2/ln 2                 until max_bw grew by < 25 % in 3 rounds, or a round
//!    ↓                                          of a recovery had 8 losses, over 2 % of its flight
//! DRAIN       pacing gain ln 2 / 2              until in flight ≤ max_bw · rtt
//!    ↓
//! PROBE_BW    cwnd gain 2, pacing gain
//!   DOWN        3/4      until in flight ≤ max_bw · rtt and ≤ 85 % of inflight_hi
//!   CRUISE      1        85 % of inflight_hi; until 2 to 3 s since DOWN began, or as many rounds as
//!                        Reno takes to regain the product (its packets, at most 63)
//!   REFILL      1        a round; forgets bw_lo, inflight_lo
//!   UP          5/4      until in flight ≥ 5/4 max_bw · rtt after an rtt, or ≥ inflight_hi if the
//!    ↕                   last probe lost too much, or over 2 % of a flight is lost
//! PROBE_RTT   half the product for 200 ms and a round; after 5 s without a smaller or equal rtt
//! ```
//!
//! Losses while not probing lower `bw_lo` and `inflight_lo`, too many of them while probing set
//! `inflight_hi`. The engine is that of `bbr/bounded.rs`, which version 3 shares.
//!
//! Reference: Cardwell et al., draft-cardwell-iccrg-bbr-congestion-control-02, 2022;
//! `net/ipv4/tcp_bbr2.c` of <https://github.com/google/bbr>, branch v2alpha.
//! State: that of `bbr/bounded.rs`.
//! Switches: `form`: `xquic` takes the constants of XQUIC. `lossy`: descriptions say that 2 % of loss
//! is tolerated, but the code lowers `bw_lo` after a round with any (`any`); the 1 % of the pacing
//! margin comes on top, round by round. `many` waits for 2 % here too. `ecn`: a mark counts as a
//! loss of its round, and as too many while probing (`loss`), or not at all (`ignore`). `bursts`: see
//! `bbr/bursts.rs`.
//! Departures: those of `bbr/bounded.rs`. XQUIC's window of 32 packets, and its gain of 1.5 in a
//! recovery of STARTUP, are left out.

use weftway_path::Span;
use weftway_path::spec::Param;

use crate::bbr::bounded::{Bounded, CWND_GAIN, ECN, Form, LOSSY};
use crate::bbr::{BURSTS, DRAIN_GAIN, HIGH_GAIN, UNIT, pacing_bursts};
use crate::registry::Entry;

pub(crate) const ENTRY: Entry = Entry {
    name: "bbr2",
    aliases: &["bbrv2", "bbr-v2"],
    version: 1,
    summary: "paces at the largest delivery rate seen, and keeps in flight what was found not to lose over 2 %",
    reference: "Cardwell et al., draft-cardwell-iccrg-bbr-congestion-control-02, 2022; google/bbr tcp_bbr2.c",
    coupled: false,
    paced: true,
    params: &[
        Param {
            name: "form",
            default: "linux",
            values: "linux | xquic",
            doc: "xquic: STARTUP's window gain 2, DRAIN at 3/4, PROBE_RTT every 2.5 s at 3/4 of the product",
        },
        LOSSY,
        ECN,
        BURSTS,
    ],
    build: |params, setup| {
        let form = params.choice("form", &[("linux", LINUX), ("xquic", XQUIC)])?;
        pacing_bursts(params, Bounded::new(form.heeding(params)?, setup), setup)
    },
};

/// `tcp_bbr2.c`.
pub(crate) const LINUX: Form = Form {
    startup_gain: HIGH_GAIN,
    startup_cwnd_gain: HIGH_GAIN,
    drain_gain: DRAIN_GAIN,
    down_gain: UNIT * 3 / 4,
    up_cwnd_gain: CWND_GAIN,
    startup_losses: 8,
    heeds_delivery: false,
    headroom: UNIT * 15 / 100,
    min_rtt_window: Span::from_secs(10),
    probe_rtt_every: Span::from_secs(5),
    probe_rtt_gain: UNIT / 2,
    heeds_marks: true,
    heeds_any_loss: true,
};
const XQUIC: Form = Form {
    startup_cwnd_gain: 2 * UNIT,
    drain_gain: UNIT * 3 / 4,
    min_rtt_window: Span::from_millis(2500),
    probe_rtt_every: Span::from_millis(2500),
    probe_rtt_gain: UNIT * 3 / 4,
    ..LINUX
};
