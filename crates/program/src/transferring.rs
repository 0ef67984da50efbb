//! A transfer that runs until all is there or an interrupt comes.

use weftway_transfer::{Progress, Report, State, Watch};

use crate::failure::{Done, Failure};
use crate::signals;

/// End of a transfer.
#[derive(Debug)]
pub enum TransferEnd {
    /// All was there.
    Whole(Report),
    /// All was there when an interrupt came: the program is to end.
    AtEnd(Report),
    /// An interrupt came when the ends had met, and not all was there.
    InMidst,
    /// An interrupt came before the ends had met.
    Before,
}

/// Result of sending or receiving.
type Outcome = Result<Report, weftway_transfer::Failure>;

/// Transfers by `work` until all is there, or until an interrupt. `watch` is told ten times a second how far it is.
pub fn run(watch: &mut dyn FnMut(&Progress), work: impl FnOnce(Watch<'_>) -> Outcome) -> Done<TransferEnd> {
    run_until(&signals::interrupted, watch, work)
}

/// Transfers until `stops` returns true.
fn run_until(
    stops: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(&Progress),
    work: impl FnOnce(Watch<'_>) -> Outcome,
) -> Done<TransferEnd> {
    let (mut is_stopped, mut is_begun) = (false, false);
    let mut tell = |progress: &Progress| {
        is_begun |= progress.state != State::Listening;
        is_stopped |= stops();
        if !is_stopped {
            watch(progress);
            is_stopped = stops();
        }
        !is_stopped
    };
    match (work(&mut tell), is_stopped) {
        (Ok(report), false) => Ok(TransferEnd::Whole(report)),
        (Ok(report), true) => Ok(TransferEnd::AtEnd(report)),
        (Err(_), true) if is_begun => Ok(TransferEnd::InMidst),
        (Err(_), true) => Ok(TransferEnd::Before),
        (Err(failure), false) => Err(Failure::from(failure)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::mpsc::channel;

    use weftway_transfer::{Connect, Listen, ReceiveOptions, SendOptions, receive, send};
    use weftway_udp::tls::Identity;

    use super::*;

    /// Sends a file over loopback. The sender stops once it is in the state `stop`; returns how both ended.
    fn transfer(stop: Option<State>, bytes: usize) -> (Done<TransferEnd>, Done<TransferEnd>) {
        let folder = tempfile::tempdir().unwrap();
        let (file, inbox) = (folder.path().join("file"), folder.path().join("inbox"));
        std::fs::write(&file, vec![7; bytes]).unwrap();
        let identity = Identity::generate().unwrap();
        let pairing = identity.pairing();
        let options = ReceiveOptions::new(Listen { address: ([127, 0, 0, 1], 0).into(), identity });
        let (told, listening) = channel::<SocketAddr>();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let mut watch = |progress: &Progress| {
                    // The sender takes the first one.
                    let _ = progress.listening.map(|address| told.send(address));
                };
                run_until(&|| false, &mut watch, |watch| receive(&inbox, options, watch))
            });
            let addresses = vec![listening.recv().unwrap()];
            let options = SendOptions::new(Connect::to(addresses, pairing));
            let is_due = std::cell::Cell::new(false);
            let mut watch = |progress: &Progress| is_due.set(Some(progress.state) == stop);
            let sent = run_until(&|| is_due.get(), &mut watch, |watch| send(&file, options, watch));
            (sent, receiver.join().unwrap())
        })
    }

    #[test]
    fn an_interrupt_when_all_is_there_is_not_lost() {
        let (sent, received) = transfer(Some(State::Done), 1);
        assert!(matches!(sent, Ok(TransferEnd::AtEnd(report)) if report.bytes == 1));
        assert!(matches!(received, Ok(TransferEnd::Whole(report)) if report.bytes == 1));
    }

    #[test]
    fn without_an_interrupt_all_is_there() {
        let (sent, received) = transfer(None, 100_000);
        assert!(matches!(sent, Ok(TransferEnd::Whole(report)) if report.sent_bytes == 100_000));
        assert!(matches!(received, Ok(TransferEnd::Whole(_))));
    }

    #[test]
    fn an_interrupt_in_the_midst_is_told_from_one_before_the_ends_had_met() {
        let identity = Identity::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let options = ReceiveOptions::new(Listen { address: ([127, 0, 0, 1], 0).into(), identity });
        let ended = run_until(&|| true, &mut |_| (), |watch| receive(folder.path(), options, watch));
        assert!(matches!(ended, Ok(TransferEnd::Before)));
        let pairing = Identity::generate().unwrap().pairing();
        let nobody = SendOptions::new(Connect::to(vec![([127, 0, 0, 1], 9).into()], pairing));
        std::fs::write(folder.path().join("file"), "x").unwrap();
        let ended = run_until(&|| true, &mut |_| (), |watch| send(&folder.path().join("file"), nobody, watch));
        assert!(matches!(ended, Ok(TransferEnd::InMidst)));
    }
}
