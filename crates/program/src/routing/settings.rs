//! Settings of the kernel that a tunnel depends on.

use std::fs;
use std::path::{Path, PathBuf};

use super::Family;

/// A filter of sources that lets through packets from an address to which the machine has any route (rp_filter).
pub const LOOSE: &str = "2";

/// The families of addresses that this machine has switched on, on any device but this one.
pub fn families(device: &str) -> Vec<Family> {
    families_in(Path::new("/proc/sys/net/ipv6/conf"), device)
}

fn families_in(folder: &Path, device: &str) -> Vec<Family> {
    // What is set for all holds for those that were there then; each may be set anew.
    let mut others = folders(folder).into_iter().filter(|(name, _)| name != "default" && name != device);
    let is_on = others.any(|(_, folder)| read(&folder.join("disable_ipv6")) == "0");
    if is_on { Family::ALL.to_vec() } else { vec![Family::V4] }
}

/// Switches IPv6 on for a device. New devices may have none where others do.
pub fn switch_ipv6_on(device: &str) {
    set(&PathBuf::from(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6")), "0");
}

/// The setting of the kernel that is to be loosened so that nothing drops what comes from the relay, and what it is
/// now.
///
/// A strict filter of sources (rp_filter 1) takes a packet only from the device by which an answer would leave. By the
/// rules that would be the tunnel's, since they ask for more than an address. Of a device's setting and that of all
/// devices the larger one counts, so that the latter is enough, also for devices that come later.
pub fn strict_filter() -> Option<(PathBuf, String)> {
    strict_filter_in(Path::new("/proc/sys/net/ipv4/conf"))
}

fn strict_filter_in(folder: &Path) -> Option<(PathBuf, String)> {
    let of_all = folder.join("all/rp_filter");
    let is_strict = folders(folder).iter().any(|(_, folder)| read(&folder.join("rp_filter")) == "1");
    let now = read(&of_all);
    (is_strict && now != LOOSE).then_some((of_all, now))
}

/// Sets a setting. Where that is refused, it stays as it is.
pub fn set(file: &Path, value: &str) {
    let _ = fs::write(file, format!("{value}\n"));
}

/// A setting; nothing, of a device that has gone.
fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// Devices, and the folders of their settings.
fn folders(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(settings: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (device, name, value) in settings {
            fs::create_dir_all(folder.path().join(device)).unwrap();
            set(&folder.path().join(device).join(name), value);
        }
        folder
    }

    #[test]
    fn ipv6_of_any_other_device_counts() {
        for (device, is_on) in [("eth0", true), ("weft0", false), ("default", false), ("all", true)] {
            let conf = conf(&[("lo", "disable_ipv6", "1"), (device, "disable_ipv6", "0")]);
            assert_eq!(families_in(conf.path(), "weft0").contains(&Family::V6), is_on, "{device}");
        }
        assert_eq!(families_in(Path::new("/nowhere"), "weft0"), [Family::V4]);
    }

    #[test]
    fn strict_filters_of_any_device_count_unless_all_are_loose() {
        for (all, other, is_strict) in [("0", "0", false), ("0", "1", true), ("1", "0", true), ("2", "1", false)] {
            let conf = conf(&[("all", "rp_filter", all), ("default", "rp_filter", other)]);
            let expected = is_strict.then(|| (conf.path().join("all/rp_filter"), all.to_owned()));
            assert_eq!(strict_filter_in(conf.path()), expected);
        }
    }
}
