//! Addresses, routes and rules, as `ip -json` shows them.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value, json};

use super::plan::{Action, Need, Plan, Rule};
use super::{Family, LAST_RULE, TABLE};

/// The number of the system's table.
const MAIN: &str = "254";

/// Output of `ip -json` for one family of addresses.
#[derive(Debug, Default)]
pub struct Shown {
    /// The tunnel's device.
    device: Option<Value>,
    /// Its addresses.
    addresses: Vec<Value>,
    /// Routes of the tunnel's table.
    routes: Vec<Value>,
    rules: Vec<Value>,
}

impl Shown {
    /// Reads what was printed of addresses, rules, table and device: a line each, but none for what is not there.
    pub fn read(text: &str) -> Self {
        let mut shown = Self::default();
        for item in documents(text).flatten() {
            if item.get("ifname").is_some() {
                let addresses = item["addr_info"].as_array().into_iter().flatten();
                shown.addresses.extend(addresses.cloned());
                shown.device.get_or_insert(item);
            } else if item.get("priority").is_some() {
                shown.rules.push(item);
            } else if item.get("dst").is_some() {
                shown.routes.push(item);
            }
        }
        shown
    }

    /// Returns true if this is there. Of what `ip` does not show nothing is known.
    pub fn has(&self, plan: &Plan, need: &Need) -> bool {
        match need {
            Need::Address(family) => self
                .addresses
                .iter()
                .any(|known| known["local"] == family.address() && known["prefixlen"] == family.bits()),
            Need::Device => self.device.as_ref().is_some_and(|device| {
                let is_up = device["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "UP"));
                is_up && device["mtu"] == plan.mtu
            }),
            Need::Route(_) => {
                self.routes.iter().any(|route| route["dst"] == "default" && route["dev"] == plan.device.as_str())
            }
            Need::Rule(_, rule) => {
                let wanted = as_shown(rule);
                self.rules.iter().any(|rule| {
                    let known = comparable(rule);
                    wanted.iter().all(|(key, value)| known.get(key) == Some(value))
                })
            }
            Need::KillSwitch | Need::Sources => true,
        }
    }
}

/// The documents that were printed, a line each.
pub fn documents(text: &str) -> impl Iterator<Item = Vec<Value>> + '_ {
    // A list that ended in an error has no end of its line: that of a table without routes.
    let begun = |line: &str| if line.starts_with("[[") { line[1..].to_owned() } else { line.to_owned() };
    text.lines().filter_map(move |line| serde_json::from_str(&begun(line)).ok())
}

/// A rule, as `ip -json -N` shows it: without its protocol, which versions of `ip` name differently.
fn as_shown(rule: &Rule) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut put = |key: &str, value: Value| shown.insert(key.to_owned(), value);
    put("src", json!("all"));
    put("priority", json!(rule.pref));
    if let Some(network) = rule.selector.to {
        put("dst", json!(network.addr().to_string()));
        if network.prefix_len() < network.max_prefix_len() {
            put("dstlen", json!(network.prefix_len()));
        }
    }
    if let Some((_, first, last)) = rule.selector.ports {
        put("dport_start", json!(first));
        put("dport_end", json!(last));
    }
    match rule.action {
        Action::Nothing => put("nop", Value::Null),
        Action::Past => {
            put("goto", json!(LAST_RULE));
            put("is_resolved", json!(true))
        }
        Action::Better => {
            put("table", json!(MAIN));
            put("suppress_prefixlen", json!(0))
        }
        Action::Tunnel => put("table", json!(TABLE.to_string())),
    };
    shown
}

/// A rule as `ip` shows it, with one port as a range. One that jumps to a rule that is not there is another one.
fn comparable(rule: &Value) -> Map<String, Value> {
    let mut known = rule.as_object().cloned().unwrap_or_default();
    if let Some(port) = known.get("dport").cloned() {
        known.insert("dport_start".to_owned(), port.clone());
        known.insert("dport_end".to_owned(), port);
    }
    known.insert("is_resolved".to_owned(), json!(!known.contains_key("unresolved")));
    known
}

/// Bits of the network that a route leads to.
pub fn bits(route: &Value) -> u8 {
    match route["dst"].as_str() {
        Some("default") => 0,
        Some(text) => text.parse().map_or_else(|_| of_one(text), |network: IpNet| network.prefix_len()),
        None => 0,
    }
}

fn of_one(address: &str) -> u8 {
    address.parse().map_or(u8::MAX, |address: IpAddr| Family::of(address).bits())
}
