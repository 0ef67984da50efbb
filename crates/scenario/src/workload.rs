//! The application at both ends: what it writes when, and when what it wrote is of use.

use std::collections::VecDeque;

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use weftway_path::{BitRate, Bytes, Instant, Message, Span};

use crate::config::{MessageSize, WebObject, Workload};
use crate::draw::{exponential, log_normal};
use crate::seeds::mix;

/// Far more than any run delivers.
const ENDLESS: u64 = 1 << 60;

/// Returns the time, from its start, and the size of each write of an application that waits for nothing.
///
/// The draws are those of a simulation with this seed, so that a real application can write the same. `None` for
/// applications without end, and for those that wait for an answer.
pub fn writes(workload: &Workload, seed: u64) -> Option<Vec<(Span, Bytes)>> {
    if matches!(workload, Workload::Duration { .. } | Workload::RequestResponse { .. } | Workload::Web { .. }) {
        return None;
    }
    let mut app = App::of(workload, seed);
    app.start(Instant::ZERO);
    while !app.next_event().is_never() {
        app.run(app.next_event());
    }
    let written = |message: &Message| (message.written.since(Instant::ZERO), Bytes::new(message.end - message.start));
    Some(app.open.iter().map(written).collect())
}

/// The application.
#[derive(Clone, Debug)]
pub struct App {
    workload: Workload,
    /// The workload is made of messages.
    has_messages: bool,
    rng: Pcg64Mcg,
    /// Bytes written so far, should the send buffer take them.
    written: u64,
    /// Messages that have not arrived whole, oldest first.
    open: VecDeque<Message>,
    /// End of the oldest of them; the largest number without one. Of flows and datagrams 0: each arrival may be the
    /// last of one.
    oldest_end: u64,
    /// Place in `open` where the sender last was.
    cursor: usize,
    next_write: Instant,
    remaining: u64,
    frame: u64,
    started: Option<Instant>,
    /// Time at which the run ends whatever arrives, of datagrams: the deadline of the last.
    ends: Instant,
    /// Times at which objects of a page were asked for, and how many, oldest first; those that are not yet written.
    asked: VecDeque<(Instant, u64)>,
    /// Objects of a page that have been asked for.
    requested: usize,
    /// Time that each message took, in order of arrival.
    pub delays: Vec<Span>,
    /// Class of each message, where they are flows.
    pub classes: Vec<u8>,
}

impl App {
    /// The application of a simulation's first connection.
    pub fn of(workload: &Workload, seed: u64) -> Self {
        Self::new(workload, mix(seed, 0xa0))
    }

    /// An application that has not started.
    pub fn new(workload: &Workload, seed: u64) -> Self {
        let remaining = match workload {
            Workload::Messages { count, .. }
            | Workload::RequestResponse { count, .. }
            | Workload::Flows { count, .. } => *count,
            Workload::Stream { period, span, .. }
            | Workload::Voip { period, span, .. }
            | Workload::Datagrams { period, span, .. }
            | Workload::Call { period, span, .. } => span.as_nanos().checked_div(period.as_nanos()).unwrap_or(1),
            Workload::Web { objects, .. } => objects.len() as u64,
            _ => 0,
        };
        Self {
            has_messages: workload.has_messages(),
            workload: workload.clone(),
            rng: Pcg64Mcg::new(u128::from(seed) | 1),
            written: 0,
            open: VecDeque::new(),
            oldest_end: u64::MAX,
            cursor: 0,
            next_write: Instant::NEVER,
            remaining,
            frame: 0,
            started: None,
            ends: Instant::NEVER,
            asked: VecDeque::from([(Instant::ZERO, 1)]),
            requested: 0,
            delays: Vec::new(),
            classes: Vec::new(),
        }
    }

    /// The connection is established.
    pub fn start(&mut self, now: Instant) {
        self.started = Some(now);
        match self.workload {
            Workload::Bulk { bytes } => self.write(now, bytes.get(), None, 0),
            Workload::Duration { .. } => self.write(now, ENDLESS, None, 0),
            _ if self.has_messages() && self.remaining == 0 => {}
            Workload::Limited { bytes, .. } if bytes == Bytes::ZERO => {}
            _ => {
                self.next_write = now;
                self.run(now);
            }
        }
    }

