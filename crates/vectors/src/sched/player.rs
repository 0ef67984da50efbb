//! Plays a case on a bench.

use weftway_path::spec::{Spec, SpecError};
use weftway_path::{
    BlockedReason, Counters, Decision, Event, Health, Instant, Offset, Path, PathId, PathSet, Recovery, Role, Span,
    Starved,
};
use weftway_sched::Scheduler;

use super::quantity::Amount;
use super::script::{self, FlowRow, PathRow, Stack, Step};
use crate::quantity::{Rate, Time};
use crate::testing::{Bench, MSS, packets, path};

/// Times that each question is asked.
const QUESTIONS: usize = 3;

/// Plays a case of `file`, with its scheduler or with another in its place; returns the number of expectations.
pub(super) fn play(file: &script::File, case: &script::Case, in_place: Option<&str>) -> Result<usize, String> {
    let at = |step: usize| move |problem| format!("step {step}: {problem}");
    let mut player = Player::new(scheduler(file, case, in_place).map_err(at(0))?, case).map_err(at(0))?;
    player.bench.masks = case.stack.unwrap_or(file.stack) == Stack::Mptcp;
    if let Some(expect) = &case.expect {
        player.ask(expect).map_err(at(0))?;
    }
    for (n, step) in case.steps.iter().enumerate() {
        player.step(step).map_err(at(n + 1))?;
    }
    Ok(player.checks)
}

/// Makes the scheduler of `case`, with the file's switches and its own, or the one in its place.
fn scheduler(file: &script::File, case: &script::Case, in_place: Option<&str>) -> Result<Box<dyn Scheduler>, String> {
    let text = |error: SpecError| error.to_string();
    let spec = match in_place {
        Some(other) => other.to_owned(),
        None if case.with.is_empty() => file.scheduler.clone(),
        None => {
            let of_all: Spec = file.scheduler.parse().map_err(text)?;
            let own: Spec = format!("{}:{}", of_all.name, case.with).parse().map_err(text)?;
            own.with_defaults(of_all.given).to_string()
        }
    };
    weftway_sched::build(&spec).map_err(text)
}

struct Player {
    scheduler: Box<dyn Scheduler>,
    bench: Bench,
    names: Vec<(String, PathId)>,
    /// Expectations so far, all of which hold.
    checks: usize,
}

impl Player {
    fn new(scheduler: Box<dyn Scheduler>, case: &script::Case) -> Result<Self, String> {
        let mut names = Vec::new();
        let mut bench = Bench::new(Vec::new());
        for (n, row) in case.paths.iter().enumerate() {
            let name = row.name.clone().ok_or("a path has no name")?;
            let mut path = path(row.id.unwrap_or(n as u8), 0, 10, 0);
            change(&mut path, row)?;
            names.push((name, path.id));
            bench.add(path).ok_or("two paths have one number")?;
        }
        change_flow(&mut bench, &case.flow)?;
        bench.refresh();
        Ok(Self { scheduler, bench, names, checks: 0 })
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Some(at) = &step.at {
            self.bench.now = Instant::ZERO + at.0;
        }
        for (name, row) in &step.set {
            let id = self.id(name)?;
            if row.name.is_some() || row.id.is_some() {
                return Err(format!("path `{name}` has its name and number already"));
            }
            let path = self.bench.paths.iter_mut().find(|path| path.id == id);
            change(path.ok_or_else(|| format!("path `{name}` is gone"))?, row)?;
        }
        change_flow(&mut self.bench, &step.flow)?;
        self.bench.refresh();
        if let Some(reinject) = &step.reinject {
            let carried =
                reinject.carried.iter().try_fold(PathSet::EMPTY, |set, name| Ok::<_, String>(set.with(self.id(name)?)));
            self.bench.reinject(reinject.packet, carried?);
        }
        self.land(step.acked.as_deref(), Bench::ack)?;
        self.land(step.lost.as_deref(), Bench::lose)?;
        if let Some(event) = &step.event {
            let event = self.event(event)?;
            self.scheduler.observe(&self.bench.context(), &event);
        }
        if let Some(expect) = &step.expect {
            self.ask(expect)?;
        }
        if let Some(explains) = &step.explains {
            let reason = self.scheduler.explain(&self.bench.context()).unwrap_or_default();
            self.check(explains, if reason.contains(explains) { explains } else { &reason })?;
        }
        if let Some(wakes) = &step.wakes {
            let at = Instant::ZERO + wakes.0;
            let wake = self.scheduler.wake().map_or("no wake".to_owned(), |at| format!("wake at {at}"));
            self.check(&format!("wake at {at}"), &wake)?;
        }
        Ok(())
    }

