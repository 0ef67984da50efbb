//! Which transport.

use schemars::JsonSchema;
use serde::Deserialize;

/// A transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TransportName {
    /// Multipath TCP.
    #[default]
    Mptcp,
    /// Multipath QUIC.
    Mpquic,
    /// TCP on a single path.
    Tcp,
}

/// An MPTCP.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
pub(crate) enum StackName {
    /// The out-of-tree kernels 0.89 to 0.96.
    #[serde(rename = "v0.9x")]
    V09x,
    /// MPTCP v1 of today's kernel.
    #[serde(rename = "linux-v1")]
    LinuxV1,
}
