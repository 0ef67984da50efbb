//! Steering the running kernel's MPTCP: a rule is asked once per interval, and its answer is told by MP_PRIO.
//!
//! Linux has one packet scheduler, and no place for another. What it has is a priority of each subflow (RFC 8684
//! §3.3.8): while a connection has a subflow that is no backup, its backups carry nothing new. A rule that names a path
//! every 50 to 100 ms is carried out with that: the subflow that it names is active, the others are backups. The
//! application and its socket know nothing of it.
//!
//! What it cannot do follows: nothing per packet, no copies, no look at the connection's data. Data that a subflow
//! holds stay there when it becomes a backup; in a bulk transfer that takes another 100 to 400 ms. A subflow without
//! traffic is not measured: its round trip is that of its last packet.

mod asker;
mod backup_flags;
mod host;
mod lab;
mod live;
mod report;
mod steered_run;
mod view;

pub use asker::{Askers, steering_obstacle};
pub use host::{Connection, Mode, Rule, Settings, Steering};
pub use lab::measure;
pub use live::LiveSteering;
pub use report::{SteeringReport, Tally};
pub use steered_run::SteeredRun;
