//! Bytes that each link has carried on this day and in this month, of UTC: a small file that outlives programs.
//!
//! A program takes bytes out of the file before they travel, some at a time, and at its end puts what has travelled in
//! their place. What it has at midnight and has not sent travels on the next day, and is taken out of that one, too. So
//! several programs keep one cap together, and a program that is killed has counted too much, never too little. The
//! file is replaced as a whole, under a lock.
//!
//! The clock may be set. A day that has begun goes on when it is set back over midnight. Further back the day is
//! another one, and what was counted goes over to it: a cap is never passed because a clock was put right.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use time::{Date, OffsetDateTime};

use crate::links::terms::{Cap, Period};

/// Bytes that every link has carried.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    file: PathBuf,
}

/// Bytes that a link has carried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Count {
    /// The day of `day_bytes`: 2026-11-26.
    day: String,
    day_bytes: u64,
    /// The month of `month_bytes`: 2026-11.
    month: String,
    month_bytes: u64,
}

/// Some bytes of a link that were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenBytes {
    /// Number of bytes.
    pub bytes: u64,
    /// The periods that they are counted in.
    pub of: Counted,
    /// End of the day, by the clock.
    pub until: SystemTime,
    /// Bytes that were taken in the period of each cap, these included.
    pub used: Vec<u64>,
}

/// A day and its month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    day: String,
    month: String,
}

/// A day of UTC, as the clock says, with the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Today {
    day: String,
    month: String,
    next: [String; 2],
    end: SystemTime,
}

impl Today {
    /// The day of `now`.
    pub fn of(now: SystemTime) -> Self {
        let date = OffsetDateTime::from(now).date();
        let [day, month] = names(date);
        let next = date.next_day().unwrap_or(date);
        Self { day, month, next: names(next), end: next.midnight().assume_utc().into() }
    }
}

/// Periods of a day and its month, in the order of time.
fn names(date: Date) -> [String; 2] {
    let month = format!("{:04}-{:02}", date.year(), u8::from(date.month()));
    [format!("{month}-{:02}", date.day()), month]
}

/// The period that `bytes` are of is now `current`: they begin anew if it is a later one. `next` is the one that begins
/// within a day.
fn turn(period: &mut String, bytes: &mut u64, current: &str, next: &str) {
    if period == next {
        return;
    }
    if period.as_str() < current {
        *bytes = 0;
    }
    current.clone_into(period);
}

impl Count {
    /// Begins anew where a day or a month has passed.
    fn turn_to(&mut self, today: &Today) {
        let [day, month] = &today.next;
        turn(&mut self.day, &mut self.day_bytes, &today.day, day);
        turn(&mut self.month, &mut self.month_bytes, &today.month, month);
    }

    fn of(&self, period: Period) -> u64 {
        match period {
            Period::Day => self.day_bytes,
            Period::Month => self.month_bytes,
        }
    }
}

impl Usage {
    /// Reads `file`; empty, if there is no such file.
    pub fn at(file: PathBuf) -> Self {
        Self { file }
    }

    /// Takes bytes of `link`: `want(left)` of the `left` that its caps leave.
    pub fn take(
        &self,
        link: &str,
        caps: &[Cap],
        today: Today,
        want: impl FnOnce(u64) -> u64,
    ) -> io::Result<TakenBytes> {
        self.change(|counts| {
            let count = counts.entry(link.to_owned()).or_default();
            count.turn_to(&today);
            let left = caps.iter().map(|cap| cap.bytes.get().saturating_sub(count.of(cap.period))).min();
            let left = left.unwrap_or(u64::MAX);
            let bytes = want(left).min(left);
            count.day_bytes = count.day_bytes.saturating_add(bytes);
            count.month_bytes = count.month_bytes.saturating_add(bytes);
            TakenBytes {
                bytes,
                used: caps.iter().map(|cap| count.of(cap.period)).collect(),
                of: Counted { day: count.day.clone(), month: count.month.clone() },
                until: today.end,
            }
        })
    }

