//! A run as text, one event a line, under a header that says how it was made: for people, for
//! `diff`, and for tests that compare it byte for byte. The format is described in
//! `docs/reference/trace-format.md`; the legend in the header repeats it.

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};

use weftway_cc::Signal;
use weftway_host::Decided;
use weftway_link::{Reason, Verdict};
use weftway_path::{Decision, Instant, Offset, PathId};

use crate::listeners::{Listener, Note};
use weftway_scenario::sink::Sink;

const LEGEND: &str = "\
#
# time (ns), symbol, path, then:
#  ?  the scheduler answers: answer, first byte of the packet at hand, byte asked for; its reason
#  +  sent: packet, first byte, bytes        ~  sent, to be lost on the wire: the same
#  d  dropped by a full queue: the same      |  dropped by a link that is down: the same
#  -  arrived: packet, first byte, bytes, all arrived up to byte, bytes held after it
#  a  acknowledged: all packets below, all bytes below, window, in flight, srtt (us)
#  l  declared lost: packet                  t  a timer fired: which
#  c  congestion: signal                     ^  path up       v  path down
#
";

/// A listener that writes a run down.
pub struct GoldenTrace<W: Write> {
    out: Sink<W>,
}

impl<W: Write> GoldenTrace<W> {
    /// A trace into `out` that starts with how it was made: title, scenario hash, scheduler,
    /// controller, seed, code version, the command that replays it.
    pub fn new(out: W, header: impl IntoIterator<Item = (impl Display, impl Display)>) -> Self {
        let mut out = Sink::new(out);
        out.with(|out| writeln!(out, "# weftway trace 1"));
        for (key, value) in header {
            out.with(|out| writeln!(out, "# {key}: {}", one_line(&value.to_string())));
        }
        out.with(|out| out.write_all(LEGEND.as_bytes()));
        Self { out }
    }

    /// Writes out what is buffered. The first error since the start is reported here, once.
    pub fn finish(&mut self) -> io::Result<&W> {
        self.out.finish()
    }
}

impl<W: Write + Send> Listener for GoldenTrace<W> {
    fn note(&mut self, now: Instant, conn: u8, note: &Note) {
        if conn == 0 {
            self.out.with(|out| write_line(out, now, note));
        }
    }
}

fn write_line(out: &mut impl Write, now: Instant, note: &Note) -> io::Result<()> {
    let time = now.as_nanos();
    let mut line = |symbol: char, path: PathId, rest: fmt::Arguments<'_>| {
        writeln!(out, "{time:>12} {symbol} {:>2}{rest}", path.get())
    };
    match note {
        Note::Decided(Decided { offset, decision, why }) => decided(out, time, *offset, *decision, why.as_deref()),
        Note::Sent { path, index, offset, bytes, verdict } => {
            line(fate(*verdict), *path, format_args!(" {index:>7} {:>10} {bytes:>6}", offset.get()))
        }
        Note::Arrived { path, index, offset, bytes, in_order_to, held } => {
            let (offset, to) = (offset.get(), in_order_to.get());
            line('-', *path, format_args!(" {index:>7} {offset:>10} {bytes:>6} {to:>10} {held:>9}"))
        }
        Note::Acked { path, cum, una, cwnd, in_flight, srtt_us } => {
            let una = una.get();
            line('a', *path, format_args!(" {cum:>7} {una:>10} {cwnd:>9} {in_flight:>9} {srtt_us:>8}"))
        }
        Note::Lost { path, index } => line('l', *path, format_args!(" {index:>7}")),
        Note::Timeout { path, kind } => line('t', *path, format_args!(" {kind:>7}")),
        Note::Congestion { path, signal } => line('c', *path, format_args!(" {:>10}", signal_name(*signal))),
        Note::Up(path) => line('^', *path, format_args!("")),
        Note::Down(path) => line('v', *path, format_args!("")),
    }
}

fn decided(
    out: &mut impl Write,
    time: u64,
    hand: Option<Offset>,
    decision: Decision,
    why: Option<&str>,
) -> io::Result<()> {
    let (answer, path, asked) = parts(decision);
    let (path, hand, asked) =
        (OrDot(path.map(PathId::get)), OrDot(hand.map(Offset::get)), OrDot(asked.map(Offset::get)));
    write!(out, "{time:>12} ? {path:>2} {answer:>7} {hand:>10} {asked:>10}")?;
    match why {
        Some(why) => writeln!(out, "  {}", one_line(why)),
        None => writeln!(out),
    }
}

/// An answer's name, its path, and the byte that it asks for.
pub fn parts(decision: Decision) -> (&'static str, Option<PathId>, Option<Offset>) {
    match decision {
        Decision::Send(path) => ("send", Some(path), None),
        Decision::Ahead(path, offset) => ("ahead", Some(path), Some(offset)),
        Decision::Repeat(path, offset) => ("repeat", Some(path), Some(offset)),
        Decision::Recall(path) => ("recall", Some(path), None),
        Decision::Wait => ("wait", None, None),
    }
}

fn fate(verdict: Verdict) -> char {
    match verdict {
        Verdict::Queued => '+',
        Verdict::Lost => '~',
        Verdict::Dropped(Reason::Queue) => 'd',
        Verdict::Dropped(Reason::Down) => '|',
    }
}

fn signal_name(signal: Signal) -> &'static str {
    match signal {
        Signal::Loss => "loss",
        Signal::Ecn => "ecn",
        Signal::Timeout => "timeout",
        Signal::Persistent => "persistent",
    }
}

/// A number, or a dot where there is none.
struct OrDot<T>(Option<T>);

impl<T: Display> Display for OrDot<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.pad("."),
        }
    }
}

/// A line stays a line whatever a title or a scheduler of the user's own says.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(notes: &[Note]) -> String {
        let mut trace = GoldenTrace::new(Vec::new(), [("title", "two\nlines"), ("seed", "7")]);
        notes.iter().for_each(|note| trace.note(Instant::from_micros(1500), 0, note));
        String::from_utf8(trace.finish().unwrap().clone()).unwrap()
    }

    #[test]
    fn the_header_says_how_the_trace_was_made_and_what_it_means() {
        assert_eq!(text(&[]), format!("# weftway trace 1\n# title: two lines\n# seed: 7\n{LEGEND}"));
    }

    #[test]
    fn a_decision_has_the_reason_beside_it() {
        let why = Some("k 3 < 5".to_owned());
        let ahead = Decision::Ahead(PathId::new(1), Offset::new(7000));
        let notes = [
            Note::Decided(Decided { offset: Some(Offset::new(1400)), decision: ahead, why }),
            Note::Decided(Decided { offset: None, decision: Decision::Wait, why: None }),
        ];
        let text = text(&notes);
        let lines: Vec<_> = text.lines().rev().take(2).collect();
        assert_eq!(lines[1], "     1500000 ?  1   ahead       1400       7000  k 3 < 5");
        assert_eq!(lines[0], "     1500000 ?  .    wait          .          .");
    }

    #[test]
    fn what_the_link_did_is_the_symbol() {
        let (path, offset) = (PathId::new(0), Offset::new(9));
        let sent = |verdict| text(&[Note::Sent { path, index: 3, offset, bytes: 1400, verdict }]);
        let symbol = |verdict| sent(verdict).lines().last().unwrap().as_bytes()[13] as char;
        assert_eq!(symbol(Verdict::Queued), '+');
        assert_eq!(symbol(Verdict::Lost), '~');
        assert_eq!(symbol(Verdict::Dropped(Reason::Queue)), 'd');
        assert_eq!(symbol(Verdict::Dropped(Reason::Down)), '|');
    }
}
