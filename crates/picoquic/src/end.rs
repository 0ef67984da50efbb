//! One end of a connection.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process};

use weftway_path::{Bytes, Instant, PathId};

use crate::library::{Address, ConnectionId, Functions, Pointer, Qualities, Quality};
use crate::random;

/// Largest UDP payload (`PICOQUIC_MAX_PACKET_SIZE`).
const MOST_BYTES: usize = 1536;
/// Name of the protocol above, and of the server.
pub const ALPN: &CStr = c"weftway-virtual-time";
const SERVER: &CStr = c"localhost";
/// A certificate and its key, of RSA: its signatures always have the same size. They protect nothing.
pub const CERTIFICATE: &str = include_str!("../data/certificate.pem");
pub const KEY: &str = include_str!("../data/key.pem");
const PORT: u16 = 4433;
/// Value of AF_INET, the same on all systems that picoquic has wheels for.
const INET: u16 = 2;
/// Transport parameters by number (RFC 9000 §18.2, draft-ietf-quic-multipath).
const MAX_UDP_PAYLOAD_SIZE: u64 = 3;
const INITIAL_MAX_STREAM_DATA_UNI: u64 = 7;
const MAX_DATAGRAM_FRAME_SIZE: u64 = 0x20;
const INITIAL_MAX_PATH_ID: u64 = 0x3e;
/// Value of `picoquic_set_path_status` for a backup.
const BACKUP: c_int = 1;
/// Answers to what is to be sent next (`picoquic_datagram_active_enum`): no more datagrams, or more on this path.
const DATAGRAM_NOT_ACTIVE: c_int = 0;
const DATAGRAM_ACTIVE_THIS_PATH_ONLY: c_int = 2;
/// Paths are looked for up to this number.
const MOST_PATH_IDS: u64 = 64;

/// Events of `picoquic_call_back_event_t`.
mod event {
    pub const STREAM_DATA: i32 = 0;
    pub const STREAM_FIN: i32 = 1;
    pub const STATELESS_RESET: i32 = 4;
    pub const CLOSE: i32 = 5;
    pub const APPLICATION_CLOSE: i32 = 6;
    pub const PREPARE_TO_SEND: i32 = 8;
    pub const ALMOST_READY: i32 = 9;
    pub const READY: i32 = 10;
    pub const DATAGRAM: i32 = 11;
    pub const PREPARE_DATAGRAM: i32 = 16;
}

/// Which end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Opens the connection and its paths.
    Client,
    /// Answers.
    Server,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Self {
        if self == Self::Client { Self::Server } else { Self::Client }
    }

    /// The stream on which it sends: the first of one direction (RFC 9000 §2.1).
    fn stream(self) -> u64 {
        if self == Self::Client { 2 } else { 3 }
    }
}

/// Settings of an end.
pub struct Setting {
    /// Controller by picoquic's name.
    pub controller: &'static CStr,
    /// Bytes that may be on their way to the application.
    pub window: Bytes,
    /// Largest UDP payload.
    pub payload: u16,
    /// Number of paths.
    pub paths: usize,
    /// True if the peer may send DATAGRAM frames.
    pub takes_datagrams: bool,
    /// Data that the sender sends, over and over.
    pub pattern: Arc<[u8]>,
}

/// State that the callbacks change.
struct Told {
    functions: &'static Functions,
    pattern: Arc<[u8]>,
    stream: u64,
    connection: Cell<Pointer>,
    /// May send data; the handshake is done.
    almost_ready: Cell<bool>,
    ready: Cell<bool>,
    ended: Cell<Option<&'static str>>,
    /// Bytes that the application has written, and those of them that were taken into packets.
    written: Cell<u64>,
    sent: Cell<u64>,
    /// Bytes of the peer's stream that have arrived in order, and place of the first wrong one.
    arrived: Cell<u64>,
    wrong: Cell<Option<u64>>,
    /// DATAGRAM frames that have arrived.
    records: RefCell<VecDeque<Vec<u8>>>,
    /// The DATAGRAM frame that is to be sent.
    record: RefCell<Vec<u8>>,
}

/// One end of a connection: a context of picoquic with at most one connection.
pub struct End {
    functions: &'static Functions,
    context: Pointer,
    side: Side,
    payload: usize,
    /// Time that picoquic reads. It has an address of its own, as `told` does.
    time: *mut u64,
    told: *mut Told,
}

