//! Forward prediction over shared bottlenecks: paths that queue in one place lose together.
//!
//! Rule: that of `dpsaf` without feedback, but in the forecast a path i of group g halves its
//! window whenever any path of the group loses anything in the round:
//!   `q_i = 1 − Π (1 − p_k)^(w_k·srtt_i/srtt_k)` over the paths k of g;
//! `w_i` moves from round to round, the other windows of the group stay as they are. A path of no
//! group is alone in its own.
//! Reference: Wei et al.: shared bottleneck-based congestion control and packet scheduling, IEEE/ACM ToN 2020, from its
//! description elsewhere.
//! State: none.
//! Departs from print: the paper's text was not at hand. By its abstract data are distributed by the window changes of
//! each subflow, with shared bottlenecks in view. The product and what stays fixed in it are ours. The paper's
//! congestion control detects the groups by ECN marks; here the host names them ([`Path::bottleneck`]).

use weftway_path::{Bytes, Context, Decision, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::forecast;

pub(crate) static ENTRY: Entry = Entry {
    name: "sb-fps",
    aliases: &["sbfps"],
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
    waits: true,
    build: |_| Ok(Box::new(SbFps)),
    ..Entry::NEW
};

#[derive(Clone)]
struct SbFps;

/// Logarithm of the chance that `path` loses nothing in a nanosecond; `own` is its survival.
fn per_nanosecond(path: &Path, own: f64) -> f64 {
    own * path.cwnd.get() as f64 / (path.mss.get() as f64 * path.srtt.as_nanos().max(1) as f64)
}

/// Sum over all paths of a group, by its number.
type Groups = [f64; 1 << u8::BITS];

fn groups(cx: &Context<'_>) -> Groups {
    let mut groups = [0.0; 1 << u8::BITS];
    for path in choose::standing(cx) {
        if let Some(group) = path.bottleneck {
            groups[usize::from(group)] += per_nanosecond(path, forecast::survival(path));
        }
    }
    groups
}

/// Returns what `fast` delivers until a packet on `slow` arrives.
fn delivered(fast: &Path, slow: &Path, groups: &Groups) -> Bytes {
    let own = forecast::survival(fast);
    let rest = fast.bottleneck.map_or(0.0, |group| groups[usize::from(group)] - per_nanosecond(fast, own));
    let others = rest * fast.srtt.as_nanos() as f64;
    forecast::by_expected_windows(fast, forecast::lead(fast, slow), own, others)
}

/// Returns how far ahead `slow` sends.
fn distance(cx: &Context<'_>, slow: &Path) -> Bytes {
    let groups = groups(cx);
    let faster = forecast::faster(cx, slow);
    faster.fold(Bytes::ZERO, |sum, fast| sum + delivered(fast, slow, &groups))
}

impl Scheduler for SbFps {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        forecast::place(cx, |slow| distance(cx, slow))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let slow = choose::min_rtt(cx)?;
        let shared = cx.paths.iter().filter(|path| path.bottleneck.is_some()).count();
        Some(format!("{:?} sends {} ahead; {shared} paths are in groups", slow.id, distance(cx, slow)))
    }
}
