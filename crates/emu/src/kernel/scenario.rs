//! The way from a scenario to what the kernel is asked to do; and what it cannot do.

use std::net::Ipv4Addr;

use weftway_path::{Bytes, Role, Span, Tier};
use weftway_scenario::Variant;
use weftway_scenario::config::{Buffer, Direction, Opening, PathManager, PathPolicy, SimConfig, Workload};

use crate::kernel::{Opener, Setup, Transfer, Work};

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
    if config.is_call() {
        return Some("a call goes both ways at once, and the transfer over the kernel one way".to_owned());
    }
    if !cross.is_empty() {
        return Some("cross traffic is not emulated in real time".to_owned());
    }
    if variant.timing.is_some() {
        return Some("the kernel decides for each packet, and at once".to_owned());
    }
    let is_beyond = |path: &PathPolicy| matches!(path.tier, Tier::Secondary | Tier::Never) || path.cap.is_some();
    if config.policy.as_ref().is_some_and(|policy| policy.paths.iter().any(is_beyond)) {
        return Some(
            "the kernel knows primary and backup paths; secondary ones, caps and never are not its own".to_owned(),
        );
    }
    if paths.len() > 1 && transport.open == Opening::Race {
        return Some("the kernel opens a connection on the first path".to_owned());
    }
    (paths.len() > 1 && transport.path_manager == PathManager::PrimaryFirst)
        .then(|| "the kernel's path manager opens all paths at once".to_owned())
}

/// The kernel's name of a controller without switches.
fn name(cc: &str) -> Option<&'static str> {
    CONTROLLERS.iter().find(|(ours, _)| *ours == cc).map(|(_, theirs)| *theirs)
}

impl Setup {
    /// Settings of both ends for `config`.
    pub fn of(config: &SimConfig) -> Self {
        let kept = config.transport.path_manager == PathManager::Backup;
        let is_backup = |(at, role): (usize, Role)| role == Role::Backup || kept && at > 0;
        let max = |buffer| match buffer {
            Buffer::Auto { max } => Some(max),
            Buffer::Fixed(_) => None,
        };
        Self {
            backups: config.paths.iter().map(|path| path.role).enumerate().map(is_backup).collect(),
            send_max: max(config.transport.send_buffer),
            receive_max: max(config.transport.receive_buffer),
            ecn: config.transport.ecn,
        }
    }
}

impl Transfer {
    /// The transfer of a variant without [`obstacle`]. The application writes as in a simulation with this seed.
    pub fn of(variant: &Variant, cc: &str, seed: u64) -> Self {
        let config = &variant.config;
        let fixed = |buffer| match buffer {
            Buffer::Fixed(bytes) => Some(bytes),
            Buffer::Auto { .. } => None,
        };
        Self {
            multipath: variant.transport == "mptcp",
            opener: match config.transport.direction {
                Direction::Upload => Opener::Sender,
                Direction::Download => Opener::Receiver,
            },
            cc: name(cc).unwrap_or(cc).to_owned(),
            work: work(&config.workload, seed),
            write: config.write,
            time_limit: config.time_limit,
            nodelay: config.transport.nodelay,
            send_buffer: fixed(config.transport.send_buffer),
            receive_buffer: fixed(config.transport.receive_buffer),
            sample_every: SAMPLE_EVERY,
            // The lab knows them.
            paths: Vec::<Ipv4Addr>::new(),
        }
    }
}

