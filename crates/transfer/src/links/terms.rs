//! A link as a user names it: where it begins, what it is for, how much it may carry, and what that costs.
//! `wwan0,tier=backup,cap=10GB/month,price=4/GB`.

use serde::{Deserialize, Serialize};
use weftway_path::spec::nearest;
use weftway_path::{Bytes, Tier};
use weftway_scenario::policy::{read_price, read_size};
use weftway_udp::Local;

use crate::wire::TierName;

/// Keys of a link's terms.
const KEYS: [&str; 3] = ["tier", "cap", "price"];
const TIERS: [Tier; 4] = [Tier::Primary, Tier::Secondary, Tier::Backup, Tier::Never];
const PERIODS: [(&str, Period); 2] = [("day", Period::Day), ("month", Period::Month)];

/// A link, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its local end.
    pub local: Local,
    /// Terms, if there are any.
    pub terms: Option<LinkTerms>,
}

/// Terms of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkTerms {
    /// Tier: the order in which links carry data.
    pub tier: Tier,
    /// Bytes that it may carry, of both directions, counted in IP bytes: at most once for each period.
    pub caps: Vec<Cap>,
    /// Price of a GB, in millionths.
    pub price: Option<u64>,
}

/// Progress of a link with a policy, for the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkProgress {
    /// Tier.
    pub tier: String,
    /// True if it takes data now.
    pub open: bool,
    /// IP bytes that it carried since this program began, in both directions.
    pub carried: u64,
    /// Bytes that are left of its caps; none: it has none.
    pub left: Option<u64>,
    /// Cost of `carried`, if it has a price.
    pub cost: Option<f64>,
}

/// Bytes that a link may carry in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// Bytes.
    pub bytes: Bytes,
    /// Period.
    pub period: Period,
}

/// A period of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Period {
    /// A day.
    Day,
    /// A calendar month.
    Month,
}

impl Period {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

impl Link {
    /// A link of which nothing is said but where it begins.
    pub fn plain(local: Local) -> Self {
        Self { local, terms: None }
    }

    /// Reads what a user wrote, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let fault = |why: String| format!("--path {text}: {why}");
        if name.is_empty() {
            return Err(fault("name the interface or address first, as in wwan0,tier=backup".to_owned()));
        }
        let mut terms = LinkTerms::default();
        let mut given: Vec<String> = Vec::new();
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let key = key.trim();
            let what = terms.set(key, value.trim()).map_err(fault)?;
            if given.contains(&what) {
                return Err(fault(format!("`{what}` is given twice")));
            }
            given.push(what);
        }
        Ok(Self { local: Local::parse(name), terms: (!given.is_empty()).then_some(terms) })
    }
}

impl LinkTerms {
    /// Takes over one key: which one it is, of caps with its period.
    fn set(&mut self, key: &str, value: &str) -> Result<String, String> {
        match key {
            "tier" => self.tier = choice("tier", value, &TIERS.map(|tier| (TierName::from(tier).name(), tier)))?,
            "price" => self.price = Some(read_price(value)?),
            "cap" => {
                let cap = read_cap(value)?;
                self.caps.push(cap);
                return Ok(format!("cap per {}", cap.period.name()));
            }
            _ => {
                let near = nearest(key, KEYS.into_iter()).map(|near| format!("; did you mean `{near}`?"));
                let near = near.unwrap_or_default();
                return Err(format!("`{key}` says nothing of a link; what does is {}{near}", KEYS.join(", ")));
            }
        }
        Ok(key.to_owned())
    }
}

fn read_cap(text: &str) -> Result<Cap, String> {
    let Some((size, period)) = text.split_once('/') else {
        return Err(format!("cap={text}: in which time? For example cap=10GB/month or cap=500MB/day"));
    };
    let bytes = read_size(size)?;
    if bytes == Bytes::ZERO {
        return Err(format!("cap={text}: a link that may carry nothing has tier=never"));
    }
    Ok(Cap { bytes, period: choice("cap", period.trim(), &PERIODS)? })
}

fn choice<T: Copy>(key: &str, value: &str, all: &[(&str, T)]) -> Result<T, String> {
    let names = || all.iter().map(|(name, _)| *name);
    let found = all.iter().find(|(name, _)| *name == value).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let near = nearest(value, names()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        format!("`{key}` is one of {}, not `{value}`{near}", names().collect::<Vec<_>>().join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_as_it_is_written() {
        let link = Link::parse("wwan0,tier=backup,cap=10GB/month,cap=500 MB/day,price=4/GB").unwrap();
        assert_eq!(link.local, Local::Device("wwan0".to_owned()));
        let terms = link.terms.unwrap();
        let caps = [(10_000_000_000, Period::Month), (500_000_000, Period::Day)];
        assert_eq!(terms.caps, caps.map(|(bytes, period)| Cap { bytes: Bytes::new(bytes), period }));
        assert_eq!((terms.tier, terms.price), (Tier::Backup, Some(4_000_000)));
        assert_eq!(Link::parse("192.0.2.1").unwrap(), Link::plain(Local::parse("192.0.2.1")));
    }

    #[test]
    fn what_makes_no_sense_gets_one_clear_error() {
        let error = |text: &str| Link::parse(text).unwrap_err();
        for (text, word) in [
            ("wwan0,tier=bakcup", "did you mean `backup`?"),
            ("wwan0,teir=backup", "did you mean `tier`?"),
            ("wwan0,backup", "`backup` says nothing of a link"),
            ("wwan0,cap=10GB", "in which time?"),
            ("wwan0,cap=10GB/week", "`cap` is one of day, month, not `week`"),
            ("wwan0,cap=10/month", "has no unit"),
            ("wwan0,cap=0B/day", "tier=never"),
            ("wwan0,cap=1GB/day,cap=2GB/day", "`cap per day` is given twice"),
            ("wwan0,price=4", "has no unit"),
            ("wwan0,tier=backup,tier=backup", "`tier` is given twice"),
            (",tier=backup", "name the interface"),
        ] {
            assert!(
                error(text).starts_with(&format!("--path {text}: ")) && error(text).contains(word),
                "{}",
                error(text)
            );
        }
    }
}
