//! What joins both muxes: records and what becomes of them, at the times that a seed draws.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rand_core::Rng;
use rand_pcg::Pcg32;
use weftway_mux::{Limits, Mux, Side};
use weftway_path::{Instant, Offset, Span};

/// What happens to records.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// How late they are at most.
    pub late: Span,
    /// One of so many is lost, and one comes twice. 0: none.
    pub one_in: u32,
    pub seed: u64,
}

impl Faults {
    /// Records are there at once.
    pub const NONE: Self = Self { late: Span::ZERO, one_in: 0, seed: 0 };
}

/// After how long without an acknowledgement a record is taken for lost, beside twice the delay.
const PATIENCE: Span = Span::from_millis(2);
/// How many records are on the way at once.
const WINDOW: usize = 500;
const MTU: usize = 1200;

#[derive(Debug)]
enum Event {
    Record { to: usize, place: Offset, payload: Bytes },
    Ack { to: usize, place: Offset },
    Lost { from: usize, place: Offset },
}

pub struct Wire {
    pub muxes: [Mux; 2],
    outstanding: [BTreeSet<Offset>; 2],
    events: BTreeMap<(Instant, u64), Event>,
    faults: Faults,
    draw: Pcg32,
    count: u64,
}

impl Wire {
    pub fn new(limits: Limits, faults: Faults) -> Self {
        let mux = |side| {
            let mut mux = Mux::new(side, limits, limits).unwrap();
            mux.set_rtt(faults.late * 2);
            mux
        };
        Self {
            muxes: [mux(Side::Connecting), mux(Side::Listening)],
            outstanding: Default::default(),
            events: BTreeMap::new(),
            faults,
            draw: Pcg32::new(faults.seed, 40),
            count: 0,
        }
    }

    /// When something happens next.
    pub fn next_event(&self) -> Instant {
        self.events.first_key_value().map_or(Instant::NEVER, |(&(at, _), _)| at)
    }

    /// What is due happens, and what may be sent is sent. Whether anything was.
    pub fn turn(&mut self, now: Instant) -> bool {
        let mut any = false;
        loop {
            for from in 0..2 {
                while self.outstanding[from].len() < WINDOW
                    && let Some(record) = self.muxes[from].cut(now, MTU)
                {
                    self.outstanding[from].insert(record.place);
                    self.send(now, from, record.place, record.payload);
                }
            }
            if self.next_event() > now {
                return any;
            }
            if let Some((_, event)) = self.events.pop_first() {
                self.happen(now, event);
                any = true;
            }
        }
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::Record { to, place, payload } => {
                self.muxes[to].receive(now, place, &payload).unwrap();
                if !self.draws() {
                    let at = now + self.lateness();
                    self.at(at, Event::Ack { to: 1 - to, place });
                }
            }
            Event::Ack { to, place } => {
                self.outstanding[to].remove(&place);
                self.muxes[to].acked(place);
            }
            Event::Lost { from, place } if self.outstanding[from].contains(&place) => {
                let payload = self.muxes[from].payload(place).filter(|_| self.muxes[from].lost(now, now, place));
                match payload {
                    Some(payload) => self.send(now, from, place, payload),
                    None => drop(self.outstanding[from].remove(&place)),
                }
            }
            Event::Lost { .. } => {}
        }
    }

    fn send(&mut self, now: Instant, from: usize, place: Offset, payload: Bytes) {
        for copies in [!self.draws(), self.draws()] {
            if copies {
                let (at, payload) = (now + self.lateness(), payload.clone());
                self.at(at, Event::Record { to: 1 - from, place, payload });
            }
        }
        if self.faults.one_in > 0 {
            self.at(now + self.faults.late * 2 + PATIENCE, Event::Lost { from, place });
        }
    }

    /// Returns true if this is one of those that something happens to.
    fn draws(&mut self) -> bool {
        self.faults.one_in > 0 && self.draw.next_u32().is_multiple_of(self.faults.one_in)
    }

    fn lateness(&mut self) -> Span {
        Span::from_nanos((u64::from(self.draw.next_u32()) * self.faults.late.as_nanos()) >> 32)
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }
}
