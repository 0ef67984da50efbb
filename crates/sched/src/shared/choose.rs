//! Choices that the rules share: which paths count at all, the best of them, and when waiting is safe.
//!
//! Paths fall into tiers. A tier serves new data while any path of it lives, even if every one of
//! them is full: backups step in when the active paths are gone, not when they are busy. This is
//! the availability test of multipath-tcp/mptcp `mptcp_sched.c`.

use weftway_path::{BlockedReason, Bytes, Context, Decision, Health, Path, PathId, PathSet, Recovery};

/// Tier of a path: how readily it is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Tier {
    Active,
    Backup,
    /// Potentially failed or stale: used when nothing else is left.
    Failing,
}

/// The tier of a path; none before its handshake is finished.
#[inline]
pub(crate) fn tier(path: &Path) -> Option<Tier> {
    match path.health {
        _ if path.blocked == BlockedReason::Validation => None,
        Health::Suspect | Health::Stale => Some(Tier::Failing),
        Health::Good if path.is_active() => Some(Tier::Active),
        Health::Good => Some(Tier::Backup),
    }
}

/// The first tier that has a path.
#[inline]
pub(crate) fn live_tier(cx: &Context<'_>) -> Option<Tier> {
    let mut live = None;
    for path in cx.paths {
        match tier(path) {
            Some(Tier::Active) => return Some(Tier::Active),
            Some(tier) if live.is_none_or(|live| tier < live) => live = Some(tier),
            _ => {}
        }
    }
    live
}

/// The paths that new data may use, blocked or not.
#[inline]
pub(crate) fn standing<'a>(cx: &Context<'a>) -> impl Iterator<Item = &'a Path> + use<'a> {
    let live = live_tier(cx);
    cx.paths.iter().filter(move |path| live.is_some() && tier(path) == live)
}

/// The set of [`standing`] paths.
#[cold]
pub(crate) fn standing_set(cx: &Context<'_>) -> PathSet {
    standing(cx).fold(PathSet::EMPTY, |set, path| set.with(path.id))
}

/// The path with number `id`, if new data may use it, blocked or not.
#[inline]
pub(crate) fn standing_path<'a>(cx: &Context<'a>, id: PathId) -> Option<&'a Path> {
    // Before an active path no other tier comes.
    cx.path(id).filter(|path| tier(path).is_some_and(|tier| tier == Tier::Active || Some(tier) == live_tier(cx)))
}

/// The paths that new data may use now.
#[inline]
pub(crate) fn candidates<'a>(cx: &Context<'a>) -> impl Iterator<Item = &'a Path> + use<'a> {
    let live = live_tier(cx);
    cx.sendable().filter(move |path| tier(path) == live)
}

/// The best of `paths`; among equals the first.
#[inline]
pub(crate) fn best<'a>(
    paths: impl Iterator<Item = &'a Path>,
    mut better: impl FnMut(&Path, &Path) -> bool,
) -> Option<&'a Path> {
    paths.reduce(|best, path| if better(path, best) { path } else { best })
}

/// The path of `paths` with the smallest key; among equals the first.
#[inline]
pub(crate) fn least<'a, K: PartialOrd>(
    mut paths: impl Iterator<Item = &'a Path>,
    key: impl Fn(&Path) -> K,
) -> Option<&'a Path> {
    let mut least = paths.next()?;
    let mut smallest = key(least);
    for path in paths {
        let key = key(path);
        if key < smallest {
            (least, smallest) = (path, key);
        }
    }
    Some(least)
}

/// The path of smallest srtt that new data may use, full or not.
#[inline]
pub(crate) fn fastest<'a>(cx: &Context<'a>) -> Option<&'a Path> {
    least(standing(cx), |path| path.srtt)
}

/// The only path that is open, if it is an active one and the packet at hand may take it: whatever the key, no other is
/// picked.
#[inline]
pub(crate) fn only<'a>(cx: &Context<'a>) -> Option<&'a Path> {
    let free = cx.packet.is_some_and(|packet| packet.avoid.is_empty());
    if !free || !cx.open.is_single() {
        return None;
    }
    cx.sendable().next().filter(|path| tier(path) == Some(Tier::Active))
}

/// Order of paths by a key: one is better if its key is smaller.
#[inline]
pub(crate) fn by<K: PartialOrd>(key: impl Fn(&Path) -> K) -> impl FnMut(&Path, &Path) -> bool {
    move |a, b| key(a) < key(b)
}

