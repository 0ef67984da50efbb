//! Opens further paths of a connection as soon as the peer allows it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use noq_proto::PathError;

/// Time to wait before the next try, and in all. The peer's connection IDs take a round trip, and more
/// where packets are lost.
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens a path to each of `addresses`, one after the other, and gives the paths back.
///
/// A path needs a connection ID of the peer's ([`PathError::RemoteCidsExhausted`]). The first of them are still on
/// their way when the handshake is done, so `open` is called again every 10 ms, for ten seconds at most; any other
/// error ends it at once. The paths that were opened before an error stay open.
///
/// A path over a link that is absent is never validated, and noq says nothing: after ten seconds this is
/// [`PathError::ValidationFailed`]. It is too, and at once, when `closed` is ready: noq does not settle what is being
/// opened when the connection ends. noq goes on trying to validate a path that was given up here, until the path's idle
/// timeout.
///
/// `sleep` waits, as the application's runtime does:
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(connection: noq::Connection, second: noq::FourTuple) -> Result<(), noq::PathError> {
/// use weftway_quic::gate;
///
/// let open = |to| connection.open_path(to, noq::PathStatus::Available);
/// let paths = gate::open_paths([second], open, connection.closed(), tokio::time::sleep).await?;
/// # Ok(())
/// # }
/// ```
pub async fn open_paths<A, P, O, C, S>(
    addresses: impl IntoIterator<Item = A>,
    mut open: impl FnMut(A) -> O,
    closed: C,
    mut sleep: impl FnMut(Duration) -> S,
) -> Result<Vec<P>, PathError>
where
    A: Clone,
    O: Future<Output = Result<P, PathError>>,
    C: Future,
    S: Future<Output = ()>,
{
    let mut paths = Vec::new();
    let mut closed = pin!(closed);
    for address in addresses {
        let mut waited = Duration::ZERO;
        paths.push(loop {
            let opening = open(address.clone());
            match unless(&mut closed, within(opening, PATIENCE - waited, &mut sleep)).await? {
                Err(PathError::RemoteCidsExhausted) if waited < PATIENCE => {
                    unless(&mut closed, sleep(PAUSE)).await?;
                    waited += PAUSE;
                }
                opened => break opened?,
            }
        });
    }
    Ok(paths)
}

/// Result of `opening`, if that does not take longer than `span`.
async fn within<P, S: Future<Output = ()>>(
    opening: impl Future<Output = Result<P, PathError>>,
    span: Duration,
    sleep: &mut impl FnMut(Duration) -> S,
) -> Result<P, PathError> {
    let (mut opening, mut limit) = (pin!(opening), pin!(None));
    poll_fn(|cx| {
        if let Poll::Ready(opened) = opening.as_mut().poll(cx) {
            return Poll::Ready(opened);
        }
        if limit.is_none() {
            limit.set(Some(sleep(span)));
        }
        let is_over = limit.as_mut().as_pin_mut().is_some_and(|limit| limit.poll(cx).is_ready());
        if is_over { Poll::Ready(Err(PathError::ValidationFailed)) } else { Poll::Pending }
    })
    .await
}

/// Result of `other`, unless `closed` is ready before.
async fn unless<T>(closed: &mut Pin<&mut impl Future>, other: impl Future<Output = T>) -> Result<T, PathError> {
    let mut other = pin!(other);
    poll_fn(|cx| match other.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Ok(value)),
        Poll::Pending if closed.as_mut().poll(cx).is_ready() => Poll::Ready(Err(PathError::ValidationFailed)),
        Poll::Pending => Poll::Pending,
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    use super::*;

    type Opened = Result<Vec<u8>, PathError>;

    /// Result without waiting.
    fn now(opening: impl Future<Output = Opened>) -> Option<Opened> {
        match pin!(opening).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(opened) => Some(opened),
            Poll::Pending => None,
        }
    }

    /// Result of opening two paths when the peer's connection IDs arrive after so long, and how long that took.
    fn opened(ids_after: Duration) -> (Opened, Duration) {
        let clock = Cell::new(Duration::ZERO);
        let open = |address: u8| {
            ready(if clock.get() < ids_after { Err(PathError::RemoteCidsExhausted) } else { Ok(address) })
        };
        let sleep = |span| {
            clock.set(clock.get() + span);
            ready(())
        };
        let result = now(open_paths([7, 8], open, pending::<()>(), sleep)).expect("nothing waits");
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
        let open = |_: u8| ready(Err::<u8, _>(PathError::ValidationFailed));
        let opened = now(open_paths([1], open, pending::<()>(), |_| async { panic!("nobody sleeps") }));
        assert!(matches!(opened, Some(Err(PathError::ValidationFailed))));
    }

    #[test]
    fn an_absent_link_ends_it_after_ten_seconds() {
        let slept = Cell::new(Duration::ZERO);
        let sleep = |span| {
            slept.set(slept.get() + span);
            ready(())
        };
        let opened = now(open_paths([1], |_: u8| pending::<Result<u8, _>>(), pending::<()>(), sleep));
        assert!(matches!(opened, Some(Err(PathError::ValidationFailed))), "{opened:?}");
        assert_eq!(slept.get(), PATIENCE);
    }

    #[test]
    fn the_end_of_the_connection_ends_it_at_once() {
        let never = |_: Duration| pending::<()>();
        let opened = now(open_paths([1], |_: u8| pending::<Result<u8, _>>(), ready(()), never));
        assert!(matches!(opened, Some(Err(PathError::ValidationFailed))), "while a path is opened: {opened:?}");
        let open = |_: u8| ready(Err::<u8, _>(PathError::RemoteCidsExhausted));
        let opened = now(open_paths([1], open, ready(()), never));
        assert!(matches!(opened, Some(Err(PathError::ValidationFailed))), "between two tries: {opened:?}");
        let opened = now(open_paths([1, 2], |_: u8| pending::<Result<u8, _>>(), pending::<()>(), never));
        assert!(opened.is_none(), "it waits");
    }
}
