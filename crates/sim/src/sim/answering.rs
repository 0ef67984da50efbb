//! Answers to the questions of a run: schedulers, a learned task, or somebody outside.

use weftway_host::Turn;
use weftway_sched::Scheduler;
use weftway_sched::learned::Task;

use super::Pause;
use crate::port::Port;

/// A source of answers to the questions of a run's connections.
pub(super) trait Answering {
    /// Connection `at` asks. A question that is left open comes again.
    fn ask(&mut self, port: &mut Port<'_>, at: usize) -> Turn;

    /// Connection `at` has something to tell, and nothing to ask.
    fn tell(&mut self, port: &mut Port<'_>, at: usize) -> Turn;
}

/// Schedulers, one per connection.
pub(super) struct Schedulers<'a, 'b> {
    pub schedulers: &'a mut [&'b mut dyn Scheduler],
}

impl Answering for Schedulers<'_, '_> {
    #[inline(always)]
    fn ask(&mut self, port: &mut Port<'_>, at: usize) -> Turn {
        weftway_host::ask(port, &mut *self.schedulers[at]);
        Turn::Over
    }

    #[inline(always)]
    fn tell(&mut self, port: &mut Port<'_>, at: usize) -> Turn {
        weftway_host::tell(port, &mut *self.schedulers[at]);
        Turn::Over
    }
}

/// A learned task whose answers come from outside, and the scheduler of the other connection, if there is one.
pub(super) struct SteppedTask<'a, 'b> {
    pub task: &'a mut dyn Task,
    pub rival: Option<&'a mut (dyn Scheduler + 'b)>,
    pub observation: &'a mut [f32],
}

impl Answering for SteppedTask<'_, '_> {
    #[inline(always)]
    fn ask(&mut self, port: &mut Port<'_>, at: usize) -> Turn {
        if at == 0 {
            return weftway_host::ask_task(port, self.task, self.observation);
        }
        if let Some(rival) = &mut self.rival {
            weftway_host::ask(port, *rival);
        }
        Turn::Over
    }

    #[inline(always)]
    fn tell(&mut self, port: &mut Port<'_>, at: usize) -> Turn {
        if at == 0 {
            return weftway_host::tell_task(port, self.task, self.observation);
        }
        if let Some(rival) = &mut self.rival {
            weftway_host::tell(port, *rival);
        }
        Turn::Over
    }
}

/// Answers from outside of the simulation: it stops at each question.
pub(super) struct Outside(pub Option<Pause>);

impl Answering for Outside {
    #[inline(always)]
    fn ask(&mut self, _: &mut Port<'_>, at: usize) -> Turn {
        self.0 = Some(Pause::Decide(at));
        Turn::Asks
    }

    #[inline(always)]
    fn tell(&mut self, _: &mut Port<'_>, at: usize) -> Turn {
        self.0 = Some(Pause::Observe(at));
        Turn::Asks
    }
}