fn work(workload: &Workload, seed: u64) -> Work {
    match workload {
        Workload::Bulk { bytes } => Work::Bulk { bytes: *bytes },
        Workload::Duration { span } => Work::Duration { span: *span },
        Workload::RequestResponse { bytes, think, count } => {
            Work::RequestResponse { bytes: (*bytes).max(Bytes::new(1)), think: *think, count: *count }
        }
        Workload::Web { objects, think } => Work::Web { objects: objects.clone(), think: *think },
        Workload::Messages { .. }
        | Workload::Limited { .. }
        | Workload::Stream { .. }
        | Workload::Voip { .. }
        | Workload::Flows { .. }
        | Workload::Datagrams { .. }
        | Workload::Call { .. } => {
            Work::Messages { written: weftway_scenario::writes(workload, seed).unwrap_or_default() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, variant};

    const CALL: &str = "workload={ kind = \"call\", rate = \"1 Mbit/s\", period = \"40 ms\", deadline = \"200 ms\", \
                        duration = \"1 s\" }";

    #[test]
    fn what_the_kernel_cannot_do_is_said_in_a_line() {
        let noise = "[cross.noise]\non = \"wifi\"\nrate = \"1 Mbit/s\"\n";
        let rival = "[path.other]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\nconnection = \"rival\"\n[rival]\n";
        let cases = [
            ("", "transport=mpquic", "cubic", "has no Multipath QUIC"),
            ("", "direction=download", "lia", "has no controller lia; of ours it has newreno, cubic, bbr1"),
            (noise, "direction=download", "cubic", "cross traffic is not emulated"),
            ("", "decision.interval=50 ms", "cubic", "decides for each packet"),
            ("", "options.path_manager=primary-first", "cubic", "opens all paths at once"),
            ("", "options.open=race", "cubic", "opens a connection on the first path"),
            (rival, "direction=download", "cubic", "a second connection"),
            ("", CALL, "cubic", "goes both ways"),
        ];
        for (tables, set, cc, why) in cases {
            let obstacle = obstacle(&testing::with(tables, &[set]), cc).unwrap();
            assert!(obstacle.contains(why), "{obstacle}");
        }
        assert_eq!(obstacle(&variant(&[]), "bbr1"), None);
    }

    #[test]
    fn a_download_is_asked_for_by_the_receiver_with_the_kernels_name_of_the_controller() {
        let transfer = Transfer::of(&variant(&[]), "newreno", 1);
        assert!(transfer.multipath);
        assert_eq!((transfer.opener, transfer.cc.as_str()), (Opener::Receiver, "reno"));
        assert_eq!(transfer.work, Work::Bulk { bytes: Bytes::new(2_000_000) });
        let upload = Transfer::of(&testing::tcp(&["direction=upload"]), "cubic", 1);
        assert_eq!((upload.multipath, upload.opener), (false, Opener::Sender));
    }

    /// A fixed buffer is set on the socket, the bound of one that grows in the namespace.
    #[test]
    fn buffers_are_set_where_the_kernel_has_them() {
        let variant = variant(&["options.send_buffer=1 MB"]);
        let (setup, transfer) = (Setup::of(&variant.config), Transfer::of(&variant, "cubic", 1));
        assert_eq!((setup.send_max, transfer.send_buffer), (None, Some(Bytes::new(1_000_000))));
        assert_eq!((setup.receive_max, transfer.receive_buffer), (Some(Bytes::new(6 << 20)), None));
    }

    #[test]
    fn small_packets_wait_where_the_scenario_says_so() {
        let nodelay = |sets: &[&str]| Transfer::of(&variant(sets), "cubic", 1).nodelay;
        assert_eq!([&[][..], &["options.nodelay=false"]].map(nodelay), [true, false]);
    }

    #[test]
    fn a_path_is_a_backup_by_itself_or_by_the_path_manager() {
        let backups = |sets: &[&str]| Setup::of(&variant(sets).config).backups;
        assert_eq!(backups(&[]), [false, false]);
        assert_eq!(backups(&["path.wifi.role=backup"]), [true, false]);
        assert_eq!(backups(&["options.path_manager=backup"]), [false, true]);
        assert_eq!(backups(&["path.wifi.tier=backup"]), [true, false]);
    }

    #[test]
    fn a_policy_that_the_kernel_does_not_have_is_an_obstacle() {
        let refused = |set: &str| obstacle(&variant(&[set]), "cubic").is_some_and(|why| why.contains("caps"));
        let sets = ["tier=secondary", "tier=never", "cap=5 MB", "tier=backup", "price=4/GB"];
        assert_eq!(sets.map(|set| refused(&format!("path.wifi.{set}"))), [true, true, true, false, false]);
    }

    #[test]
    fn the_kernel_writes_the_messages_that_a_simulation_writes() {
        let workload = Workload::Limited { rate: weftway_path::BitRate::from_mbps(1), bytes: Bytes::new(3000) };
        let Work::Messages { written } = work(&workload, 1) else { panic!("messages") };
        // 1200 B at 1 Mbit/s take 9.6 ms.
        let at = |micros: u64| Span::from_nanos(micros * 1000);
        assert_eq!(written, [(at(0), 1200), (at(9600), 1200), (at(19_200), 600)].map(|(at, n)| (at, Bytes::new(n))));
    }
}
