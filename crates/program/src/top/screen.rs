//! The live view: all programs, and in the last line what keys do.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::stdio::stdin;
use serde_json::{Value, json};

use super::fields::{count, list, text};
use super::programs::Programs;
use super::prompt::{ESCAPE, Prompt, keys};
use super::terminal::Terminal;
use super::view::{Line, MOST_FLOWS, Style, lines_of, view};
use super::{NOTHING_RUNS, ready};
use crate::failure::{Done, Failure, INTERRUPTED};
use crate::signals;

const REFRESH: Duration = Duration::from_millis(250);

/// Shows all programs until q is pressed, and switches their schedulers.
pub fn show() -> Done {
    let mut programs = Programs::default();
    let mut prompt = None;
    let terminal = Terminal::enter()?;
    while !signals::interrupted() {
        programs.look()?;
        let snapshots = programs.snapshots();
        terminal.draw(&screen(&snapshots, prompt.as_ref(), terminal.size()))?;
        let keyboard = stdin();
        let mut waited = vec![PollFd::new(&keyboard, PollFlags::IN)];
        waited.extend(programs.readers().map(|reader| PollFd::new(reader, PollFlags::IN)));
        let ready = ready(&mut waited, REFRESH);
        programs.read(&ready[1..]);
        if !ready[0] {
            continue;
        }
        let Some(typed) = terminal.typed() else { return Ok(()) };
        for key in keys(&typed) {
            if prompt.is_none() && ["q", "Q"].contains(&key) {
                return Ok(());
            }
            press(key, &mut prompt, &mut programs, &snapshots);
        }
    }
    Err(Failure::Said(INTERRUPTED))
}

/// Takes a key; asks the program that is meant once the name of a scheduler is complete.
fn press(key: &str, prompt: &mut Option<Prompt>, programs: &mut Programs, snapshots: &[Value]) {
    let Some(typed) = prompt else {
        if ["s", "S"].contains(&key) {
            *prompt = Some(Prompt::new(weftway_sched::all().iter().map(|entry| entry.name).collect()));
        }
        return;
    };
    let is_complete = key != ESCAPE && typed.press(key);
    if is_complete && let Some(program) = typed.program(snapshots) {
        programs.ask(count(program, "pid"), &json!({"scheduler": typed.text.trim()}));
    }
    if is_complete || key == ESCAPE {
        *prompt = None;
    }
}

/// All that is shown. Where not all fits, fewer connections of each program are shown, and of all the beginning.
fn screen(snapshots: &[Value], prompt: Option<&Prompt>, (columns, rows): (usize, usize)) -> Vec<Line> {
    let foot = lines_of(&foot(snapshots, prompt), Style::Dim, columns);
    let room = rows.saturating_sub(foot.len());
    let shown = |flows| -> Vec<Line> { snapshots.iter().flat_map(|snapshot| view(snapshot, flows, columns)).collect() };
    let mut lines = shown(MOST_FLOWS);
    if lines.is_empty() {
        lines = lines_of(&format!("{NOTHING_RUNS}; one that starts is shown"), Style::Plain, columns);
    }
    if lines.len() > room {
        lines = shown(flows_without(snapshots, lines.len() - room));
        lines.truncate(room);
    }
    lines.extend(foot);
    lines
}

/// Number of connections of each program that may be shown if `lines` of all of them are to go.
fn flows_without(snapshots: &[Value], lines: usize) -> usize {
    let counts: Vec<usize> = snapshots.iter().map(|one| list(one, "busiest").len().min(MOST_FLOWS)).collect();
    let Some(left) = counts.iter().sum::<usize>().checked_sub(lines) else { return 0 };
    let shown = |most: usize| counts.iter().map(|&count| count.min(most)).sum::<usize>();
    (1..=MOST_FLOWS).rev().find(|&most| shown(most) <= left).unwrap_or(0)
}

/// Line about what keys do, or what is being typed.
fn foot(snapshots: &[Value], prompt: Option<&Prompt>) -> String {
    let Some(prompt) = prompt else { return "q: end   s: switch a scheduler".to_owned() };
    let Some(program) = prompt.program(snapshots) else {
        return "no program is here that has a scheduler   Esc: back".to_owned();
    };
    let of = format!("scheduler of weft {} ({})", text(program, "program"), count(program, "pid"));
    let keys = "Enter: switch   Tab: next name   ↑ ↓: another program   Esc: back";
    format!("{of}: {}▏  {keys}", prompt.text)
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::snapshot;
    use super::*;

    fn programs() -> [Value; 2] {
        [("bulk", 8), ("slow", 1)].map(|(class, count)| {
            let mut program = snapshot();
            let flow = json!({"target": "example.org:443", "class": class, "up": 9, "down": 20_000, "paths": []});
            let link = |name: &str| {
                let mut link = program["paths"][0].clone();
                link["path"] = name.into();
                link
            };
            program["paths"] = json!([link("wlan0"), link("wwan0")]);
            for nothing in ["drops", "refusals"] {
                program[nothing] = json!({});
            }
            program["busiest"] = vec![flow; count].into();
            program
        })
    }

    #[test]
    fn what_keys_do_is_in_sight_however_low_the_terminal() {
        for (height, shown) in [(40, [8, 1]), (18, [4, 1]), (12, [0, 0]), (6, [0, 0])] {
            let lines = screen(&programs(), None, (100, height));
            assert!(lines.len() <= height);
            let count = |class: &str| lines.iter().filter(|line| line.text.contains(&format!(" {class} "))).count();
            assert_eq!(["bulk", "slow"].map(count), shown, "{height}");
            assert!(lines.last().unwrap().text.starts_with("q: end"));
        }
    }

    #[test]
    fn what_is_typed_is_shown_with_the_program_that_is_meant() {
        let mut programs = programs().to_vec();
        let mut prompt = Prompt::new(vec!["ecf"]);
        assert!(foot(&programs, Some(&prompt)).starts_with("no program is here that has a scheduler"));
        programs[1]["scheduler"] = "min-rtt".into();
        prompt.press("e");
        assert!(foot(&programs, Some(&prompt)).starts_with("scheduler of weft proxy (77): e▏  Enter: switch"));
    }

    #[test]
    fn while_nothing_runs_that_is_said() {
        let lines = screen(&[], None, (200, 10));
        assert_eq!(lines[0].text, format!("{NOTHING_RUNS}; one that starts is shown"));
        assert_eq!(lines.len(), 2);
    }
}
