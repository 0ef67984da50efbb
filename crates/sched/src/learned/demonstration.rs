//! Answers of another scheduler to a task's questions: a network can learn them by imitation.
//!
//! The task only looks on: each of its questions begins a row, and until the next one each of the teacher's decisions
//! that such a task can tell apart counts in it, wait or send. That is a decision on new data while the fastest path is
//! full and another one open. The teacher itself decides, or the student does and the teacher says what it would have
//! done: then the rows are of where the student's own mistakes lead (Ross, Gordon and Bagnell, DAgger, AISTATS 2011).

use weftway_path::{Context, Decision, Event, Instant};

use super::pair::roles::Roles;
use super::task::Task;
use crate::{Needs, Scheduler};

/// A teacher, a task that looks on, and the rows so far.
#[derive(Clone)]
pub struct Demonstration {
    teacher: Box<dyn Scheduler>,
    /// Scheduler that decides in the teacher's place.
    student: Option<Box<dyn Scheduler>>,
    task: Box<dyn Task>,
    observation: Vec<f32>,
    /// Row by row: what the task sees, how often the teacher waited, how often it sent.
    rows: Vec<f32>,
    /// True if the last decision was asked for without an event since: it counts once.
    is_counted: bool,
}

impl Demonstration {
    /// Begins a demonstration. The `student` decides, if there is one, else the teacher.
    pub fn new(teacher: Box<dyn Scheduler>, student: Option<Box<dyn Scheduler>>, task: Box<dyn Task>) -> Self {
        let observation = vec![0.0; task.shape().inputs.len()];
        Self { teacher, student, task, observation, rows: Vec::new(), is_counted: false }
    }

    /// The rows: of each question what is seen, and how often until the next one the teacher waited and sent.
    pub fn into_rows(self) -> Vec<f32> {
        self.rows
    }

    /// Counts `decision` in the row that is open.
    fn count(&mut self, waits: bool) {
        let at = self.rows.len().checked_sub(if waits { 2 } else { 1 });
        if let Some(count) = at.and_then(|at| self.rows.get_mut(at)).filter(|_| !self.is_counted) {
            *count += 1.0;
        }
        self.is_counted = true;
    }
}

/// Returns true if `decision` waits for the full fastest path although another is open; nothing where there is no such
/// choice.
fn waits(cx: &Context<'_>, decision: Decision) -> Option<bool> {
    cx.packet.filter(|packet| !packet.reinjection && packet.carried.is_empty())?;
    let Roles { fast: Some(fast), slow: Some(_), unprobed: None } = Roles::of(cx) else { return None };
    let is_for_fast = match decision {
        Decision::Wait => true,
        Decision::Send(path) | Decision::Ahead(path, ..) => path == fast.id,
        _ => return None,
    };
    (!fast.is_open()).then_some(is_for_fast)
}

impl Scheduler for Demonstration {
    fn needs(&self) -> Needs {
        let student = self.student.as_ref().map_or(Needs::NONE, |student| student.needs());
        self.teacher.needs().union(student).union(self.task.needs())
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let is_asked = self.task.question(cx, &mut self.observation);
        if is_asked {
            self.rows.extend_from_slice(&self.observation);
            self.rows.extend([0.0; 2]);
            self.is_counted = false;
        }
        let decision = self.teacher.select(cx);
        let waits = waits(cx, decision);
        if let Some(waits) = waits {
            self.count(waits);
        }
        if is_asked {
            // Of those tasks 0 waits and 1 sends.
            self.task.answer(cx, &[f32::from(u8::from(waits != Some(true)))]);
        }
        let _ = self.task.select(cx);
        self.student.as_mut().map_or(decision, |student| student.select(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.is_counted = false;
        self.teacher.observe(cx, event);
        if let Some(student) = &mut self.student {
            student.observe(cx, event);
        }
        self.task.observe(cx, event);
    }

    fn wake(&self) -> Option<Instant> {
        let student = self.student.as_ref().and_then(|student| student.wake());
        self.teacher.wake().into_iter().chain(student).chain(self.task.wake()).min()
    }

    fn decided(&mut self, cx: &Context<'_>, decision: Decision) {
        match &mut self.student {
            Some(student) => student.decided(cx, decision),
            None => self.teacher.decided(cx, decision),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::build_task;
    use weftway_path::PathId;
    use weftway_vectors::testing::{Bench, packets, path};

    fn demonstration(teacher: &str, task: &str) -> Demonstration {
        Demonstration::new(crate::build(teacher).unwrap(), None, build_task(task).unwrap().1)
    }

    /// F is path 0 and full; S is path 1.
    fn bench() -> Bench {
        Bench::new(vec![path(0, 20, 10, 10), path(1, 500, 100, 0)])
    }

    #[test]
    fn a_teacher_decides_and_its_answers_are_counted() {
        // ECF waits for a path that is 25 times as fast with one packet to send; min-RTT does not.
        for (teacher, answer, counts) in
            [("ecf", Decision::Wait, [1.0, 0.0]), ("min-rtt", Decision::Send(PathId::new(1)), [0.0, 1.0])]
        {
            let mut shown = demonstration(teacher, "wait-or-send");
            let mut bench = bench();
            bench.flow.unsent = packets(1);
            for _ in 0..2 {
                assert_eq!(shown.select(&bench.context()), answer, "{teacher}");
            }
            let rows = shown.into_rows();
            assert_eq!((rows.len(), &rows[6..]), (8, &counts[..]), "{teacher}");
        }
    }

    #[test]
    fn a_student_decides_and_the_teacher_says_what_it_would_have_done() {
        let teacher = crate::build("ecf").unwrap();
        let student = crate::build("min-rtt").unwrap();
        let mut shown = Demonstration::new(teacher, Some(student), build_task("wait-or-send").unwrap().1);
        let mut bench = bench();
        bench.flow.unsent = packets(1);
        assert_eq!(shown.select(&bench.context()), Decision::Send(PathId::new(1)));
        assert_eq!(shown.into_rows()[6..], [1.0, 0.0]);
    }

    #[test]
    fn nothing_counts_while_the_fast_path_has_room() {
        let mut shown = demonstration("min-rtt", "wait-or-send");
        let bench = Bench::new(vec![path(0, 20, 10, 9), path(1, 500, 100, 0)]);
        assert_eq!(shown.select(&bench.context()), Decision::Send(PathId::new(0)));
        assert_eq!(shown.into_rows(), Vec::<f32>::new());
    }

    #[test]
    fn a_slot_has_all_decisions_of_its_time() {
        let mut shown = demonstration("min-rtt", "split:actions=table1");
        let mut bench = bench();
        for _ in 0..5 {
            let answer = shown.select(&bench.context());
            let sent = bench.carry(answer).unwrap();
            shown.observe(&bench.context(), &sent);
        }
        let rows = shown.into_rows();
        assert_eq!((rows.len(), &rows[9..]), (11, &[0.0, 5.0][..]));
    }
}
