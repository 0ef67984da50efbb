//! BBR version 3: version 2 with gentler gains, and an end of STARTUP that heeds what got through.
//!
//! ```text
//! max_bw, bw, pacing, rtt, bounds    as version 2
//!
//! STARTUP     pacing 2.77, cwnd gain 2          until max_bw grew by < 25 % in 3 rounds, or a round
//!    ↓        (4 ln 2)                          of a recovery had 6 losses, over 2 % of its flight:
//!    ↓                                          inflight_hi = max(product, what it delivered)
//! DRAIN       pacing gain 1/2                   until in flight ≤ max_bw · rtt
//!    ↓
//! PROBE_BW    cwnd gain 2, in UP 9/4; pacing gain
//!   DOWN        9/10     until in flight ≤ max_bw · rtt and ≤ 85 % of inflight_hi
//!   CRUISE      1        85 % of inflight_hi; as long as in version 2
//!   REFILL      1        a round; forgets bw_lo, inflight_lo
//!   UP          5/4      as in version 2
//!    ↕
//! PROBE_RTT   half the product for 200 ms and a round; after 5 s without a smaller or equal rtt
//! ```
//!
//! Reference: Cardwell et al., draft-ietf-ccwg-bbr; `bbr3.rs` of <https://github.com/Tencent/tquic>.
//! State: that of `bbr/bounded.rs`, the engine of versions 2 and 3.
//! Switches: `drain`: an older text drains at 0.35. `headroom`: 15 % of `inflight_hi` are left to
//! others (`intended`); TQUIC subtracts the remaining 85 % from `inflight_hi` once more, as the
//! draft's wording invites, and keeps only 15 % (`literal`). `lossy`, `ecn` and `bursts` as in version 2.
//! Departures: those of `bbr/bounded.rs`. UP ends as in version 2, not when max_bw stops growing.

use weftway_path::Span;
use weftway_path::spec::Param;

use crate::bbr::bounded::{Bounded, ECN, Form, LOSSY};
use crate::bbr::{BURSTS, UNIT, pacing_bursts};
use crate::registry::Entry;

pub(crate) const ENTRY: Entry = Entry {
    name: "bbr3",
    aliases: &["bbrv3", "bbr-v3"],
    version: 1,
    summary: "version 2 with gentler gains: probes and drains less deeply, and leaves STARTUP with what got through",
    reference: "Cardwell et al., draft-ietf-ccwg-bbr; Tencent/tquic src/congestion_control/bbr3.rs",
    coupled: false,
    paced: true,
    params: &[
        Param {
            name: "drain",
            default: "0.5",
            values: "0.5 | 0.35",
            doc: "the pacing gain of DRAIN: of the draft, or of its older text",
        },
        Param {
            name: "headroom",
            default: "intended",
            values: "intended | literal",
            doc: "CRUISE keeps 0.85 of inflight_hi; or inflight_hi less 0.85 of it, as the draft can be read",
        },
        LOSSY,
        ECN,
        BURSTS,
    ],
    build: |params, setup| {
        let drain_gain = params.choice("drain", &[("0.5", UNIT / 2), ("0.35", UNIT * 35 / 100)])?;
        let headroom =
            params.choice("headroom", &[("intended", UNIT * 15 / 100), ("literal", UNIT - UNIT * 15 / 100)])?;
        let form = Form { drain_gain, headroom, ..DRAFT };
        pacing_bursts(params, Bounded::new(form.heeding(params)?, setup), setup)
    },
};

const DRAFT: Form = Form {
    // Rounded up, so as not to stay below the 4 ln 2 that doubles the rate each round.
    startup_gain: UNIT * 277 / 100 + 1,
    startup_cwnd_gain: 2 * UNIT,
    drain_gain: UNIT / 2,
    down_gain: UNIT * 90 / 100,
    up_cwnd_gain: UNIT * 9 / 4,
    startup_losses: 6,
    heeds_delivery: true,
    headroom: UNIT * 15 / 100,
    min_rtt_window: Span::from_secs(10),
    probe_rtt_every: Span::from_secs(5),
    probe_rtt_gain: UNIT / 2,
    heeds_marks: true,
    heeds_any_loss: true,
};
