//! What a loss costs the message at hand: it is complete with its last packet.

use weftway_path::{BitRate, Context, Flow, Path};

use super::EarliestDelivery;

impl EarliestDelivery {
    /// What a loss on each path would cost the message at hand: a repair, less what the rest of the message takes anyhow; and
    /// less where the paths are busy, since whatever is sent elsewhere has to wait there.
    pub(super) fn weigh_losses(&mut self, cx: &Context<'_>, flow: &Flow) {
        let episodes = |path: &Path| self.episodes.get(path.id).copied().filter(|episodes| episodes.counts());
        if !cx.paths.iter().any(|path| episodes(path).is_some()) {
            return;
        }
        let all = self.outlook.iter().fold(0u64, |sum, f| sum.saturating_add(f.rate.as_bps()));
        let rest = BitRate::from_bps(all).transmission_time(flow.message_end.min(flow.end).since(flow.next));
        let spare = 1000 - self.load.permille(cx.now, &self.outlook);
        let message = flow.message_end.since(flow.message_start);
        for (path, f) in cx.paths.iter().zip(&mut self.outlook) {
            let Some(episodes) = episodes(path) else { continue };
            let packets = message.get().div_ceil(path.mss.get().max(1));
            let repair = (f.rtt * 3 / 2).saturating_sub(rest);
            let cost = repair.mul_div(episodes.chance(packets, path), 1000).mul_div(spare, 1000);
            f.complete = f.expected.max(f.arrival + cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::{Event, Instant};

    use super::*;
    use crate::Scheduler;
    use crate::testing::{Bench, path};

    #[test]
    fn losses_count_once_a_round_trip_and_no_more_when_the_path_comes_up_anew() {
        let mut bench = Bench::new(vec![path(0, 20, 10, 0)]);
        bench.paths[0].sent.packets = 100;
        let (mut rule, lost_by) = (EarliestDelivery::default(), &bench.paths[0]);
        let chance =
            |rule: &EarliestDelivery| rule.episodes.get(lost_by.id).map(|episodes| episodes.chance(5, lost_by));
        // 0 and 20 ms are one episode, 41 ms is the second; the first is that of slow start: 5 of 100 packets.
        for ms in [0, 20, 41] {
            rule.episodes.at(lost_by.id).note(Instant::from_millis(ms), lost_by);
        }
        assert_eq!(chance(&rule), Some(50));
        rule.observe(&bench.context(), &Event::PathUp(lost_by.id));
        assert_eq!(chance(&rule), Some(0));
    }
}
