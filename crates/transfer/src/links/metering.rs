//! The policy of links, at the end that opened the connection: what each may carry, in both directions, and what the
//! other end is told of it.
//!
//! What counts is what this machine's sockets sent and received, with IP and UDP headers. The other end may send on a
//! link with a cap only what it has credit for, as with a window: credit is taken out of what is left for both
//! directions, and more is given as it is used. So both directions together stop at the cap.

use std::time::SystemTime;

use weftway_host::sending::{Policy, Terms};
use weftway_path::{Bytes, Instant, PathId, Span, Thresholds, Tier};
use weftway_quic::driver::connection::QuicConnection;
use weftway_quic::driver::{Sender, Source};
use weftway_udp::{Local, Net};

use crate::failure::Failure;
use crate::links::terms::{LinkProgress, LinkTerms};
use crate::links::usage::{TakenBytes, Usage};
use crate::setting::{PACKET_OVERHEAD, RECORD};
use crate::wire::{PathTerms, TierName};

/// Part of a cap that is left for what no scheduler decides on: acknowledgements, handshakes, the search for the MTU,
/// which takes some 100 kB in both directions where packets may have 9 kB.
const RESERVE: u64 = 192 << 10;
/// Bytes of a cap that are taken at once, and given as credit; a part of it where the cap is small.
const MOST_AT_ONCE: u64 = 64 << 20;
/// Less credit is not worth a message.
const LEAST_CREDIT: u64 = 4 << 10;
/// Time after which a link whose cap was used up is asked about again: a day may have passed.
const ASK_AGAIN: Span = Span::from_secs(30);

/// The policy of all links.
pub(crate) struct Metering {
    links: Vec<Metered>,
    usage: Option<Usage>,
    /// True if the other end sends data, too.
    both_ways: bool,
}

/// A link.
struct Metered {
    local: Local,
    terms: LinkTerms,
    /// Bytes of its caps that were taken for this program so far.
    taken: u64,
    last: Option<TakenBytes>,
    /// Bytes of these that have travelled.
    used: u64,
    ask_at: Instant,
    /// Used part of each cap that the user knows of, in percent.
    told: Vec<u64>,
    credit: Credit,
}

/// Bytes that the other end may send on the link, since the connection began.
#[derive(Clone, Copy, Default)]
struct Credit {
    /// The path of the connection, and its number, which both ends know.
    path: Option<PathId>,
    number: Option<u32>,
    given: u64,
    /// Bytes that it says to have sent.
    spent: u64,
}

impl Credit {
    /// Bytes that it may still send. What has arrived and was not told yet is in it, and counts twice for a moment.
    fn outstanding(&self) -> u64 {
        self.given.saturating_sub(self.spent)
    }
}

impl Metering {
    /// The policy of `links`, with what they have carried in `usage`.
    pub fn new(links: Vec<(Local, LinkTerms)>, usage: Option<Usage>, both_ways: bool) -> Result<Self, Failure> {
        if usage.is_none() && links.iter().any(|(_, terms)| !terms.caps.is_empty()) {
            return Err(Failure::Spec("a cap needs a file in which it is counted".to_owned()));
        }
        let link = |(local, terms): (Local, LinkTerms)| Metered {
            told: vec![0; terms.caps.len()],
            local,
            terms,
            taken: 0,
            last: None,
            used: 0,
            ask_at: Instant::ZERO,
            credit: Credit::default(),
        };
        Ok(Self { links: links.into_iter().map(link).collect(), usage, both_ways })
    }

    /// Before anything is sent: a link whose caps are used up sends nothing. What the user is to be told.
    pub fn open(&mut self, net: &mut Net) -> Result<Vec<String>, Failure> {
        let (mut notes, now) = (Vec::new(), net.now());
        for link in self.links.iter_mut().filter(|link| !link.terms.caps.is_empty()) {
            let Some(usage) = &self.usage else { continue };
            link.take_more(now, SystemTime::now(), usage).map_err(Failure::Socket)?;
            net.set_limit(&link.local, link.limit());
            link.tell(link.limit() == 0, &mut notes);
        }
        Ok(notes)
    }

    /// Returns true if no link may carry anything.
    pub fn is_closed(&self) -> bool {
        let mut opened = self.links.iter().filter(|link| is_opened(&link.terms)).peekable();
        opened.peek().is_some() && opened.all(|link| !link.terms.caps.is_empty() && link.limit() == 0)
    }

