//! Silent paths of Multipath QUIC: when a path is silent, and which of its data the other paths may carry then
//! (`reinject_at_pto`). No packet counts as lost (RFC 9002 §6.2).

use weftway_path::{Bytes, Instant, PathId, Span};

use super::{Flight, Outbox, Views};

/// Which packets of a path carry data that were offered to the other paths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offered {
    /// All below this number.
    below: u64,
}

impl Offered {
    /// Time at which the oldest packet in `flight` that was not offered should be acknowledged: a round trip after it
    /// was sent. Every packet below number `settled` is settled.
    #[inline]
    pub fn due_at(&self, flight: &Flight, settled: u64, srtt: Span) -> Instant {
        let oldest = flight.oldest_unsettled(settled.max(self.below));
        oldest.map_or(Instant::NEVER, |packet| packet.sent_at + srtt)
    }

    /// Offers what `path` has in flight, and was not offered before: it is to be sent again, unless another path
    /// carries it.
    pub fn offer(&mut self, flight: &Flight, path: PathId, outbox: &mut Outbox) {
        let numbers = self.below.max(flight.base())..flight.next();
        for packet in numbers.map(|number| flight.at(number)).filter(|packet| !packet.is_settled()) {
            outbox.lose_unless_elsewhere(packet.chunk, path);
        }
        self.add_all(flight);
    }

    /// Everything in flight counts as offered: a probe repeats what was.
    pub fn add_all(&mut self, flight: &Flight) {
        self.below = flight.next();
    }

    /// `path` has lost packet `number`, with the data `chunk`: they are to be sent again, unless they were offered and
    /// another path carries them.
    pub fn lose(&self, number: u64, chunk: u64, path: PathId, outbox: &mut Outbox) {
        if number < self.below {
            outbox.lose_unless_elsewhere(chunk, path);
        } else {
            outbox.lose(chunk, path);
        }
    }
}

/// Time at which a path is silent of which an acknowledgement is expected at `due` ([`Offered::due_at`]): when nothing
/// was heard since then, or since `last_progress`, for as long as acknowledgements may vary. That is a probe timeout
/// less the round trip.
#[inline]
pub fn silent_at(due: Instant, last_progress: Instant, pto: Span, srtt: Span) -> Instant {
    if due.is_never() {
        return due;
    }
    due.max(last_progress) + pto.saturating_sub(srtt)
}

/// Returns true if another path may carry what path `id` has, of which an acknowledgement was expected at `due`: one
/// that has brought something since then (`last_progress`), or has nothing to answer. Where all are silent at once it
/// is the other end that rests.
pub fn may_offer(views: &Views, id: PathId, due: Instant, last_progress: impl Fn(PathId) -> Instant) -> bool {
    let is_alive = |other| views.get(other).bytes_in_flight == Bytes::ZERO || last_progress(other) >= due;
    views.offered().without(id).iter().any(is_alive)
}

#[cfg(test)]
mod tests {
    use super::super::SentPacket;
    use super::*;
    use weftway_path::{Offset, Path};

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Packet `n` leaves at `n` ms with chunk `n`. The first is settled.
    #[test]
    fn what_was_offered_is_neither_due_nor_offered_again() {
        let (path, other, srtt) = (PathId::new(0), PathId::new(1), Span::from_millis(20));
        let (mut flight, mut outbox, mut offered) = (Flight::default(), Outbox::default(), Offered::default());
        let send = |flight: &mut Flight, outbox: &mut Outbox, number: u64| {
            outbox.cut_for(100, path);
            flight.push(SentPacket {
                chunk: number,
                acked: number == 0,
                ..SentPacket::new(at(number), Offset::ZERO, 100)
            });
        };
        (0..3).for_each(|number| send(&mut flight, &mut outbox, number));
        outbox.acknowledge(0);
        assert_eq!(offered.due_at(&flight, 0, srtt), at(21));
        offered.offer(&flight, path, &mut outbox);
        assert_eq!(offered.due_at(&flight, 0, srtt), Instant::NEVER);
        for number in [1, 2] {
            assert_eq!(outbox.first_reinjection(), Some(number));
            outbox.took_reinjection();
            outbox.carry(number, other);
        }
        send(&mut flight, &mut outbox, 3);
        assert_eq!(offered.due_at(&flight, 0, srtt), at(23));
        // The other path carries what was offered; what was not is sent again at once.
        (1..4).for_each(|number| offered.lose(number, number, path, &mut outbox));
        assert_eq!(outbox.first_reinjection(), Some(3));
    }

    #[test]
    fn a_path_has_a_probe_timeout_from_its_packet_and_the_rest_of_one_from_its_last_answer() {
        let silent = |due, heard| silent_at(due, heard, Span::from_millis(50), Span::from_millis(20));
        assert_eq!([silent(at(30), at(10)), silent(at(30), at(40))], [at(60), at(70)]);
        assert_eq!(silent(Instant::NEVER, at(10)), Instant::NEVER);
    }

    #[test]
    fn where_all_paths_are_silent_none_carries_what_another_has() {
        let path = |n| Path::new(PathId::new(n), Bytes::new(100), Bytes::new(1000));
        let mut views = Views::new((0..2).map(path).collect());
        (0..2).for_each(|n| views.set_usable(PathId::new(n), true));
        let offers = |views: &Views, heard| may_offer(views, PathId::new(0), at(30), |_| at(heard));
        assert!(offers(&views, 0), "it has nothing to answer");
        views.get_mut(PathId::new(1)).bytes_in_flight = Bytes::new(100);
        assert_eq!([29, 30].map(|heard| offers(&views, heard)), [false, true]);
        views.set_usable(PathId::new(1), false);
        assert!(!offers(&views, 30), "there is no other path");
    }
}
