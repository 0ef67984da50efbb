//! Keep the packet for the full fast path, or send it on the slow one now?
//!
//! Asked as `blocked` says: F is full, S is open. Actions: 0 waits for F, 1 sends on S.
//! Seen, each within [0, 4] (`state`):
//!   `paper`: cwnd, srtt and bytes in flight of F and S over W0, D0 and W0 (6 numbers);
//!   `credit`: these and the room of the peer's window over W0 (7, FALCON's);
//!   of both, with `scale=least`, logarithms of ratios to the smaller window and the shorter time;
//!   `controller`: per path without any unit, window, data in flight and credit over the path's
//!   own bandwidth-delay product, srtt over its least value, delivery rate over its peak, pacing
//!   rate over its peak, loss and slow start; then srtt of S over F's, and what is unsent over F's
//!   product (18). How a controller behaves shows in these, and links ten times as fast look the same.
//! Earned when a decision's record closes (`reward`):
//!   `delivery`: throughput less round-trip time, as Q-learning earns;
//!   `bytes`: what the pair delivered since the decision, over that time and the pair's peak rates.
//! Reference: MPQUIC comparison of min-RTT, ECF, BLEST, Q-learning, DQN and UCB, section 4.2 and
//! Table 1; FALCON (Wu et al., 2022).
//! Departs from print: the papers say neither scales nor what a reward's window is.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Path, Span};

use crate::learned::pair::blocked::{self, Blocked, Next};
use crate::learned::pair::meters::Meter;
use crate::learned::pair::policy::{self, Policy, Question, Rules};
use crate::learned::pair::records::{Action, Outcome};
use crate::learned::pair::reward::{self, Delivery};
use crate::learned::pair::scale::{SCALE, Scaling};
use crate::learned::task::{Actions, Input, Ledger, Shape, Task, TaskEntry};
use crate::shared::norm;
use crate::{Needs, Scheduler};

pub(crate) static TASK: TaskEntry = TaskEntry {
    name: "wait-or-send",
    summary: "wait for the full fast path (0), or send on the slow one (1)",
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    params: &[
        Param {
            name: "state",
            default: "paper",
            values: "paper | credit | controller",
            doc: "the observation: six numbers of the pair; with the room of the peer's window; or eighteen without units that show how the controller behaves",
        },
        Param {
            name: "order",
            default: "role",
            values: "role | index",
            doc: "the fast path first, or the one of smaller number; the paper says path 1 and 2 of the state, and fastest and second of the actions",
        },
        Param {
            name: "reward",
            default: "delivery",
            values: "delivery | bytes",
            doc: "throughput less round-trip time, or what the pair delivered between the decision and its record's close",
        },
        Param {
            name: "w0_kb",
            default: "1000",
            values: "kB, 1 to 1000000",
            doc: "the window that counts as 1; 100 suits paths below 20 Mbit/s",
        },
        SCALE,
        reward::A,
        reward::B,
        reward::D0,
        policy::WAIT_STICKY,
        policy::PACED,
    ],
    build,
};

fn build(params: &Params) -> Result<Box<dyn Task>, SpecError> {
    let states = [("paper", State::Paper), ("credit", State::Credit), ("controller", State::Controller)];
    let w0 = 1e3 * f64::from(params.within::<u32>("w0_kb", 1..=1_000_000)?);
    let d0 = Span::from_millis(params.within("d0_ms", 1..=10_000)?).as_secs_f64();
    let policy = OutsidePolicy {
        state: params.choice("state", &states)?,
        by_index: params.choice("order", &[("role", false), ("index", true)])?,
        pays_bytes: params.choice("reward", &[("delivery", false), ("bytes", true)])?,
        scaling: Scaling::new(params, w0, d0)?,
        delivery: Delivery::new(params)?,
        ledger: Ledger::default(),
        answer: None,
    };
    let shape = Shape { inputs: policy.inputs(), actions: Actions::Discrete(2), interval: None };
    Ok(Box::new(WaitOrSend { shape, blocked: Blocked::new(Rules::new(params)?, policy) }))
}