    /// Returns true if [`App::start`] was called.
    #[inline]
    pub fn has_started(&self) -> bool {
        self.started.is_some()
    }

    /// Returns the time at which the application acts next.
    #[inline]
    pub fn next_event(&self) -> Instant {
        self.next_write
    }

    /// Writes what is due.
    pub fn run(&mut self, now: Instant) {
        while self.next_write <= now {
            let due = self.next_write;
            self.next_write = self.write_next(due);
        }
    }

    /// Writes once; when to write again.
    fn write_next(&mut self, now: Instant) -> Instant {
        match self.workload {
            Workload::Web { .. } => self.answer(now),
            Workload::Bulk { .. } | Workload::Duration { .. } => Instant::NEVER,
            Workload::Limited { rate, bytes } => {
                let step = bytes.get().saturating_sub(self.written).min(1200);
                self.write(now, step, None, 0);
                if self.written >= bytes.get() {
                    Instant::NEVER
                } else {
                    now + rate.transmission_time(Bytes::new(step))
                }
            }
            Workload::Messages { ref sizes, period, deadline, .. } => {
                let drawn = draw(&mut self.rng, sizes, |size| size.weight);
                let drawn = drawn.unwrap_or(MessageSize::of(Bytes::new(1)));
                self.write(now, drawn.bytes.get().max(1), deadline, drawn.class);
                self.count_down(now + period)
            }
            Workload::Stream { rate, period, key_every, key_ratio, deadline, .. } => {
                let size = self.frame_size(rate.bytes_in(period).get(), key_every, key_ratio);
                let class = u8::from(!self.is_key_frame(key_every));
                self.frame += 1;
                self.write(now, size, Some(deadline), class);
                self.count_down(now + period)
            }
            Workload::RequestResponse { bytes, .. } => {
                self.write(now, bytes.get().max(1), None, 0);
                self.remaining = self.remaining.saturating_sub(1);
                Instant::NEVER
            }
            Workload::Voip { bytes, period, deadline, .. } => {
                self.write(now, bytes.get().max(1), Some(deadline), 0);
                self.count_down(now + period)
            }
            Workload::Flows { mean_gap, ref kinds, .. } => {
                if let Some(kind) = draw(&mut self.rng, kinds, |kind| kind.weight) {
                    let bytes = log_normal(&mut self.rng, kind.median, kind.sigma);
                    self.write(now, bytes.get(), None, kind.class as u8);
                }
                let gap = exponential(&mut self.rng, mean_gap);
                self.count_down(now + gap)
            }
            Workload::Datagrams { bytes, rate, period, deadline, .. } => {
                for _ in 0..self.burst(bytes, rate, period) {
                    self.write(now, bytes.get(), Some(deadline), 0);
                }
                self.frame += 1;
                let next = self.count_down(now + period);
                if next.is_never() {
                    self.ends = now + deadline;
                }
                next
            }
            Workload::Call { rate, period, deadline, .. } => {
                self.write(now, rate.bytes_in(period).get().max(1), Some(deadline), 0);
                self.count_down(now + period)
            }
        }
    }

    /// Writes the objects of a page whose request has come; when the next request comes.
    fn answer(&mut self, now: Instant) -> Instant {
        let count = self.asked.pop_front().map_or(0, |(_, count)| count);
        for _ in 0..count {
            let Some(object) = self.object(self.requested) else { break };
            self.requested += 1;
            self.write(now, object.bytes.get().max(1), None, 0);
            self.remaining = self.remaining.saturating_sub(1);
        }
        self.asked.front().map_or(Instant::NEVER, |(due, _)| *due)
    }

    /// An object of the page, by its place.
    fn object(&self, at: usize) -> Option<WebObject> {
        match &self.workload {
            Workload::Web { objects, .. } => objects.get(at).copied(),
            _ => None,
        }
    }

