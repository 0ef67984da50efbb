//! Lines of a script.

use weftway_path::{BitRate, Bytes, Instant, Span};

use weftway_link::{Rate, Reason, Set, Verdict};

/// A line: when, and what.
pub(super) struct Line {
    pub(super) at: Instant,
    pub(super) verb: Verb,
}

pub(super) enum Verb {
    Push { bytes: Bytes, expect: Verdict },
    Arrives { packet: u64, by: Instant, marked: bool },
    Backlog { packets: u64, bytes: Bytes },
    Set(Set),
}

pub(super) fn parse(text: &str) -> Result<Line, String> {
    let text = text.split('#').next().unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let [at, verb, rest @ ..] = words.as_slice() else {
        return Err("expected a time in milliseconds and a verb".to_owned());
    };
    let at = instant(at)?;
    let verb = match (*verb, rest) {
        ("push", [bytes]) => Verb::Push { bytes: size(bytes)?, expect: Verdict::Queued },
        ("push", [bytes, fate]) => Verb::Push { bytes: size(bytes)?, expect: verdict(fate)? },
        ("arrives", [packet]) => Verb::Arrives { packet: count(packet)?, by: at, marked: false },
        ("arrives", [packet, "marked"]) => Verb::Arrives { packet: count(packet)?, by: at, marked: true },
        ("arrives", [packet, "by", by]) => Verb::Arrives { packet: count(packet)?, by: instant(by)?, marked: false },
        ("backlog", [packets, bytes]) => Verb::Backlog { packets: count(packets)?, bytes: size(bytes)? },
        ("rate", [mbps]) => Verb::Set(Set::Rate(Rate::Constant(BitRate::from_bps((number(mbps)? * 1e6 + 0.5) as u64)))),
        ("delay", [ms]) => Verb::Set(Set::Delay(span(ms)?)),
        ("fail", []) => Verb::Set(Set::Down),
        ("heal", []) => Verb::Set(Set::Up),
        ("push" | "arrives" | "backlog" | "rate" | "delay" | "fail" | "heal", _) => {
            return Err(format!("`{verb}` does not take these words"));
        }
        _ => return Err(format!("unknown verb `{verb}`")),
    };
    Ok(Line { at, verb })
}

fn verdict(word: &str) -> Result<Verdict, String> {
    match word {
        "lost" => Ok(Verdict::Lost),
        "full" => Ok(Verdict::Dropped(Reason::Queue)),
        "down" => Ok(Verdict::Dropped(Reason::Down)),
        _ => Err(format!("`{word}` is not a fate; expected lost, full or down")),
    }
}

fn number(word: &str) -> Result<f64, String> {
    let number = word.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{word}` is not a number"))
}

/// Reads a number of milliseconds.
fn span(word: &str) -> Result<Span, String> {
    Ok(Span::from_nanos((number(word)? * 1e6 + 0.5) as u64))
}

fn instant(word: &str) -> Result<Instant, String> {
    Ok(Instant::ZERO + span(word)?)
}

fn count(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("`{word}` is not a whole number"))
}

fn size(word: &str) -> Result<Bytes, String> {
    count(word).map(Bytes::new)
}
