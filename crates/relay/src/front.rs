//! Interface of a client's end, wherever local programs come from.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use weftway_mux::{Mux, Ready, StreamId};
use weftway_path::Instant;

use crate::datagram::Drops;
use crate::refusal::ABORTED;
use crate::view::{FlowView, PipeView};

/// Returns the mux's next stream for the client's end: one that is to be read, or else to be written. It notes whether
/// streams may be opened, and whether datagrams are there.
pub fn next_ready(mux: &mut Mux, may_open: &mut bool, has_datagrams: &mut bool) -> Option<(StreamId, bool)> {
    loop {
        match mux.poll_ready()? {
            Ready::Read(id) => return Some((id, true)),
            Ready::Write(id) => return Some((id, false)),
            Ready::Open => *may_open = true,
            Ready::Datagram => *has_datagrams = true,
            Ready::Accept => {
                // A relay opens no streams.
                while let Some(accepted) = mux.accept() {
                    let _ = mux.reset(accepted.id, ABORTED);
                }
            }
        }
    }
}

/// The client's end: takes what local programs send, and has it carried.
pub trait Front {
    /// Places where programs connect to, if there are such.
    fn addresses(&self) -> Vec<String>;

    /// Becomes readable when there is something to do, for [`Front::turn`].
    fn fd(&self) -> BorrowedFd<'_>;

    /// Instant of the next turn, whatever programs do: the past, if it is due now.
    fn next_event(&self) -> Instant;

    /// Does what can be done without waiting. It is due when [`Front::fd`] is readable, [`Front::next_event`] has come,
    /// or the mux has taken in anything. Without a mux there is no connection to the relay, and programs wait for one.
    fn turn(&mut self, now: Instant, mux: Option<&mut Mux>);

    /// The connection to the relay is gone, and all streams with it.
    fn lost(&mut self, now: Instant);

    /// The connections that are carried.
    fn flows(&self) -> impl Iterator<Item = FlowView<'_>>;

    /// Refusals of programs by name, and their numbers.
    fn refusals(&self) -> &BTreeMap<&'static str, u64>;

    /// Drops of what programs sent, or was for them.
    fn drops(&self) -> Drops;

    /// Pipes, if this end has any.
    fn pipes(&self, _now: Instant) -> Vec<PipeView> {
        Vec::new()
    }

    /// The next note for the user.
    fn take_note(&mut self) -> Option<String> {
        None
    }

    /// Why there will be no more programs, if that is so.
    fn failure(&self) -> Option<&str> {
        None
    }
}
