//! The scenarios with one path at a time that a run over several is held against.

use weftway_path::Role;

use crate::config::{CrossLink, PathManager, SimConfig, Workload};
use crate::measurement::{Row, Singles};

/// The goodput of each path alone, and of each path in a connection with the same handshake, where that means
/// something. `run` runs a scenario with min-RTT, and otherwise as the run that they are compared with.
pub fn singles<E>(config: &SimConfig, mut run: impl FnMut(&SimConfig) -> Result<Row, E>) -> Result<Singles, E> {
    if !aggregates(config) {
        return Ok(Singles::default());
    }
    let mut goodputs = |of: fn(&SimConfig, usize) -> SimConfig| {
        let goodput = |path| Ok(run(&of(config, path))?["goodput_mbps"].as_f64().unwrap_or(0.0));
        (0..config.paths.len()).map(goodput).collect::<Result<Vec<f64>, E>>()
    };
    Ok(Singles { alone: goodputs(single)?, fair: goodputs(fair)? })
}

/// The scenario with path `path` alone.
pub fn single(config: &SimConfig, path: usize) -> SimConfig {
    let mut alone = config.clone();
    alone.paths = vec![config.paths[path].clone()];
    alone.paths[0].role = Role::Active;
    alone.policy = None;
    alone.cross.retain_mut(|traffic| match &mut traffic.on {
        CrossLink::Path(on) => {
            let here = *on == path;
            *on = 0;
            here
        }
        CrossLink::Shared(_) => true,
    });
    alone
}

/// The scenario with its data on path `path`: the connection is opened as it is, on the same path and with all others
/// joining, but those others are backups. Data go on them until `path` is up, and while it is down.
pub fn fair(config: &SimConfig, path: usize) -> SimConfig {
    let mut held = config.clone();
    held.policy = None;
    for (at, other) in held.paths.iter_mut().enumerate() {
        other.role = if at == path { Role::Active } else { Role::Backup };
    }
    // It opens all paths as well, but would choose the backups itself.
    if held.transport.path_manager == PathManager::Backup {
        held.transport.path_manager = PathManager::FullMesh;
    }
    held
}

/// Whether a run's goodput says how well paths add up: it does where the application always has
/// more to send.
pub fn aggregates(config: &SimConfig) -> bool {
    config.paths.len() > 1 && matches!(config.workload, Workload::Bulk { .. } | Workload::Duration { .. })
}
