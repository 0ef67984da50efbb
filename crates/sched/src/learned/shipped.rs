//! The policies that come with the crate. One line each; the files are in `policies/`, where their
//! cards say how they were trained. The folder stands at the root of the repository; a link in this crate makes it part
//! of what `cargo package` packs.

/// A policy that comes with the crate.
#[derive(Clone, Copy, Debug)]
pub struct ShippedPolicy {
    /// The scheduler that runs it.
    pub scheduler: &'static str,
    /// Its name among the scheduler's policies; the first is the default.
    pub name: &'static str,
    /// The policy file.
    pub bytes: &'static [u8],
}

/// Reads `policies/SCHEDULER-NAME.safetensors` for each line.
macro_rules! policies {
    ($($scheduler:literal $name:literal)*) => {
        /// Every policy that comes with the crate.
        pub static SHIPPED: &[ShippedPolicy] = &[$(ShippedPolicy {
            scheduler: $scheduler,
            name: $name,
            bytes: include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/policies/", $scheduler, "-", $name, ".safetensors"
            )),
        }),*];
    };
}

policies! {
    "dqn" "bbr1"
    "dqn" "all"
    "rlds" "preferred"
    "rlds" "exclusive"
    "rosello" "five-g"
    "lee-yoo" "streaming"
    "falcon" "meta"
    "evolved" "phone"
    "stsgat" "four-paths"
    "stsgat" "exclusive"
    "stsgat" "any"
    "pdaa3c" "preferred"
    "pdaa3c" "exclusive"
    "reles" "four-paths"
    "gaps" "four-paths"
}

/// The policies of `scheduler`.
pub fn shipped(scheduler: &str) -> impl Iterator<Item = &'static ShippedPolicy> {
    SHIPPED.iter().filter(move |policy| policy.scheduler == scheduler)
}
