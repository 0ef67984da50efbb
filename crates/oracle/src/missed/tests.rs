use super::*;

/// The most that can be filled, by the least cut: of any set of needs, what is outside the set, and all stretches that
/// serve one in it.
fn by_cuts(stretches: &[Stretch], needs: &[u128]) -> u128 {
    let cut = |set: usize| {
        let within = |at: usize| set >> at & 1 == 1;
        let outside: u128 = needs.iter().enumerate().filter(|(at, _)| !within(*at)).map(|(_, need)| need).sum();
        let serving = stretches.iter().filter(|stretch| (stretch.first..=stretch.last).any(within));
        outside + serving.map(|stretch| stretch.work).sum::<u128>()
    };
    (0..1 << needs.len()).map(cut).min().expect("the empty set")
}

/// Stretches of two links that serve bursts in a row, in every order of first and last.
#[test]
fn no_other_order_fills_more() {
    let mut drawn = 0;
    let mut below = |limit: u64| {
        drawn += 1;
        weftway_scenario::mix(5, drawn) % limit
    };
    for round in 0..500 {
        let bursts = 1 + below(7);
        let needs: Vec<u128> = (0..bursts).map(|_| u128::from(1 + below(9))).collect();
        let stretches: Vec<Stretch> = (0..1 + below(8))
            .map(|_| {
                let (one, other) = (below(bursts) as usize, below(bursts) as usize);
                Stretch { first: one.min(other), last: one.max(other), work: below(12).into() }
            })
            .collect();
        let found = filled(stretches.clone(), needs.iter().copied());
        assert_eq!(found, by_cuts(&stretches, &needs), "round {round}: {stretches:?} for {needs:?}");
    }
}

/// In packets of 1200 B of payload and 60 B of headers, a datagram of 996 B is alone: 1000 and 60 B. Of 296 B there are
/// four in a packet, with a quarter of its headers each; one alone takes all of them.
#[test]
fn datagrams_share_the_headers_of_a_packet() {
    let transport = TransportConfig { mss: Bytes::new(1200), packet: Bytes::new(1260), ..TransportConfig::mpquic() };
    let bytes = |payload| {
        let (packet, share) = sizes(Bytes::new(payload), &transport);
        (packet / WORK_PER_BYTE, share / WORK_PER_BYTE)
    };
    assert_eq!((bytes(996), bytes(296)), ((1060, 1060), (360, 315)));
}
