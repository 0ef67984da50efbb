//! Cost of stepping: episodes that stop at every question, answered at random, against runs of the same configuration
//! with min-RTT inside, and against a run of the same task, answered at random too, whose decisions are played back
//! inside. Random answers bring reordering and more questions, which the second yardstick has too and the first has
//! not.

use std::cell::{Cell, RefCell};

use cpu_time::ProcessTime;
use weftway_link::{LinkConfig, Loss};
use weftway_path::{BitRate, Bytes, Context, Decision, Event, Instant, Role, Span};
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig, Workload};
use weftway_scenario::mix;
use weftway_sched::learned::{Task, build_task};
use weftway_sched::{Needs, Scheduler, TransportRules};
use weftway_sim::Episode;
use weftway_sim::run::Job;

use crate::scenarios::Scenario;

/// A measured environment.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name in the table.
    pub name: &'static str,
    /// The task.
    pub task: &'static str,
    /// The controller.
    pub cc: &'static str,
    /// The simulation.
    pub config: SimConfig,
}

/// Figures of one setting.
#[derive(Clone, Copy, Debug)]
pub struct Stepped {
    /// Steps per CPU-second.
    pub steps_per_second: f64,
    /// Delivered packets per CPU-second.
    pub packets_per_second: f64,
    /// Delivered packets per step.
    pub packets_per_step: f64,
    /// Delivered packets per CPU-second over those of the same runs with min-RTT inside.
    pub ratio_to_raw: f64,
    /// Ratio to the instructions of a played back run of the task, answered at random too: nothing is asked or kept.
    pub ratio_to_replay: f64,
}

/// Scenario A per interval and per decision; the four paths of PDASTSGAT per interval.
pub fn settings() -> Vec<Setting> {
    let a = Setting { name: "A, path", task: "path:slots=2", ..wait_or_send(400_000) };
    let four = Setting { name: "four-paths", task: "path:action=direct", cc: "bbr1", config: four_paths() };
    vec![a, wait_or_send(400_000), four]
}

/// The most instructions that a delivered packet may take in [`wait_or_send`] that is stepped: a little above what was
/// measured last.
pub const MOST_INSTRUCTIONS: f64 = 2_660.0;

/// The packets of the shorter of two runs whose difference is counted.
pub const COUNTED: u64 = 20_000;

/// Keep a packet or send it, per packet, in a transfer of `packets` full packets over scenario A: what is counted.
pub fn wait_or_send(packets: u64) -> Setting {
    Setting { name: "A, wait-or-send", task: "wait-or-send", cc: "cubic", config: Scenario::A.config(packets) }
}

/// 2, 2, 4 and 2 Mbit/s, 10 ms, 3 % loss, buffers of 128 kB: 200 s under load.
fn four_paths() -> SimConfig {
    let mut transport = TransportConfig::mptcp_v09x();
    transport.receive_buffer = weftway_scenario::config::Buffer::Fixed(Bytes::new(128_000));
    transport.send_buffer = weftway_scenario::config::Buffer::Fixed(Bytes::new(128_000));
    let path = |(at, mbps): (usize, u64)| {
        let rate = BitRate::from_mbps(mbps);
        let link = LinkConfig { rate: rate.into(), delay: Span::from_millis(10), ..LinkConfig::default() };
        let data = LinkConfig { loss: Loss::Bernoulli(0.03), ..link.clone() };
        PathConfig { name: format!("p{at}"), role: Role::Active, data, acks: link, via: None, presence: Vec::new() }
    };
    let paths = [2, 2, 4, 2].into_iter().enumerate().map(path).collect();
    let mut config = SimConfig::new(transport, paths, Bytes::ZERO);
    config.workload = Workload::Duration { span: Span::from_secs(400) };
    config.time_limit = Span::from_secs(1000);
    config
}

/// Number of times that each kind of run is timed.
const ROUNDS: usize = 7;

/// Steps one episode to its end with random answers. The three kinds of runs take turns, so that a machine that is
/// slower for a while is so for all; the quickest of each counts.
pub fn step(setting: &Setting) -> Stepped {
    let tape = Tape::of(setting);
    let runs: [&dyn Fn() -> (f64, f64); 3] = [&|| stepped(setting), &|| raw(setting), &|| tape.replay(setting)];
    let mut quickest = [(0.0, 0.0, f64::INFINITY); 3];
    for _ in 0..ROUNDS {
        for (run, quickest) in runs.iter().zip(&mut quickest) {
            let start = ProcessTime::now();
            let (steps, packets) = run();
            let seconds = start.elapsed().as_secs_f64();
            if seconds < quickest.2 {
                *quickest = (steps, packets, seconds);
            }
        }
    }
    let [(steps, packets, seconds), ..] = quickest;
    let [packets_per_second, raw, replayed] = quickest.map(|(_, packets, seconds)| packets / seconds);
    Stepped {
        steps_per_second: steps / seconds,
        packets_per_second,
        packets_per_step: packets / steps,
        ratio_to_raw: packets_per_second / raw,
        ratio_to_replay: packets_per_second / replayed,
    }
}

