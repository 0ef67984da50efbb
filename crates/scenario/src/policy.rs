//! Which paths a scheduler is offered, and what they cost: from the keys of a file to what a connection is told.

use weftway_path::{BitRate, Bytes, Instant, Role, Span, Thresholds, Tier};

use super::error::Fault;
use super::schema::{ConnectionName, File, PathTable, PolicyTable, RoleName, TierName};
use super::units::{InBytes, InPrice, InRate, InTime, Quantity, Time};
use crate::config::{PathPolicy, Policy, Workload};

/// The policy of the main connection; none where no key says anything of one.
pub(super) fn policy(file: &File, workload: &Workload) -> Result<Option<Policy>, Fault> {
    let mut paths = Vec::new();
    for (name, table) in &file.path.0 {
        check(name, table, workload)?;
        if table.connection == ConnectionName::Main {
            paths.push(PathPolicy {
                tier: tier(table),
                cap: table.cap.map(Quantity::get),
                price: table.price.map(Quantity::get),
            });
        }
    }
    if !file.path.0.iter().any(|(_, table)| has_policy(table)) {
        return match &file.policy {
            None => Ok(None),
            Some(_) => {
                let fault = Fault::value("no path has a tier, a cap or a price, and these thresholds decide nothing");
                Err(fault.help("for example tier = \"secondary\" in a path").key(&["policy"]))
            }
        };
    }
    if paths.iter().all(|path| path.tier == Tier::Never) {
        return Err(Fault::value("every path has tier = \"never\": there is nothing to send over").key(&["path"]));
    }
    Ok(Some(Policy { paths, thresholds: thresholds(file.policy.as_ref())? }))
}

fn has_policy(table: &PathTable) -> bool {
    table.tier.is_some() || table.cap.is_some() || table.price.is_some()
}

fn check(name: &str, table: &PathTable, workload: &Workload) -> Result<(), Fault> {
    if table.connection == ConnectionName::Rival && has_policy(table) {
        let key = if table.tier.is_some() {
            "tier"
        } else if table.cap.is_some() {
            "cap"
        } else {
            "price"
        };
        return Err(Fault::value("a policy is for the paths of the main connection").key(&["path", name, key]));
    }
    if table.tier.is_some() && table.role.is_some() {
        let reason = "`role` and `tier` say the same of a path: give one of them";
        return Err(Fault::value(reason).help("tier = \"backup\" sets the role as well").key(&["path", name, "role"]));
    }
    if table.cap.is_some_and(Quantity::is_zero) {
        let fault = Fault::value("a path that may carry nothing").help("tier = \"never\" says so");
        return Err(fault.key(&["path", name, "cap"]));
    }
    if table.cap.is_some() && matches!(workload, Workload::Call { .. }) {
        let reason = "a call is two connections, which do not share a cap";
        return Err(Fault::value(reason).key(&["path", name, "cap"]));
    }
    Ok(())
}

fn thresholds(table: Option<&PolicyTable>) -> Result<Thresholds, Fault> {
    let known = Thresholds::default();
    let Some(table) = table else { return Ok(known) };
    let zero = |key: &str, time: Option<Time>| match time {
        Some(time) if time.is_zero() => {
            Err(Fault::value(format!("`{key}` must be more than zero")).key(&["policy", key]))
        }
        time => Ok(time.map(Time::get)),
    };
    Ok(Thresholds {
        open_after: zero("open_after", table.open_after)?.unwrap_or(known.open_after),
        open_delay: zero("open_delay", table.open_delay)?,
        close_after: zero("close_after", table.close_after)?.unwrap_or(known.close_after),
    })
}

/// The tier of a path; that of a backup follows from its role, and it is the scheduler that keeps to it.
fn tier(table: &PathTable) -> Tier {
    match table.tier {
        None | Some(TierName::Primary) => Tier::Primary,
        Some(TierName::Secondary) => Tier::Secondary,
        Some(TierName::Backup) => Tier::Backup,
        Some(TierName::Never) => Tier::Never,
    }
}

/// The role that the scheduler and the other end see.
pub(super) fn role(table: &PathTable) -> Role {
    let is_backup = table.role == Some(RoleName::Backup) || table.tier == Some(TierName::Backup);
    if is_backup { Role::Backup } else { Role::Active }
}

/// Returns the presence of a path; one that is never to be opened never exists.
pub(super) fn presence(table: &PathTable, presence: Vec<Instant>) -> Vec<Instant> {
    if table.tier == Some(TierName::Never) { vec![Instant::NEVER] } else { presence }
}

/// Reads a size such as "10 GB", or says what is wrong with it.
pub fn read_size(text: &str) -> Result<Bytes, String> {
    Quantity::<InBytes>::read(text).map(Quantity::get)
}

/// Reads a time such as "60 s".
pub fn read_time(text: &str) -> Result<Span, String> {
    Quantity::<InTime>::read(text).map(Quantity::get)
}

/// Reads a rate such as "50 Mbit/s".
pub fn read_rate(text: &str) -> Result<BitRate, String> {
    Quantity::<InRate>::read(text).map(Quantity::get)
}

/// Reads a price such as "4 /GB": millionths for a GB.
pub fn read_price(text: &str) -> Result<u64, String> {
    Quantity::<InPrice>::read(text).map(Quantity::get)
}