/// A datagram that leaves.
pub struct Datagram<'a> {
    /// Path that it takes.
    pub path: PathId,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// picoquic's time: whole microseconds, from 1 s on, since 0 has a meaning of its own.
fn micros(at: Instant) -> u64 {
    at.as_nanos() / 1000 + 1_000_000
}

fn instant(micros: u64) -> Instant {
    match micros {
        u64::MAX => Instant::NEVER,
        micros => Instant::from_nanos(micros.saturating_sub(1_000_000).saturating_mul(1000)),
    }
}

/// The address of one side of a path, as a `sockaddr_in`.
fn address(side: Side, path: PathId) -> Address {
    let mut bytes = [0u8; 128];
    bytes[..2].copy_from_slice(&INET.to_ne_bytes());
    bytes[2..4].copy_from_slice(&PORT.to_be_bytes());
    bytes[4..8].copy_from_slice(&[10, u8::from(side == Side::Server), 0, path.get()]);
    let mut address = [0; 16];
    for (word, part) in address.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes([part[0], part[1], part[2], part[3], part[4], part[5], part[6], part[7]]);
    }
    address
}

/// The path whose address it is.
fn path_of(address: &Address) -> PathId {
    PathId::new(address[0].to_ne_bytes()[7])
}

/// Files of the certificate and its key, for as long as this value lives: picoquic reads them by name.
struct Files(PathBuf);

impl Files {
    fn written() -> Result<Self, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("weftway-picoquic-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = env::temp_dir().join(name);
        let written = fs::create_dir(&folder)
            .and_then(|()| fs::write(folder.join("certificate.pem"), CERTIFICATE))
            .and_then(|()| fs::write(folder.join("key.pem"), KEY));
        written.map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }

