//! Addresses, routes, rules and kill switch of a tunnel. Nothing is asked of the machine here.

use std::fmt::{self, Write};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::part::{Part, Selector};
use super::{FILTER, FIRST_RULE, Family, LAST_RULE, RESOLVER, TABLE};

/// Packets that a kill switch lets out: to this machine itself, and what links need for having addresses.
const NEEDED: &str = "\
oifname \"lo\" accept
icmpv6 type { nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert } accept
udp sport 68 udp dport 67 accept
udp sport 546 udp dport 547 accept
";

/// Changes of the machine's routes that a tunnel asks for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tunnel's device.
    pub device: String,
    /// Bytes of the longest packet.
    pub mtu: usize,
    /// Addresses and ports of the relay: packets to it go as they did before.
    pub relays: Vec<SocketAddr>,
    /// Traffic that goes through the tunnel. Nothing is named: all does, but what a route of the system knows better
    /// than its default route, such as the network at home.
    pub only: Vec<Part>,
    /// True if questions for names go through it, whichever server they are for.
    pub names: bool,
    /// True if nothing goes beside it: not to the network at home, and not when the tunnel is gone.
    pub kill_switch: bool,
}

/// A thing that a tunnel needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// The device's address of a family.
    Address(Family),
    /// A device that is up.
    Device,
    /// The route of the tunnel's table.
    Route(Family),
    /// A rule.
    Rule(Family, Rule),
    /// The table of `nft`.
    KillSwitch,
    /// A loose filter of sources (`rp_filter`).
    Sources,
}

/// A rule: packets that it selects, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The preference: smaller ones come first.
    pub pref: usize,
    /// The packets.
    pub selector: Selector,
    /// Action on them.
    pub action: Action,
}

/// Action on a packet that a rule selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The last rule of the tunnel, which does nothing: other rules jump to it.
    Nothing,
    /// On to the tunnel's last rule.
    Past,
    /// The system's table, but for its default route.
    Better,
    /// The tunnel.
    Tunnel,
}

impl Plan {
    /// Settings of the device, and that it is up.
    pub fn addresses(&self, families: &[Family]) -> Vec<Need> {
        families.iter().copied().map(Need::Address).chain([Need::Device]).collect()
    }

    /// The routes and rules.
    pub fn routes(&self, families: &[Family]) -> Vec<Need> {
        let mut needs = Vec::new();
        for &family in families {
            needs.push(Need::Route(family));
            // The last one is there first: rules before it may go there.
            let last = Rule { pref: LAST_RULE, selector: Selector { to: None, ports: None }, action: Action::Nothing };
            needs.push(Need::Rule(family, last));
            let rules = self.rules(family).into_iter().enumerate();
            needs.extend(
                rules.map(|(at, (selector, action))| {
                    Need::Rule(family, Rule { pref: FIRST_RULE + at, selector, action })
                }),
            );
        }
        needs
    }

    /// Everything that `ip` is asked for.
    pub fn lines(&self, families: &[Family]) -> Vec<Need> {
        [self.addresses(families), self.routes(families)].concat()
    }

    /// Returns true if it has more rules than there are preferences.
    pub fn has_too_many_rules(&self) -> bool {
        Family::ALL.into_iter().any(|family| self.rules(family).len() > LAST_RULE - FIRST_RULE)
    }

    fn rules(&self, family: Family) -> Vec<(Selector, Action)> {
        let relays = self.relays.iter().filter(|relay| Family::of(relay.ip()) == family);
        let mut rules: Vec<_> = relays
            .map(|relay| {
                let ports = Some(("udp", relay.port(), relay.port()));
                (Selector { to: Some(IpNet::from(relay.ip())), ports }, Action::Past)
            })
            .collect();
        for selector in self.selectors(family) {
            if self.has_better(&selector) {
                rules.push((selector, Action::Better));
            }
            rules.push((selector, Action::Tunnel));
        }
        rules
    }

    /// Returns true if the machine may know better where to send packets of this selector than by its default route.
    pub fn has_better(&self, selector: &Selector) -> bool {
        (selector.to, selector.ports) == (None, None) && !self.kill_switch
    }

    /// Packets that go through the tunnel, as rules select them.
    pub fn selectors(&self, family: Family) -> Vec<Selector> {
        let mut selectors = Vec::new();
        if self.names {
            selectors.extend(["udp", "tcp"].map(|protocol| Selector { to: None, ports: Some((protocol, 53, 53)) }));
            if family == Family::V4 {
                selectors.push(Selector { to: Some(IpNet::from(IpAddr::from(RESOLVER))), ports: None });
            }
        }
        selectors.extend(self.parts().iter().flat_map(|part| part.selectors(family)));
        selectors
    }

    /// The kill switch, as `nft` reads it: traffic for the tunnel may leave by its device alone.
    pub fn filter(&self) -> String {
        let mut lines = format!("{NEEDED}oifname \"{}\" accept\n", self.device);
        for relay in &self.relays {
            let family = if relay.is_ipv4() { "ip" } else { "ip6" };
            let _ = writeln!(lines, "{family} daddr {} udp dport {} accept", relay.ip(), relay.port());
        }
        for matched in self.parts().iter().flat_map(Part::matches) {
            let _ = writeln!(lines, "{matched}reject");
        }
        if self.names && !self.only.is_empty() {
            lines += "udp dport 53 reject\ntcp dport 53 reject\n";
        }
        let chain = |hook| format!("chain {hook} {{\ntype filter hook {hook} priority 0; policy accept;\n{lines}}}\n");
        let chains = ["output", "forward"].map(chain).concat();
        // In one step: it is never not there.
        format!("table {FILTER} {{}}\ndelete table {FILTER}\ntable {FILTER} {{\n{chains}}}\n")
    }

