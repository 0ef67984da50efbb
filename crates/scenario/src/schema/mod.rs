//! The keys of a scenario file, as they are written. What each means is said here once: the JSON
//! Schema is made from these comments.

mod file;
mod path;
mod policy;
mod report;
mod traffic;
mod transport;

pub(super) use file::{DecisionTable, DriveTable, File, ModeName};
pub(super) use path::{
    Aqm, Arq, ConnectionName, Directed, Fade, LinkTable, Loss, PathTable, Redraw, RoleName, StateName, Step,
};
pub(super) use policy::{PolicyTable, TierName};
pub(crate) use report::Uncertain;
pub use report::{At, Claim, Figure, Identity, Printed, Published, Status, Unit, Way};
pub(super) use traffic::{CrossTable, FlowTable, RivalTable, SizeShare, WebObjects, WorkloadTable};
pub(super) use transport::{StackName, TransportName};
