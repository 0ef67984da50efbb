//! Whatever is in a file, the answer is a scenario or a mistake, never a panic.

use proptest::prelude::*;

use super::{PLAIN, with_sets};

/// Pieces of scenarios that mean something, in places where they may not.
const PIECES: &[&str] = &[
    "\n",
    "\"",
    "=",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "..",
    "-1",
    "0",
    "1e400",
    "9223372036854775808",
    "99999999999999999999 GB",
    "ms",
    "%",
    "é",
    "\u{0}",
    "inf",
    "nan",
    "1979-05-27",
    "[vary]\n",
    "[path.wifi]\n",
    "[[path]]\n",
    "\"path.wifi.loss\" = [\"1 %\", \"2 %\"]\n",
    "kind",
    "rate = \"0 Mbit/s\"\n",
    "queue = \"1 BDP\"\n",
    "[rival]\n",
    "[expect.x]\n",
    "scheduler = []\n",
    "true",
    "'''",
    "#",
    "\\",
];

#[derive(Clone, Debug)]
enum Edit {
    Insert(usize, usize),
    Delete(usize, usize),
    Copy(usize, usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<usize>(), 0..PIECES.len()).prop_map(|(at, piece)| Edit::Insert(at, piece)),
        (any::<usize>(), 1..20usize).prop_map(|(at, count)| Edit::Delete(at, count)),
        (any::<usize>(), any::<usize>(), 1..40usize).prop_map(|(from, to, count)| Edit::Copy(from, to, count)),
    ]
}

fn apply(text: &mut Vec<char>, edit: &Edit) {
    let place = |at: usize, len: usize| at % (len + 1);
    match *edit {
        Edit::Insert(at, piece) => {
            let at = place(at, text.len());
            text.splice(at..at, PIECES[piece].chars());
        }
        Edit::Delete(at, count) => {
            let at = place(at, text.len());
            text.drain(at..(at + count).min(text.len()));
        }
        Edit::Copy(from, to, count) => {
            let (from, to) = (place(from, text.len()), place(to, text.len()));
            let copied: Vec<char> = text[from..(from + count).min(text.len())].to_vec();
            text.splice(to..to, copied);
        }
    }
}

/// Reads `text`, and what is said about it.
fn survives(text: &str, sets: &[&str]) {
    match with_sets(text, sets) {
        Ok(scenario) => drop(scenario.variants().expect("variants were checked")),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

proptest! {
    #[test]
    fn no_change_to_a_file_panics(edits in prop::collection::vec(edit(), 1..6)) {
        let rich = format!("{PLAIN}[vary]\nscheduler = [\"min-rtt\"]\n\"path.lte.loss\" = [\"0 %\", \"1 %\"]\n[options]\nmss = \"1200 B\"\n");
        let mut text: Vec<char> = rich.chars().collect();
        edits.iter().for_each(|edit| apply(&mut text, edit));
        survives(&text.into_iter().collect::<String>(), &[]);
    }

    #[test]
    fn no_set_panics(key in "[a-z.]{0,20}|path\\.lte\\.[a-z]{0,6}", value in ".{0,20}") {
        survives(PLAIN, &[&format!("{key}={value}"), &value]);
        survives(PLAIN, &[&value]);
    }
}
