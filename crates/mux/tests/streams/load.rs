//! Applications at both ends that follow the same script for each stream, and check every byte.

use std::collections::BTreeMap;

use bytes::Bytes;
use weftway_mux::{Mux, OpenError, Read, Ready, StreamError, StreamId};
use weftway_path::{Instant, Span};

use crate::network::Network;

/// Time between two reads of a slow reader.
const TICK: Span = Span::from_millis(10);

/// Script of a stream. Pairs are by end.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// The end that opens it.
    pub opener: usize,
    pub class: u8,
    /// Bytes that each end writes.
    pub sizes: [u64; 2],
    /// Bytes that the reader of each end takes in 10 ms.
    pub paces: [u64; 2],
    /// This end resets it when it has read and written so many bytes together.
    pub reset: Option<(usize, u64)>,
}

impl Script {
    /// Makes a stream of so many bytes, one way, read at once.
    pub fn bulk(bytes: u64, class: u8) -> Self {
        Self { opener: 0, class, sizes: [bytes, 0], paces: [u64::MAX; 2], reset: None }
    }
}

/// Progress of one end with a script.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    id: Option<StreamId>,
    pub written: u64,
    finished: bool,
    pub read: u64,
    /// Bytes that a slow reader may take in this tick.
    allowance: u64,
    ended: bool,
    over: bool,
    /// Time at which the last byte was read.
    pub read_at: Instant,
}

pub struct Load {
    pub scripts: Vec<Script>,
    pub states: [Vec<State>; 2],
    by_id: [BTreeMap<StreamId, usize>; 2],
    next_open: [usize; 2],
    ticked: Instant,
}

/// Byte `at` of what `end` writes on the stream of script `number`.
fn byte(number: usize, end: usize, at: u64) -> u8 {
    (at ^ (at >> 8) ^ (number as u64 * 31) ^ (end as u64 * 17)) as u8
}

impl Load {
    pub fn new(scripts: Vec<Script>) -> Self {
        let states = [0, 1].map(|end| {
            let state = |script: &Script| State { allowance: script.paces[end], ..State::default() };
            scripts.iter().map(state).collect()
        });
        Self { scripts, states, by_id: Default::default(), next_open: [0; 2], ticked: Instant::ZERO }
    }

    /// Time at which a slow reader reads next.
    pub fn next_tick(&self) -> Instant {
        self.ticked + TICK
    }

    /// Everything that the applications do at this time.
    pub fn drive(&mut self, network: &mut Network) {
        let now = network.now;
        let ticks = now >= self.next_tick();
        if ticks {
            self.ticked = now;
        }
        for (end, side) in network.ends.iter_mut().enumerate() {
            let mux = &mut side.mux;
            if now == Instant::ZERO {
                self.open(mux, now, end);
            }
            while let Some(ready) = mux.poll_ready() {
                match ready {
                    Ready::Open => self.open(mux, now, end),
                    Ready::Accept => self.accept(mux, now, end),
                    Ready::Read(id) | Ready::Write(id) => {
                        if let Some(&number) = self.by_id[end].get(&id) {
                            self.go_on(mux, now, end, number);
                        }
                    }
                    Ready::Datagram => {}
                }
            }
            if ticks {
                self.tick(mux, now, end);
            }
        }
    }

    fn tick(&mut self, mux: &mut Mux, now: Instant, end: usize) {
        for number in 0..self.scripts.len() {
            let pace = self.scripts[number].paces[end];
            let state = &mut self.states[end][number];
            if pace < u64::MAX && !state.over && state.id.is_some() {
                state.allowance = pace;
                self.go_on(mux, now, end, number);
            }
        }
    }

    fn open(&mut self, mux: &mut Mux, now: Instant, end: usize) {
        while let Some(script) = self.scripts.get(self.next_open[end]) {
            let number = self.next_open[end];
            if script.opener == end {
                match mux.open(now, script.class, &number.to_be_bytes(), None) {
                    Ok(id) => self.begin(mux, now, end, number, id),
                    Err(OpenError::TooMany) => return,
                    Err(error) => panic!("{error}"),
                }
            }
            self.next_open[end] += 1;
        }
    }

