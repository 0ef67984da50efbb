//! Memory that an end has for bytes that have arrived and wait for their readers: a part of the machine's.

use std::fs;
use std::path::Path;

use weftway_mux::Limits;
use weftway_path::Bytes;

/// The most, however much the machine has: some 400 readers that stop may each have 1 MiB of it.
const MOST: Bytes = Bytes::new(512 << 20);

/// The limits of an end that has one part of `parts` of this machine's memory, and no less than the default.
pub(crate) fn limits(parts: u64) -> Limits {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_limit(&groups, |file| fs::read_to_string(file).ok());
    share(machine.into_iter().chain(group).min(), parts)
}

fn share(memory: Option<Bytes>, parts: u64) -> Limits {
    let default = Limits::default();
    let receive = memory.map_or(default.receive, |memory| memory.mul_div(1, parts));
    Limits { receive: receive.clamp(default.receive, MOST), ..default }
}

/// `MemTotal` of `/proc/meminfo` (proc_meminfo(5)), which is in KiB.
fn total(meminfo: &str) -> Option<Bytes> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let count: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::new(count.checked_mul(1024)?))
}

/// The least memory limit of this process's control group and of the groups above it. `groups` is `/proc/self/cgroup`
/// (cgroups(7)): its line for version 2 counts, or of version 1 that for memory. In a container the group is the root
/// of what is mounted. `read` reads a file.
fn group_limit(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<Bytes> {
    let found = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = Path::new(path.trim_start_matches('/'));
        let above = group.ancestors().map(|group| Path::new(root).join(group).join(file));
        // "max" is no limit.
        above.filter_map(|file| read(&file)?.trim().parse().ok()).min()
    });
    found.min().map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn an_eighth_of_the_machine_between_64_and_512_mib() {
        let receive = |mebibytes: u64| share(Some(Bytes::new(mebibytes * MIB)), 8).receive.get() / MIB;
        assert_eq!([256, 512, 1024, 2048, 4096, 65_536].map(receive), [64, 64, 128, 256, 512, 512]);
        assert_eq!(share(None, 8), Limits::default());
        let most = share(Some(Bytes::new(u64::MAX)), 32);
        assert_eq!((most.streams, most.first_credit), (Limits::default().streams, Limits::default().first_credit));
    }

    #[test]
    fn the_memory_of_the_machine_is_read() {
        assert_eq!(total("MemTotal:       24684016 kB\nMemFree:  1 kB\n"), Some(Bytes::new(24_684_016 << 10)));
        for text in ["", "MemFree: 1 kB\n", "MemTotal: many kB\n", "MemTotal: 18446744073709551615 kB\n"] {
            assert_eq!(total(text), None, "{text}");
        }
    }

    #[test]
    fn the_least_limit_of_the_groups_counts() {
        let files = [
            ("/sys/fs/cgroup/system.slice/weft.service/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "2147483648\n"),
            ("/sys/fs/cgroup/memory.max", "4294967296\n"),
            ("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ];
        let read =
            |file: &Path| files.iter().find(|(name, _)| Path::new(name) == file).map(|&(_, text)| text.to_owned());
        let limit = |groups: &str| group_limit(groups, read).map(Bytes::get);
        assert_eq!(limit("0::/system.slice/weft.service\n"), Some(2 << 30));
        assert_eq!(limit("0::/\n"), Some(4 << 30));
        assert_eq!(limit("12:cpu,cpuacct:/\n5:memory:/docker/abc\n"), Some(512 * MIB));
        assert_eq!(limit("12:cpu,cpuacct:/docker/abc\n"), None);
        assert_eq!(limit("nothing"), None);
    }
}
