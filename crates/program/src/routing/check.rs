//! Check of a tunnel's routes by `ip`: what is missing of them, and which packets go beside the tunnel.
//!
//! Other programs change routes, too: systemd-networkd takes away rules that are not its own when it starts, a device
//! that is set down loses its routes, a VPN puts its rules before those of the tunnel.

use std::io;
use std::net::IpAddr;

use serde_json::Value;

use super::part::Selector;
use super::plan::{Need, Plan};
use super::shown::{Shown, bits, documents};
use super::{Family, TABLE, commands};

/// An address in each eighth of IPv4 that is not multicast. Nobody has rules or routes for these hosts, as some have
/// for 1.1.1.1.
const ANYWHERE_4: [&str; 7] =
    ["1.77.65.66", "33.77.65.66", "65.77.65.66", "97.77.65.66", "129.77.65.66", "161.77.65.66", "193.77.65.66"];
/// An address in each half of what is in use of IPv6 (2000::/3).
const ANYWHERE_6: [&str; 2] = ["2a00::7765:6674", "3000::7765:6674"];

/// Types of routes that let nothing out.
const LEADS_NOWHERE: [&str; 7] = ["local", "broadcast", "multicast", "unreachable", "blackhole", "prohibit", "throw"];

/// Bits of the longest prefix whose route is a default route in parts, as VPN programs set them (0.0.0.0/1,
/// 128.0.0.0/1), and none to a network that the machine knows better: those have 8 bits (10.0.0.0/8) or 7 (fc00::/7)
/// and more.
fn most_general(family: Family) -> u8 {
    match family {
        Family::V4 => 7,
        Family::V6 => 6,
    }
}

/// Looks at each of these families of addresses.
pub fn look(plan: &Plan, families: &[Family]) -> io::Result<Vec<(Family, Shown)>> {
    let device = &plan.device;
    // The device comes last: after `link show` older versions of `ip` show no addresses in the same batch.
    let questions = [
        format!("address show dev {device}"),
        "rule show".to_owned(),
        format!("route show table {TABLE}"),
        format!("link show dev {device}"),
    ];
    families.iter().map(|&family| Ok((family, Shown::read(&commands::ask(family, &questions)?.stdout)))).collect()
}

/// Things of the plan that are not there, in these families: all, of a family that was switched on after the look.
pub fn missing(plan: &Plan, families: &[Family], shown: &[(Family, Shown)]) -> Vec<Need> {
    let nothing = Shown::default();
    let of = |family| shown.iter().find(|(known, _)| *known == family).map_or(&nothing, |(_, shown)| shown);
    let is_missing = |need: &Need| !of(need.family().unwrap_or(Family::V4)).has(plan, need);
    plan.lines(families).into_iter().filter(is_missing).collect()
}

/// Finds packets for the tunnel that go beside it, and says which way they go.
pub fn beside(plan: &Plan, families: &[Family]) -> io::Result<Option<String>> {
    for &family in families {
        let probes = probes(plan, family);
        let questions: Vec<_> = probes.iter().map(|probe| format!("route get fibmatch {}", probe.packet)).collect();
        let ended = commands::ask(family, &questions)?;
        if let Some(way) = way_beside(plan, family, &probes, &ended) {
            return Ok(Some(way));
        }
    }
    Ok(None)
}

fn way_beside(plan: &Plan, family: Family, probes: &[Probe], ended: &commands::Ended) -> Option<String> {
    let failed = failed(&ended.complaint);
    let answered = probes.iter().enumerate().filter(|(at, _)| !failed.contains(&(at + 1))).map(|(_, probe)| probe);
    let mut answers = answered.zip(documents(&ended.stdout));
    answers.find_map(|(probe, routes)| {
        let route = routes.first().filter(|route| probe.goes_beside(plan, family, route))?;
        let device = route["dev"].as_str().unwrap_or("another device");
        Some(format!("{} of {family} leads to {device}", route["dst"].as_str().unwrap_or_default()))
    })
}

/// The numbers of the questions that `ip` could not answer.
fn failed(complaint: &str) -> Vec<usize> {
    let lines = complaint.lines().filter_map(|line| line.strip_prefix("Command failed -:"));
    lines.filter_map(|number| number.trim().parse().ok()).collect()
}