    /// A connection begins: what its sender keeps to.
    pub fn begin<S: Source>(&mut self, net: &Net, sender: &mut Sender<S>) {
        let paths: Vec<PathId> = sender.connection.paths().collect();
        let mut terms = vec![Terms::default(); paths.len()];
        for link in &mut self.links {
            let at = |&id: &PathId| is_at(net, &sender.connection, id, &link.local);
            let path = paths.iter().copied().find(at);
            link.credit = Credit { path, ..Credit::default() };
            if let Some(id) = path {
                let left = (!link.terms.caps.is_empty()).then_some(Bytes::ZERO);
                terms[id.index()] = Terms { tier: link.terms.tier, left };
            }
        }
        let (mss, overhead) = (Bytes::new(RECORD), Bytes::new(PACKET_OVERHEAD));
        sender.set_policy(Some(Policy::new(&terms, Thresholds::default(), mss, overhead)));
    }

    /// Brings up to date what the links may carry: what the user is to be told.
    pub fn attend<S: Source>(
        &mut self,
        now: Instant,
        net: &mut Net,
        sender: &mut Sender<S>,
    ) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        for link in &mut self.links {
            link.used = net.carried(&link.local);
            let Some(usage) = self.usage.as_ref().filter(|_| !link.terms.caps.is_empty()) else { continue };
            link.take_more(now, SystemTime::now(), usage).map_err(Failure::Socket)?;
            net.set_limit(&link.local, link.limit());
            let Some(id) = link.credit.path else { continue };
            link.credit.number = sender.connection.number(id);
            if self.both_ways {
                link.give_credit();
            }
            let own = link.taken.saturating_sub(link.used + link.credit.outstanding() + link.reserve());
            if let Some(policy) = sender.policy_mut() {
                policy.set_left(id, Some(Bytes::new(own)));
            }
            let is_closed = own < RECORD + PACKET_OVERHEAD && link.credit.outstanding() < LEAST_CREDIT;
            link.tell(is_closed, &mut notes);
        }
        Ok(notes)
    }

    /// Terms of paths for the other end.
    pub fn terms(&self, connection: &QuicConnection) -> Vec<PathTerms> {
        let told = |link: &Metered| {
            let number = connection.number(link.credit.path?)?;
            let credit = (!link.terms.caps.is_empty()).then_some(link.credit.given);
            Some(PathTerms { number, tier: link.terms.tier.into(), credit })
        };
        self.links.iter().filter_map(told).collect()
    }

    /// The other end says how much it has sent on a path: it cannot be more than it might.
    pub fn spent(&mut self, number: u32, bytes: u64) {
        for link in self.links.iter_mut().filter(|link| link.credit.number == Some(number)) {
            link.credit.spent = link.credit.spent.max(bytes.min(link.credit.given));
        }
    }

    /// Progress of a link that has carried `used`, for the user.
    pub fn progress(&self, local: &Local, used: u64) -> Option<LinkProgress> {
        let link = self.links.iter().find(|link| link.local == *local)?;
        let taken = link.last.as_ref().map(|last| link.left_of_caps(last) + link.taken.saturating_sub(used));
        Some(LinkProgress {
            tier: TierName::from(link.terms.tier).name().to_owned(),
            open: false,
            carried: used,
            left: taken,
            cost: link.terms.price.map(|price| used as f64 * price as f64 / 1e15),
        })
    }

    /// At the end, when nothing is sent any more: what has travelled counts, and not what was taken for it.
    pub fn settle(&mut self, net: &Net) {
        for link in &mut self.links {
            if let (Some(usage), Some(last)) = (&self.usage, link.last.take()) {
                // A file that cannot be written counts too much.
                let _ = usage.settle(&link.local.to_string(), &last.of, link.taken, net.carried(&link.local));
            }
        }
    }
}

impl Metered {
    /// The least of its caps, of which a part is taken at once.
    fn least_cap(&self) -> u64 {
        self.terms.caps.iter().map(|cap| cap.bytes.get()).min().unwrap_or(0)
    }

    fn at_once(&self) -> u64 {
        (self.least_cap() / 16).clamp(1, MOST_AT_ONCE)
    }

    fn reserve(&self) -> u64 {
        RESERVE.min(self.least_cap() / 4)
    }

    /// Bytes that its socket may carry. One that could carry no data once it is opened carries nothing: what is on its
    /// way when a limit is reached is lost, and noq may have put the control stream there.
    fn limit(&self) -> u64 {
        if self.taken < 2 * self.reserve() { 0 } else { self.taken }
    }

    fn left_of_caps(&self, taken: &TakenBytes) -> u64 {
        let left = self.terms.caps.iter().zip(&taken.used).map(|(cap, used)| cap.bytes.get().saturating_sub(*used));
        left.min().unwrap_or(0)
    }

