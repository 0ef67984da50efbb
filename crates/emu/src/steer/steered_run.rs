//! A steered run, from a scenario's variant to its row.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weftway_path::Context;
use weftway_scenario::{Row, Variant};

use super::{Askers, Settings, SteeringReport};
use crate::kernel::{self, Measured, RunResult, Setup, Transfer, until_fit};
use crate::{EmuError, LabPlan};

/// A transfer of a variant by the kernel, with a scheduler that steers it.
#[derive(Clone, Debug)]
pub struct SteeredRun {
    /// The variant.
    pub variant: Arc<Variant>,
    /// The scheduler that steers; without one, nobody does.
    pub scheduler: Option<String>,
    /// The controller, by our name.
    pub cc: String,
    /// The seed.
    pub seed: u64,
    /// Settings of the steering.
    pub settings: Settings,
}

impl SteeredRun {
    /// Runs it in a lab of its own. Setting `stop` ends it.
    pub fn run(&self, stop: &AtomicBool) -> RunResult {
        if let Some(why) = self.obstacle() {
            return RunResult::Skipped(why);
        }
        self.row(stop).map_or_else(RunResult::from, |row| RunResult::Row { row, timeline: None })
    }

    fn obstacle(&self) -> Option<String> {
        let alone = self.variant.config.paths.len() < 2;
        let tcp = self.variant.transport != "mptcp";
        let obstacle = kernel::obstacle(&self.variant, &self.cc);
        obstacle.or_else(|| (alone || tcp).then(|| "there is nothing to steer in a connection of one path".to_owned()))
    }

    fn row(&self, stop: &AtomicBool) -> Result<Row, EmuError> {
        let (measured, report) = until_fit(|| self.measured(stop), |(measured, _)| measured.is_in_time())?;
        let config = &self.variant.config;
        let mut row = measured.measurement(config).row(config);
        row.extend(report.columns());
        Ok(row)
    }

    fn measured(&self, stop: &AtomicBool) -> Result<(Measured, SteeringReport), EmuError> {
        let config = &self.variant.config;
        let (plan, setup) = (LabPlan::of(config, self.seed), Setup::of(config));
        let transfer = Transfer::of(&self.variant, &self.cc, self.seed);
        let Some(scheduler) = &self.scheduler else {
            return Ok((kernel::measure(&plan, &setup, &transfer, None, stop)?, SteeringReport::default()));
        };
        let mut askers = Askers::new(scheduler).map_err(|error| EmuError::Transfer(error.to_string()))?;
        let mut rule = |token, cx: &Context<'_>| askers.ask(token, cx);
        let (measured, report) = super::measure((&plan, &setup, &transfer), self.settings, &mut rule, stop)?;
        Ok((measured, SteeringReport { faults: askers.faults(), ..report }))
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::Span;

    use super::*;
    use crate::steer::Mode;
    use crate::testing;

    fn obstacle(variant: Arc<Variant>, cc: &str) -> Option<String> {
        let settings = Settings { interval: Span::from_millis(50), mode: Mode::Exclusive, token: None };
        SteeredRun { variant, scheduler: None, cc: cc.to_owned(), seed: 1, settings }.obstacle()
    }

    #[test]
    fn only_a_connection_of_several_paths_can_be_steered() {
        assert_eq!(obstacle(testing::variant(&[]), "cubic"), None);
        assert!(obstacle(testing::tcp(&[]), "cubic").unwrap().contains("nothing to steer"));
        assert!(
            obstacle(testing::tcp(&[]), "lia").unwrap().contains("no controller lia"),
            "what the kernel lacks comes first"
        );
    }
}