/// A packet for the tunnel, as `ip route get` is asked for it.
#[derive(Debug)]
struct Probe {
    packet: String,
    /// True where the machine may have a better route to the packet's network than the tunnel.
    is_general: bool,
}

impl Probe {
    /// Tells if the route that the kernel takes for the packet leads past the tunnel.
    fn goes_beside(&self, plan: &Plan, family: Family, route: &Value) -> bool {
        let leads_nowhere = route["type"].as_str().is_some_and(|kind| LEADS_NOWHERE.contains(&kind));
        if route["dev"] == plan.device.as_str() || leads_nowhere {
            return false;
        }
        !self.is_general || bits(route) <= most_general(family)
    }
}

fn probes(plan: &Plan, family: Family) -> Vec<Probe> {
    let mut probes = Vec::new();
    for selector in plan.selectors(family) {
        let is_general = plan.has_better(&selector);
        // Of several ports the first.
        let words = selector
            .ports
            .map_or_else(String::new, |(protocol, first, _)| format!(" ipproto {protocol} dport {first}"));
        let places = places(&selector, family).into_iter();
        let others = places.filter(|place| plan.relays.iter().all(|relay| relay.ip() != *place));
        probes.extend(others.map(|place| Probe { packet: format!("{place}{words}"), is_general }));
    }
    probes
}

