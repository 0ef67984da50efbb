//! Asking a packet scheduler, the same way for every transport.
//!
//! A transport has paths and data; a [`Scheduler`](weftway_sched::Scheduler) decides. What lies between is here: the
//! scheduler learns what happened ([`tell`]), is asked ([`ask`]), may explain itself, and its decision is carried out.
//! A decision that breaks a rule is counted as a fault, and the path with the lowest round-trip time carries the packet
//! instead. A learned scheduler whose decisions come from outside is asked with [`ask_task`], which stops at a
//! question.
//!
//! A transport implements [`Transport`] and keeps one [`Host`] per connection:
//!
//! | its part | the host's part |
//! |---|---|
//! | the [`Context`](weftway_path::Context) that schedulers see | in what order a scheduler is told, asked and heard |
//! | [`Host::events`]: what happens, as it happens | which events a scheduler listens to, and that it is told each once |
//! | [`Transport::carry`]: carries a decision out, or refuses it | what follows a refusal |
//! | [`Transport::wake_at`]: a timer | whether the time asked for lies ahead |
//! | what it offers | whether that is what a scheduler needs ([`mismatch`]) |

mod ask;
mod events;
mod host;
mod offers;
pub mod sending;
pub mod testing;
mod transport;

pub use ask::{Turn, answer, ask, ask_task, note_wake, settle, tell, tell_task};
pub use events::Events;
pub use host::{Counts, Host};
pub use offers::{EVERYTHING, OVER_SOCKETS, mismatch};
pub use transport::{Carried, Decided, Refusal, Transport};
