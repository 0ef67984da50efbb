//! A moment in this machine's time zone.

use tz::{DateTime, TimeZone};

/// A moment in this machine's time zone; nothing if it is no moment at all.
pub struct Moment(Option<DateTime>);

impl Moment {
    /// Moment so many seconds after 1970 began.
    pub fn of(seconds: f64) -> Self {
        let named = std::env::var("TZ").ok().filter(|name| !name.is_empty());
        let zone = named.map_or_else(TimeZone::local, |name| TimeZone::from_posix_tz(&name));
        let zone = zone.unwrap_or_else(|_| TimeZone::utc());
        Self(DateTime::from_timespec(seconds as i64, 0, zone.as_ref()).ok())
    }

    /// As in 12:34:56.
    pub fn time(&self) -> String {
        let Self(Some(at)) = self else { return String::new() };
        format!("{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())
    }

    /// As in 2026-01-31 12:34:56 CET.
    pub fn date(&self) -> String {
        let Self(Some(at)) = self else { return String::new() };
        let zone = at.local_time_type().time_zone_designation();
        let date = format!("{:04}-{:02}-{:02} {}", at.year(), at.month(), at.month_day(), self.time());
        format!("{date} {zone}").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_in_the_zone_of_the_machine() {
        let at = Moment::of(1e9);
        assert_eq!((at.time().len(), at.date().get(..4)), (8, Some("2001")));
        assert_eq!(Moment::of(f64::MAX).time(), "");
    }
}
