//! Counters of a network namespace: `/proc/net/snmp` and `/proc/net/netstat`.
//!
//! Both are pairs of lines that begin with the same word, names above values.

use std::collections::BTreeMap;
use std::fs;

use crate::{EmuError, Namespace};

/// Counters by name, such as `Tcp.RetransSegs` or `MPTcpExt.OFOQueue`.
pub type Counters = BTreeMap<String, u64>;

/// Files of the calling thread's namespace.
const FILES: [&str; 2] = ["/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"];

/// The groups that say something about a transfer.
const GROUPS: [&str; 3] = ["Tcp", "TcpExt", "MPTcpExt"];

/// Counts of `namespace` so far.
pub(super) fn read(namespace: &Namespace) -> Result<Counters, EmuError> {
    namespace.within(|| {
        let mut counters = Counters::new();
        for file in FILES {
            counters.extend(parse(&fs::read_to_string(file).map_err(EmuError::system(file))?));
        }
        Ok(counters)
    })
}

/// Counters that grew, and by how much. What can fall, such as the number of connections, is left out when it fell.
pub(super) fn growth(before: &Counters, after: &Counters) -> Counters {
    let grown = after.iter().filter_map(|(name, &value)| {
        let growth = value.saturating_sub(before.get(name).copied().unwrap_or(0));
        (growth > 0).then(|| (name.clone(), growth))
    });
    grown.collect()
}

fn parse(text: &str) -> Counters {
    let lines: Vec<_> = text.lines().collect();
    lines.as_chunks::<2>().0.iter().flat_map(|[names, values]| pair(names, values)).collect()
}

/// `Tcp: A B` and `Tcp: 1 2`. A negative value (no limit) is none.
fn pair<'a>(names: &'a str, values: &'a str) -> impl Iterator<Item = (String, u64)> + 'a {
    let (group, names) = names.split_once(':').unwrap_or_default();
    let values = values.split_once(':').unwrap_or_default().1;
    let wanted = GROUPS.contains(&group);
    let both = names.split_whitespace().zip(values.split_whitespace());
    both.filter(move |_| wanted).filter_map(move |(name, value)| Some((format!("{group}.{name}"), value.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(list: &[(&str, u64)]) -> Counters {
        list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn names_stand_above_values() {
        let text = "Ip: Forwarding\nIp: 1\nTcp: MaxConn RetransSegs\nTcp: -1 7\nMPTcpExt: OFOQueue\nMPTcpExt: 3\n";
        assert_eq!(parse(text), counters(&[("MPTcpExt.OFOQueue", 3), ("Tcp.RetransSegs", 7)]));
    }

    #[test]
    fn only_growth_is_told() {
        let before = counters(&[("Tcp.CurrEstab", 2), ("Tcp.InSegs", 10), ("Tcp.OutSegs", 4)]);
        let after = counters(&[("Tcp.CurrEstab", 1), ("Tcp.InSegs", 15), ("Tcp.OutSegs", 4), ("Tcp.New", 1)]);
        assert_eq!(growth(&before, &after), counters(&[("Tcp.InSegs", 5), ("Tcp.New", 1)]));
    }
}