    fn name(&self, file: &str) -> CString {
        CString::new(self.0.join(file).into_os_string().into_encoded_bytes()).unwrap_or_default()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl End {
    /// An end without a connection. Random bytes of its context are those of [`random`].
    #[allow(unsafe_code)]
    pub fn new(functions: &'static Functions, side: Side, setting: &Setting) -> Result<Self, String> {
        let files = (side == Side::Server).then(Files::written).transpose()?;
        let told = Box::into_raw(Box::new(Told {
            functions,
            pattern: setting.pattern.clone(),
            stream: side.stream(),
            connection: Cell::new(null_mut()),
            almost_ready: Cell::new(false),
            ready: Cell::new(false),
            ended: Cell::new(None),
            written: Cell::new(0),
            sent: Cell::new(0),
            arrived: Cell::new(0),
            wrong: Cell::new(None),
            records: RefCell::default(),
            record: RefCell::default(),
        }));
        let time = Box::into_raw(Box::new(micros(Instant::ZERO)));
        let names = files.as_ref().map(|files| (files.name("certificate.pem"), files.name("key.pem")));
        let (certificate, key) =
            names.as_ref().map_or((std::ptr::null(), std::ptr::null()), |(one, other)| (one.as_ptr(), other.as_ptr()));
        // SAFETY: the pointers are valid, `time` and `told` for as long as the context; the source of random bytes is
        // changed only while no other run creates a context, and changed back.
        let context = unsafe {
            let before = std::mem::replace(&mut *functions.random_source, random::bytes);
            let none = null_mut();
            let (none_read, none_named) = (std::ptr::null(), std::ptr::null());
            let context = (functions.create)(
                8,
                certificate,
                key,
                none_named,
                ALPN.as_ptr(),
                on_event,
                told.cast(),
                none,
                none,
                none,
                *time,
                time,
                none_named,
                none_read,
                0,
            );
            *functions.random_source = before;
            context
        };
        let end = Self { functions, context, side, payload: usize::from(setting.payload).min(MOST_BYTES), time, told };
        if context.is_null() {
            return Err("it creates no context".to_owned());
        }
        let window = setting.window.get();
        // SAFETY: the context is alive, and none of these keeps a pointer but that of an algorithm, which is static.
        unsafe {
            let algorithm = (functions.get_congestion_algorithm)(setting.controller.as_ptr());
            if algorithm.is_null() {
                return Err(format!("it has no controller {}", setting.controller.to_string_lossy()));
            }
            (functions.set_default_congestion_algorithm)(context, algorithm);
            (functions.set_default_multipath_option)(context, 1);
            (functions.set_default_tp_value)(context, INITIAL_MAX_PATH_ID, setting.paths as u64);
            (functions.set_default_tp_value)(context, MAX_UDP_PAYLOAD_SIZE, setting.payload.into());
            (functions.set_default_tp_value)(context, INITIAL_MAX_STREAM_DATA_UNI, window);
            if setting.takes_datagrams {
                (functions.set_default_tp_value)(context, MAX_DATAGRAM_FRAME_SIZE, setting.payload.into());
            }
            (functions.set_max_data_control)(context, window);
            (functions.set_default_idle_timeout)(context, 0);
            (functions.set_mtu_max)(context, setting.payload.into());
            (functions.set_null_verifier)(context);
        }
        Ok(end)
    }

    fn told(&self) -> &Told {
        #[allow(unsafe_code)]
        // SAFETY: it lives as long as this value, and only its cells ever change.
        unsafe {
            &*self.told
        }
    }

    #[allow(unsafe_code)]
    fn set_time(&self, now: Instant) -> u64 {
        let now = micros(now);
        // SAFETY: it lives as long as this value; picoquic reads it only while one of its functions is called.
        unsafe { *self.time = now };
        now
    }

    /// Opens the client's connection, on path `first`.
    #[allow(unsafe_code)]
    pub fn connect(&mut self, now: Instant, first: PathId) -> Result<(), String> {
        let now = self.set_time(now);
        let to = address(Side::Server, first);
        // SAFETY: context and pointers are valid; addresses and names are copied.
        let connection = unsafe {
            (self.functions.create_client_cnx)(
                self.context,
                &raw const to,
                now,
                0,
                SERVER.as_ptr(),
                ALPN.as_ptr(),
                on_event,
                self.told.cast(),
            )
        };
        if connection.is_null() {
            return Err("it opens no connection".to_owned());
        }
        self.told().connection.set(connection);
        Ok(())
    }

    /// Takes in a datagram that came over a path.
    #[allow(unsafe_code)]
    pub fn receive(&mut self, now: Instant, path: PathId, bytes: &mut [u8]) {
        let now = self.set_time(now);
        let (from, to) = (address(self.side.other(), path), address(self.side, path));
        // SAFETY: the context is alive; picoquic decrypts the packet in its place, and keeps nothing of it. A packet that
        // it cannot use is dropped, whatever it returns.
        unsafe {
            (self.functions.incoming_packet)(
                self.context,
                bytes.as_mut_ptr(),
                bytes.len(),
                &raw const from,
                &raw const to,
                0,
                0,
                now,
            );
        }
    }

    /// The next datagram that is to leave now, if one is.
    #[allow(unsafe_code)]
    pub fn next_datagram<'a>(&mut self, now: Instant, buffer: &'a mut Vec<u8>) -> Option<Datagram<'a>> {
        let now = self.set_time(now);
        buffer.resize(MOST_BYTES, 0);
        let (mut length, mut to, mut from) = (0, [0; 16], [0; 16]);
        let (mut interface, mut id, mut connection): (c_int, ConnectionId, Pointer) = (0, [0; 21], null_mut());
        // SAFETY: the context is alive, and there is room for what is written.
        let status = unsafe {
            (self.functions.prepare_next_packet)(
                self.context,
                now,
                buffer.as_mut_ptr(),
                self.payload,
                &raw mut length,
                &raw mut to,
                &raw mut from,
                &raw mut interface,
                &raw mut id,
                &raw mut connection,
            )
        };
        (status == 0 && length > 0).then(|| Datagram { path: path_of(&to), bytes: &buffer[..length] })
    }

    /// Time at which it has something to do, if nothing arrives before. Never, without a connection.
    #[allow(unsafe_code)]
    pub fn next_event(&self, now: Instant) -> Instant {
        let at = self.set_time(now);
        // SAFETY: the context is alive.
        instant(unsafe { (self.functions.get_next_wake_time)(self.context, at) })
    }

    /// Returns true if it can use another path, as far as it knows.
    #[allow(unsafe_code)]
    pub fn allows_path(&self) -> bool {
        let connection = self.told().connection.get();
        // SAFETY: the connection is alive until the context is freed.
        self.told().ready.get() && unsafe { (self.functions.check_new_path_allowed)(connection, 0) } == 0
    }