/// Steps and packets of an episode in `setting` that is answered at random.
pub fn stepped(setting: &Setting) -> (f64, f64) {
    let mut episode = Episode::new(&setting.config, setting.cc, 1, setting.task).expect("the names are registered");
    let shape = episode.shape().clone();
    let choices = shape.actions.outputs() as u64;
    let mut observation = vec![0.0; shape.inputs.len()];
    let mut steps = 0;
    while episode.advance(&mut observation).is_none() {
        episode.answer(&[(mix(7, steps) % choices) as f32]);
        episode.ledger().earned().clear();
        steps += 1;
    }
    (steps as f64, episode.arrived() as f64)
}

/// The packets of a run of the task in `setting` that is answered at random from inside, and of `replays` more runs
/// that only say the same again.
pub fn replayed(setting: &Setting, replays: u64) -> u64 {
    let tape = Tape::of(setting);
    for _ in 0..replays {
        tape.replay(setting);
    }
    tape.arrived
}

fn raw(setting: &Setting) -> (f64, f64) {
    let job = Job { config: &setting.config, cc: setting.cc, seed: 1, timing: None };
    let finished = job.run_named("min-rtt").expect("the names are registered");
    (0.0, finished.sim.connection(0).tally.arrived as f64)
}

/// All that a scheduler said in a run, in order. A scheduler that says it again makes the same run.
struct Tape {
    needs: Needs,
    decisions: Vec<Decision>,
    wakes: Vec<Option<Instant>>,
    arrived: u64,
}

impl Tape {
    /// Task of `setting` that is answered at random.
    fn of(setting: &Setting) -> Self {
        let (_, task) = build_task(setting.task).expect("the task is registered");
        let observation = vec![0.0; task.shape().inputs.len()];
        let mut recorder = Recorder { task, observation, answers: 0, decisions: Vec::new(), wakes: RefCell::default() };
        let needs = recorder.needs();
        let arrived = inside(setting, &mut recorder);
        Self { needs, decisions: recorder.decisions, wakes: recorder.wakes.take(), arrived }
    }

    /// The run again, with nothing to ask.
    fn replay(&self, setting: &Setting) -> (f64, f64) {
        let arrived = inside(setting, &mut Player { tape: self, decided: 0, woken: Cell::new(0) });
        assert_eq!(arrived, self.arrived, "the same decisions make the same run");
        (0.0, arrived as f64)
    }
}

/// The packets that arrive with `scheduler` inside.
fn inside(setting: &Setting, scheduler: &mut dyn Scheduler) -> u64 {
    let job = Job { config: &setting.config, cc: setting.cc, seed: 1, timing: None };
    let finished = job.run(scheduler, TransportRules::NONE, Vec::new()).expect("the names are registered");
    finished.sim.connection(0).tally.arrived
}

/// A task that is answered at random, and everything that it says.
#[derive(Clone)]
struct Recorder {
    task: Box<dyn Task>,
    observation: Vec<f32>,
    answers: u64,
    decisions: Vec<Decision>,
    wakes: RefCell<Vec<Option<Instant>>>,
}

impl Scheduler for Recorder {
    fn needs(&self) -> Needs {
        self.task.needs()
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        if self.task.question(cx, &mut self.observation) {
            let choices = self.task.shape().actions.outputs() as u64;
            self.task.answer(cx, &[(mix(7, self.answers) % choices) as f32]);
            self.answers += 1;
        }
        let decision = self.task.select(cx);
        self.decisions.push(decision);
        decision
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.task.observe(cx, event);
    }

    fn wake(&self) -> Option<Instant> {
        let wake = self.task.wake();
        self.wakes.borrow_mut().push(wake);
        wake
    }
}

/// Says what is on the tape.
#[derive(Clone)]
struct Player<'a> {
    tape: &'a Tape,
    decided: usize,
    woken: Cell<usize>,
}

impl Scheduler for Player<'_> {
    fn needs(&self) -> Needs {
        self.tape.needs
    }

    fn select(&mut self, _: &Context<'_>) -> Decision {
        self.decided += 1;
        self.tape.decisions[self.decided - 1]
    }

    fn wake(&self) -> Option<Instant> {
        self.woken.set(self.woken.get() + 1);
        self.tape.wakes[self.woken.get() - 1]
    }
}
