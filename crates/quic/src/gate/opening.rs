//! Opens further paths of a connection as soon as the peer allows it.

use std::future::Future;
use std::time::Duration;

use noq_proto::PathError;

/// How long to wait before the next try, and how long in all. The peer's connection IDs take a round trip, and more where
/// packets are lost.
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens a path to each of `addresses`, one after the other, and gives the paths back.
///
/// A path needs a connection ID of the peer's ([`PathError::RemoteCidsExhausted`]). The first of them are still on their way
/// when the handshake is done, so `open` is called again every 10 ms, for ten seconds at most; any other error ends it at once.
/// The paths that were opened before an error stay open.
/// `sleep` waits, as the application's runtime does:
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(connection: noq::Connection, second: noq::FourTuple) -> Result<(), noq::PathError> {
/// use weftway_quic::gate;
///
/// let open = |to| connection.open_path(to, noq::PathStatus::Available);
/// let paths = gate::open_paths([second], open, tokio::time::sleep).await?;
/// # Ok(())
/// # }
/// ```
pub async fn open_paths<A, P, O, S>(
    addresses: impl IntoIterator<Item = A>,
    mut open: impl FnMut(A) -> O,
    mut sleep: impl FnMut(Duration) -> S,
) -> Result<Vec<P>, PathError>
where
    A: Clone,
    O: Future<Output = Result<P, PathError>>,
    S: Future<Output = ()>,
{
    let mut paths = Vec::new();
    for address in addresses {
        let mut waited = Duration::ZERO;
        paths.push(loop {
            match open(address.clone()).await {
                Err(PathError::RemoteCidsExhausted) if waited < PATIENCE => {
                    sleep(PAUSE).await;
                    waited += PAUSE;
                }
                opened => break opened?,
            }
        });
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// What opening two paths comes to when the peer's connection IDs arrive after so long, and how long that took.
    fn opened(ids_after: Duration) -> (Result<Vec<u8>, PathError>, Duration) {
        let clock = Cell::new(Duration::ZERO);
        let open = |address: u8| {
            let ready = if clock.get() < ids_after { Err(PathError::RemoteCidsExhausted) } else { Ok(address) };
            std::future::ready(ready)
        };
        let sleep = |span| {
            clock.set(clock.get() + span);
            std::future::ready(())
        };
        let opening = pin!(open_paths([7, 8], open, sleep));
        let Poll::Ready(result) = opening.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("nothing waits")
        };
        (result, clock.get())
    }

    #[test]
    fn connection_ids_are_waited_for() {
        for ms in [0, 10, 340] {
            let (paths, took) = opened(Duration::from_millis(ms));
            assert_eq!((paths.unwrap(), took), (vec![7, 8], Duration::from_millis(ms)));
        }
    }

    #[test]
    fn connection_ids_that_never_come_end_it() {
        let (paths, took) = opened(Duration::MAX);
        assert!(matches!(paths, Err(PathError::RemoteCidsExhausted)));
        assert_eq!(took, PATIENCE);
    }

    #[test]
    fn another_error_ends_it_at_once() {
        let open = |_: u8| std::future::ready(Err::<u8, _>(PathError::ValidationFailed));
        let opening = pin!(open_paths([1], open, |_| async { panic!("nobody sleeps") }));
        let polled = opening.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Err(PathError::ValidationFailed))));
    }
}
