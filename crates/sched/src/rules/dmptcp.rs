//! Short flows on one path, long ones on several: the set of paths that completes the data sooner.
//!
//! Rule: in the model a path sends a window each srtt; the window doubles until `ssthresh`, then
//! stays. For the `k` bytes unsent, a path alone takes the whole rounds that carry `k`. A set takes
//! the least `T`, no less than any of its srtt, in which the full rounds of all its paths carry `k`:
//! the split by which they finish together. The set grows from the smallest srtt, path by path in
//! the order of srtt, while that lowers `T`; then the best path alone takes its place if no slower.
//! Within the set min-RTT, and if all of it is full, wait. Data sent before as in min-RTT.
//! Reference: Dong et al.: Reducing Transport Latency for Short Flows with Multipath TCP, JNCA 2018.
//! State: the set, for which paths it was chosen, and until when: once per smallest srtt, or when
//! paths come, go or fail.
//! Departs from print: the paper's text was not at hand. By its abstract a model of TCP gives the latency of the path
//! that is looked at and what the other paths send meanwhile, and the set is decided periodically, for short completion
//! of short flows. The rounds, the order in which paths join, the period and the best path alone are a concrete rule
//! for that. What is in flight counts for nothing, and `k` ends at the send buffer.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Instant, Path, PathSet, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "dmptcp",
    summary: "min-RTT on as many paths as complete the unsent data soonest",
    reference: "Dong et al.: Reducing Transport Latency for Short Flows with Multipath TCP, JNCA 2018",
    provenance: Provenance::Reconstructed,
    goal: "completion time",
    application: "short flows",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Queue, Input::Size],
    needs: Needs { flow: true, ..Needs::NONE },
    waits: true,
    params: &[Param {
        name: "max_window",
        default: "0",
        values: "packets, 0 to 1000000",
        doc: "where the window of the model stops growing at the latest; 0: only at ssthresh, so never in the first slow start",
    }],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Dmptcp { max_window: params.within("max_window", 0..=1_000_000)?, plan: Plan::default() }))
}

#[derive(Clone)]
struct Dmptcp {
    /// In packets; 0: no bound.
    max_window: u64,
    plan: Plan,
}

/// Which paths carry new data.
#[derive(Clone, Default)]
struct Plan {
    set: PathSet,
    /// Time at which they should be done.
    time: Span,
    /// The paths that there were to choose from.
    of: PathSet,
    /// Time to look again.
    due: Instant,
}

/// Path in the model.
struct Rounds {
    /// Nanoseconds, at least one.
    srtt: u64,
    window: u64,
    /// Window at which growth ends.
    cap: u64,
    /// In how many rounds.
    doublings: u32,
}

impl Rounds {
    fn of(path: &Path, max_window: u64) -> Self {
        let window = path.cwnd.max(path.mss).get().max(1);
        let bound = if max_window == 0 { u64::MAX } else { max_window.saturating_mul(path.mss.get()) };
        let cap = path.ssthresh.get().min(bound).max(window);
        Self { srtt: path.srtt.as_nanos().max(1), window, cap, doublings: log2_up(cap.div_ceil(window)) }
    }

    /// Bytes that the growing windows of the first `rounds` carry: `window·(2ʳ − 1)`.
    fn growing(&self, rounds: u32) -> u128 {
        ((self.window as u128) << rounds) - self.window as u128
    }

    /// Bytes that the rounds which end within `time` carry.
    fn carried(&self, time: u64) -> u128 {
        let rounds = time / self.srtt;
        let growing = rounds.min(self.doublings.into());
        self.growing(growing as u32).saturating_add((rounds - growing) as u128 * self.cap as u128)
    }

    /// Returns the time to carry `bytes`.
    fn time(&self, bytes: u64) -> u64 {
        let grown = self.growing(self.doublings);
        let rounds = if bytes as u128 <= grown {
            log2_up(bytes.div_ceil(self.window).saturating_add(1)).into()
        } else {
            (bytes - grown as u64).div_ceil(self.cap).saturating_add(self.doublings.into())
        };
        rounds.saturating_mul(self.srtt)
    }
}

/// The least `n` with `2ⁿ ≥ of`.
fn log2_up(of: u64) -> u32 {
    u64::BITS - of.saturating_sub(1).leading_zeros()
}

impl Dmptcp {
    fn rounds(&self, path: &Path) -> Rounds {
        Rounds::of(path, self.max_window)
    }