/// Best path for the packet at hand. Data that the transport would have off some paths go to another, a backup of the
/// others before an active path of those; if such a path is only full, none is chosen, because it will have room.
#[inline]
pub(crate) fn pick<'a>(cx: &Context<'a>, better: impl FnMut(&Path, &Path) -> bool) -> Option<&'a Path> {
    pick_among(cx, |_| true, |_| true, better)
}

/// Path with the smallest key for the packet at hand, chosen as by [`pick`].
#[inline(always)]
pub(crate) fn pick_least<'a, K: PartialOrd>(cx: &Context<'a>, key: impl Fn(&Path) -> K) -> Option<&'a Path> {
    // Nearly always the packet may take any path and an active one is open: then no other tier serves.
    if cx.packet.is_none_or(|packet| packet.avoid.is_empty()) {
        let active = cx.sendable().filter(|path| tier(path) == Some(Tier::Active));
        if let Some(path) = least(active, &key) {
            return Some(path);
        }
    }
    pick_least_rarely(cx, key)
}

#[cold]
fn pick_least_rarely<'a, K: PartialOrd>(cx: &Context<'a>, key: impl Fn(&Path) -> K) -> Option<&'a Path> {
    pick(cx, by(key))
}

/// Best path for the packet at hand of those that `may` go at all, of which the open ones without `room` count as full,
/// chosen as by [`pick`]. Paths that may not go are as if they were not there: to pick first and drop them would leave
/// the packet to nobody.
#[inline]
pub(crate) fn pick_among<'a>(
    cx: &Context<'a>,
    may: impl Fn(&Path) -> bool,
    room: impl Fn(&Path) -> bool,
    mut better: impl FnMut(&Path, &Path) -> bool,
) -> Option<&'a Path> {
    match cx.packet {
        Some(packet) if !packet.avoid.is_empty() => {
            pick_again(cx, packet.avoid, &may, &|path| path.is_open() && room(path), &mut better)
        }
        _ => best(candidates(cx).filter(|path| may(path) && room(path)), better),
    }
}

fn pick_again<'a>(
    cx: &Context<'a>,
    avoid: PathSet,
    may: &impl Fn(&Path) -> bool,
    is_open: &impl Fn(&Path) -> bool,
    better: &mut impl FnMut(&Path, &Path) -> bool,
) -> Option<&'a Path> {
    for class in [Tier::Active, Tier::Backup] {
        let members = || cx.paths.iter().filter(move |path| tier(path) == Some(class) && may(path));
        let others = || members().filter(|path| !avoid.contains(path.id));
        if let Some(path) = best(others().filter(|path| is_open(path)), &mut *better) {
            return Some(path);
        }
        let avoided_is_open = members().any(|path| avoid.contains(path.id) && is_open(path));
        if !avoided_is_open && others().next().is_some() {
            return None;
        }
    }
    // Every path is to be avoided: then none is.
    best(candidates(cx).filter(|path| may(path) && is_open(path)), better)
}

/// The path that min-RTT chooses for the packet at hand: other rules start from it.
#[inline]
pub(crate) fn min_rtt<'a>(cx: &Context<'a>) -> Option<&'a Path> {
    pick_least(cx, |path| path.srtt)
}

/// The path with the smallest srtt among those of `like`'s role, full or not: ECF and BLEST weigh
/// min-RTT's choice against it. Nobody waits for a stale one, which may never answer again.
pub(crate) fn fastest_like<'a>(cx: &Context<'a>, like: &'a Path, excludes_pf: bool) -> &'a Path {
    let broken = |path: &Path| tier(path) == Some(Tier::Failing) || path.recovery == Recovery::Loss;
    let answers = |path: &&Path| path.blocked != BlockedReason::Validation && path.health != Health::Stale;
    let established = cx.paths.iter().filter(|path| path.role == like.role).filter(answers);
    let sound = established.filter(|path| !excludes_pf || !broken(path));
    least(sound, |path| path.srtt).unwrap_or(like)
}

/// Returns true if the packet at hand may wait on this path.
pub(crate) fn queues(path: &Path, cx: &Context<'_>) -> bool {
    let bytes = cx.packet.map_or(Bytes::ZERO, |packet| packet.bytes);
    matches!(path.blocked, BlockedReason::Congestion | BlockedReason::Pacing) && path.queue_room >= bytes
}