    fn accept(&mut self, mux: &mut Mux, now: Instant, end: usize) {
        while let Some(accepted) = mux.accept() {
            let number = usize::from_be_bytes(accepted.target[..].try_into().unwrap());
            assert_eq!(accepted.class, self.scripts[number].class);
            assert_ne!(self.scripts[number].opener, end);
            self.begin(mux, now, end, number, accepted.id);
        }
    }

    fn begin(&mut self, mux: &mut Mux, now: Instant, end: usize, number: usize, id: StreamId) {
        assert!(self.by_id[end].insert(id, number).is_none());
        self.states[end][number].id = Some(id);
        self.go_on(mux, now, end, number);
    }

    /// Writes and reads what can be, and resets what is to be.
    fn go_on(&mut self, mux: &mut Mux, now: Instant, end: usize, number: usize) {
        let script = self.scripts[number];
        let mut state = self.states[end][number];
        let Some(id) = state.id.filter(|_| !state.over) else { return };
        let result = write(mux, now, end, number, &script, &mut state)
            .and_then(|()| read(mux, now, end, number, id, &mut state));
        match result {
            Ok(()) => state.over = state.finished && state.ended,
            Err(StreamError::Reset(code)) => {
                assert_eq!(code, number as u32);
                assert!(script.reset.is_some_and(|(by, _)| by != end), "{script:?}");
                state.over = true;
            }
            Err(error) => panic!("{error}: {script:?} {state:?}"),
        }
        let resets = script.reset.is_some_and(|(by, after)| by == end && state.read + state.written >= after);
        if !state.over && resets {
            mux.reset(id, number as u32).unwrap();
            state.over = true;
        }
        self.states[end][number] = state;
    }

    /// Tells whether everything that the scripts say is done.
    pub fn is_done(&self) -> bool {
        self.scripts.iter().enumerate().all(|(number, script)| {
            let over = |end: usize| self.states[end][number].over;
            // The other end may never hear of a stream that was reset at once.
            let unheard = script.reset.is_some() && self.states[1 - script.opener][number].id.is_none();
            over(script.opener) && (over(1 - script.opener) || unheard)
        })
    }

    /// Each byte that was written is read, unless its stream was reset.
    pub fn check(&self) {
        for (number, script) in self.scripts.iter().enumerate() {
            for end in 0..2 {
                let (here, there) = (&self.states[end][number], &self.states[1 - end][number]);
                if script.reset.is_none() {
                    assert_eq!((here.written, there.read), (script.sizes[end], script.sizes[end]), "{script:?}");
                } else {
                    assert!(there.read <= here.written && here.written <= script.sizes[end], "{script:?}");
                }
            }
        }
    }
}

fn write(
    mux: &mut Mux,
    now: Instant,
    end: usize,
    number: usize,
    script: &Script,
    state: &mut State,
) -> Result<(), StreamError> {
    let Some(id) = state.id.filter(|_| !state.finished) else { return Ok(()) };
    while state.written < script.sizes[end] {
        let count = (script.sizes[end] - state.written).min(10_000);
        let bytes: Vec<u8> = (state.written..state.written + count).map(|at| byte(number, end, at)).collect();
        let taken = mux.write(now, id, Bytes::from(bytes))? as u64;
        state.written += taken;
        if taken < count {
            return Ok(());
        }
    }
    state.finished = true;
    mux.finish(id)
}

fn read(
    mux: &mut Mux,
    now: Instant,
    end: usize,
    number: usize,
    id: StreamId,
    state: &mut State,
) -> Result<(), StreamError> {
    while !state.ended {
        let count = match mux.read(id)? {
            Read::Wait => return Ok(()),
            Read::End => {
                state.ended = true;
                return Ok(());
            }
            Read::Bytes(bytes) => {
                let count = state.allowance.min(bytes.len() as u64) as usize;
                let expected = (state.read..).map(|at| byte(number, 1 - end, at));
                assert!(bytes[..count].iter().copied().eq(expected.take(count)), "script {number} at {}", state.read);
                count
            }
        };
        if count == 0 {
            return Ok(());
        }
        mux.took(now, id, count)?;
        state.read += count as u64;
        state.read_at = now;
        if state.allowance < u64::MAX {
            state.allowance -= count as u64;
        }
    }
    Ok(())
}