#[derive(Clone)]
struct WaitOrSend {
    shape: Shape,
    blocked: Blocked<OutsidePolicy>,
}

/// The policy whose answers come from outside: from an agent in training, from a network at work.
#[derive(Clone)]
struct OutsidePolicy {
    state: State,
    by_index: bool,
    pays_bytes: bool,
    scaling: Scaling,
    delivery: Delivery,
    ledger: Ledger,
    answer: Option<Action>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Paper,
    Credit,
    Controller,
}

const PAPER: [&str; 3] = ["cwnd", "srtt", "in_flight"];
const CONTROLLER: [&str; 8] =
    ["window", "in_flight", "credit", "queueing", "delivery_rate", "pacing_rate", "loss", "slow_start"];

/// A loss of one packet in ten counts as 1.
const LOSS_SCALE: f64 = 0.1;

impl OutsidePolicy {
    fn inputs(&self) -> Vec<Input> {
        let roles = if self.by_index { ["first", "second"] } else { ["fast", "slow"] };
        let of_both = |names: &[&str]| {
            names.iter().flat_map(|name| roles.map(|role| format!("{name}.{role}"))).collect::<Vec<_>>()
        };
        let scaled = |names: Vec<String>| names.into_iter().map(|name| self.scaling.input(name)).collect();
        match self.state {
            State::Paper => scaled(of_both(&PAPER)),
            State::Credit => scaled([of_both(&PAPER), vec!["credit".to_owned()]].concat()),
            State::Controller => {
                let others = ["srtt.ratio", "backlog"].map(String::from).to_vec();
                [of_both(&CONTROLLER), others].concat().into_iter().map(Input::normalised).collect()
            }
        }
    }

    /// Observation of the policy. Both paths' values of a kind stand side by side.
    #[inline(always)]
    fn see(&self, question: &Question<'_>, observation: &mut [f32]) {
        if self.state == State::Controller {
            return self.see_behaviour(question, observation);
        }
        let [a, b] = self.pair(question);
        let units = self.scaling.units([a, b]);
        let bytes = |bytes: Bytes| units.bytes(bytes);
        let time = |path: &Path| units.time(path.srtt);
        let seen = [bytes(a.cwnd), bytes(b.cwnd), time(a), time(b), bytes(a.unacked()), bytes(b.unacked())];
        let (of_both, rest) = observation.split_at_mut(seen.len());
        of_both.copy_from_slice(&seen);
        if let [last] = rest {
            *last = bytes(credit(question));
        }
    }

    #[inline(never)]
    fn see_behaviour(&self, question: &Question<'_>, observation: &mut [f32]) {
        let Question { fast, slow, cx, meters } = *question;
        let mut values = observation.iter_mut();
        let mut put = |value: f64| {
            if let Some(place) = values.next() {
                *place = value as f32;
            }
        };
        let [a, b] = self.pair(question).map(|path| behaviour(meters.of(path.id), path, credit(question)));
        a.into_iter().zip(b).for_each(|(a, b)| [a, b].into_iter().for_each(&mut put));
        put(norm::ratio(slow.srtt.as_secs_f64(), fast.srtt.as_secs_f64()));
        let unsent = cx.flow.map_or(Bytes::ZERO, |flow| flow.unsent);
        put(norm::ratio(unsent.get() as f64, product(meters.of(fast.id), fast)));
    }

    /// Both paths in the order in which they are seen.
    #[inline]
    fn pair<'a>(&self, question: &Question<'a>) -> [&'a Path; 2] {
        let Question { fast, slow, .. } = *question;
        if self.by_index && slow.id < fast.id { [slow, fast] } else { [fast, slow] }
    }
}

/// The room of the peer's window.
#[inline]
fn credit(question: &Question<'_>) -> Bytes {
    question.cx.flow.map_or(Bytes::ZERO, |flow| flow.credit())
}

