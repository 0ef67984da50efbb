//! Prompt of `weft top`, to switch a program's scheduler.

use serde_json::Value;

use super::fields::some_text;
use crate::text::is_printable;

pub const ESCAPE: &str = "\x1b";
const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const LONGEST: usize = 200;

/// The keys in what a terminal sends: arrows and such are sequences that begin with ESC [.
pub fn keys(mut typed: &str) -> Vec<&str> {
    let mut keys = Vec::new();
    while !typed.is_empty() {
        let (key, rest) = typed.split_at(length_of_first(typed));
        keys.push(key);
        typed = rest;
    }
    keys
}

fn length_of_first(typed: &str) -> usize {
    if let Some(sequence) = typed.strip_prefix("\x1b[") {
        let parameters = sequence.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
        if sequence[parameters..].starts_with(|one: char| one.is_ascii_alphabetic() || one == '~') {
            return "\x1b[".len() + parameters + 1;
        }
    }
    typed.chars().next().map_or(0, char::len_utf8)
}

/// A name that is being typed for one of several programs. Tab goes through the names that begin with it.
pub struct Prompt {
    /// The name so far.
    pub text: String,
    names: Vec<&'static str>,
    /// Which program is meant; more than there are begins anew.
    place: isize,
    /// Text that was typed before Tab.
    typed: String,
    /// Which name Tab has put in.
    tab: Option<usize>,
}

impl Prompt {
    /// Empty prompt; `names` are those that Tab knows.
    pub fn new(names: Vec<&'static str>) -> Self {
        Self { text: String::new(), names, place: 0, typed: String::new(), tab: None }
    }

    /// The program that is meant, of all that have a scheduler.
    pub fn program<'a>(&self, snapshots: &'a [Value]) -> Option<&'a Value> {
        let mut switchable: Vec<&Value> =
            snapshots.iter().filter(|snapshot| some_text(snapshot, "scheduler").is_some()).collect();
        let count = isize::try_from(switchable.len()).ok().filter(|&count| count > 0)?;
        Some(switchable.swap_remove(self.place.rem_euclid(count) as usize))
    }

    /// Takes a key; returns true if the name is complete.
    pub fn press(&mut self, key: &str) -> bool {
        match key {
            "\r" | "\n" => return !self.text.trim().is_empty(),
            UP => self.place -= 1,
            DOWN => self.place += 1,
            "\t" => self.complete(),
            "\x7f" | "\x08" => {
                let mut shorter = self.text.clone();
                shorter.pop();
                self.type_in(shorter);
            }
            _ if key.chars().count() == 1 && key.chars().all(is_printable) => {
                self.type_in(format!("{}{key}", self.text))
            }
            _ => {}
        }
        false
    }

    fn complete(&mut self) {
        let found: Vec<&str> = self.names.iter().copied().filter(|name| name.starts_with(&self.typed)).collect();
        if !found.is_empty() {
            let tab = self.tab.map_or(0, |tab| (tab + 1) % found.len());
            self.tab = Some(tab);
            self.text = found[tab].to_owned();
        }
    }

    fn type_in(&mut self, text: String) {
        self.text = text.chars().take(LONGEST).collect();
        self.typed.clone_from(&self.text);
        self.tab = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Text after each key; what is complete has a dot.
    fn typed(prompt: &mut Prompt, typed: &str) -> Vec<String> {
        let mut after = Vec::new();
        for key in keys(typed) {
            let dot = if prompt.press(key) { "." } else { "" };
            after.push(format!("{}{dot}", prompt.text));
        }
        after
    }

    #[test]
    fn what_is_typed_is_completed_and_taken_back() {
        let mut prompt = Prompt::new(vec!["ecf", "blest", "round-robin", "random"]);
        assert_eq!(typed(&mut prompt, "\n"), [""]);
        assert_eq!(typed(&mut prompt, "r\t\t\t"), ["r", "round-robin", "random", "round-robin"]);
        assert_eq!(typed(&mut prompt, "\x7f\x7f"), ["round-robi", "round-rob"]);
        let there = ["round-robin", "round-robin", "round-robin", "round-robin", "round-robin."];
        assert_eq!(typed(&mut prompt, "\t\x1b[C\x1b[3~\x00\n"), there);
        assert_eq!(typed(&mut prompt, &"é".repeat(300)).last().unwrap().chars().count(), LONGEST);
    }

    #[test]
    fn keys_are_letters_and_sequences() {
        assert_eq!(keys("aé\x1b[1;5A\x1b\x1b[B\x1b[é"), ["a", "é", "\x1b[1;5A", "\x1b", "\x1b[B", "\x1b", "[", "é"]);
    }

    #[test]
    fn arrows_choose_a_program_that_has_a_scheduler() {
        let mut prompt = Prompt::new(Vec::new());
        let programs = [
            json!({"pid": 1, "scheduler": "ecf"}),
            json!({"pid": 2, "scheduler": null}),
            json!({"pid": 3, "scheduler": "late"}),
        ];
        for (pressed, pid) in [("", 1), (DOWN, 3), (DOWN, 1), (UP, 3)] {
            typed(&mut prompt, pressed);
            assert_eq!(prompt.program(&programs).unwrap()["pid"], pid);
        }
        assert!(prompt.program(&programs[1..2]).is_none());
    }
}
