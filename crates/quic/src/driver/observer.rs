//! Reports of noq's loss recovery on each path, and when a path may send.
//!
//! noq gives every path a congestion controller. The driver's observer decides nothing itself: it writes down what it
//! is told, for the driver to read after each call into noq, and it opens or closes its path. The window is checked
//! before a datagram that elicits an acknowledgement, so a closed path sends at most acknowledgements; a quiet path
//! does not even send those, because its pacer lets a byte a second through.
//!
//! What is no record, such as the control stream, leaves when noq likes, as far as a window allows: that of the path's
//! controller, which the driver tells, or of a New Reno that sees everything noq sends, whichever is larger. The latter
//! is all there is at an end that sends no data, and grows before the first data do.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, NewRenoConfig};
use portable_atomic::AtomicU64;

/// Something that noq told of a path. `observer` counts the connection's paths in the order of their creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which path.
    pub observer: u32,
    /// Contents of the report.
    pub what: What,
}

/// Contents of a report of noq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// This packet was acknowledged.
    Acked {
        /// Its number.
        number: u64,
        /// Its size.
        bytes: u64,
    },
    /// This packet was declared lost.
    Lost {
        /// Its number.
        number: u64,
        /// Its size; zero if it only carried acknowledgements.
        bytes: u64,
    },
    /// All that an acknowledgement settles was told.
    EndOfAcks,
    /// Losses or marks: a congestion event of RFC 9002.
    Congestion {
        /// A mark (RFC 3168), not a loss.
        marked: bool,
        /// Persistent congestion (RFC 9002 §7.6).
        persistent: bool,
    },
    /// Everything that was declared lost lately arrived.
    Spurious,
}

/// What all observers of a connection share.
#[derive(Debug)]
pub struct ObserverState {
    /// noq wants controllers that can be shared between threads. Here one thread uses them, and the lock is free.
    log: Mutex<Log>,
    open: AtomicU64,
    quiet: AtomicU64,
    /// True if a record is being sent, whose window the driver has checked.
    record: AtomicBool,
    /// Paths on which one packet may leave whatever their window is, a bit each.
    exempt: AtomicU64,
    /// The window that the driver told of each path.
    windows: [AtomicU64; BITS],
}

/// Paths that are told apart: a bit each.
const BITS: usize = 64;

#[derive(Debug, Default)]
struct Log {
    reports: Vec<Report>,
    observers: u32,
    /// The bits of those that watch a path.
    in_use: u64,
    /// The path and number of the packet that elicits an acknowledgement and was sent last.
    sent: Option<(u32, u64)>,
}

/// Every path.
pub const ALL: u64 = u64::MAX;

impl ObserverState {
    /// No observers yet; everything may send.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            log: Mutex::default(),
            open: AtomicU64::new(ALL),
            quiet: AtomicU64::new(0),
            record: AtomicBool::new(false),
            exempt: AtomicU64::new(0),
            windows: [const { AtomicU64::new(0) }; BITS],
        })
    }

    /// Sets whether a record is being sent.
    pub fn set_record(&self, is_sent: bool) {
        self.record.store(is_sent, Ordering::Relaxed);
    }

    /// Lets one packet leave on these paths, a bit each, whatever their windows are.
    pub fn exempt(&self, paths: u64) {
        self.exempt.fetch_or(paths, Ordering::Relaxed);
    }

    /// Sets how many bytes may be in flight on a path of what is no record, together with all records.
    pub fn set_window(&self, observer: usize, bytes: u64) {
        self.windows[observer % BITS].store(bytes, Ordering::Relaxed);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of observers that were built.
    pub fn observers(&self) -> u32 {
        self.log().observers
    }

    /// These bits are of observers that watch a path: no observer that is built has one of them.
    pub fn set_in_use(&self, bits: u64) {
        self.log().in_use = bits;
    }

    /// Lets only these paths, a bit each, send what elicits acknowledgements.
    pub fn open(&self, paths: u64) {
        self.open.store(paths, Ordering::Relaxed);
    }

    /// Keeps these paths, a bit each, from sending anything.
    pub fn quiet(&self, paths: u64) {
        self.quiet.store(paths, Ordering::Relaxed);
    }

    /// The path and number of the packet that was sent last, once.
    pub fn take_sent(&self) -> Option<(u32, u64)> {
        self.log().sent.take()
    }

    /// Exchanges what was told for an empty list.
    pub fn take(&self, reports: &mut Vec<Report>) {
        std::mem::swap(&mut self.log().reports, reports);
    }

    fn has(set: &AtomicU64, observer: u32) -> bool {
        set.load(Ordering::Relaxed) >> (observer & 63) & 1 == 1
    }
}