    /// Returns true if the peer has given it a connection ID for a path. Paths have to be opened in their order.
    #[allow(unsafe_code)]
    pub fn has_connection_id(&self, path: PathId) -> bool {
        let connection = self.told().connection.get();
        // SAFETY: the connection is alive; what is found is not looked at.
        !connection.is_null()
            && !unsafe { (self.functions.obtain_stashed_cnxid)(connection, path.get().into()) }.is_null()
    }

    /// The client opens a path. Returns false if it cannot yet.
    #[allow(unsafe_code)]
    pub fn open_path(&mut self, now: Instant, path: PathId) -> bool {
        let now = self.set_time(now);
        let (to, from) = (address(Side::Server, path), address(Side::Client, path));
        // SAFETY: the connection is alive; the addresses are copied.
        unsafe {
            (self.functions.probe_new_path)(self.told().connection.get(), &raw const to, &raw const from, now) == 0
        }
    }

    /// Makes a path a backup. Returns false if it is not open yet.
    #[allow(unsafe_code)]
    pub fn make_backup(&mut self, path: PathId) -> bool {
        let connection = self.told().connection.get();
        // SAFETY: the connection is alive.
        self.path_id(path).is_some_and(|id| unsafe { (self.functions.set_path_status)(connection, id, BACKUP) } == 0)
    }

    /// picoquic's number of a path that is open.
    #[allow(unsafe_code)]
    fn path_id(&self, path: PathId) -> Option<u64> {
        let connection = self.told().connection.get();
        if connection.is_null() {
            return None;
        }
        (0..MOST_PATH_IDS).find(|&id| {
            let mut peer = [0; 16];
            // SAFETY: the connection is alive, and there is room for an address.
            let status = unsafe { (self.functions.get_path_addr)(connection, id, 2, &raw mut peer) };
            status == 0 && peer[0] != 0 && path_of(&peer) == path
        })
    }

    /// Figures of a path, by [`Quality`]; none if it is not open.
    #[allow(unsafe_code)]
    pub fn quality(&self, path: PathId) -> Option<impl Fn(Quality) -> u64 + use<>> {
        let id = self.path_id(path)?;
        let mut figures: Qualities = [0; 64];
        // SAFETY: the connection is alive, and there is room for more figures than there are.
        let status = unsafe { (self.functions.get_path_quality)(self.told().connection.get(), id, &raw mut figures) };
        (status == 0).then_some(move |which: Quality| figures[which as usize])
    }

    /// The application has written so much in all.
    #[allow(unsafe_code)]
    pub fn write(&mut self, now: Instant, written: u64) {
        let told = self.told();
        if written <= told.written.replace(written) {
            return;
        }
        self.set_time(now);
        // SAFETY: the connection is alive, and the stream has no context.
        unsafe { (self.functions.mark_active_stream)(told.connection.get(), told.stream, 1, null_mut()) };
    }

    /// Sends a DATAGRAM frame on a path as soon as it may, or on another one where the frame that it
    /// replaces still waits. Without the path it is lost.
    #[allow(unsafe_code)]
    pub fn send_record(&mut self, now: Instant, path: PathId, record: &[u8]) {
        let Some(id) = self.path_id(path) else { return };
        self.set_time(now);
        self.told().record.replace(record.to_vec());
        // SAFETY: the connection is alive, since it has the path.
        unsafe { (self.functions.mark_datagram_ready_path)(self.told().connection.get(), id, 1) };
    }

    /// Returns true if a DATAGRAM frame waits to be sent.
    pub fn has_record(&self) -> bool {
        !self.told().record.borrow().is_empty()
    }

    /// The next DATAGRAM frame that has arrived.
    pub fn next_record(&mut self) -> Option<Vec<u8>> {
        self.told().records.borrow_mut().pop_front()
    }

    /// Returns true if the application may send.
    pub fn is_established(&self) -> bool {
        let told = self.told();
        told.ready.get() || self.side == Side::Client && told.almost_ready.get()
    }

    /// Returns true if the handshake is confirmed.
    pub fn is_confirmed(&self) -> bool {
        self.told().ready.get()
    }

    /// Bytes of the peer's stream that have arrived in order.
    pub fn arrived(&self) -> u64 {
        self.told().arrived.get()
    }

    /// Place of the first byte that is not the one that was sent.
    pub fn wrong(&self) -> Option<u64> {
        self.told().wrong.get()
    }

