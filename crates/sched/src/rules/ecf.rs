//! Earliest completion first: do not use the slow path when the fast one would have finished.
//!
//! Rule: `x` = min-RTT's choice, `f` = the path with the smallest srtt, full or not. If `x = f`,
//! send. Else, with `s = x`, `δ = max(σ_f, σ_s)`, `k` unassigned bytes, β = ¼ and windows in bytes,
//!   wait if  `rtt_f·(X_f + cwnd_f) < (1 + waiting·β)·cwnd_f·(rtt_s + δ)`
//!       and  `rtt_s·X_s ≥ cwnd_s·(2·rtt_f + δ)`,  with `X_i = max(k, cwnd_i)`, in print `X_i = k`.
//! Reference: Lim, Nahum, Towsley, Gibbens: ECF, CoNEXT 2017; multipath-tcp/mptcp net/mptcp/mptcp_ecf.c.
//! State: `waiting`, 1 from a wait until the first test fails. It only moves the way that repeats
//! the answer: a question asked again finds the first test at least as true.
//! Departs from print: products are 128 bits wide; the kernel's wrap at 2³² µs·bytes. A path of
//! the other role (backup for active) is never waited for, nor is one with room: min-RTT passes over
//! an open path that the packet is to avoid, and waiting for that path would not end.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Path, Span};

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Needs, Preset, Provenance, TransportRules, permille};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "ecf",
    aliases: &["earliest-completion-first"],
    summary: "min-RTT, unless waiting for the fastest path completes the transfer sooner",
    reference: "Lim, Nahum, Towsley, Gibbens: ECF, CoNEXT 2017; multipath-tcp/mptcp net/mptcp/mptcp_ecf.c",
    provenance: Provenance::Code,
    goal: "use of the fast path",
    application: "streaming video",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Mss, Input::Queue],
    needs: Needs { flow: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    transport: TransportRules::RP,
    presets: &[
        Preset {
            name: "ecf-paper",
            switches: "form=paper:delta=rttvar",
            doc: "as in the paper: unassigned data alone, and RFC 6298's deviation",
        },
        Preset {
            name: "ecf-linux",
            switches: "form=kernel:delta=linux",
            doc: "as the MPTCP v0.95 kernel module runs on Linux",
        },
    ],
    params: &[
        Param {
            name: "form",
            default: "kernel",
            values: "kernel | paper",
            doc: "the kernel counts at least one full window on either path where the paper counts the unassigned data",
        },
        Param {
            name: "delta",
            default: "linux",
            values: "linux | rttvar",
            doc: "the margin δ: Linux's halved rttvar with its floor of 200 ms (so δ is at least 100 ms), or RFC 6298's RTTVAR",
        },
        Param { name: "beta", default: "0.25", values: "number, 0 to 10", doc: "hysteresis once waiting" },
        Param {
            name: "fast_excludes_pf",
            default: "false",
            values: "true | false",
            doc: "whether a potentially failed path, or one in Loss, cannot be the fast path (the kernel lets it)",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Ecf {
        whole_window: params.choice("form", &[("kernel", true), ("paper", false)])?,
        linux_delta: params.choice("delta", &[("linux", true), ("rttvar", false)])?,
        beta_permille: permille(params, "beta", 0.0..=10.0)?,
        fast_excludes_pf: params.get("fast_excludes_pf")?,
        waiting: false,
    }))
}

#[derive(Clone)]
struct Ecf {
    whole_window: bool,
    linux_delta: bool,
    beta_permille: u64,
    fast_excludes_pf: bool,
    waiting: bool,
}

/// The two tests.
struct Tests {
    fast_is_first: bool,
    slow_is_late: bool,
}

impl Ecf {
    fn deviation(&self, path: &Path) -> Span {
        // Linux keeps four times RTTVAR, never below 200 ms, and the module halves it.
        if self.linux_delta { (path.rttvar * 4).max(Span::from_millis(200)) / 2 } else { path.rttvar }
    }

