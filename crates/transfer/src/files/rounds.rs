//! Connections one after another, until the transfer is over.

use crate::connection::control_stream::AcceptedConnection;
use crate::connection::opening::NoWork;
use crate::connection::session::{Session, Target};
use crate::failure::Failure;
use crate::files::outcome::Report;
use crate::progress::State;
use crate::wire::Role;

/// End of a connection.
pub(crate) enum ConnectionEnd {
    /// The transfer is over.
    Report(Box<Report>),
    /// The other end came anew.
    Superseded(Box<AcceptedConnection>),
}

impl Session<'_> {
    /// Makes connections one after another, each given to `serve`, until the transfer is over or nothing helps.
    pub fn transfer(
        &mut self,
        mut target: Option<Target>,
        role: Role,
        mut serve: impl FnMut(&mut Self, Box<AcceptedConnection>) -> Result<ConnectionEnd, Failure>,
    ) -> Result<Report, Failure> {
        let mut next = None;
        loop {
            let accepted = match (next.take(), &mut target) {
                (Some(accepted), _) => Ok(accepted),
                (None, Some(target)) => self.connect(target, role, &mut NoWork),
                (None, None) => Ok(self.admit()?),
            };
            match accepted.and_then(|accepted| serve(self, accepted)) {
                Ok(ConnectionEnd::Report(report)) => return Ok(*report),
                Ok(ConnectionEnd::Superseded(accepted)) => next = Some(accepted),
                Err(failure) => self.go_on_after(failure, target.is_some())?,
            }
        }
    }

    /// The other end went away, or the connection did. Where another one may help it is awaited, or tried.
    fn go_on_after(&mut self, failure: Failure, connects: bool) -> Result<(), Failure> {
        let goes_on = if connects { self.may_connect_again(&failure) } else { failure.is_passing() };
        if !goes_on {
            return Err(failure);
        }
        self.say(match (&failure, connects) {
            (_, false) => format!("{failure}; still listening"),
            (Failure::Stalled, true) => "the connection brought nothing any more; connecting again".to_owned(),
            (Failure::Lost(why), true) => format!("the connection was lost ({why}); connecting again"),
            (_, true) => failure.to_string(),
        });
        self.progress.state = if connects { State::Connecting } else { State::Listening };
        self.progress.done = 0;
        self.tell()
    }

    /// Returns true if another connection is tried after `failure`: as long as they bring something, and then for a
    /// while.
    fn may_connect_again(&mut self, failure: &Failure) -> bool {
        let now = self.net.now();
        if self.progress.done > 0 {
            self.fruitless_since = None;
        }
        let since = *self.fruitless_since.get_or_insert(now);
        match failure {
            Failure::Stalled => self.progress.done > 0,
            Failure::Lost(_) | Failure::Again(_) => self.progress.done > 0 || now < since + self.times.give_up_after,
            _ => false,
        }
    }
}