    /// Why the connection has ended, if it has.
    pub fn ended(&self) -> Option<&'static str> {
        self.told().ended.get()
    }
}

impl Drop for End {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: both boxes are this value's, and picoquic uses them no more once the context is freed.
        unsafe {
            if !self.context.is_null() {
                (self.functions.free)(self.context);
            }
            drop(Box::from_raw(self.told));
            drop(Box::from_raw(self.time));
        }
    }
}

/// Notes what picoquic tells of a connection, and gives it data to send.
///
/// # Safety
///
/// `told` has to be that of an [`End`]; `bytes` and `length` have to be as picoquic gives them.
#[allow(unsafe_code)]
unsafe extern "C" fn on_event(
    connection: Pointer,
    _stream: u64,
    bytes: *mut u8,
    length: usize,
    event: c_int,
    told: Pointer,
    _stream_context: Pointer,
) -> c_int {
    // SAFETY: see above; only cells change, so that others may read while picoquic calls.
    let told = unsafe { &*told.cast::<Told>() };
    told.connection.set(connection);
    match event {
        event::STREAM_DATA | event::STREAM_FIN if length > 0 => {
            // SAFETY: picoquic has so many bytes there.
            told.take(unsafe { std::slice::from_raw_parts(bytes, length) });
        }
        event::PREPARE_TO_SEND => {
            let sent = told.sent.get();
            let left = told.written.get() - sent;
            let given = left.min(length as u64);
            // SAFETY: `bytes` is the context that this function asks for, and it gives room for so many bytes.
            unsafe {
                let room = (told.functions.provide_stream_data_buffer)(
                    bytes.cast(),
                    given as usize,
                    0,
                    c_int::from(left > given),
                );
                if given > 0 && !room.is_null() {
                    told.give(sent, std::slice::from_raw_parts_mut(room, given as usize));
                }
            }
        }
        event::DATAGRAM => {
            let record = if length == 0 {
                Vec::new()
            } else {
                // SAFETY: picoquic has so many bytes there.
                unsafe { std::slice::from_raw_parts(bytes, length) }.to_vec()
            };
            told.records.borrow_mut().push_back(record);
        }
        event::PREPARE_DATAGRAM => {
            let record = told.record.take();
            let fits = record.len() <= length;
            let given = if fits { record.len() } else { 0 };
            // SAFETY: `bytes` is the context that this function asks for, and it gives room for so many bytes.
            unsafe {
                let more = if fits { DATAGRAM_NOT_ACTIVE } else { DATAGRAM_ACTIVE_THIS_PATH_ONLY };
                let room = (told.functions.provide_datagram_buffer_ex)(bytes.cast(), given, more);
                if given > 0 && !room.is_null() {
                    std::slice::from_raw_parts_mut(room, given).copy_from_slice(&record);
                }
            }
            if !fits {
                told.record.replace(record);
            }
        }
        event::ALMOST_READY => told.almost_ready.set(true),
        event::READY => told.ready.set(true),
        event::STATELESS_RESET => told.ended.set(Some("a stateless reset")),
        event::CLOSE => told.ended.set(Some("picoquic closed it")),
        event::APPLICATION_CLOSE => told.ended.set(Some("an end closed it")),
        _ => {}
    }
    0
}

impl Told {
    /// Data of the peer's stream, in order.
    fn take(&self, bytes: &[u8]) {
        let mut at = self.arrived.get();
        self.arrived.set(at + bytes.len() as u64);
        let mut left = bytes;
        while !left.is_empty() {
            let from = (at % self.pattern.len() as u64) as usize;
            let part = left.len().min(self.pattern.len() - from);
            let (came, sent) = (&left[..part], &self.pattern[from..from + part]);
            if came != sent && self.wrong.get().is_none() {
                let equal = came.iter().zip(sent).take_while(|(one, other)| one == other).count();
                self.wrong.set(Some(at + equal as u64));
            }
            (at, left) = (at + part as u64, &left[part..]);
        }
    }

    /// Writes the data that begin at `at` into a packet.
    fn give(&self, at: u64, room: &mut [u8]) {
        self.sent.set(at + room.len() as u64);
        let pattern = self.pattern.iter().cycle().skip((at % self.pattern.len() as u64) as usize);
        room.iter_mut().zip(pattern).for_each(|(to, from)| *to = *from);
    }
}
