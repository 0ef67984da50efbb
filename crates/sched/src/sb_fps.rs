//! Forward prediction over shared bottlenecks: paths that queue in one place lose together.
//!
//! Rule: that of `dpsaf` without feedback, but in the forecast a path i of group g halves its
//! window whenever any path of the group loses anything in the round:
//!   `q_i = 1 − Π (1 − p_k)^(w_k·srtt_i/srtt_k)` over the paths k of g;
//! `w_i` moves from round to round, the other windows of the group stay as they are. A path of no
//! group is alone in its own.
//! Reference: Wei et al., IEEE/ACM ToN 2020, from its description elsewhere.
//! State: none.
//! Departs from print: the paper's text was not at hand. The product and what stays fixed in it are
//! ours. The paper's congestion control detects the groups by ECN marks; here the host names them
//! ([`Path::bottleneck`]).

use weftway_path::{Bytes, Context, Decision, Path, PathId};

use crate::Scheduler;
use crate::choose;
use crate::forecast;
use crate::min_rtt;
use crate::registry::{Arity, Entry, Input, Needs, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "sb-fps",
    aliases: &[],
    version: 1,
    summary: "forward prediction in which paths that share a bottleneck lose together",
    reference: "Wei et al.: shared bottleneck-based congestion control and packet scheduling, IEEE/ACM ToN 2020",
    provenance: Provenance::Reconstructed,
    goal: "reordering",
    application: "bulk transfer",
    inputs: &[
        Input::Rtt,
        Input::Cwnd,
        Input::InFlight,
        Input::Mss,
        Input::Loss,
        Input::Queue,
        Input::Window,
        Input::Bottleneck,
    ],
    needs: Needs { flow: true, ahead: true, ..Needs::NONE },
    arity: Arity::Any,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[],
    build: |_| Ok(Box::new(SbFps)),
};

#[derive(Clone)]
struct SbFps;

/// Logarithm of the chance that a path loses nothing, per nanosecond, by number of the path.
type Survivals = [f64; PathId::MAX_PATHS];

fn survivals(cx: &Context<'_>) -> Survivals {
    let mut all = [0.0; PathId::MAX_PATHS];
    for path in choose::standing(cx).filter(|path| path.bottleneck.is_some() && !path.srtt.is_zero()) {
        let window = path.cwnd.packets(path.mss) as f64;
        all[path.id.index()] = forecast::survival(path) * window / path.srtt.as_nanos() as f64;
    }
    all
}

/// Logarithm of the chance that the rest of the group loses nothing in a round of `fast`.
fn others(cx: &Context<'_>, fast: &Path, survivals: &Survivals) -> f64 {
    if fast.bottleneck.is_none() {
        return 0.0;
    }
    let group = cx.paths.iter().filter(|path| path.bottleneck == fast.bottleneck && path.id != fast.id);
    group.map(|path| survivals[path.id.index()]).sum::<f64>() * fast.srtt.as_nanos() as f64
}

/// How far ahead `slow` sends.
fn distance(cx: &Context<'_>, slow: &Path) -> Bytes {
    let survivals = survivals(cx);
    let delivered = forecast::faster(cx, slow).map(|fast| {
        let others = others(cx, fast, &survivals);
        forecast::by_expected_windows(fast, forecast::lead(fast, slow), others)
    });
    delivered.fold(Bytes::ZERO, |sum, bytes| sum + bytes)
}

impl Scheduler for SbFps {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        forecast::place(cx, |slow| distance(cx, slow))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let slow = min_rtt::pick(cx)?;
        let shared = cx.paths.iter().filter(|path| path.bottleneck.is_some()).count();
        Some(format!("{:?} sends {} ahead; {shared} paths are in groups", slow.id, distance(cx, slow)))
    }
}