/// The largest rate that `path` has shown, over its least round-trip time, in bytes.
fn product(meter: &Meter, path: &Path) -> f64 {
    meter.peak_rate() * path.min_rtt.as_secs_f64()
}

/// Returns the behaviour of the controller of `path`, in numbers without units.
fn behaviour(meter: &Meter, path: &Path, credit: Bytes) -> [f64; 8] {
    let (least, product) = (path.min_rtt.as_secs_f64(), product(meter, path));
    let over = |bytes: Bytes| norm::ratio(bytes.get() as f64, product);
    let rate = |bits: u64| norm::ratio(bits as f64 / 8.0, meter.peak_rate());
    [
        over(path.cwnd),
        over(path.unacked()),
        over(credit),
        (norm::ratio(path.srtt.as_secs_f64(), least) - 1.0).max(0.0),
        rate(path.delivery_rate.as_bps()),
        rate(path.pacing_rate.as_bps()),
        norm::ratio(meter.loss, LOSS_SCALE),
        f64::from(u8::from(path.in_first_slow_start())),
    ]
}

/// A decision, and what the pair had delivered by then.
#[derive(Clone, Copy)]
struct AtDecision {
    decision: u64,
    delivered: Bytes,
}

#[inline]
fn delivered(question: &Question<'_>) -> Bytes {
    question.fast.acked.bytes + question.slow.acked.bytes
}

impl Policy for OutsidePolicy {
    type Observation = AtDecision;

    #[inline]
    fn decide(&mut self, question: &Question<'_>) -> (Action, AtDecision) {
        // Nobody answered: waiting is what every path allows.
        let action = self.answer.take().unwrap_or(Action::Fast);
        (action, AtDecision { decision: self.ledger.decide(), delivered: delivered(question) })
    }

    #[inline(always)]
    fn learn(&mut self, at_close: &Question<'_>, outcome: &Outcome<AtDecision>) {
        if !self.ledger.is_open() {
            return;
        }
        let AtDecision { decision, delivered: before } = outcome.choice.observation;
        let reward = if self.pays_bytes {
            let seconds = at_close.cx.now.since(outcome.choice.at).as_secs_f64();
            let peak: f64 =
                [at_close.fast, at_close.slow].iter().map(|path| at_close.meters.of(path.id).peak_rate()).sum();
            norm::ratio(delivered(at_close).saturating_sub(before).get() as f64, peak * seconds)
        } else {
            self.delivery.of(at_close, outcome.fate)
        };
        self.ledger.earn(decision, reward);
    }

    fn explain(&self, question: &Question<'_>) -> String {
        let mut observation = vec![0.0; self.inputs().len()];
        self.see(question, &mut observation);
        format!("observation {observation:.3?}")
    }
}

impl Scheduler for WaitOrSend {
    fn needs(&self) -> Needs {
        TASK.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.blocked.select(cx)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.blocked.observe(cx, event);
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        self.blocked.explain(cx)
    }
}

impl Task for WaitOrSend {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn question(&mut self, cx: &Context<'_>, observation: &mut [f32]) -> bool {
        if self.blocked.policy.answer.is_some() {
            return false;
        }
        match self.blocked.asks(cx) {
            Some((policy, question)) => {
                policy.see(&question, observation);
                true
            }
            None => false,
        }
    }

    fn decide(&mut self, cx: &Context<'_>, events: &[Event], observation: &mut [f32]) -> Option<Decision> {
        self.blocked.observe_all(cx, events);
        let Some(packet) = Blocked::<OutsidePolicy>::asked_about(cx) else { return Some(self.blocked.select(cx)) };
        let is_answered = self.blocked.policy.answer.is_some();
        let repeated = if is_answered { self.blocked.repeated(cx, packet) } else { None };
        let next = match repeated {
            Some(pair) => Next::Question(pair),
            None => self.blocked.next(cx, packet),
        };
        match next {
            Next::Path(by) => Some(blocked::decision(by)),
            Next::Question(pair) if is_answered => Some(blocked::decision(self.blocked.ask(cx, pair, packet.offset))),
            Next::Question(pair) => {
                let (policy, question) = self.blocked.note_question(cx, packet, pair);
                policy.see(&question, observation);
                None
            }
        }
    }

