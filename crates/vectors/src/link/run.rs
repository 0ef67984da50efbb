//! A link driven by a script.

use std::ops::RangeInclusive;

use weftway_path::{Bytes, Instant};

use super::script::{Line, Verb};
use weftway_link::{Delivery, Link, LinkConfig, Reason, Verdict};

/// An arrival, numbered as pushed.
type Arrival = (Instant, Delivery<u64>);

pub(super) struct Runner {
    link: Link<u64>,
    /// Time of the last line.
    line: Instant,
    /// Time of the last arrival, which may be later.
    now: Instant,
    pushed: u64,
    checks: usize,
}

impl Runner {
    pub(super) fn new(config: &LinkConfig, seed: u64) -> Self {
        Self { link: Link::new(config, seed), line: Instant::ZERO, now: Instant::ZERO, pushed: 0, checks: 0 }
    }

    /// Does what the line says, or says what is wrong with it.
    pub(super) fn step(&mut self, line: &Line) -> Result<(), String> {
        let arrives = matches!(line.verb, Verb::Arrives { .. });
        let earliest = if arrives { self.line } else { self.line.max(self.now) };
        if line.at < earliest {
            return Err(format!("the script has come to {earliest}: times must not decrease"));
        }
        self.line = line.at;
        self.checks += usize::from(!matches!(line.verb, Verb::Set(_)));
        if !arrives {
            // What arrives at this very instant may be listed after this line.
            self.expect_silence(|arrival| arrival < line.at)?;
        }
        match &line.verb {
            Verb::Push { bytes, expect } => self.push(*bytes, *expect),
            Verb::Arrives { packet, by, marked } => self.expect(*packet, line.at..=*by, *marked),
            Verb::Backlog { packets, bytes } => self.backlog(*packets, *bytes),
            Verb::Set(set) => {
                self.link.set(line.at, set);
                Ok(())
            }
        }
    }

    /// The rest of time must be silent; how much was checked.
    pub(super) fn finish(mut self) -> Result<usize, String> {
        self.expect_silence(|arrival| !arrival.is_never())?;
        Ok(self.checks)
    }

    fn push(&mut self, bytes: Bytes, expect: Verdict) -> Result<(), String> {
        let verdict = self.link.push(self.line, bytes, self.pushed);
        self.pushed += 1;
        if verdict == expect { Ok(()) } else { Err(describe(verdict).to_owned()) }
    }

    fn backlog(&self, packets: u64, bytes: Bytes) -> Result<(), String> {
        let (waiting, size) = self.link.backlog(self.line);
        if (waiting, size) == (packets, bytes) { Ok(()) } else { Err(format!("{waiting} packets wait, {size}")) }
    }

    fn expect(&mut self, packet: u64, when: RangeInclusive<Instant>, marked: bool) -> Result<(), String> {
        let Some((at, delivery)) = self.next(|_| true) else {
            return Err("nothing arrives any more".to_owned());
        };
        if delivery.item != packet || !when.contains(&at) || delivery.ce != marked {
            return Err(arrives((at, delivery)));
        }
        self.now = at;
        Ok(())
    }

    fn expect_silence(&mut self, until: impl Fn(Instant) -> bool) -> Result<(), String> {
        self.next(until).map_or(Ok(()), |arrival| Err(arrives(arrival)))
    }

    /// The next arrival while events are in time.
    fn next(&mut self, in_time: impl Fn(Instant) -> bool) -> Option<Arrival> {
        loop {
            let at = self.link.next_event();
            if at.is_never() || !in_time(at) {
                return None;
            }
            if let Some(delivery) = self.link.pop(at) {
                return Some((at, delivery));
            }
        }
    }
}

fn arrives((at, delivery): Arrival) -> String {
    let marked = if delivery.ce { ", marked" } else { "" };
    format!("packet {} arrives at {at}{marked}", delivery.item)
}

fn describe(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Queued => "the packet is queued",
        Verdict::Lost => "the packet is lost",
        Verdict::Dropped(Reason::Queue) => "the queue is full",
        Verdict::Dropped(Reason::Down) => "the link is down",
    }
}