    /// Takes more of the caps when half of a part is left; at first also what its socket keeps, without which it is
    /// closed. On a new day what has not travelled is taken out of that day's.
    fn take_more(&mut self, now: Instant, clock: SystemTime, usage: &Usage) -> std::io::Result<()> {
        let spoken_for = self.used + self.credit.outstanding() + self.reserve();
        let (part, left) = (self.at_once(), self.taken.saturating_sub(spoken_for));
        let is_enough = self.last.is_some() && left * 2 >= part;
        let turned = self.last.as_ref().filter(|last| last.until <= clock);
        if turned.is_none() && (is_enough || self.ask_at > now) {
            return Ok(());
        }
        let (link, today) = (self.local.to_string(), crate::links::usage::Today::of(clock));
        if let Some(last) = turned {
            usage.go_on(&link, &last.of, self.taken.saturating_sub(self.used), &today)?;
        }
        let more = if is_enough { 0 } else { 2 * part + (2 * self.reserve()).saturating_sub(self.taken) };
        let taken = usage.take(&link, &self.terms.caps, today, |_| more)?;
        self.taken += taken.bytes;
        self.ask_at = if taken.bytes < more.min(1) { now + ASK_AGAIN } else { now };
        self.last = Some(taken);
        Ok(())
    }

    /// At 80 % of a cap the user is told, and when the link is closed because it is used up.
    fn tell(&mut self, is_closed: bool, notes: &mut Vec<String>) {
        let Some(last) = &self.last else { return };
        let untravelled = self.taken.saturating_sub(self.used);
        for (at, cap) in self.terms.caps.iter().enumerate() {
            let used = last.used[at].saturating_sub(untravelled);
            let percent = match used.saturating_mul(100) / cap.bytes.get() {
                _ if is_closed && last.used[at] >= cap.bytes.get() => 100,
                percent if percent >= 80 => 80,
                _ => 0,
            };
            if percent > self.told[at] {
                let what = if percent == 100 { "is closed: it has used up" } else { "has used 80 % of" };
                let cap = format!("{} per {} (UTC)", amount(cap.bytes), cap.period.name());
                notes.push(format!("{} {what} its {cap}", self.local));
            }
            // A new day begins anew.
            self.told[at] = if percent == 0 { 0 } else { percent.max(self.told[at]) };
        }
    }

    /// Gives the other end more credit when half of a part is left.
    fn give_credit(&mut self) {
        let outstanding = self.credit.outstanding();
        let free = self.taken.saturating_sub(self.used + outstanding + self.reserve());
        let more = self.at_once().saturating_sub(outstanding).min(free / 2);
        if outstanding * 2 < self.at_once() && more >= LEAST_CREDIT {
            self.credit.given += more;
        }
    }
}

/// A number of bytes, as people say it.
fn amount(bytes: Bytes) -> String {
    let rounded = |size: f64| (bytes.get() as f64 / size * 100.0).round() / 100.0;
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    // What rounds to 1000 of a unit is one of the next.
    let fits = units.into_iter().find(|(_, size)| rounded(size / 1e3) >= 1e3);
    let (unit, size) = fits.unwrap_or(("B", 1.0));
    format!("{} {unit}", rounded(size))
}

/// Returns true if path `id` begins at `local`.
fn is_at(net: &Net, connection: &QuicConnection, id: PathId, local: &Local) -> bool {
    connection.route(id).and_then(|route| net.local(route)) == Some(local)
}

/// Returns true if a link is opened at all.
pub(crate) fn is_opened(terms: &LinkTerms) -> bool {
    terms.tier != Tier::Never
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::links::terms::{Cap, Period};

    /// A link of 1600 bytes a day: 1000 were taken on the first, with what is kept, and 500 have travelled at midnight.
    #[test]
    fn what_is_left_at_midnight_is_taken_out_of_the_new_day_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let usage = Usage::at(folder.path().join("usage.json"));
        let caps = vec![Cap { bytes: Bytes::new(1600), period: Period::Day }];
        let mut link = Metered {
            local: Local::Device("wwan0".to_owned()),
            terms: LinkTerms { caps: caps.clone(), ..LinkTerms::default() },
            taken: 0,
            last: None,
            used: 0,
            ask_at: Instant::ZERO,
            told: vec![0],
            credit: Credit::default(),
        };
        let midnight = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
        let mut look = |used: u64, clock: SystemTime| {
            link.used = used;
            link.take_more(Instant::ZERO, clock, &usage).unwrap();
            let today = crate::links::usage::Today::of(clock);
            (link.taken, usage.take("wwan0", &caps, today, |_| 0).unwrap().used[0])
        };
        assert_eq!(look(0, midnight - Duration::from_secs(2)), (1000, 1000));
        assert_eq!(look(500, midnight - Duration::from_secs(1)), (1000, 1000));
        assert_eq!(look(500, midnight), (1000, 500));
        assert_eq!(look(510, midnight + Duration::from_secs(1)), (1000, 500));
    }

    #[test]
    fn an_amount_that_rounds_to_a_thousand_has_the_next_unit() {
        let amounts = [999, 999_994, 999_995, 999_994_999, 999_995_000, 1_500_000_000].map(|n| amount(Bytes::new(n)));
        assert_eq!(amounts, ["999 B", "999.99 kB", "1 MB", "999.99 MB", "1 GB", "1.5 GB"]);
    }
}
