//! Schedulers that take over while a program is at work.

use std::sync::mpsc::Receiver;

use crate::connection::session::Session;
use crate::failure::Failure;

/// Each of `names` that has come takes over in turn from `current` by `switch`. The user is told of each at once; one
/// that `switch` refuses changes nothing.
pub(crate) fn take_over(
    names: Option<&Receiver<String>>,
    current: &mut String,
    session: &mut Session<'_>,
    mut switch: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let names: Vec<String> = names.iter().flat_map(|names| names.try_iter()).collect();
    for name in names {
        let outcome = switch(&name);
        session.say(told(name, outcome, current));
        session.progress.scheduler = Some(current.clone());
        session.tell()?;
    }
    Ok(())
}

/// Message about a switch to `name`, which is `current` from then on if it came to pass.
fn told(name: String, outcome: Result<(), Failure>, current: &mut String) -> String {
    match outcome {
        Ok(()) => {
            *current = name;
            format!("{current} schedules from now on")
        }
        Err(failure) => format!("{failure}; {current} goes on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_that_is_refused_changes_nothing() {
        let mut current = "min-rtt".to_owned();
        let refused = told("nobody".to_owned(), Err(Failure::Spec("no such scheduler".to_owned())), &mut current);
        assert_eq!((refused.as_str(), current.as_str()), ("no such scheduler; min-rtt goes on", "min-rtt"));
        let taken = told("round-robin".to_owned(), Ok(()), &mut current);
        assert_eq!((taken.as_str(), current.as_str()), ("round-robin schedules from now on", "round-robin"));
    }
}