    /// A day has passed since bytes of `link` were counted in `of`, and `left` of them have not travelled: they count
    /// again.
    pub fn go_on(&self, link: &str, of: &Counted, left: u64, today: &Today) -> io::Result<()> {
        self.change(|counts| {
            let count = counts.entry(link.to_owned()).or_default();
            count.turn_to(today);
            if count.day > of.day {
                count.day_bytes = count.day_bytes.saturating_add(left);
            }
            if count.month > of.month {
                count.month_bytes = count.month_bytes.saturating_add(left);
            }
        })
    }

    /// Gives back: of `taken` bytes of `link`, the last in `of`, `carried` have travelled: less, as a rule, but the
    /// other end may have sent more than this end could know.
    pub fn settle(&self, link: &str, of: &Counted, taken: u64, carried: u64) -> io::Result<()> {
        self.change(|counts| {
            let Some(count) = counts.get_mut(link) else { return };
            if count.day == of.day {
                count.day_bytes = count.day_bytes.saturating_add(carried).saturating_sub(taken);
            }
            if count.month == of.month {
                count.month_bytes = count.month_bytes.saturating_add(carried).saturating_sub(taken);
            }
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Count>) -> T) -> io::Result<T> {
        let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.file.display()));
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder).map_err(told)?;
        }
        let _lock = self.lock().map_err(told)?;
        let mut counts = self.read().map_err(told)?;
        let result = change(&mut counts);
        self.write(&counts).map_err(told)?;
        Ok(result)
    }

    /// Holds others off until it is dropped.
    fn lock(&self) -> io::Result<File> {
        let lock = open(&self.file.with_extension("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }

    fn read(&self) -> io::Result<BTreeMap<String, Count>> {
        match fs::read(&self.file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| {
                io::Error::new(ErrorKind::InvalidData, format!("{error}; remove the file to count from the beginning"))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    fn write(&self, counts: &BTreeMap<String, Count>) -> io::Result<()> {
        let new = self.file.with_extension("new");
        let mut file = open(&new)?;
        file.set_len(0)?;
        serde_json::to_writer_pretty(&mut file, counts)?;
        writeln!(file)?;
        file.sync_data()?;
        fs::rename(&new, &self.file)
    }
}

/// Only its user may read it.
fn open(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use weftway_path::Bytes;

    fn caps() -> [Cap; 2] {
        let cap = |bytes, period| Cap { bytes: Bytes::new(bytes), period };
        [cap(100, Period::Day), cap(250, Period::Month)]
    }

    /// Days after 1970-01-01.
    fn day(days: u64) -> Today {
        Today::of(SystemTime::UNIX_EPOCH + Duration::from_secs(days * 86_400 + 86_399))
    }

    #[test]
    fn a_day_is_one_of_utc() {
        assert_eq!((day(0).day.as_str(), day(0).month.as_str()), ("1970-01-01", "1970-01"));
        // Thirty years with seven leap days, January, and 28 days of February.
        assert_eq!(day(30 * 365 + 7 + 31 + 28).day, "2000-02-29");
    }

    /// 100 a day and 250 a month: 100 on the 29th and on the 30th, 50 on the 31st of January, and 100 on the 1st of
    /// February.
    #[test]
    fn caps_outlive_programs_and_begin_anew_with_the_day_and_the_month() {
        let folder = tempfile::tempdir().unwrap();
        let take =
            |day| Usage::at(folder.path().join("state/usage.json")).take("wwan0", &caps(), day, |_| 1_000).unwrap();
        assert_eq!([28, 28, 29, 30, 30, 31].map(|at| take(day(at)).bytes), [100, 0, 100, 50, 0, 100]);
    }

    /// A cap of 100 a day and 250 a month, on the 31st of January and the 1st of February.
    #[test]
    fn a_clock_that_is_set_opens_no_cap_twice() {
        let take = |usage: &Usage, at, want| usage.take("wwan0", &caps(), day(at), |_| want).unwrap().bytes;
        let folder = tempfile::tempdir().unwrap();
        let usage = |name: &str| Usage::at(folder.path().join(name));
        // An hour back over midnight, and forward again.
        let hour = usage("hour");
        assert_eq!([30, 31, 30, 31, 30, 32].map(|at| take(&hour, at, 60)), [60, 60, 40, 0, 0, 60]);
        // A clock that was ten years ahead, and is put right: that day's bytes count for this one, and the next begins
        // anew.
        let ahead = usage("ahead");
        assert_eq!([30 + 3_653, 30, 30, 31].map(|at| take(&ahead, at, 70)), [70, 30, 0, 70]);
    }

    #[test]
    fn what_did_not_travel_is_given_back_to_its_own_day() {
        let folder = tempfile::tempdir().unwrap();
        let usage = Usage::at(folder.path().join("usage.json"));
        let taken = usage.take("wwan0", &caps(), day(0), |left| left).unwrap();
        assert_eq!((taken.bytes, taken.used), (100, vec![100, 100]));
        usage.settle("wwan0", &taken.of, 100, 60).unwrap();
        assert_eq!(usage.take("wwan0", &caps(), day(0), |left| left).unwrap().bytes, 40);
        usage.take("wwan0", &caps(), day(1), |_| 10).unwrap();
        usage.settle("wwan0", &taken.of, 40, 0).unwrap();
        assert_eq!(usage.take("wwan0", &caps(), day(1), |_| 0).unwrap().used, [10, 70]);
    }

    /// Two programs have 40 and 30 bytes at midnight that have not travelled: 30 of 100 are left for the next day, and
    /// all but the 50 that travel on it when both have ended.
    #[test]
    fn what_has_not_travelled_at_midnight_counts_for_the_next_day() {
        let folder = tempfile::tempdir().unwrap();
        let usage = Usage::at(folder.path().join("usage.json"));
        let take = |at, want| usage.take("wwan0", &caps(), day(at), |_| want).unwrap();
        let (first, second) = (take(27, 60), take(27, 40));
        assert_eq!(first.until, SystemTime::UNIX_EPOCH + Duration::from_secs(28 * 86_400));
        usage.go_on("wwan0", &first.of, 40, &day(28)).unwrap();
        usage.go_on("wwan0", &second.of, 30, &day(28)).unwrap();
        let again = take(28, 1000);
        assert_eq!((again.bytes, again.used), (30, vec![100, 130]));
        usage.go_on("wwan0", &again.of, 40, &day(28)).unwrap();
        assert_eq!(take(28, 0).used, [100, 130], "it is the same day");
        usage.settle("wwan0", &again.of, 60 + 30, 20 + 30).unwrap();
        usage.settle("wwan0", &again.of, 40, 10 + 20).unwrap();
        assert_eq!(take(28, 0).used, [50, 80]);
    }

    /// The clock is set back over midnight and goes on to it: nothing counts twice.
    #[test]
    fn what_was_counted_for_the_next_day_does_not_count_again_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let usage = Usage::at(folder.path().join("usage.json"));
        let take = |at| usage.take("wwan0", &caps(), day(at), |_| 20).unwrap();
        take(31);
        let set_back = take(30);
        usage.go_on("wwan0", &set_back.of, 20, &day(31)).unwrap();
        assert_eq!(take(31).used, [60, 60]);
    }

    #[test]
    fn what_travelled_beyond_what_was_taken_counts() {
        let folder = tempfile::tempdir().unwrap();
        let usage = Usage::at(folder.path().join("usage.json"));
        let taken = usage.take("wwan0", &caps(), day(0), |_| 50).unwrap();
        usage.settle("wwan0", &taken.of, 50, 70).unwrap();
        assert_eq!(usage.take("wwan0", &caps(), day(0), |left| left).unwrap().bytes, 30);
    }

    #[test]
    fn a_file_that_makes_no_sense_is_told_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("usage.json");
        fs::write(&file, "{").unwrap();
        let error = Usage::at(file.clone()).take("wwan0", &caps(), day(0), |_| 1).unwrap_err().to_string();
        assert!(error.contains("usage.json") && error.contains("remove the file"), "{error}");
        assert_eq!(fs::read_to_string(file).unwrap(), "{");
    }
}