    fn answer(&mut self, _: &Context<'_>, action: &[f32]) {
        let is_slow = action.first().is_some_and(|action| *action >= 0.5);
        self.blocked.policy.answer = Some(if is_slow { Action::Slow } else { Action::Fast });
    }

    fn finish(&mut self, _: &Context<'_>, observation: &mut [f32]) {
        observation.fill(0.0);
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.blocked.policy.ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::build_task;
    use weftway_path::{Instant, PathId};
    use weftway_vectors::testing::{Bench, packets, path};

    /// F is path 1, 20 ms and full; S is path 0, 50 ms.
    fn bench() -> Bench {
        Bench::new(vec![path(0, 50, 20, 5), path(1, 20, 10, 10)])
    }

    fn observation(spec: &str) -> Vec<f32> {
        let (_, mut task) = build_task(spec).unwrap();
        let mut observation = vec![-1.0; task.shape().inputs.len()];
        assert!(task.question(&bench().context(), &mut observation));
        observation
    }

    #[test]
    fn the_six_numbers_by_hand() {
        // Packets of 1400 B: windows 14 and 28 kB, 20 and 50 ms of 250, 14 and 7 kB in flight; W0 is 100 kB.
        let expected = [0.14, 0.28, 0.08, 0.2, 0.14, 0.07];
        let by_role = observation("wait-or-send:w0_kb=100");
        assert!(by_role.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{by_role:?}");
        let by_index = observation("wait-or-send:w0_kb=100:order=index");
        assert_eq!(by_index, [0.28, 0.14, 0.2, 0.08, 0.07, 0.14]);
        assert_eq!(observation("wait-or-send:state=credit").len(), 7);
        assert_eq!(observation("wait-or-send:state=controller").len(), 18);
    }

    #[test]
    fn an_answer_is_carried_out_and_earns_once() {
        let (_, mut task) = build_task("wait-or-send:reward=bytes").unwrap();
        task.ledger().open();
        let mut bench = bench();
        let mut observation = [0.0; 6];
        assert!(task.question(&bench.context(), &mut observation));
        task.answer(&bench.context(), &[1.0]);
        assert!(!task.question(&bench.context(), &mut observation), "it is answered");
        let answer = task.select(&bench.context());
        assert_eq!(answer, Decision::Send(PathId::new(0)));
        let sent = bench.carry(answer).unwrap();
        task.observe(&bench.context(), &sent);
        bench.now = Instant::from_millis(40);
        let Event::Sent(receipt, _) = sent else { unreachable!() };
        bench.paths[0].acked.bytes = packets(3);
        task.observe(&bench.context(), &Event::Acked(receipt));
        // 4200 B in 40 ms over two peaks of 125 kB/s.
        let earned = task.ledger().earned();
        assert_eq!((earned.len(), earned[0].decision), (1, 0));
        assert!((earned[0].reward - 4200.0 / 0.04 / 250e3).abs() < 1e-5, "{earned:?}");
    }

    #[test]
    fn what_is_decided_at_once_is_what_question_and_select_say() {
        for spec in ["wait-or-send", "wait-or-send:wait_sticky=false", "wait-or-send:paced=free:state=credit"] {
            let [mut at_once, mut apart] = [0, 1].map(|_| build_task(spec).unwrap().1);
            let (mut bench, mut state, mut asked) = (bench(), 3_u64, 0);
            let mut draw = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            for step in 1..2_000 {
                bench.now = Instant::from_millis(7 * step);
                for path in &mut bench.paths {
                    path.bytes_in_flight = packets(draw(14));
                    path.srtt = Span::from_millis(10 + draw(50));
                }
                bench.refresh();
                let [mut seen, mut told] = [[-1.0; 7]; 2];
                let asks = apart.question(&bench.context(), &mut told);
                let mut decided = at_once.decide(&bench.context(), &[], &mut seen);
                assert_eq!((decided.is_none(), seen), (asks, told), "{spec}, step {step}");
                if asks {
                    asked += 1;
                    let answer = [draw(2) as f32];
                    [&mut at_once, &mut apart].into_iter().for_each(|task| task.answer(&bench.context(), &answer));
                    decided = at_once.decide(&bench.context(), &[], &mut seen);
                }
                assert_eq!(Some(apart.select(&bench.context())), decided, "{spec}, step {step}");
                if let Some(sent) = bench.carry(decided.unwrap()) {
                    [&mut at_once, &mut apart].into_iter().for_each(|task| task.observe(&bench.context(), &sent));
                }
            }
            assert!(asked > 100, "{spec}: {asked}");
        }
    }

    #[test]
    fn ratios_to_the_least_by_hand() {
        // F's window of 10 packets and its 20 ms are the least; S has 20 packets, 50 ms and 5 in flight. 40 of credit.
        let mut bench = bench();
        bench.flow.edge = bench.flow.next + packets(40);
        let (_, mut task) = build_task("wait-or-send:state=credit:scale=least").unwrap();
        let mut observation = [-9.0; 7];
        assert!(task.question(&bench.context(), &mut observation));
        let expected = [1.0, 2.0, 1.0, 2.5, 1.0, 0.5, 4.0_f32].map(f32::ln);
        assert!(observation.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{observation:?}");
    }

    #[test]
    fn a_wait_lasts_until_the_fast_path_has_room() {
        let (_, mut task) = build_task("wait-or-send").unwrap();
        let mut bench = bench();
        let mut observation = [0.0; 6];
        assert!(task.question(&bench.context(), &mut observation));
        task.answer(&bench.context(), &[0.0]);
        assert_eq!(task.select(&bench.context()), Decision::Wait);
        assert!(!task.question(&bench.context(), &mut observation));
        bench.paths[1].bytes_in_flight = packets(9);
        bench.refresh();
        assert_eq!(task.select(&bench.context()), Decision::Send(PathId::new(1)));
    }

    #[test]
    fn how_the_controller_behaves_by_hand() {
        let mut bench = Bench::new(vec![path(0, 300, 20, 5), path(1, 125, 10, 10)]);
        let mbps = |permille: u64| weftway_path::BitRate::from_bps(1000 * permille);
        let [slow, fast] = &mut bench.paths[..] else { unreachable!() };
        // Peaks are 1 Mbit/s, 125 kB/s: products of 12.5 and 25 kB with least times of 100 and 200 ms.
        (fast.min_rtt, slow.min_rtt) = (Span::from_millis(100), Span::from_millis(200));
        (fast.delivery_rate, slow.delivery_rate) = (mbps(250), mbps(500));
        (fast.pacing_rate, slow.pacing_rate) = (mbps(1000), mbps(750));
        fast.ssthresh = Bytes::MAX;
        bench.flow.edge = bench.flow.next + packets(10);
        bench.flow.unsent = packets(5);
        let (_, mut task) = build_task("wait-or-send:state=controller").unwrap();
        let mut observation = [-1.0; 18];
        assert!(task.question(&bench.context(), &mut observation));
        let expected = [
            // Windows of 14 and 28 kB, 14 and 7 kB in flight, 14 kB of credit, 125 over 100 ms and 300 over 200.
            1.12, 1.12, 1.12, 0.28, 1.12, 0.56, 0.25, 0.5,
            // Delivered and paced against 1 Mbit/s; no loss; F in slow start.
            0.25, 0.5, 1.0, 0.75, 0.0, 0.0, 1.0, 0.0, // 300 over 125 ms; 7 kB unsent over F's 12.5.
            2.4, 0.56,
        ];
        assert!(observation.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{observation:?}");
        task.finish(&bench.context(), &mut observation);
        assert_eq!(observation, [0.0; 18]);
    }
}
