//! Parts of a scenario that real QUIC cannot run, or not yet.

use weftway_host::mismatch;
use weftway_path::Bytes;
use weftway_scenario::Variant;
use weftway_scenario::config::{AckPath, Buffer, PathManager, SimConfig};
use weftway_scenario::stack::LossRecovery;
use weftway_sched::Arity;

use super::setup::HEADERS;
use crate::driver::OFFERS;
use crate::driver::record::OVERHEAD;

/// The least UDP payload of QUIC (RFC 9000 §14).
const LEAST_PAYLOAD: u64 = 1200;
/// Largest number of a path, given the addresses of a run.
const MOST_PATHS: usize = 32;

/// Why this variant cannot be run here with this scheduler, if it cannot: one line.
pub fn obstacle(variant: &Variant, scheduler: &str) -> Option<String> {
    of_config(&variant.config)
        .or_else(|| {
            variant.timing.is_some().then(|| "on QUIC a scheduler decides for each packet, and at once".to_owned())
        })
        .or_else(|| of_scheduler(&variant.config, scheduler))
}

fn of_config(config: &SimConfig) -> Option<String> {
    let SimConfig { transport, paths, rival, cross, .. } = config;
    if transport.rules.recovery != LossRecovery::Quic {
        return Some("on QUIC only transport = \"mpquic\" runs".to_owned());
    }
    let least = Bytes::new(HEADERS + LEAST_PAYLOAD);
    if transport.packet < least {
        return Some(format!("a packet of {}; QUIC needs at least {least}", transport.packet));
    }
    if transport.mss + Bytes::new(HEADERS + OVERHEAD) > transport.packet {
        let most = transport.packet - Bytes::new(HEADERS + OVERHEAD);
        return Some(format!("a payload of {}; a packet of {} holds {most}", transport.mss, transport.packet));
    }
    if paths.len() > MOST_PATHS {
        return Some(format!("{} paths; it opens at most {MOST_PATHS}", paths.len()));
    }
    let no = |what: &str| Some(what.to_owned());
    if rival.is_some() {
        return no("a second connection is not run beside it yet");
    }
    if config.is_call() {
        return no("a call, which sends both ways, is not run yet");
    }
    if !cross.is_empty() {
        return no("cross traffic is not run beside it yet");
    }
    if paths.len() > 1 && transport.path_manager == PathManager::PrimaryFirst {
        return no("all paths are opened at once");
    }
    if paths.len() > 1 && transport.ack_path != AckPath::Same {
        return no("acknowledgements return on the path that they acknowledge");
    }
    if matches!(transport.send_buffer, Buffer::Auto { .. }) || matches!(transport.receive_buffer, Buffer::Auto { .. }) {
        return no("its buffers are fixed; give send_buffer and receive_buffer a size");
    }
    None
}

fn of_scheduler(config: &SimConfig, scheduler: &str) -> Option<String> {
    let (entry, spec) = weftway_sched::parse(scheduler).ok()?;
    let paths = config.paths.len();
    if entry.arity == Arity::Pair && paths < 2 {
        return Some(format!("its rule is for two paths; the scenario has {paths}"));
    }
    let needs = entry.make(&spec.given).ok()?.needs();
    mismatch(needs, OFFERS, "QUIC in virtual time")
}
