//! Mender of what other programs take away: it is set again, but not for ever.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use super::plan::Need;
use crate::failure::system_text;

/// Repairs in a row.
const MOST_MENDS: f64 = 10.0;
/// Time after which one more is allowed: another program may take away the same for ever.
const ANOTHER_MEND: Duration = Duration::from_secs(30);
/// Time after which the same is told again.
const REPEAT: Duration = Duration::from_secs(600);

/// A machine whose routes are watched.
pub trait Machine {
    /// Things that the tunnel needs and that are not there.
    fn missing(&mut self) -> io::Result<Vec<Need>>;

    /// Sets these again; returns the complaint of the command that failed.
    fn make(&mut self, missing: &[Need]) -> io::Result<String>;

    /// Packets for the tunnel that go beside it though nothing is missing, in words.
    fn beside(&mut self) -> io::Result<Option<String>>;
}

/// Sets again what is missing, each time that it is told to look.
pub struct Mender<M> {
    machine: M,
    /// Repairs that are allowed.
    mends: f64,
    since: Instant,
    /// State of packets that do not come to the tunnel.
    consequence: &'static str,
    /// Notes of the last ten minutes, and when they were told.
    told: HashMap<String, Instant>,
    /// True while packets of programs do not come to the tunnel.
    is_astray: bool,
}

impl<M: Machine> Mender<M> {
    /// A mender of a machine that has all that it needs. With a kill switch packets that do not come to the tunnel go
    /// nowhere.
    pub fn new(machine: M, now: Instant, kill_switch: bool) -> Self {
        let consequence = if kill_switch { "packets do not reach the tunnel" } else { "packets go beside the tunnel" };
        Self { machine, mends: MOST_MENDS, since: now, consequence, told: HashMap::new(), is_astray: false }
    }

    /// Returns true while packets of programs do not come to the tunnel.
    pub fn is_astray(&self) -> bool {
        self.is_astray
    }

    /// Looks once; returns what the user is told.
    pub fn turn(&mut self, now: Instant) -> Vec<String> {
        let mut notes = match self.look(now) {
            Ok(notes) => notes,
            // It has no memory for another process, or no descriptor: that may pass.
            Err(error) => vec![format!("the tunnel's routes cannot be looked at: {}", system_text(&error))],
        };
        self.told.retain(|_, told| now.saturating_duration_since(*told) < REPEAT);
        notes.retain(|note| !self.told.contains_key(note));
        self.told.extend(notes.iter().map(|note| (note.clone(), now)));
        notes
    }

    fn look(&mut self, now: Instant) -> io::Result<Vec<String>> {
        let mut notes = Vec::new();
        let mut why = None;
        let missing = self.machine.missing()?;
        if !missing.is_empty() {
            if self.may_mend(now) {
                why = self.mend(&missing, &mut notes)?;
            } else {
                why = Some(format!("another program takes away {} again and again", named(&missing)));
            }
        }
        if why.is_none() {
            let beside = self.machine.beside()?;
            why = beside.map(|route| format!("{route}, by a rule or a route of another program"));
        }
        match &why {
            Some(why) => notes.push(format!("{}: {why}", self.consequence)),
            None if self.is_astray => notes.push("packets come to the tunnel again".to_owned()),
            None => {}
        }
        self.is_astray = why.is_some();
        Ok(notes)
    }

    /// Sets these again; returns why packets do not come to the tunnel if something is still missing.
    fn mend(&mut self, missing: &[Need], notes: &mut Vec<String>) -> io::Result<Option<String>> {
        let complaint = self.machine.make(missing)?;
        let still = self.machine.missing()?;
        let mended: Vec<_> = missing.iter().filter(|need| !still.contains(need)).cloned().collect();
        if !mended.is_empty() {
            notes.push(format!("the tunnel was missing {}: set again", named(&mended)));
        }
        let complaint = complaint.lines().next().map_or_else(String::new, |first| format!(" ({first})"));
        Ok((!still.is_empty()).then(|| format!("missing {}{complaint}", named(&still))))
    }

    fn may_mend(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        self.mends = MOST_MENDS.min(self.mends + passed.as_secs_f64() / ANOTHER_MEND.as_secs_f64());
        self.since = now;
        let may = self.mends >= 1.0;
        if may {
            self.mends -= 1.0;
        }
        may
    }
}