    fn count_down(&mut self, next: Instant) -> Instant {
        self.remaining = self.remaining.saturating_sub(1);
        if self.remaining == 0 { Instant::NEVER } else { next }
    }

    /// Returns true if the next frame is a key frame; all are alike where none are.
    fn is_key_frame(&self, every: u32) -> bool {
        every < 2 || self.frame.is_multiple_of(u64::from(every))
    }

    /// Frames keep the mean rate: in a group of `every`, one is `ratio` times as large.
    fn frame_size(&self, mean: u64, key_every: u32, ratio: u32) -> u64 {
        let (every, ratio) = (u64::from(key_every), u64::from(ratio.max(1)));
        if every < 2 {
            return mean.max(1);
        }
        let small = Bytes::new(mean).mul_div(every, every - 1 + ratio).get();
        if self.is_key_frame(key_every) { small.saturating_mul(ratio).max(1) } else { small.max(1) }
    }

    /// Number of datagrams of the next burst: as many as keep the mean rate, rests of earlier bursts included.
    fn burst(&self, bytes: Bytes, rate: Option<BitRate>, period: Span) -> u64 {
        let Some(rate) = rate else { return 1 };
        let by = |bursts: u64| rate.bytes_in(period * bursts).get() / bytes.get().max(1);
        by(self.frame + 1) - by(self.frame)
    }

    fn write(&mut self, now: Instant, bytes: u64, deadline: Option<Span>, class: u8) {
        let (start, end) = (self.written, self.written + bytes);
        self.written = end;
        if bytes > 0 {
            self.open.push_back(Message { start, end, written: now, deadline: deadline.map(|span| now + span), class });
            self.oldest_end = if self.workload.has_records() { 0 } else { self.oldest_end.min(end) };
        }
    }

    /// Bytes written so far.
    #[inline]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The message that byte `at` belongs to, if it is written.
    #[inline]
    pub fn message_at(&mut self, at: u64) -> Option<Message> {
        while self.cursor > 0 && self.open.get(self.cursor).is_none_or(|message| at < message.start) {
            self.cursor -= 1;
        }
        while self.open.get(self.cursor).is_some_and(|message| message.end <= at) {
            self.cursor += 1;
        }
        self.open.get(self.cursor).copied().filter(|message| message.start <= at)
    }

    /// Returns true if [`App::arrived`] has anything to do when everything before `to` has arrived, or of flows
    /// [`App::flow_arrived`], whatever has.
    #[inline]
    pub fn completes(&self, to: u64) -> bool {
        self.oldest_end <= to
    }

    /// Everything before `to` has arrived. The next request sets out `request` later.
    /// [`App::next_event`] may have changed. Flows and datagrams arrive by themselves: [`App::flow_arrived`].
    pub fn arrived(&mut self, now: Instant, to: u64, request: Span) {
        while self.completes(to) && !self.workload.has_records() {
            self.complete(now, request);
        }
    }

    /// The flow or datagram that begins at `start` has arrived whole, whatever became of those before it.
    pub fn flow_arrived(&mut self, now: Instant, start: u64) {
        let Ok(at) = self.open.binary_search_by_key(&start, |flow| flow.start) else { return };
        let Some(flow) = self.open.remove(at) else { return };
        if self.open.is_empty() {
            self.oldest_end = u64::MAX;
        }
        self.delays.push(now.since(flow.written));
        self.classes.push(flow.class);
    }

    /// The flows or datagrams that were written at `from` or later, oldest first.
    pub fn flows_from(&self, from: u64) -> impl Iterator<Item = &Message> {
        self.open.range(self.open.partition_point(|flow| flow.start < from)..)
    }

    fn complete(&mut self, now: Instant, request: Span) {
        let Some(message) = self.open.pop_front() else { return };
        self.oldest_end = self.open.front().map_or(u64::MAX, |message| message.end);
        self.cursor = self.cursor.saturating_sub(1);
        // What is no message has a delay of no interest, and there may be very many.
        if self.has_messages() {
            self.delays.push(now.since(message.written));
        }
        match self.workload {
            Workload::RequestResponse { think, .. } if self.remaining > 0 => self.next_write = now + think + request,
            Workload::Web { think, .. } => self.ask(now + think + request),
            _ => {}
        }
    }