    fn parts(&self) -> &[Part] {
        const ALL: &[Part] = &[Part::ALL];
        if self.only.is_empty() { ALL } else { &self.only }
    }
}

impl Need {
    /// The family of addresses that it is of. A device is of both.
    pub fn family(&self) -> Option<Family> {
        match self {
            Self::Address(family) | Self::Route(family) | Self::Rule(family, _) => Some(*family),
            Self::Device | Self::KillSwitch | Self::Sources => None,
        }
    }

    /// The line of `ip` that makes it on a device. There is none for what `ip` does not make.
    pub fn line(&self, plan: &Plan) -> Option<String> {
        let device = &plan.device;
        match self {
            Self::Address(family) => {
                let nodad = if *family == Family::V6 { " nodad" } else { "" };
                Some(format!("address add {}/{} dev {device}{nodad}", family.address(), family.bits()))
            }
            Self::Device => Some(format!("link set dev {device} mtu {} up", plan.mtu)),
            Self::Route(_) => Some(format!("route add default dev {device} table {TABLE}")),
            Self::Rule(_, rule) => Some(format!("rule add {rule}")),
            Self::KillSwitch | Self::Sources => None,
        }
    }
}

impl fmt::Display for Need {
    /// The name for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(family) => write!(f, "{family} address"),
            Self::Device => f.write_str("device"),
            Self::Route(family) => write!(f, "{family} route"),
            Self::Rule(family, _) => write!(f, "{family} rules"),
            Self::KillSwitch => f.write_str("kill switch"),
            Self::Sources => f.write_str("filter of sources"),
        }
    }
}

impl fmt::Display for Rule {
    /// The words for `ip`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let selector = self.selector.to_string();
        let space = if selector.is_empty() { "" } else { " " };
        write!(f, "pref {}{space}{selector} {}", self.pref, self.action)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nop"),
            Self::Past => write!(f, "goto {LAST_RULE}"),
            Self::Better => f.write_str("lookup main suppress_prefixlength 0"),
            Self::Tunnel => write!(f, "lookup {TABLE}"),
        }
    }
}

/// Lines of `ip` that take routes and rules of a family back: the same for every plan. The device goes with the process
/// that made it.
pub fn undo() -> Vec<String> {
    let rules = (FIRST_RULE..=LAST_RULE).map(|pref| format!("rule delete pref {pref}"));
    rules.chain([format!("route flush table {TABLE}")]).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A plan of a relay with two addresses.
    pub fn plan() -> Plan {
        Plan {
            device: "weft0".to_owned(),
            mtu: 1500,
            relays: vec!["192.0.2.1:4433".parse().unwrap(), "[2001:db8::1]:4433".parse().unwrap()],
            only: Vec::new(),
            names: true,
            kill_switch: false,
        }
    }

    /// The rules for IPv4, without their preferences, which go up.
    fn rules(plan: &Plan) -> Vec<String> {
        let needs = plan.routes(&[Family::V4]);
        let rules = needs.iter().filter_map(|need| if let Need::Rule(_, rule) = need { Some(rule) } else { None });
        let (prefs, texts): (Vec<_>, Vec<_>) = rules
            .map(|rule| (rule.pref, rule.to_string().split_once(' ').unwrap().1.split_once(' ').unwrap().1.to_owned()))
            .unzip();
        assert!(prefs[0] == LAST_RULE && prefs[1..].is_sorted());
        texts
    }

    #[test]
    fn packets_to_the_relay_go_as_before_and_all_others_to_the_tunnel() {
        let told = rules(&plan());
        let expected = [
            "nop",
            "to 192.0.2.1/32 ipproto udp dport 4433 goto 4499",
            "ipproto udp dport 53 lookup 51877",
            "ipproto tcp dport 53 lookup 51877",
            "to 198.18.77.2/32 lookup 51877",
            "lookup main suppress_prefixlength 0",
            "lookup 51877",
        ];
        assert_eq!(told, expected);
        let closed = rules(&Plan { kill_switch: true, ..plan() });
        let all_but_better: Vec<_> = told.iter().filter(|rule| !rule.contains("suppress")).collect();
        assert_eq!(closed.iter().collect::<Vec<_>>(), all_but_better, "not to the network at home either");
        let only = rules(&Plan { only: vec!["10.0.0.0/8".parse().unwrap()], names: false, ..plan() });
        assert_eq!(only, [expected[0], expected[1], "to 10.0.0.0/8 lookup 51877"]);
    }

    #[test]
    fn a_kill_switch_lets_out_what_goes_to_the_relay_and_to_the_tunnel() {
        let behind = |plan: &Plan| {
            let filter = Plan { kill_switch: true, ..plan.clone() }.filter();
            let output = filter.split("chain output {").nth(1).unwrap().split("chain forward {").next().unwrap();
            output.split("oifname \"weft0\" accept\n").nth(1).unwrap().to_owned()
        };
        let relays = "ip daddr 192.0.2.1 udp dport 4433 accept\nip6 daddr 2001:db8::1 udp dport 4433 accept\n";
        assert_eq!(behind(&plan()), format!("{relays}reject\n}}\n"));
        let only = Plan { only: vec!["10.0.0.0/8:80".parse().unwrap()], ..plan() };
        let closed = "ip daddr 10.0.0.0/8 tcp dport 80 reject\nip daddr 10.0.0.0/8 udp dport 80 reject\n";
        let names = "udp dport 53 reject\ntcp dport 53 reject\n";
        assert_eq!(behind(&only), format!("{relays}{closed}{names}}}\n"));
    }
}