    fn tests(&self, fast: &Path, slow: &Path, unsent: Bytes) -> Tests {
        let delta = self.deviation(fast).max(self.deviation(slow));
        let load = |path: &Path| if self.whole_window { unsent.max(path.cwnd) } else { unsent };
        let margin = 1000 + if self.waiting { self.beta_permille } else { 0 };
        let product = |span: Span, bytes: Bytes| span.as_nanos() as u128 * bytes.get() as u128;
        Tests {
            fast_is_first: product(fast.srtt, load(fast) + fast.cwnd) * 1000
                < product(slow.srtt + delta, fast.cwnd) * margin as u128,
            slow_is_late: product(slow.srtt, load(slow)) >= product(fast.srtt * 2 + delta, slow.cwnd),
        }
    }
}

impl Scheduler for Ecf {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let Some(slow) = choose::min_rtt(cx) else { return choose::wait(cx) };
        let fast = choose::fastest_like(cx, slow, self.fast_excludes_pf);
        // A path with room is not waited for: min-RTT passed it over because the packet avoids it.
        if fast.is_open() {
            return choose::send_or_wait(cx, Some(slow));
        }
        let tests = self.tests(fast, slow, cx.flow.map_or(Bytes::ZERO, |flow| flow.unsent));
        if tests.fast_is_first && tests.slow_is_late {
            self.waiting = true;
            return choose::wait(cx);
        }
        // The second test alone leaves `waiting` as it is.
        self.waiting &= tests.fast_is_first;
        choose::send_or_wait(cx, Some(slow))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let (slow, flow) = (choose::min_rtt(cx)?, cx.flow?);
        let fast = choose::fastest_like(cx, slow, self.fast_excludes_pf);
        let Tests { fast_is_first, slow_is_late } = self.tests(fast, slow, flow.unsent);
        let (f, s, k, waiting) = (fast.id, slow.id, flow.unsent, self.waiting);
        Some(format!("f {f:?}, s {s:?}, k {k}: f first {fast_is_first}, s late {slow_is_late}, waiting {waiting}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::{PathId, Recovery, Role};
    use weftway_vectors::testing::{Bench, packets, path};

    #[test]
    fn a_backup_is_never_waited_for() {
        let mut ecf = ENTRY.make(&[("delta".into(), "rttvar".into())]).unwrap();
        let mut bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 100, 20, 0)]);
        bench.flow.unsent = packets(15);
        // 20·(15 + 10)/10 = 50 < 100 and 100 ≥ 40.
        assert_eq!(ecf.select(&bench.context()), Decision::Wait);
        bench.paths[0].role = Role::Backup;
        assert_eq!(ecf.select(&bench.context()), Decision::Send(PathId::new(1)));
    }

    #[test]
    fn the_deviation_of_linux_is_half_of_four_and_at_least_a_tenth_of_a_second() {
        let deviation = |linux_delta: bool, rttvar_ms: u64| {
            let mut path = path(0, 20, 10, 0);
            path.rttvar = Span::from_millis(rttvar_ms);
            let ecf =
                Ecf { whole_window: false, linux_delta, beta_permille: 0, fast_excludes_pf: false, waiting: false };
            ecf.deviation(&path)
        };
        // 4·30 ms are less than 200; 4·70 are 280.
        let found = [(true, 30), (true, 70), (false, 30)].map(|(linux, ms)| deviation(linux, ms));
        assert_eq!(found, [100, 140, 30].map(Span::from_millis));
    }

    #[test]
    fn the_fastest_path_may_leave_out_those_that_have_failed() {
        let mut bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 100, 20, 0), path(2, 50, 20, 20)]);
        let id = |bench: &Bench, excludes| choose::fastest_like(&bench.context(), &bench.paths[1], excludes).id.get();
        assert_eq!([id(&bench, false), id(&bench, true)], [0, 0]);
        // It may have failed, or repairs a loss by timeout: 2 is the fastest of the sound ones.
        bench.paths[0].health = weftway_path::Health::Suspect;
        assert_eq!([id(&bench, false), id(&bench, true)], [0, 2]);
        (bench.paths[0].health, bench.paths[0].recovery) = (weftway_path::Health::Good, Recovery::Loss);
        assert_eq!([id(&bench, false), id(&bench, true)], [0, 2]);
    }
}
