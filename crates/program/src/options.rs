//! Options that several verbs have. A verb takes a group in with `#[command(flatten)]`.

/// The congestion controller over real links: some lose packets that no queue dropped.
pub const WIRE_CC: &str = "cubic:random_loss=2";