    /// The object of a page that has just arrived names others; requests for them reach the server at `due`, or after
    /// the last one before them if that is later: they are in order.
    fn ask(&mut self, due: Instant) {
        let children = self.object(self.delays.len() - 1).map_or(0, |object| object.children);
        if children > 0 {
            let due = self.asked.back().map_or(due, |(last, _)| due.max(*last));
            self.asked.push_back((due, children));
            self.next_write = self.asked.front().map_or(due, |(first, _)| *first);
        }
    }

    /// Returns true if everything that will ever be written has arrived, `to` being what has.
    #[inline]
    pub fn is_done(&self, now: Instant, to: u64) -> bool {
        match self.workload {
            Workload::Duration { span } => self.started.is_some() && now.as_nanos() >= span.as_nanos(),
            Workload::Bulk { bytes } => self.started.is_some() && to >= bytes.get(),
            Workload::Limited { bytes, .. } => self.started.is_some() && to >= bytes.get(),
            Workload::Datagrams { .. } => {
                self.next_write.is_never() && (self.open.is_empty() || now >= self.ends) && self.started.is_some()
            }
            _ => self.started.is_some() && self.remaining == 0 && self.next_write.is_never() && self.open.is_empty(),
        }
    }

    /// Returns the time at which the run ends whatever arrives.
    pub fn cut_off(&self) -> Instant {
        match self.workload {
            Workload::Duration { span } => Instant::ZERO + span,
            Workload::Datagrams { .. } => self.ends,
            _ => Instant::NEVER,
        }
    }

    /// Counts the messages that end at or before byte `at`, those that have arrived included.
    pub fn number_at(&self, at: u64) -> usize {
        self.delays.len() + self.open.iter().take_while(|message| message.end <= at).count()
    }

    /// Messages written and not arrived whole, oldest first.
    pub fn outlook(&self) -> impl Iterator<Item = &Message> {
        self.open.iter()
    }

    /// Messages written and not arrived.
    pub fn outstanding(&self) -> u64 {
        self.open.len() as u64
    }

    /// Returns true if the workload is made of messages.
    #[inline]
    pub fn has_messages(&self) -> bool {
        self.has_messages
    }
}

