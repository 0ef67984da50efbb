//! A socket whose senders gather, and a task for each that sends what was gathered.
//!
//! The runtime runs the task when the connection's own turn is over. While the task sends, the connection goes on
//! gathering; when there is no room it waits for the task.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, Runtime, UdpSender};

use crate::batches::Batches;

/// A socket whose senders gather.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: Box<dyn AsyncUdpSocket>,
    runtime: Arc<dyn Runtime>,
}

impl Socket {
    pub(crate) fn new(inner: Box<dyn AsyncUdpSocket>, runtime: Arc<dyn Runtime>) -> Self {
        Self { inner, runtime }
    }
}

impl AsyncUdpSocket for Socket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        let inner = self.inner.create_sender();
        let segments = inner.max_transmit_segments();
        let shared = Arc::new(Shared(Mutex::new(State::new(segments))));
        let mut task = Task { shared: Arc::clone(&shared), inner, segments, sending: Batches::default(), left: 0 };
        self.runtime.spawn(Box::pin(poll_fn(move |cx| task.poll(cx))));
        Box::pin(Sender(shared))
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// State that a sender and its task share.
#[derive(Debug)]
struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    gathered: Batches,
    /// Number of datagrams that a call takes. It falls to one when a device cannot segment.
    segments: NonZeroUsize,
    /// Wakes the task; `None` while it is awake.
    task: Option<Waker>,
    /// Wakes a connection that found no room.
    blocked: Option<Waker>,
    /// The sender is gone: what is gathered is the last.
    is_over: bool,
    /// The socket failed.
    failed: Option<io::ErrorKind>,
}

impl State {
    fn new(segments: NonZeroUsize) -> Self {
        let gathered = Batches::default();
        Self { gathered, segments, task: None, blocked: None, is_over: false, failed: None }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gathers.
#[derive(Debug)]
struct Sender(Arc<Shared>);

impl UdpSender for Sender {
    fn poll_send(self: Pin<&mut Self>, transmit: &Transmit<'_>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.state();
        if let Some(kind) = state.failed {
            return Poll::Ready(Err(kind.into()));
        }
        let segments = state.segments.get();
        let has_room = state.gathered.push(transmit, segments);
        if !has_room {
            state.blocked = Some(cx.waker().clone());
        }
        let task = state.task.take();
        drop(state);
        task.into_iter().for_each(Waker::wake);
        if has_room { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        self.0.state().segments
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_over = true;
        let task = state.task.take();
        drop(state);
        task.into_iter().for_each(Waker::wake);
    }
}

/// Sends.
struct Task {
    shared: Arc<Shared>,
    inner: Pin<Box<dyn UdpSender>>,
    segments: NonZeroUsize,
    sending: Batches,
    /// Bytes of the first batch that have left.
    left: usize,
}

impl Task {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            while let Some(batch) = self.sending.first() {
                let whole = batch.transmit();
                let size = whole.segment_size.unwrap_or(whole.contents.len());
                let end = whole.contents.len().min(self.left + size * self.segments.get());
                let contents = &whole.contents[self.left..end];
                let segment_size = (contents.len() > size).then_some(size);
                let Poll::Ready(sent) =
                    self.inner.as_mut().poll_send(&Transmit { contents, segment_size, ..whole }, cx)
                else {
                    return Poll::Pending;
                };
                if let Err(error) = sent {
                    let mut state = self.shared.state();
                    state.failed = Some(error.kind());
                    state.blocked.take().into_iter().for_each(Waker::wake);
                    return Poll::Ready(());
                }
                let segments = self.inner.max_transmit_segments();
                if segments != self.segments {
                    self.segments = segments;
                    self.shared.state().segments = segments;
                    // The device cannot segment. noq's sender notes that and tells of no error: again, in smaller
                    // calls.
                    if contents.len() > size * segments.get() {
                        continue;
                    }
                }
                self.left = end;
                if end == whole.contents.len() {
                    self.sending.pop();
                    self.left = 0;
                }
            }
            let mut state = self.shared.state();
            if state.gathered.is_empty() {
                if state.is_over {
                    return Poll::Ready(());
                }
                state.task = Some(cx.waker().clone());
                return Poll::Pending;
            }
            std::mem::swap(&mut state.gathered, &mut self.sending);
            let blocked = state.blocked.take();
            drop(state);
            blocked.into_iter().for_each(Waker::wake);
        }
    }
}