/// Addresses that stand for all that a rule selects.
fn places(selector: &Selector, family: Family) -> Vec<IpAddr> {
    if let Some(network) = selector.to {
        return vec![network.hosts().next().unwrap_or(network.addr())];
    }
    let anywhere: &[&str] = if family == Family::V4 { &ANYWHERE_4 } else { &ANYWHERE_6 };
    let count = if selector.ports.is_some() { 1 } else { anywhere.len() };
    anywhere.iter().take(count).filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::*;

    // As `ip -json -N` of iproute2 6.1 printed them.
    const DEVICE: &str = r#""ifname":"weft0","flags":["POINTOPOINT","MULTICAST","NOARP","UP","LOWER_UP"],"mtu":1500"#;
    const ADDRESS_4: &str = r#""addr_info":[{"family":"inet","local":"198.18.77.1","prefixlen":32,"label":"weft0"}]"#;
    const ADDRESS_6: &str =
        r#""addr_info":[{"family":"inet6","local":"fd77:6566:7477::1","prefixlen":128,"nodad":true}]"#;
    const RULES_4: &str = concat!(
        r#"[{"priority":0,"src":"all","table":"255"},"#,
        r#"{"priority":4400,"src":"all","dst":"192.0.2.1","ipproto":"ipproto-17","dport":4433,"goto":4499},"#,
        r#"{"priority":4401,"src":"all","ipproto":"ipproto-17","dport":53,"table":"51877"},"#,
        r#"{"priority":4402,"src":"all","ipproto":"ipproto-6","dport":53,"table":"51877"},"#,
        r#"{"priority":4403,"src":"all","dst":"198.18.77.2","table":"51877"},"#,
        r#"{"priority":4404,"src":"all","table":"254","suppress_prefixlen":0},"#,
        r#"{"priority":4405,"src":"all","table":"51877"},"#,
        r#"{"priority":4499,"src":"all","nop":null},"#,
        r#"{"priority":32766,"src":"all","table":"254"},{"priority":32767,"src":"all","table":"253"}]"#,
    );
    const RULES_6: &str = concat!(
        r#"[{"priority":0,"src":"all","table":"255"},"#,
        r#"{"priority":4400,"src":"all","dst":"2001:db8::1","ipproto":"ipproto-17","dport":4433,"goto":4499},"#,
        r#"{"priority":4401,"src":"all","ipproto":"ipproto-17","dport":53,"table":"51877"},"#,
        r#"{"priority":4402,"src":"all","ipproto":"ipproto-6","dport":53,"table":"51877"},"#,
        r#"{"priority":4403,"src":"all","table":"254","suppress_prefixlen":0},"#,
        r#"{"priority":4404,"src":"all","table":"51877"},"#,
        r#"{"priority":4499,"src":"all","nop":null},{"priority":32766,"src":"all","table":"254"}]"#,
    );
    const ROUTES_4: &str = r#"[{"dst":"default","dev":"weft0","scope":"253","flags":[]}]"#;
    const ROUTES_6: &str = r#"[{"dst":"default","dev":"weft0","metric":1024,"flags":[],"pref":"medium"}]"#;

    /// A text, and what stands in its place.
    type Change<'a> = (&'a str, &'a str);

    fn addresses_4() -> String {
        format!("[{{{DEVICE},{ADDRESS_4}}}]")
    }

    fn link() -> String {
        format!("[{{{DEVICE}}}]")
    }

    /// Output of `ip` for IPv4, with texts replaced.
    fn printed_4(changes: &[Change<'_>]) -> String {
        let mut text = [&addresses_4(), RULES_4, ROUTES_4, &link()].join("\n");
        for (old, new) in changes {
            assert!(text.contains(old), "{old}");
            text = text.replace(old, new);
        }
        // A list that ended in an error is glued to the next line.
        text.replace("[[\n[", "[[") + "\n"
    }

    fn printed_6(rules: &str) -> String {
        [&format!("[{{{DEVICE},{ADDRESS_6}}}]"), rules, ROUTES_6, &link()].join("\n") + "\n"
    }

    fn missing_of(plan: &Plan, v4: &str, v6: &str) -> Vec<String> {
        let shown = [(Family::V4, Shown::read(v4)), (Family::V6, Shown::read(v6))];
        lines(plan, missing(plan, &Family::ALL, &shown))
    }

    fn lines(plan: &Plan, needs: Vec<Need>) -> Vec<String> {
        let line = |need: &Need| {
            let option = need.family().map_or(String::new(), |family| format!("{} ", family.option()));
            option + &need.line(plan).unwrap()
        };
        needs.iter().map(line).collect()
    }

    #[test]
    fn things_that_are_missing_are_seen() {
        let (addresses, link) = (addresses_4(), link());
        let cases: [(&[Change<'_>], &[&str]); 11] = [
            (&[], &[]),
            (&[(r#"{"priority":4499,"src":"all","nop":null},"#, "")], &["-4 rule add pref 4499 nop"]),
            // A jump to a rule that is not there.
            (
                &[(r#""goto":4499"#, r#""goto":4499,"unresolved":null"#)],
                &["-4 rule add pref 4400 to 192.0.2.1/32 ipproto udp dport 4433 goto 4499"],
            ),
            // Another program's rule in the place of one of ours.
            (
                &[(r#""dst":"198.18.77.2""#, r#""dst":"198.18.77.3""#)],
                &["-4 rule add pref 4403 to 198.18.77.2/32 lookup 51877"],
            ),
            (&[(r#""table":"51877"}"#, r#""table":"200"}"#)], &["4401", "4402", "4403", "4405"]),
            (&[(r#""src":"all","table":"51877""#, r#""src":"10.0.0.7","table":"51877""#)], &["4405"]),
            (&[(ROUTES_4, "[[")], &["-4 route add default dev weft0 table 51877"]),
            (&[(r#""dev":"weft0""#, r#""dev":"eth0""#)], &["-4 route add default dev weft0 table 51877"]),
            (&[(&addresses, "[]")], &["-4 address add 198.18.77.1/32 dev weft0"]),
            (&[(r#""UP","#, "")], &["link set dev weft0 mtu 1500 up"]),
            (&[(r#""mtu":1500"#, r#""mtu":1280"#)], &["link set dev weft0 mtu 1500 up"]),
        ];
        for (changes, expected) in cases {
            let found = missing_of(&plan(), &printed_4(changes), &printed_6(RULES_6));
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(line, wanted)| line.contains(wanted)), "{found:?}");
        }
        let gone = printed_4(&[(&addresses, ""), (&link, "")]);
        let expected = ["-4 address add 198.18.77.1/32 dev weft0", "link set dev weft0 mtu 1500 up"];
        assert_eq!(missing_of(&plan(), &gone, &printed_6(RULES_6)), expected);
    }

    #[test]
    fn of_a_family_that_was_switched_on_meanwhile_all_is_missing() {
        let plan = plan();
        let found = missing(&plan, &Family::ALL, &[(Family::V4, Shown::read(&printed_4(&[])))]);
        let all: Vec<_> = plan.lines(&Family::ALL);
        assert_eq!(found, all.into_iter().filter(|need| need.family() == Some(Family::V6)).collect::<Vec<_>>());
    }

    #[test]
    fn ports_and_networks_of_a_part_are_compared() {
        let only = ["10.0.0.0/8:80-90", ":443"].map(|text| text.parse().unwrap()).to_vec();
        let plan = Plan { relays: vec![], only, names: false, ..plan() };
        let part = r#""src":"all","dst":"10.0.0.0","dstlen":8,"#;
        let ports = r#""dport_start":80,"dport_end":90,"table":"51877""#;
        let rules = [
            format!(r#"[{{"priority":4400,{part}"ipproto":"ipproto-6",{ports}}}"#),
            format!(r#"{{"priority":4401,{part}"ipproto":"ipproto-17",{ports}}}"#),
            r#"{"priority":4402,"src":"all","ipproto":"ipproto-6","dport":443,"table":"51877"}"#.to_owned(),
            r#"{"priority":4403,"src":"all","ipproto":"ipproto-17","dport":443,"table":"51877"}"#.to_owned(),
            r#"{"priority":4499,"src":"all","nop":null}]"#.to_owned(),
        ]
        .join(",");
        let v6 = printed_6(&rules.replace("4402", "4400").replace("4403", "4401"));
        assert_eq!(missing_of(&plan, &printed_4(&[(RULES_4, &rules)]), &v6), [""; 0]);
        let wrong = rules.replacen(r#""dport_end":90"#, r#""dport_end":91"#, 1);
        let found = missing_of(&plan, &printed_4(&[(RULES_4, &wrong)]), &v6);
        assert_eq!(found, ["-4 rule add pref 4400 to 10.0.0.0/8 ipproto tcp dport 80-90 lookup 51877"]);
    }

    #[test]
    fn the_way_of_packets_is_known_though_a_question_has_no_answer() {
        let plan = Plan { names: false, ..plan() };
        let probes = probes(&plan, Family::V4);
        for (route, way) in [
            (r#"{"dst":"default","dev":"weft0","table":"51877"}"#, None),
            (r#"{"dst":"default","dev":"near1","table":"200"}"#, Some("default of IPv4 leads to near1")),
            // A default route in halves, as VPN programs set it; a network that the machine knows better.
            (r#"{"dst":"0.0.0.0/1","dev":"tun0"}"#, Some("0.0.0.0/1 of IPv4 leads to tun0")),
            (r#"{"dst":"1.0.0.0/8","dev":"near1"}"#, None),
            (r#"{"dst":"1.77.65.66","dev":"near1"}"#, None),
            (r#"{"type":"unreachable","dst":"default","dev":"lo"}"#, None),
        ] {
            let complaint = "RTNETLINK answers: No route to host\nCommand failed -:1".to_owned();
            let stdout = format!("[{route}]\n").repeat(probes.len() - 1);
            let ended = commands::Ended { worked: false, stdout, complaint };
            assert_eq!(way_beside(&plan, Family::V4, &probes, &ended).as_deref(), way, "{route}");
        }
    }

    #[test]
    fn probes_stand_for_all_that_goes_through_it() {
        let only = ["10.0.0.0/8:80-90", "192.0.2.1", ":443", "10.0.0.0/31"].map(|text| text.parse().unwrap()).to_vec();
        let packets: Vec<_> =
            probes(&Plan { only, ..plan() }, Family::V4).into_iter().map(|probe| probe.packet).collect();
        let anywhere = |words: &str| format!("1.77.65.66 ipproto {words}");
        let expected = [
            &anywhere("udp dport 53"),
            &anywhere("tcp dport 53"),
            "198.18.77.2",
            "10.0.0.1 ipproto tcp dport 80",
            "10.0.0.1 ipproto udp dport 80",
            // None to the relay.
            &anywhere("tcp dport 443"),
            &anywhere("udp dport 443"),
            "10.0.0.0",
        ];
        assert_eq!(packets, expected);
        assert_eq!(probes(&plan(), Family::V6).len(), 4);
    }
}