    /// Acknowledges or loses the packets that `list` names.
    fn land(
        &mut self,
        list: Option<&str>,
        how: fn(&mut Bench, PathId, Option<Offset>) -> Option<Event>,
    ) -> Result<(), String> {
        for item in list.into_iter().flat_map(|list| list.split(',')) {
            let (name, count, at) = parts(item)?;
            let path = self.id(name)?;
            for _ in 0..count {
                let event = how(&mut self.bench, path, at).ok_or_else(|| format!("`{item}` is not in flight"))?;
                self.scheduler.observe(&self.bench.context(), &event);
            }
        }
        Ok(())
    }

    fn event(&mut self, text: &str) -> Result<Event, String> {
        match text.split_once(' ') {
            None if text == "wake" => Ok(Event::Wake),
            Some(("starved", "window")) => Ok(Event::Starved(Starved::Window)),
            Some(("starved", "buffer")) => Ok(Event::Starved(Starved::SendBuffer)),
            Some(("congestion", name)) => self.id(name).map(Event::Congestion),
            Some(("down", name)) => {
                let id = self.id(name)?;
                self.bench.remove(id).ok_or_else(|| format!("path `{name}` is gone"))
            }
            _ => Err(format!("unknown event `{text}`")),
        }
    }

    /// Asks for as many decisions as `expect` lists and carries them out.
    fn ask(&mut self, expect: &str) -> Result<(), String> {
        let mut expected = Vec::new();
        for item in expect.split(',') {
            let (decision, count) = self.decision(item)?;
            expected.extend(std::iter::repeat_n(self.word(decision), count));
        }
        let got: Vec<_> = expected.iter().map(|_| self.decide()).collect();
        self.check(&sentence(&expected), &sentence(&got))
    }

    fn check(&mut self, expected: &str, got: &str) -> Result<(), String> {
        self.checks += 1;
        if got == expected { Ok(()) } else { Err(format!("expected {expected}; got {got}")) }
    }

    fn decide(&mut self) -> String {
        let answers = [(); QUESTIONS].map(|()| self.scheduler.select(&self.bench.context()));
        if let Some(other) = answers.iter().find(|answer| **answer != answers[0]) {
            return format!("{}, asked again {}", self.word(answers[0]), self.word(*other));
        }
        let events = match answers[0] {
            Decision::Recall(path) => self.bench.recall(path),
            other => self.bench.carry(other).into_iter().collect(),
        };
        for event in events {
            self.scheduler.observe(&self.bench.context(), &event);
        }
        self.word(answers[0])
    }

    fn decision(&self, item: &str) -> Result<(Decision, usize), String> {
        let item = item.trim();
        if item == "wait" {
            return Ok((Decision::Wait, 1));
        }
        if let Some(rest) = item.strip_prefix("ahead ") {
            let (name, count, at) = parts(rest)?;
            return Ok((Decision::Ahead(self.id(name)?, at.unwrap_or_default()), count));
        }
        if let Some(rest) = item.strip_prefix("repeat ") {
            let (name, count, at) = parts(rest)?;
            return Ok((Decision::Repeat(self.id(name)?, at.unwrap_or_default()), count));
        }
        if let Some(rest) = item.strip_prefix("recall ") {
            let (name, count, _) = parts(rest)?;
            return Ok((Decision::Recall(self.id(name)?), count));
        }
        let (name, count, _) = parts(item)?;
        Ok((Decision::Send(self.id(name)?), count))
    }

    fn word(&self, decision: Decision) -> String {
        let at = |offset: Offset| offset.since(Offset::ZERO).packets(MSS);
        match decision {
            Decision::Send(path) => self.name(path),
            Decision::Ahead(path, offset) => format!("ahead {} @{}", self.name(path), at(offset)),
            Decision::Repeat(path, offset) => format!("repeat {} @{}", self.name(path), at(offset)),
            Decision::Recall(path) => format!("recall {}", self.name(path)),
            Decision::Wait => "wait".to_owned(),
        }
    }

    fn id(&self, name: &str) -> Result<PathId, String> {
        let known = self.names.iter().find(|(known, _)| known == name);
        known.map(|(_, id)| *id).ok_or_else(|| format!("there is no path `{name}`"))
    }

    fn name(&self, id: PathId) -> String {
        let known = self.names.iter().find(|(_, known)| *known == id);
        known.map_or_else(|| format!("{id:?}"), |(name, _)| name.clone())
    }
}

/// `NAME`, `NAME xN`, `NAME @OFFSET`.
fn parts(item: &str) -> Result<(&str, usize, Option<Offset>), String> {
    let complaint = || format!("cannot read `{item}`");
    match item.split_whitespace().collect::<Vec<_>>()[..] {
        [name] => Ok((name, 1, None)),
        [name, detail] => {
            let (mark, number) = detail.split_at_checked(1).ok_or_else(complaint)?;
            let number: u64 = number.parse().map_err(|_| complaint())?;
            match mark {
                "x" => Ok((name, number as usize, None)),
                "@" => Ok((name, 1, Some(Offset::ZERO + packets(number)))),
                _ => Err(complaint()),
            }
        }
        _ => Err(complaint()),
    }
}

