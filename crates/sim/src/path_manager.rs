//! Stages of the paths of a connection: absent, shaking hands, usable, given up.

use weftway_path::{Instant, PathId};

/// Stage of each path between absent and usable.
#[derive(Clone)]
pub struct PathManager {
    stages: Vec<Stage>,
    /// Time at which a stage is over, or the scenario adds or removes a path; as of the last look.
    due: Instant,
    /// True if anything has changed since.
    changed: bool,
    pub established: Option<Instant>,
    joined: bool,
    /// QUIC: whether the end that answers knows that the handshake is done. What reaches a server before is not read
    /// (RFC 9001 §5.7), and noq does not keep it.
    pub answered: bool,
    /// True if all paths may shake hands, and no peer has answered yet.
    racing: bool,
    /// The only path of a connection that has become plain TCP.
    only: Option<PathId>,
}

impl PathManager {
    /// Manager of `paths` paths, none of which exists. In a race all of them may shake hands.
    pub fn new(paths: usize, racing: bool) -> Self {
        Self {
            stages: vec![Stage::Absent; paths],
            due: Instant::NEVER,
            changed: true,
            established: None,
            joined: false,
            answered: false,
            racing,
            only: None,
        }
    }

    /// Stage of path `id`.
    #[inline]
    pub fn stage(&self, id: PathId) -> Stage {
        self.stages[id.index()]
    }

    /// Path `id` stands elsewhere now.
    pub fn set_stage(&mut self, id: PathId, stage: Stage) {
        self.stages[id.index()] = stage;
        self.changed = true;
    }

    /// Returns true if the other paths may be opened.
    #[inline]
    pub fn joined(&self) -> bool {
        self.joined
    }

    /// The other paths may be opened.
    pub fn join(&mut self) {
        self.joined = true;
        self.changed = true;
    }

    /// Returns true if all paths shake hands, and no peer has answered yet.
    pub fn racing(&self) -> bool {
        self.racing
    }

    /// A peer has answered: the other paths wait until they may be opened.
    pub fn end_race(&mut self) {
        self.racing = false;
        self.changed = true;
    }

    /// The connection becomes plain TCP on path `id`: no other may be opened any more.
    pub fn become_tcp(&mut self, id: PathId) {
        self.only = Some(id);
    }

    /// Returns true if the connection asked for several paths and has become plain TCP.
    pub fn is_tcp(&self) -> bool {
        self.only.is_some()
    }

    /// Returns true if path `id` may be opened at all.
    pub fn may_use(&self, id: PathId) -> bool {
        self.only.is_none_or(|only| only == id)
    }

    /// Returns true if path `id`, which comes into existence, is to be opened at once: when the others are open, in a
    /// race, or while there is none.
    pub fn opens(&self, id: PathId) -> bool {
        let begins = self.joined || self.racing || self.stages.iter().all(|stage| *stage == Stage::Absent);
        begins && self.may_use(id)
    }

    /// Returns true if the stages are to be looked at: something has changed, or is due.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.changed || self.due <= now
    }

    /// The stages are looked at now. What changes meanwhile is looked at the next time.
    pub fn begin_look(&mut self) {
        self.changed = false;
    }

    /// They have been looked at, and the scenario adds or removes a path next at `presence`.
    pub fn end_look(&mut self, presence: Instant) {
        let stages = self.stages.iter().map(Stage::next_event).min();
        self.due = presence.min(stages.unwrap_or(Instant::NEVER));
    }

    /// Time at which something is due, as of the last look.
    #[inline]
    pub fn due(&self) -> Instant {
        self.due
    }
}

/// Stage of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It does not exist now.
    Absent,
    /// Its handshake is under way.
    Handshaking {
        /// Time to try again.
        retry_at: Instant,
        /// Tries so far.
        tries: u32,
    },
    /// It is usable.
    Up,
    /// It was given up, and is tried now and then.
    Down {
        /// Time to try again.
        retry_at: Instant,
    },
}

impl Stage {
    /// Time at which something is due.
    pub fn next_event(&self) -> Instant {
        match self {
            Self::Handshaking { retry_at, .. } | Self::Down { retry_at } => *retry_at,
            Self::Absent | Self::Up => Instant::NEVER,
        }
    }
}
