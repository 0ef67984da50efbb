//! What stepping costs: episodes that stop at every question, answered at random, against the same
//! runs with min-RTT inside.

use cpu_time::ProcessTime;
use weftway_link::{LinkConfig, Loss};
use weftway_path::{BitRate, Bytes, Role, Span};
use weftway_sim::config::{PathConfig, SimConfig, Transport, Workload};
use weftway_sim::run::Job;
use weftway_sim::{Episode, mix};

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

/// What was measured of one.
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
}

/// Scenario A per interval and per decision; the four paths of PDASTSGAT per interval.
pub fn settings() -> Vec<Setting> {
    let a = |task, name| Setting { name, task, cc: "cubic", config: Scenario::A.config(400_000) };
    let four = Setting { name: "four-paths", task: "path:action=direct", cc: "bbr1", config: four_paths() };
    vec![a("path:slots=2", "A, path"), a("wait-or-send", "A, wait-or-send"), four]
}

/// 2, 2, 4 and 2 Mbit/s, 10 ms, 3 % loss, buffers of 128 kB: 200 s under load.
fn four_paths() -> SimConfig {
    let mut transport = Transport::mptcp_v09x();
    transport.receive_buffer = weftway_sim::config::Buffer::Fixed(Bytes::new(128_000));
    transport.send_buffer = weftway_sim::config::Buffer::Fixed(Bytes::new(128_000));
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

/// Steps one episode to its end with random answers.
pub fn step(setting: &Setting) -> Stepped {
    let (steps, packets, seconds) = best(|| stepped(setting));
    let (_, raw, raw_seconds) = best(|| raw(setting));
    let packets_per_second = packets / seconds;
    Stepped {
        steps_per_second: steps / seconds,
        packets_per_second,
        packets_per_step: packets / steps,
        ratio_to_raw: packets_per_second / (raw / raw_seconds),
    }
}

/// The quickest of three runs: steps, packets, seconds.
fn best(run: impl Fn() -> (f64, f64)) -> (f64, f64, f64) {
    let timed = || {
        let start = ProcessTime::now();
        let (steps, packets) = run();
        (steps, packets, start.elapsed().as_secs_f64())
    };
    (0..3).map(|_| timed()).reduce(|a, b| if b.2 < a.2 { b } else { a }).expect("three runs")
}

fn stepped(setting: &Setting) -> (f64, f64) {
    let mut episode = Episode::new(&setting.config, setting.cc, 1, setting.task).expect("the names are registered");
    let shape = episode.shape().clone();
    let choices = shape.actions.outputs() as u64;
    let mut seen = vec![0.0; shape.inputs.len()];
    let mut steps = 0;
    while episode.advance(&mut seen).is_none() {
        episode.answer(&[(mix(7, steps) % choices) as f32]);
        steps += 1;
    }
    (steps as f64, episode.arrived() as f64)
}

fn raw(setting: &Setting) -> (f64, f64) {
    let job = Job { config: &setting.config, cc: setting.cc, seed: 1, timing: None };
    let finished = job.run_named("min-rtt").expect("the names are registered");
    (0.0, finished.sim.connection(0).tally.arrived as f64)
}