/// Words with repetitions counted: `F x10, S, wait`.
fn sentence(words: &[String]) -> String {
    let runs = words.chunk_by(|a, b| a == b && !a.contains('@') && a != "wait");
    let said = runs.map(|run| if run.len() == 1 { run[0].clone() } else { format!("{} x{}", run[0], run.len()) });
    said.collect::<Vec<_>>().join(", ")
}

fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        format!("`{text}` is none of {}", choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "))
    })
}

/// Puts what `from` says, if anything, into `to`.
fn put<S, T>(to: &mut T, from: &Option<S>, read: impl FnOnce(&S) -> Result<T, String>) -> Result<(), String> {
    if let Some(from) = from {
        *to = read(from)?;
    }
    Ok(())
}

fn change(path: &mut Path, row: &PathRow) -> Result<(), String> {
    let span = |time: &Time| Ok(time.0);
    let rate = |rate: &Rate| Ok(rate.0);
    if let Some(srtt) = &row.srtt {
        path.srtt = srtt.0;
        path.latest_rtt = path.srtt;
    }
    put(&mut path.rttvar, &row.rttvar, span)?;
    put(&mut path.latest_rtt, &row.latest_rtt, span)?;
    put(&mut path.min_rtt, &row.min_rtt, span)?;
    if let Some(samples) = &row.samples {
        path.rtt_samples = samples.len() as u64;
        path.rtt_sum = samples.iter().fold(Span::ZERO, |sum, time| sum + time.0);
    }
    put(&mut path.cwnd, &row.cwnd, Amount::bytes)?;
    put(&mut path.ssthresh, &row.ssthresh, Amount::bytes)?;
    put(&mut path.bytes_in_flight, &row.in_flight, Amount::bytes)?;
    put(&mut path.queued, &row.queued, Amount::bytes)?;
    put(&mut path.queue_room, &row.queue_room, Amount::bytes)?;
    put(&mut path.device_queue, &row.device_queue, Amount::bytes)?;
    path.bottleneck = row.bottleneck.or(path.bottleneck);
    put(&mut path.delivery_rate, &row.delivery_rate, rate)?;
    put(&mut path.pacing_rate, &row.pacing_rate, rate)?;
    put(&mut path.link_rate, &row.link_rate, rate)?;
    put(&mut path.sent, &row.sent, counters)?;
    put(&mut path.acked, &row.acked, counters)?;
    put(&mut path.lost, &row.lost, counters)?;
    put(&mut path.retransmitted, &row.retransmitted, counters)?;
    path.pto_count = row.pto_count.unwrap_or(path.pto_count);
    change_state(path, row)
}

fn change_state(path: &mut Path, row: &PathRow) -> Result<(), String> {
    put(&mut path.role, &row.role, |text| choice(text, &[("active", Role::Active), ("backup", Role::Backup)]))?;
    put(&mut path.health, &row.health, |text| {
        choice(text, &[("good", Health::Good), ("suspect", Health::Suspect), ("stale", Health::Stale)])
    })?;
    put(&mut path.blocked, &row.blocked, |text| {
        let holds = [
            ("pacing", BlockedReason::Pacing),
            ("validation", BlockedReason::Validation),
            ("transport", BlockedReason::Transport),
        ];
        choice(text, &[&[("none", BlockedReason::None)], &holds[..]].concat())
    })?;
    put(&mut path.recovery, &row.recovery, |text| {
        let repairing = [("recovery", Recovery::Recovery), ("loss", Recovery::Loss)];
        choice(
            text,
            &[&[("open", Recovery::Open), ("disorder", Recovery::Disorder), ("cwr", Recovery::Cwr)], &repairing[..]]
                .concat(),
        )
    })
}

fn counters(amount: &Amount) -> Result<Counters, String> {
    Ok(Counters { bytes: amount.bytes()?, packets: amount.count()? })
}

fn change_flow(bench: &mut Bench, row: &FlowRow) -> Result<(), String> {
    let offset = |amount: &Amount| Ok::<_, String>(Offset::ZERO + amount.bytes()?);
    let flow = &mut bench.flow;
    put(&mut flow.una, &row.una, offset)?;
    put(&mut flow.acked, &row.acked, |acked| offset(acked).map(Some))?;
    put(&mut flow.next, &row.next, offset)?;
    if let Some(unsent) = &row.unsent {
        flow.unsent = unsent.bytes()?;
        flow.end = flow.next + flow.unsent;
    }
    put(&mut flow.message_start, &row.message_start, offset)?;
    put(&mut flow.message_end, &row.message_end, offset)?;
    put(&mut flow.message_age, &row.message_age, |age| Ok(age.0))?;
    put(&mut flow.deadline, &row.deadline, |time| Ok(Some(Instant::ZERO + time.0)))?;
    flow.class = row.class.unwrap_or(flow.class);
    let una = flow.una;
    put(&mut flow.announced, &row.announced, |window| Ok(una + window.bytes()?))?;
    put(&mut flow.edge, &row.window, |window| Ok(una + window.bytes()?))
}
