//! Every parser reads what it accepts, changed in a few places. `EXECUTIONS=10000000` asks for so many in all, and
//! `PARSERS=pipe,mux` for these alone.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use weftway_fuzz::{TARGETS, Target};

/// A change of an input, at a place that is a share of its length.
#[derive(Clone, Debug)]
enum Change {
    Set(u16, u8),
    Flip(u16, u8),
    Insert(u16, Vec<u8>),
    Remove(u16, u8),
    Repeat(u16, u8),
    Number(u16, u64),
    Cut(u16),
}

fn change() -> impl Strategy<Value = Change> {
    let bytes = prop::collection::vec(any::<u8>(), 1..6);
    let edges = prop::sample::select(vec![0, 1, 0x7f, 0xff, 0xffff, 1 << 31, (1 << 62) - 1, u64::MAX]);
    prop_oneof![
        (any::<u16>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<u16>(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (any::<u16>(), bytes).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<u16>(), 1u8..9).prop_map(|(at, count)| Change::Remove(at, count)),
        (any::<u16>(), 1u8..40).prop_map(|(at, count)| Change::Repeat(at, count)),
        (any::<u16>(), edges).prop_map(|(at, number)| Change::Number(at, number)),
        any::<u16>().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let place = |at: u16| (usize::from(at) * bytes.len()) >> 16;
    let upto = |at: usize, count: u8| (at + usize::from(count)).min(bytes.len());
    match change {
        Change::Set(at, byte) if !bytes.is_empty() => {
            let at = place(*at);
            bytes[at] = *byte;
        }
        Change::Flip(at, bit) if !bytes.is_empty() => {
            let at = place(*at);
            bytes[at] ^= 1 << bit;
        }
        Change::Set(..) | Change::Flip(..) => {}
        Change::Insert(at, new) => {
            let at = place(*at);
            bytes.splice(at..at, new.iter().copied());
        }
        Change::Remove(at, count) => {
            let at = place(*at);
            let end = upto(at, *count);
            bytes.drain(at..end);
        }
        Change::Repeat(at, count) => {
            let at = place(*at);
            let part = bytes[at..upto(at, *count)].to_vec();
            bytes.splice(at..at, part);
        }
        Change::Number(at, number) => {
            let at = place(*at);
            let end = upto(at, 8);
            bytes[at..end].copy_from_slice(&number.to_be_bytes()[..end - at]);
        }
        Change::Cut(at) => {
            let at = place(*at);
            bytes.truncate(at);
        }
    }
}

/// Runs a parser on so many changed inputs.
fn run(target: &Target, executions: u32) {
    let accepted = (target.accepted)();
    accepted.iter().for_each(|input| (target.run)(input));
    let config = Config { cases: executions, failure_persistence: None, ..Config::default() };
    let inputs = (0..accepted.len(), prop::collection::vec(change(), 1..5));
    let mut runner =
        TestRunner::new_with_rng(config, proptest::test_runner::TestRng::deterministic_rng(Default::default()));
    for _ in 0..executions {
        let (at, changes) = inputs.new_tree(&mut runner).unwrap().current();
        let mut bytes = accepted[at].clone();
        changes.iter().for_each(|change| apply(&mut bytes, change));
        if std::panic::catch_unwind(|| (target.run)(&bytes)).is_err() {
            panic!("{}: {}", target.name, bytes.escape_ascii());
        }
    }
    println!("{}: {executions} executions", target.name);
}

/// One in a hundred reads a scenario or a policy, which takes as long as the other ninety-nine.
#[test]
fn no_parser_panics() {
    let executions = std::env::var("EXECUTIONS").map_or(100_000, |text| text.parse::<u32>().unwrap());
    let is_slow = |target: &&Target| ["scenario", "policy"].contains(&target.name);
    let named = std::env::var("PARSERS").unwrap_or_default();
    let is_named = |target: &&Target| named.is_empty() || named.split(',').any(|name| name == target.name);
    let (slow, fast): (Vec<_>, Vec<_>) = TARGETS.iter().filter(is_named).partition(is_slow);
    assert!(!slow.is_empty() || !fast.is_empty(), "PARSERS={named}: none is called so");
    let few = executions / 100 / (slow.len() as u32).max(1);
    let many = (executions - few * slow.len() as u32) / (fast.len() as u32).max(1);
    slow.iter().for_each(|target| run(target, few));
    fast.iter().for_each(|target| run(target, many));
    println!("{} executions in all", few * slow.len() as u32 + many * fast.len() as u32);
}
