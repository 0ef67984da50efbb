//! What is written is read, and what is no message is refused.

use super::*;
use proptest::prelude::*;
use weftway_mux::{Limits, Mux, Side};
use weftway_path::Instant;

fn message() -> impl Strategy<Value = Message> {
    let hash = prop::option::of(".*");
    let entry = (".*", any::<u64>(), any::<u32>(), any::<i64>(), any::<bool>(), any::<u64>(), hash).prop_map(
        |(path, size, mode, mtime, dir, allocated, hash)| Entry { path, size, mode, mtime, dir, allocated, hash },
    );
    let failed = (".*", ".*").prop_map(|(path, reason)| FailedFile { path, reason });
    let transfer = (".*", ".*").prop_map(|(task, run)| TransferId { task, run });
    let role = prop_oneof![Just(Role::Send), Just(Role::Receive), Just(Role::Proxy), Just(Role::Relay)];
    let received = (any::<u64>(), any::<u64>(), prop::collection::vec(any::<(u64, u64)>(), 0..4))
        .prop_map(|(connection, arrived, held)| ReceivedRecords { connection, arrived, held });
    let session = (".*", prop::option::of(received)).prop_map(|(id, received)| SessionState { id, received });
    let session = prop::option::of(session);
    prop_oneof![
        (any::<u32>(), ".*", role, transfer, any::<bool>(), session.clone()).prop_map(
            |(version, token, role, transfer, policy, session)| Message::Hello {
                version,
                token,
                role,
                transfer,
                policy,
                session
            }
        ),
        (any::<u32>(), session).prop_map(|(version, session)| Message::Welcome { version, session }),
        prop::collection::vec(failed, 0..4).prop_map(|files| Message::LeftOut { files }),
        prop::collection::vec((any::<u32>(), ".*"), 0..4).prop_map(|files| Message::Failed { files }),
        prop::collection::vec(entry, 0..4).prop_map(|entries| Message::Entries { entries }),
        prop::collection::vec(any::<(u32, u64)>(), 0..4).prop_map(|files| Message::Have { files }),
        prop::collection::vec((any::<u32>(), ".*"), 0..4).prop_map(|files| Message::Hashes { files }),
        any::<u64>().prop_map(|files| Message::Done { files }),
        (any::<u64>(), any::<u32>(), any::<Option<u64>>()).prop_map(|(connection, number, credit)| Message::Paths {
            connection,
            paths: vec![PathTerms { number, tier: TierName::Secondary, credit }]
        }),
        (any::<u64>(), prop::collection::vec(any::<(u32, u64)>(), 0..4))
            .prop_map(|(connection, paths)| Message::Spent { connection, paths }),
        Just(Message::Ready),
        Just(Message::Working),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn messages_come_out_as_they_went_in_wherever_they_are_cut(
        messages in prop::collection::vec(message(), 1..5), cuts in prop::collection::vec(1usize..40, 1..200),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(|message| encode(message).unwrap()).collect();
        let (mut buffer, mut read, mut at) = (Vec::new(), Vec::new(), 0);
        for cut in cuts.iter().chain(std::iter::repeat(&1000)) {
            if at >= bytes.len() {
                break;
            }
            let end = bytes.len().min(at + cut);
            buffer.extend_from_slice(&bytes[at..end]);
            at = end;
            while let Some(message) = decode(&mut buffer, MAX_MESSAGE).unwrap() {
                read.push(message);
            }
        }
        prop_assert_eq!(read, messages);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn random_bytes_are_refused_or_waited_for(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&mut bytes, MAX_MESSAGE);
    }

    #[test]
    fn broken_messages_are_refused_without_a_panic(
        message in message(), at in any::<prop::sample::Index>(), with in any::<u8>(),
    ) {
        let mut bytes = encode(&message).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = with;
        match decode(&mut bytes, MAX_MESSAGE) {
            Ok(Some(Message::Entries { entries })) => drop(crate::tree::manifest::Manifest { entries }.check()),
            Ok(Some(
                Message::Hello { session: Some(session), .. } | Message::Welcome { session: Some(session), .. },
            )) => go_on(session),
            _ => {}
        }
    }
}

/// Whatever an end says to have received, the other one goes on or says why not.
fn go_on(session: SessionState) {
    let mut mux = Mux::new(Side::Listening, Limits::default(), Limits::default()).unwrap();
    let id = mux.open(Instant::ZERO, 1, b"there", None).unwrap();
    mux.write(Instant::ZERO, id, vec![7; 5000].into()).unwrap();
    while mux.cut(Instant::ZERO, 1100).is_some() {}
    if let Some(received) = session.received
        && mux.resume(Instant::ZERO, &received.into()).is_ok()
    {
        assert!(mux.una() == mux.next_place() && mux.unsent().get() <= 5000);
    }
}

#[test]
fn the_longest_greeting_is_no_longer_than_one_may_be() {
    let received = ReceivedRecords { connection: u64::MAX, arrived: u64::MAX, held: vec![(u64::MAX, u64::MAX); 8] };
    let greeting = Message::Hello {
        version: u32::MAX,
        token: "x".repeat(22),
        role: Role::Receive,
        transfer: TransferId { task: "x".repeat(32), run: "x".repeat(16) },
        policy: false,
        session: Some(SessionState { id: "x".repeat(22), received: Some(received) }),
    };
    assert!(encode(&greeting).unwrap().len() <= MAX_HELLO, "{}", encode(&greeting).unwrap().len());
}

#[test]
fn an_unknown_end_cannot_make_us_hold_much() {
    let mut bytes = (MAX_HELLO as u32 + 1).to_be_bytes().to_vec();
    assert!(matches!(decode(&mut bytes, MAX_HELLO), Err(WireError::Length(..))));
}
