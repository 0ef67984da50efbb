//! A netlink socket and one exchange over it: a request, the answers, the kernel's verdict.
//!
//! The kernel answers within the system call that asks, so a blocking exchange waits for nothing but the work itself,
//! and needs no second thread.

use std::cell::Cell;
use std::fmt::{Debug, Display};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use neli::consts::nl::{NlmF, NlmsgerrAttr};
use neli::consts::socket::NlFamily;
use neli::err::{Nlmsgerr, SocketError};
use neli::nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::types::Buffer;
use neli::utils::Groups;
use neli::{Size, ToBytes};
use nix::poll::{PollFd, PollFlags, ppoll};

use crate::EmuError;

/// A netlink socket of the namespace in which it was opened.
pub(super) struct Socket {
    handle: NlSocketHandle,
    sequence: Cell<u32>,
}

/// Why the kernel refused: its error number, and its own words where it has some.
pub(super) struct Refusal {
    source: io::Error,
    text: Option<String>,
}

impl Socket {
    pub fn open(family: NlFamily) -> Result<Self, EmuError> {
        let open = || {
            let handle = NlSocketHandle::connect(family, None, Groups::empty())?;
            handle.enable_ext_ack(true)?;
            Ok(handle)
        };
        let handle = open().map_err(io_error).map_err(EmuError::system("opening a netlink socket"))?;
        Ok(Self { handle, sequence: Cell::new(0) })
    }

    /// Asks for something to be done.
    pub fn request(&self, kind: u16, flags: NlmF, body: impl Body) -> Result<(), Refusal> {
        self.exchange(kind, flags | NlmF::ACK, body).map(drop)
    }

    /// Asks for one object.
    pub fn get(&self, kind: u16, body: impl Body) -> Result<Buffer, Refusal> {
        let answers = self.exchange(kind, NlmF::ACK, body)?;
        answers.into_iter().next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
    }

    /// Asks for all objects.
    pub fn dump(&self, kind: u16, body: impl Body) -> Result<Vec<Buffer>, Refusal> {
        self.exchange(kind, NlmF::DUMP, body)
    }

    /// Joins a multicast group; `capacity` is what the socket holds of messages not yet received.
    pub fn subscribe(&self, group: u32, capacity: usize) -> io::Result<()> {
        self.handle.set_recv_buffer_size(capacity).map_err(io_error)?;
        self.handle.add_mcast_membership(Groups::new_groups(&[group])).map_err(io_error)
    }

    /// The next message that nobody asked for, if one comes within `timeout`.
    pub fn next(&self, timeout: Duration) -> io::Result<Option<Buffer>> {
        let mut ready = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut ready, Some(timeout.into()), None) {
            Ok(0) | Err(nix::Error::EINTR) => return Ok(None),
            ready => ready?,
        };
        // A multicast message comes alone in its datagram.
        let message = self.receive()?.into_iter().next();
        Ok(message.and_then(|message| message.get_payload().cloned()))
    }

    fn exchange(&self, kind: u16, flags: NlmF, body: impl Body) -> Result<Vec<Buffer>, Refusal> {
        let sequence = self.send(kind, flags, body)?;
        let mut answers = Vec::new();
        loop {
            // What remains of an exchange that broke off has another number.
            for message in self.receive()?.into_iter().filter(|message| *message.nl_seq() == sequence) {
                match message.nl_payload() {
                    NlPayload::Payload(answer) => answers.push(answer.clone()),
                    NlPayload::Err(error) => return Err(Refusal::new(error)),
                    NlPayload::DumpExtAck(error) if *error.error() != 0 => return Err(Refusal::new(error)),
                    NlPayload::Ack(_) | NlPayload::DumpExtAck(_) | NlPayload::Empty => return Ok(answers),
                }
            }
        }
    }

    fn send(&self, kind: u16, flags: NlmF, body: impl Body) -> io::Result<u32> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let message = NlmsghdrBuilder::default()
            .nl_type(kind)
            .nl_flags(flags | NlmF::REQUEST)
            .nl_seq(sequence)
            .nl_payload(NlPayload::Payload(body))
            .build()
            .expect("type, flags and payload are set");
        self.handle.send(&message).map_err(io_error)?;
        Ok(sequence)
    }

    fn receive(&self) -> io::Result<Vec<Nlmsghdr<u16, Buffer>>> {
        loop {
            match self.handle.recv() {
                Ok((messages, _)) => return messages.collect::<Result<_, _>>().map_err(io_error),
                Err(SocketError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error(error)),
            }
        }
    }
}

impl AsFd for Socket {
    #[expect(unsafe_code, reason = "the library hands out a bare descriptor")]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the handle owns the descriptor, keeps it open as long as it lives, and outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.handle.as_raw_fd()) }
    }
}

impl Refusal {
    fn new<M>(error: &Nlmsgerr<M>) -> Self {
        let text = error.ext_ack().get_attr_handle().get_attr_payload_as_with_len(NlmsgerrAttr::Msg).ok();
        Self { source: io::Error::from_raw_os_error(-error.error()), text }
    }

    /// Returns true if what was named does not exist.
    pub fn is_absence(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// The error of a step that says what was being done.
    pub fn of(self, step: impl Display) -> EmuError {
        let step = match self.text {
            Some(text) => format!("{step} ({text})"),
            None => step.to_string(),
        };
        EmuError::System { step, source: self.source }
    }
}

impl From<io::Error> for Refusal {
    fn from(source: io::Error) -> Self {
        Self { source, text: None }
    }
}

/// Body that follows a netlink header.
pub(super) trait Body: Size + ToBytes + Debug {}
impl<T: Size + ToBytes + Debug> Body for T {}

fn io_error(error: SocketError) -> io::Error {
    match error {
        SocketError::Io(error) => match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => error.kind().into(),
        },
        other => io::Error::other(other.to_string()),
    }
}