/// Builds the observers of a connection.
#[derive(Debug)]
pub struct Observers {
    /// What they share.
    pub state: Arc<ObserverState>,
    /// True if what is no record is held to a window.
    pub has_window: bool,
}

impl ControllerFactory for Observers {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let mut log = self.state.log();
        // A connection has fewer paths than there are bits.
        let taken = (0..BITS as u32).take_while(|ahead| log.in_use >> ((log.observers + ahead) & 63) & 1 == 1).count();
        log.observers += taken as u32 + 1;
        let window = self.has_window.then(|| Arc::new(NewRenoConfig::default()).build(now, current_mtu));
        Box::new(Observer { state: self.state.clone(), number: log.observers - 1, window })
    }
}

/// The observer of one path.
#[derive(Debug)]
struct Observer {
    state: Arc<ObserverState>,
    number: u32,
    /// For what is no record.
    window: Option<Box<dyn Controller>>,
}

/// The number of an observer: noq's controllers are observers.
pub fn observer_number(controller: &dyn Controller) -> Option<u32> {
    // noq lends a controller, and gives out copies alone.
    let observer = controller.clone_box().into_any().downcast::<Observer>().ok()?;
    Some(observer.number)
}

impl Observer {
    fn tell(&self, what: What) {
        self.state.log().reports.push(Report { observer: self.number, what });
    }
}

impl Controller for Observer {
    fn on_packet_sent(&mut self, _now: Instant, _bytes: u16, number: u64) {
        self.state.log().sent = Some((self.number, number));
        self.state.exempt.fetch_and(!(1 << (self.number & 63)), Ordering::Relaxed);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, number: u64, app_limited: bool, rtt: &RttEstimator) {
        if let Some(window) = &mut self.window {
            window.on_ack(now, sent, bytes, number, app_limited, rtt);
        }
        self.tell(What::Acked { number, bytes });
    }

    fn on_end_acks(&mut self, _now: Instant, _in_flight: u64, _app_limited: bool, _largest: Option<u64>) {
        self.tell(What::EndOfAcks);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        marked: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        if let Some(window) = &mut self.window {
            window.on_congestion_event(now, sent, persistent, marked, lost_bytes, largest_lost);
        }
        self.tell(What::Congestion { marked, persistent });
    }

    fn on_packet_lost(&mut self, bytes: u16, number: u64, _now: Instant) {
        self.tell(What::Lost { number, bytes: u64::from(bytes) });
    }

    fn on_spurious_congestion_event(&mut self) {
        self.tell(What::Spurious);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        if let Some(window) = &mut self.window {
            window.on_mtu_update(new_mtu);
        }
    }

    fn window(&self) -> u64 {
        let state = &*self.state;
        match &self.window {
            _ if !ObserverState::has(&state.open, self.number) => 0,
            Some(_) if state.record.load(Ordering::Relaxed) || ObserverState::has(&state.exempt, self.number) => {
                u64::MAX
            }
            Some(own) => own.window().max(state.windows[self.number as usize % BITS].load(Ordering::Relaxed)),
            None => u64::MAX,
        }
    }

    /// noq's pacer is off while the window is larger than 32 bits can say. A rate of one byte a second holds everything
    /// back once the first packet, which may be as large as the path takes, has used what the pacer began with.
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = u64::MAX;
        metrics.pacing_rate = ObserverState::has(&self.state.quiet, self.number).then_some(1);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let window = self.window.as_ref().map(|window| window.clone_box());
        Box::new(Self { state: self.state.clone(), number: self.number, window })
    }

    /// The pacer begins with one packet.
    fn initial_window(&self) -> u64 {
        1
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that lives while another one is opened again and again keeps its bit for itself.
    #[test]
    fn no_observer_is_built_with_a_bit_that_is_in_use() {
        let state = ObserverState::new();
        let build = || {
            let factory = Arc::new(Observers { state: state.clone(), has_window: false });
            observer_number(&*factory.build(Instant::now(), 1200)).unwrap()
        };
        assert_eq!([build(), build()], [0, 1]);
        state.set_in_use(1 << 0 | 1 << 6 | 1 << 7);
        let built: Vec<u32> = (0..200).map(|_| build()).collect();
        assert!(built.iter().all(|number| ![0, 6, 7].contains(&(number % 64))), "{built:?}");
        // 2 to 5, 8 to 63, 65 and on: 61 of 64 each time.
        assert_eq!((built[0], built[3], built[4], built[59], built[60]), (2, 5, 8, 63, 65));
        assert_eq!(state.observers(), built[199] + 1);
    }
}
