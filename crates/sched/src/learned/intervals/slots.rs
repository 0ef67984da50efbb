//! Paths in the slots of a network of fixed size, and a choice among them carried out.

use weftway_path::spec::Param;
use weftway_path::{Context, Decision, PathId};

use crate::Mode;
use crate::learned::task::Input;
use crate::shared::choose;

/// For how many paths the network is made.
pub(crate) const SLOTS: Param = Param {
    name: "slots",
    default: "4",
    values: "paths, 1 to 64",
    doc: "for how many paths the network is made; of more, those of best quality count",
};
/// Time for which a choice holds.
pub(crate) const INTERVAL: Param = Param {
    name: "interval_ms",
    default: "100",
    values: "milliseconds, 1 to 60000",
    doc: "from one question to the next",
};

/// Inputs of so many slots, slot by slot.
pub(crate) fn inputs(slots: usize, features: &[&str]) -> Vec<Input> {
    let of = |slot: usize| features.iter().map(move |name| Input::normalised(format!("{name}.{slot}")));
    (0..slots).flat_map(of).collect()
}

/// Puts `paths` into the slots `at`: each into that of its number; where one has none, all in the
/// order of their numbers.
pub(crate) fn assign(at: &mut [Option<PathId>], paths: &[PathId]) {
    at.fill(None);
    if paths.iter().all(|path| path.index() < at.len()) {
        paths.iter().for_each(|path| at[path.index()] = Some(*path));
        return;
    }
    let mut sorted = paths.to_vec();
    sorted.sort();
    at.iter_mut().zip(sorted).for_each(|(slot, path)| *slot = Some(path));
}

/// Sends new data on `chosen`, or while that is full on others if `mode` lets them. Data sent
/// before, and everything while the choice is gone, go where min-RTT sends them.
pub(crate) fn send_chosen(cx: &Context<'_>, chosen: Option<PathId>, mode: Mode) -> Decision {
    let Some(packet) = cx.packet else { return Decision::Wait };
    let chosen = chosen.and_then(|path| choose::standing_path(cx, path));
    match chosen {
        Some(path) if !packet.reinjection && packet.carried.is_empty() => match mode {
            _ if path.is_open() => Decision::Send(path.id),
            Mode::Exclusive => Decision::Wait,
            Mode::Preferred => match choose::only(cx) {
                Some(path) => Decision::Send(path.id),
                None => choose::send_or_wait(cx, choose::min_rtt(cx)),
            },
        },
        _ => choose::send_or_wait(cx, choose::min_rtt(cx)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::PathSet;
    use weftway_vectors::testing::{Bench, path};

    #[test]
    fn paths_keep_the_slot_of_their_number_while_there_is_one() {
        let ids = |numbers: &[u8]| numbers.iter().map(|n| PathId::new(*n)).collect::<Vec<_>>();
        let mut at = vec![None; 3];
        assign(&mut at, &ids(&[2, 0]));
        assert_eq!(at, [Some(PathId::new(0)), None, Some(PathId::new(2))]);
        assign(&mut at, &ids(&[7, 2]));
        assert_eq!(at, [Some(PathId::new(2)), Some(PathId::new(7)), None]);
    }

    #[test]
    fn a_path_whose_number_is_that_of_the_slots_has_no_slot_of_its_own() {
        let mut at = vec![None; 3];
        assign(&mut at, &[PathId::new(3), PathId::new(0)]);
        assert_eq!(at, [Some(PathId::new(0)), Some(PathId::new(3)), None]);
    }

    #[test]
    fn the_choice_carries_new_data_and_min_rtt_all_other() {
        // 1 is chosen; min-RTT would take 0.
        let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 50, 10, 0)]);
        bench.masks = false;
        let send = |bench: &Bench| send_chosen(&bench.context(), Some(PathId::new(1)), Mode::Exclusive);
        let [first, chosen] = [0, 1].map(|n| Decision::Send(PathId::new(n)));
        assert_eq!(send(&bench), chosen);
        // Not new: handed back, on no path or on one; or carried and not handed back.
        let fresh = bench.packet.unwrap();
        for (reinjection, carried) in
            [(true, PathSet::EMPTY), (true, PathSet::of(PathId::new(1))), (false, PathSet::of(PathId::new(1)))]
        {
            bench.packet = Some(weftway_path::Packet { reinjection, carried, ..fresh });
            assert_eq!(send(&bench), first, "{reinjection}, {carried:?}");
        }
        // A choice that no longer serves new data is none.
        bench.packet = Some(fresh);
        bench.paths[1].health = weftway_path::Health::Suspect;
        assert_eq!(send(&bench), first);
    }
}
