//! The way from a scenario to the lab in which it runs.

use weftway_scenario::config::{Direction, PathConfig, SimConfig};
use weftway_scenario::{Variant, path_seeds, shared_seeds};

use crate::{LabPath, LabPlan, Way};

impl LabPlan {
    /// The paths of `config` between a client, who opens the connection, and a server. Links draw as in a simulation
    /// with this seed.
    pub fn of(config: &SimConfig, seed: u64) -> Self {
        let shared = config.shared.iter().enumerate();
        Self {
            paths: config.paths.iter().map(|path| lab_path(path, config.transport.direction, seed)).collect(),
            shared: shared.map(|(at, link)| (link.clone(), shared_seeds(seed, at))).collect(),
        }
    }

    /// The paths of `variant` as ordinary programs use them: either way may carry data.
    pub fn either_way(variant: &Variant, seed: u64) -> Self {
        let mut plan = Self::of(&variant.config, seed);
        for (path, [up, down]) in plan.paths.iter_mut().zip(&variant.ways) {
            (path.up.link, path.down.link) = (up.clone(), down.clone());
        }
        plan
    }
}

fn lab_path(path: &PathConfig, direction: Direction, seed: u64) -> LabPath {
    let (data_seeds, acks_seeds) = path_seeds(seed, 0, &path.name);
    let data = Way { link: path.data.clone(), seeds: data_seeds, via: path.via };
    let acks = Way { link: path.acks.clone(), seeds: acks_seeds, via: None };
    let (up, down) = match direction {
        Direction::Upload => (data, acks),
        Direction::Download => (acks, data),
    };
    LabPath { name: path.name.clone(), up, down, presence: path.presence.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, variant};

    #[test]
    fn data_go_up_in_an_upload_and_down_in_a_download() {
        for (direction, downloads) in [("download", true), ("upload", false)] {
            let variant = variant(&[&format!("direction={direction}")]);
            let plan = LabPlan::of(&variant.config, 7);
            let (data, acks) = path_seeds(7, 0, "wifi");
            let wifi = &plan.paths[0];
            let (carries, returns) = if downloads { (&wifi.down, &wifi.up) } else { (&wifi.up, &wifi.down) };
            assert_eq!((carries.seeds, returns.seeds), (data, acks), "{direction}");
            assert_eq!(carries.link, variant.config.paths[0].data, "{direction}");
        }
    }

    #[test]
    fn data_cross_a_shared_link_and_acknowledgements_do_not() {
        let variant = testing::with("[link.home]\nrate = \"20 Mbit/s\"\n", &["path.wifi.via=home"]);
        let plan = LabPlan::of(&variant.config, 7);
        assert_eq!((plan.paths[0].down.via, plan.paths[0].up.via, plan.paths[1].down.via), (Some(0), None, None));
        assert_eq!(plan.shared[0].1, shared_seeds(7, 0));
    }

    /// A single `loss` is meant for the data; a program may send data either way.
    #[test]
    fn for_programs_both_ways_are_alike() {
        let variant = variant(&["path.wifi.loss=2 %"]);
        let (one_way, either) = (LabPlan::of(&variant.config, 1), LabPlan::either_way(&variant, 1));
        assert_ne!(one_way.paths[0].up.link.loss, one_way.paths[0].down.link.loss);
        assert_eq!(either.paths[0].up.link.loss, either.paths[0].down.link.loss);
    }
}
