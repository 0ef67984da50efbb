//! Transports of the two connections: the stack that the file names, with its options.

use crate::config::TransportConfig;
use crate::error::Fault;
use crate::options::Options;
use crate::schema::{File, RivalTable, StackName, TransportName};
use crate::stack::Stack;

/// Returns the transport of the measured connection.
pub(super) fn main(file: &File) -> Result<TransportConfig, Fault> {
    if file.stack.is_some() && file.transport != TransportName::Mptcp {
        return Err(Fault::value("only transport = \"mptcp\" comes in several stacks").key(&["stack"]));
    }
    file.options.apply(stack(file.transport, file.stack), file.direction)
}

/// Returns the transport of the second connection: the first one's, unless it names its own.
pub(super) fn rival(file: &File, table: &RivalTable) -> Result<TransportConfig, Fault> {
    let mut config = match table.transport {
        Some(name) if name != file.transport => {
            let plain = Options { ecn: file.options.ecn, ..Options::default() };
            plain.apply(stack(name, None), file.direction)?
        }
        _ => main(file)?,
    };
    if let Some(window) = table.initial_window.map(u64::from) {
        if window == 0 {
            return Err(Fault::value("`initial_window` must be more than zero").key(&["rival", "initial_window"]));
        }
        config.initial_window = window;
    }
    Ok(config)
}

fn stack(name: TransportName, stack: Option<StackName>) -> Stack {
    match (name, stack) {
        (TransportName::Mptcp, Some(StackName::LinuxV1)) => Stack::MptcpLinuxV1,
        (TransportName::Mptcp, _) => Stack::MptcpV09x,
        (TransportName::Mpquic, _) => Stack::Mpquic,
        (TransportName::Tcp, _) => Stack::Tcp,
    }
}

impl TransportName {
    /// Returns the name as it is in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mptcp => "mptcp",
            Self::Mpquic => "mpquic",
            Self::Tcp => "tcp",
        }
    }
}