    /// Returns true if the paths of `set` together carry `bytes` within `time`.
    fn completes(&self, cx: &Context<'_>, set: PathSet, bytes: u64, time: u64) -> bool {
        let members = choose::standing(cx).filter(|path| set.contains(path.id));
        let carried = members.map(|path| self.rounds(path).carried(time));
        carried.fold(0, u128::saturating_add) >= bytes as u128
    }

    /// The least time from `low` on within which `set` carries `bytes`, as it does within `high`.
    fn least_time(&self, cx: &Context<'_>, set: PathSet, bytes: u64, (mut low, mut high): (u64, u64)) -> u64 {
        while low < high {
            let middle = low + (high - low) / 2;
            if self.completes(cx, set, bytes, middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        high
    }

    /// The set for `unsent` bytes; none without a path.
    fn choose(&self, cx: &Context<'_>, unsent: Bytes) -> Option<Plan> {
        let bytes = unsent.get();
        let alone = |path: &Path| self.rounds(path).time(bytes);
        let fastest = choose::least(choose::standing(cx), |path| path.srtt)?;
        let (mut set, mut time) = (PathSet::of(fastest.id), alone(fastest));
        let outside = |set: PathSet| choose::standing(cx).filter(move |path| !set.contains(path.id));
        while let Some(next) = choose::least(outside(set), |path| path.srtt) {
            let (larger, srtt) = (set.with(next.id), self.rounds(next).srtt);
            if time <= srtt || !self.completes(cx, larger, bytes, time - 1) {
                break;
            }
            (set, time) = (larger, self.least_time(cx, larger, bytes, (srtt, time - 1)));
        }
        let best = choose::least(choose::standing(cx), |path| (alone(path), path.srtt))?;
        if alone(best) <= time {
            (set, time) = (PathSet::of(best.id), alone(best));
        }
        let of = choose::standing(cx).fold(PathSet::EMPTY, |of, path| of.with(path.id));
        Some(Plan { set, time: Span::from_nanos(time), of, due: cx.now + fastest.srtt })
    }

    /// A second question at the same time finds the same plan, or makes it again from the same numbers.
    fn renew(&mut self, cx: &Context<'_>, unsent: Bytes) {
        let of = choose::standing(cx).fold(PathSet::EMPTY, |of, path| of.with(path.id));
        if cx.now >= self.plan.due || of != self.plan.of {
            self.plan = self.choose(cx, unsent).unwrap_or_default();
        }
    }
}

impl Scheduler for Dmptcp {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let (Some(packet), Some(flow)) = (cx.packet, cx.flow) else { return choose::wait(cx) };
        if packet.reinjection {
            return choose::send_or_wait(cx, choose::min_rtt(cx));
        }
        self.renew(cx, flow.unsent);
        let members = choose::candidates(cx).filter(|path| self.plan.set.contains(path.id));
        choose::send_or_wait(cx, choose::least(members, |path| path.srtt))
    }

    fn explain(&self, _: &Context<'_>) -> Option<String> {
        let Plan { set, time, due, .. } = &self.plan;
        Some(format!("{set:?} until {due}: done in {time}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{packets, path};

    /// Ten packets, doubled to 40 and then flat: 10, 20, 40, 40 …
    #[test]
    fn rounds_and_what_they_carry_agree() {
        let mut path = path(0, 20, 10, 0);
        path.ssthresh = packets(40);
        let rounds = Rounds::of(&path, 0);
        for (count, bytes) in [(0, 0), (1, 10), (2, 30), (3, 70), (4, 110), (27, 1030)] {
            let time = count * 20_000_000;
            assert_eq!(rounds.carried(time), packets(bytes).get() as u128);
            assert_eq!(rounds.time(packets(bytes).get()), time);
            assert_eq!(rounds.time(packets(bytes).get() + 1), time + 20_000_000);
        }
    }

    #[test]
    fn nothing_overflows() {
        for (srtt, cwnd, ssthresh) in [(0, 0, u64::MAX), (u64::MAX, u64::MAX, 0), (1, 1, u64::MAX)] {
            let mut path = path(0, 0, 0, 0);
            path.srtt = Span::from_nanos(srtt);
            (path.cwnd, path.ssthresh) = (Bytes::new(cwnd), Bytes::new(ssthresh));
            let rounds = Rounds::of(&path, 0);
            assert!(rounds.carried(u64::MAX) >= rounds.carried(0));
            assert!(rounds.time(u64::MAX) >= rounds.time(0));
        }
    }
}
