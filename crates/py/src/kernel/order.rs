//! From a scenario to what the kernel is asked to do; and what it cannot do.

use std::net::Ipv4Addr;

use weftway_emu::kernel::{Opener, Setup, Transfer, Work};
use weftway_path::{Bytes, Role, Span};
use weftway_scenario::Variant;
use weftway_scenario::config::{Buffer, Direction, PathManager, SimConfig, Workload};

/// Our controllers that Linux has, and what it calls them.
const CONTROLLERS: [(&str, &str); 3] = [("newreno", "reno"), ("cubic", "cubic"), ("bbr1", "bbr")];

/// The most paths that its in-kernel path manager opens.
const MOST_PATHS: usize = 8;

/// A sample fills a step of a timeline.
const SAMPLE_EVERY: Span = Span::from_millis(10);

/// Why the kernel cannot run this, if it cannot. Sizes of packets, timers and acknowledgements are its own, and no
/// obstacle.
pub fn obstacle(variant: &Variant, cc: &str) -> Option<String> {
    let config = &variant.config;
    let SimConfig { rival, cross, paths, transport, .. } = config;
    if variant.transport == "mpquic" {
        return Some("the kernel has no Multipath QUIC; transport = \"mptcp\" or \"tcp\" runs there".to_owned());
    }
    if name(cc).is_none() {
        let have: Vec<&str> = CONTROLLERS.iter().map(|(ours, _)| *ours).collect();
        return Some(format!("the kernel has no controller {cc}; of ours it has {}", have.join(", ")));
    }
    if paths.len() > MOST_PATHS {
        return Some(format!("{} paths; the kernel opens at most {MOST_PATHS}", paths.len()));
    }
    if rival.is_some() {
        return Some("a second connection is not run beside the kernel's".to_owned());
    }
    if !cross.is_empty() {
        return Some("cross traffic is not emulated in real time".to_owned());
    }
    if variant.timing.is_some() {
        return Some("the kernel decides for each packet, and at once".to_owned());
    }
    (paths.len() > 1 && transport.path_manager == PathManager::PrimaryFirst)
        .then(|| "the kernel's path manager opens all paths at once".to_owned())
}

/// The kernel's name of a controller without switches.
fn name(cc: &str) -> Option<&'static str> {
    CONTROLLERS.iter().find(|(ours, _)| *ours == cc).map(|(_, theirs)| *theirs)
}

/// How both ends are set.
pub fn setup(config: &SimConfig) -> Setup {
    let kept = config.transport.path_manager == PathManager::Backup;
    let is_backup = |(at, role): (usize, Role)| role == Role::Backup || kept && at > 0;
    let max = |buffer| match buffer {
        Buffer::Auto { max } => Some(max),
        Buffer::Fixed(_) => None,
    };
    Setup {
        backups: config.paths.iter().map(|path| path.role).enumerate().map(is_backup).collect(),
        send_max: max(config.transport.send_buffer),
        receive_max: max(config.transport.receive_buffer),
        ecn: config.transport.ecn,
    }
}

/// The transfer of a variant without obstacle.
pub fn transfer(variant: &Variant, cc: &str, seed: u64) -> Transfer {
    let config = &variant.config;
    let fixed = |buffer| match buffer {
        Buffer::Fixed(bytes) => Some(bytes),
        Buffer::Auto { .. } => None,
    };
    Transfer {
        multipath: variant.transport == "mptcp",
        opener: match config.transport.direction {
            Direction::Upload => Opener::Sender,
            Direction::Download => Opener::Receiver,
        },
        cc: name(cc).unwrap_or(cc).to_owned(),
        work: work(&config.workload, seed),
        write: config.write,
        time_limit: config.time_limit,
        send_buffer: fixed(config.transport.send_buffer),
        receive_buffer: fixed(config.transport.receive_buffer),
        sample_every: SAMPLE_EVERY,
        // The lab knows them.
        paths: Vec::<Ipv4Addr>::new(),
    }
}

fn work(workload: &Workload, seed: u64) -> Work {
    match workload {
        Workload::Bulk { bytes } => Work::Bulk { bytes: *bytes },
        Workload::Duration { span } => Work::Duration { span: *span },
        Workload::RequestResponse { bytes, think, count } => {
            Work::RequestResponse { bytes: (*bytes).max(Bytes::new(1)), think: *think, count: *count }
        }
        Workload::Messages { .. } | Workload::Limited { .. } | Workload::Stream { .. } => {
            Work::Messages { written: weftway_scenario::writes(workload, seed).unwrap_or_default() }
        }
    }
}