/// Waits, unless nothing would ever end the wait: then whatever is open goes, lowest srtt first.
#[inline(never)]
pub(crate) fn wait(cx: &Context<'_>) -> Decision {
    let ends = |path: &Path| path.bytes_in_flight > Bytes::ZERO || path.blocked == BlockedReason::Pacing;
    if cx.packet.is_none() || cx.paths.iter().any(ends) {
        return Decision::Wait;
    }
    least(cx.sendable(), |path| path.srtt).map_or(Decision::Wait, |path| Decision::Send(path.id))
}

/// Sends the packet at hand on `path`; without either, waits.
#[inline]
pub(crate) fn send_or_wait(cx: &Context<'_>, path: Option<&Path>) -> Decision {
    match path {
        Some(path) if cx.packet.is_some() => Decision::Send(path.id),
        _ => wait(cx),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::{PathId, Role};
    use weftway_vectors::testing::{Bench, packets, path};

    fn faster(a: &Path, b: &Path) -> bool {
        a.srtt < b.srtt
    }

    #[test]
    fn busy_active_paths_keep_backups_idle() {
        let mut bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 10, 10, 0)]);
        bench.paths[1].role = Role::Backup;
        assert!(pick(&bench.context(), faster).is_none());
        bench.paths[0].health = Health::Suspect;
        assert_eq!(pick(&bench.context(), faster).map(|path| path.id), Some(PathId::new(1)));
    }

    #[test]
    fn a_repeat_prefers_an_unused_backup_and_waits_for_an_unused_path_that_is_full() {
        let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 10, 10, 0)]);
        bench.paths[1].role = Role::Backup;
        bench.reinject(0, PathSet::of(PathId::new(0)));
        assert_eq!(pick(&bench.context(), faster).map(|path| path.id), Some(PathId::new(1)));

        let mut bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 10, 10, 10)]);
        bench.reinject(0, PathSet::of(PathId::new(0)));
        assert!(pick(&bench.context(), faster).is_none());
    }

    #[test]
    fn a_wait_that_nothing_would_end_is_not_made() {
        let mut bench = Bench::new(vec![path(0, 20, 10, 0)]);
        assert_eq!(wait(&bench.context()), Decision::Send(PathId::new(0)));
        bench.paths[0].bytes_in_flight = Bytes::new(1);
        assert_eq!(wait(&bench.context()), Decision::Wait);
    }

    #[test]
    fn a_repeat_goes_to_an_active_path_before_a_backup_and_passes_over_what_may_have_failed() {
        // 0 has carried the packet. 1 is a faster backup, 2 an active path: 2 repeats it.
        let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 10, 10, 0), path(2, 30, 10, 0)]);
        bench.paths[1].role = Role::Backup;
        bench.reinject(0, PathSet::of(PathId::new(0)));
        let id = |bench: &Bench| pick(&bench.context(), faster).map(|path| path.id.get());
        assert_eq!(id(&bench), Some(2));
        // Both active paths are full. 2 will have room, so that the backup is not taken either.
        for at in [0, 2] {
            bench.paths[at].bytes_in_flight = packets(10);
        }
        bench.refresh();
        assert_eq!(id(&bench), None);
        // 1 and 2 may have failed and 0 is open again: none is left that has not carried the packet, so 0 repeats it.
        bench.paths[0].bytes_in_flight = packets(0);
        (bench.paths[1].health, bench.paths[2].health) = (Health::Suspect, Health::Suspect);
        bench.refresh();
        assert_eq!(id(&bench), Some(0));
    }

    #[test]
    fn of_equal_paths_the_first_repeats_a_packet() {
        // 0 has carried it; 1 and 2 are equal and faster than 3.
        let mut bench =
            Bench::new(vec![path(0, 20, 10, 0), path(1, 30, 10, 0), path(2, 30, 10, 0), path(3, 40, 10, 0)]);
        bench.reinject(0, PathSet::of(PathId::new(0)));
        let cx = bench.context();
        let picked = [pick_least(&cx, |path| path.srtt), pick(&cx, by(|path| path.srtt))];
        assert_eq!(picked.map(|path| path.map(|path| path.id.get())), [Some(1); 2]);
    }
}