/// Names of what is missing, for people, each once.
fn named(missing: &[Need]) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in missing.iter().map(ToString::to_string) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::Family;
    use super::super::part::Selector;
    use super::super::plan::{Action, Rule};
    use super::*;

    /// A machine of which another program takes rules away.
    #[derive(Default)]
    struct Played {
        gone: Vec<Need>,
        route: Option<String>,
        made: Vec<Vec<Need>>,
        complaint: String,
        fails: bool,
    }

    impl Machine for Played {
        fn missing(&mut self) -> io::Result<Vec<Need>> {
            if self.fails { Err(io::Error::from_raw_os_error(24)) } else { Ok(self.gone.clone()) }
        }

        fn make(&mut self, missing: &[Need]) -> io::Result<String> {
            self.made.push(missing.to_vec());
            if self.complaint.is_empty() {
                self.gone.clear();
            }
            Ok(self.complaint.clone())
        }

        fn beside(&mut self) -> io::Result<Option<String>> {
            Ok(self.route.clone())
        }
    }

    fn rule() -> Need {
        let selector = Selector { to: None, ports: None };
        Need::Rule(Family::V4, Rule { pref: 4405, selector, action: Action::Tunnel })
    }

    /// A mender, and moments after its first.
    fn mender(kill_switch: bool) -> (Mender<Played>, impl Fn(u64) -> Instant) {
        let begin = Instant::now();
        (Mender::new(Played::default(), begin, kill_switch), move |second| begin + Duration::from_secs(second))
    }

    #[test]
    fn things_that_were_taken_are_set_again_and_told_once() {
        let (mut mender, at) = mender(false);
        assert!(mender.turn(at(1)).is_empty() && mender.machine.made.is_empty());
        mender.machine.gone = vec![rule(), Need::Route(Family::V6), Need::Device];
        let told = "the tunnel was missing IPv4 rules, IPv6 route, device: set again";
        assert_eq!(mender.turn(at(2)), [told]);
        mender.machine.gone = mender.machine.made[0].clone();
        assert!(mender.turn(at(3)).is_empty() && mender.machine.made.len() == 2);
        assert!(!mender.is_astray());
    }

    #[test]
    fn a_fight_with_another_program_is_bounded_and_told() {
        // A second apart it gives way after a few; then it tries once in half a minute, and says so once in ten
        // minutes.
        let (mut mender, at) = mender(false);
        let mut notes = Vec::new();
        for second in 0..600 {
            mender.machine.gone = vec![rule()];
            notes.extend(mender.turn(at(second)));
            assert_eq!(mender.is_astray(), !mender.machine.gone.is_empty());
        }
        // 10 at once, and one each half a minute: 600 / 30.
        assert!((29..31).contains(&mender.machine.made.len()));
        let why = "packets go beside the tunnel: another program takes away IPv4 rules again and again";
        assert_eq!(notes, ["the tunnel was missing IPv4 rules: set again", why, "packets come to the tunnel again"]);
    }

    #[test]
    fn things_that_cannot_be_set_again_are_told_with_the_reason() {
        let (mut mender, at) = mender(true);
        mender.machine.gone = vec![rule(), Need::KillSwitch];
        mender.machine.complaint = "RTNETLINK answers: Operation not permitted\nmore".to_owned();
        let told = "packets do not reach the tunnel: missing IPv4 rules, kill switch \
                    (RTNETLINK answers: Operation not permitted)";
        assert_eq!(mender.turn(at(0)), [told]);
        assert!(mender.is_astray());
    }

    #[test]
    fn notes_that_were_told_long_ago_are_forgotten() {
        let (mut mender, at) = mender(false);
        for second in 0..1000 {
            mender.machine.route = Some(format!("10.0.{second}.0/24 of IPv4 leads to wg0"));
            assert_eq!(mender.turn(at(second)).len(), 1);
        }
        assert!(mender.told.len() <= 600);
    }

    #[test]
    fn a_look_that_fails_is_told_and_the_next_one_counts() {
        let (mut mender, at) = mender(false);
        mender.machine.fails = true;
        assert_eq!(mender.turn(at(0)), ["the tunnel's routes cannot be looked at: Too many open files"]);
        assert!(mender.turn(at(1)).is_empty());
        mender.machine.fails = false;
        mender.machine.gone = vec![rule()];
        assert_eq!(mender.turn(at(2)), ["the tunnel was missing IPv4 rules: set again"]);
    }

    #[test]
    fn rules_of_others_before_those_of_the_tunnel_are_told() {
        let (mut mender, at) = mender(false);
        mender.machine.route = Some("default of IPv4 leads to wg0".to_owned());
        let why = "packets go beside the tunnel: default of IPv4 leads to wg0, by a rule or a route of another program";
        assert_eq!((mender.turn(at(1)), mender.is_astray()), (vec![why.to_owned()], true));
        assert_eq!((mender.turn(at(2)), mender.is_astray()), (vec![], true));
        mender.machine.route = None;
        assert_eq!(
            (mender.turn(at(3)), mender.is_astray()),
            (vec!["packets come to the tunnel again".to_owned()], false)
        );
    }
}