/// Draws one of `choices`, each as often as its weight says; none if all are zero.
fn draw<T: Copy>(rng: &mut Pcg64Mcg, choices: &[T], weight: impl Fn(&T) -> u32) -> Option<T> {
    let total: u64 = choices.iter().map(|choice| u64::from(weight(choice))).sum();
    let mut at = if total == 0 { 0 } else { rng.next_u64() % total };
    for choice in choices {
        let weight = u64::from(weight(choice));
        if at < weight {
            return Some(*choice);
        }
        at -= weight;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FlowClass, FlowKind};
    use weftway_path::BitRate;

    /// 2.4 Mbit/s at 40 frames a second is 7500 B a frame; of eight, one is nine times as large:
    /// 8 · 7500 / (7 + 9) = 3750 B, and 33 750 B for the key frame.
    #[test]
    fn frames_keep_the_mean_rate() {
        let workload = Workload::Stream {
            rate: BitRate::from_bps(2_400_000),
            period: Span::from_millis(25),
            key_every: 8,
            key_ratio: 9,
            deadline: Span::from_millis(100),
            span: Span::from_millis(200),
        };
        let mut app = App::new(&workload, 1);
        app.start(Instant::ZERO);
        assert_eq!(app.written(), 33_750);
        app.run(Instant::from_millis(1000));
        assert_eq!(app.written(), 8 * 7500);
        assert_eq!([0, 33_750].map(|at| app.message_at(at).map(|frame| frame.class)), [Some(0), Some(1)]);
    }

    /// 2.4 Mbit/s at 25 ms are 7500 B a burst: 7.5 datagrams of 1000 B, so 7 and 8 in turn. The last of four bursts
    /// comes at 75 ms, and the run ends 40 ms later whatever arrives.
    #[test]
    fn bursts_of_datagrams_keep_the_mean_rate_and_end_with_the_last_deadline() {
        let at = Instant::from_millis;
        let workload = Workload::Datagrams {
            bytes: Bytes::new(1000),
            rate: Some(BitRate::from_bps(2_400_000)),
            period: Span::from_millis(25),
            deadline: Span::from_millis(40),
            span: Span::from_millis(100),
        };
        let mut app = App::new(&workload, 1);
        app.start(Instant::ZERO);
        let mut written = vec![app.written()];
        for ms in [25, 50, 75] {
            assert_eq!((app.next_event(), app.cut_off()), (at(ms), Instant::NEVER));
            app.run(at(ms));
            written.push(app.written());
        }
        assert_eq!(written, [7_000, 15_000, 22_000, 30_000]);
        assert_eq!((app.next_event(), app.cut_off()), (Instant::NEVER, at(115)));
        app.flow_arrived(at(80), 22_000);
        assert!(app.delays == [Span::from_millis(5)] && !app.is_done(at(114), 0));
        assert!(app.is_done(at(115), 0) && app.outstanding() == 29);
    }

    /// A document of 10 kB names a style sheet of 2 kB, which names a font of 3 kB, and two pictures of 1 kB. Requests
    /// take 20 ms and thinking 5 ms. The document arrives at 100 ms: style sheet and pictures are asked for at 125 ms.
    /// The style sheet arrives at 150 ms, the font is asked for at 175 ms; the pictures name nothing.
    #[test]
    fn an_object_of_a_page_is_asked_for_when_what_names_it_has_arrived() {
        let object = |kb: u64, children: u64| WebObject { bytes: Bytes::new(kb * 1000), children };
        let objects = vec![object(10, 3), object(2, 1), object(1, 0), object(1, 0), object(3, 0)];
        let mut app = App::new(&Workload::Web { objects, think: Span::from_millis(5) }, 1);
        let (at, request) = (Instant::from_millis, Span::from_millis(20));
        app.start(at(10));
        assert_eq!((app.written(), app.next_event()), (10_000, Instant::NEVER));
        assert!(!app.completes(9_999));
        app.arrived(at(100), 10_000, request);
        assert_eq!((app.written(), app.next_event()), (10_000, at(125)));
        app.run(at(125));
        assert_eq!((app.written(), app.next_event()), (14_000, Instant::NEVER));
        app.arrived(at(150), 12_000, request);
        app.arrived(at(160), 14_000, request);
        assert_eq!(app.next_event(), at(175));
        assert!(!app.is_done(at(170), 14_000));
        app.run(at(175));
        app.arrived(at(200), 17_000, request);
        assert!(app.is_done(at(200), 17_000));
        assert_eq!(app.delays, [90, 25, 35, 35, 25].map(Span::from_millis));
    }

    /// A path with a shorter way back brings a later request sooner than the one before it: they are answered in order.
    #[test]
    fn requests_stay_in_order() {
        let object = |children| WebObject { bytes: Bytes::new(1000), children };
        let objects = vec![object(2), object(1), object(1), object(0), object(0)];
        let mut app = App::new(&Workload::Web { objects, think: Span::ZERO }, 1);
        let (at, ms) = (Instant::from_millis, Span::from_millis);
        app.start(at(0));
        app.arrived(at(10), 1000, ms(10));
        app.run(at(20));
        app.arrived(at(30), 2000, ms(50));
        app.arrived(at(31), 3000, ms(1));
        assert_eq!(app.next_event(), at(80));
        app.run(at(80));
        assert_eq!((app.written(), app.next_event()), (5000, Instant::NEVER));
    }

    /// 64 packets of speech in 1.28 s, each to be played 100 ms later; 500 kbit/s at 25 frames a second are 2500 B, and
    /// 200 kbit/s, which the other side sends, 1000 B.
    #[test]
    fn speech_and_calls_keep_their_pace() {
        let (period, deadline) = (Span::from_millis(20), Span::from_millis(100));
        let voip = Workload::Voip { bytes: Bytes::new(172), period, deadline, span: Span::from_millis(1280) };
        let written = writes(&voip, 1).unwrap();
        assert_eq!((written.len(), written[63]), (64, (Span::from_millis(1260), Bytes::new(172))));
        let (rate, back) = (BitRate::from_bps(500_000), BitRate::from_bps(200_000));
        let call = Workload::Call { rate, back, period: Span::from_millis(40), deadline, span: Span::from_secs(1) };
        let sizes = |call: &Workload| writes(call, 1).unwrap().iter().map(|(_, bytes)| bytes.get()).sum::<u64>();
        assert_eq!((sizes(&call), sizes(&call.reverse().unwrap())), (62_500, 25_000));
        assert_eq!((call.deadline(), voip.deadline(), voip.reverse()), (Some(deadline), Some(deadline), None));
    }

    /// Flows come by one in 10 ms on the mean and arrive in any order: the second before the first.
    #[test]
    fn flows_arrive_one_by_one() {
        let kind = |class, bytes| FlowKind { class, weight: 1, median: Bytes::new(bytes), sigma: 0.0 };
        let kinds = vec![kind(FlowClass::Interactive, 100), kind(FlowClass::Bulk, 900)];
        let workload = Workload::Flows { mean_gap: Span::from_millis(10), count: 400, kinds };
        let mut app = App::new(&workload, 1);
        app.start(Instant::ZERO);
        while !app.next_event().is_never() {
            app.run(app.next_event());
        }
        let flows: Vec<Message> = app.flows_from(0).copied().collect();
        assert_eq!(flows.len(), 400);
        // 399 exponential gaps have a mean of 10 ms with a standard deviation of 5 %, and half of the flows are of each
        // class with one of 2.5 %. Five of them.
        let last = flows[399].written.since(Instant::ZERO).as_millis_f64() / 399.0;
        let urgent = flows.iter().filter(|flow| flow.class == 1 && flow.end - flow.start == 100).count();
        let others = flows.iter().filter(|flow| flow.class == 2 && flow.end - flow.start == 900).count();
        assert!(
            (7.5..12.5).contains(&last) && (150..250).contains(&urgent) && urgent + others == 400,
            "{last} {urgent}"
        );
        app.arrived(Instant::from_millis(20_000), u64::MAX, Span::ZERO);
        assert_eq!(app.outstanding(), 400, "no byte of one row says what has arrived");
        assert!(app.completes(0));
        for (number, ms) in [(1, 20_000), (0, 20_001), (0, 20_002)] {
            app.flow_arrived(Instant::from_millis(ms), flows[number].start);
        }
        let took = |number: usize, ms| Instant::from_millis(ms).since(flows[number].written);
        assert_eq!(app.delays, [took(1, 20_000), took(0, 20_001)], "the third time nothing arrived");
        assert_eq!((app.classes.clone(), app.outstanding()), (vec![flows[1].class, flows[0].class], 398));
        assert_eq!(app.flows_from(flows[1].start + 1).next(), Some(&flows[2]));
        flows[2..].iter().for_each(|flow| app.flow_arrived(Instant::from_millis(30_000), flow.start));
        assert!(app.is_done(Instant::from_millis(30_000), 0) && !app.completes(1 << 50));
    }

    #[test]
    fn messages_are_timed() {
        let workload = Workload::Messages {
            sizes: vec![MessageSize::of(Bytes::new(100))],
            period: Span::from_millis(10),
            count: 2,
            deadline: Some(Span::from_millis(15)),
        };
        let mut app = App::new(&workload, 1);
        app.start(Instant::ZERO);
        app.run(Instant::from_millis(10));
        app.arrived(Instant::from_millis(12), 100, Span::ZERO);
        assert!(!app.is_done(Instant::from_millis(12), 100));
        app.arrived(Instant::from_millis(30), 200, Span::ZERO);
        assert_eq!(app.delays, [Span::from_millis(12), Span::from_millis(20)]);
        assert!(app.is_done(Instant::from_millis(30), 200));
    }
}
