//! Functions of picoquic in a shared library.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::Library;

/// A context (`picoquic_quic_t`), a connection (`picoquic_cnx_t`), or the algorithm of a controller.
pub type Pointer = *mut c_void;

/// A callback for the events of a connection (`picoquic_stream_data_cb_fn`).
pub type OnEvent = unsafe extern "C" fn(Pointer, u64, *mut u8, usize, c_int, Pointer, Pointer) -> c_int;

/// A source of random bytes.
pub type RandomBytes = unsafe extern "C" fn(Pointer, usize);

/// Room for an address of any kind (`sockaddr_storage`).
pub type Address = [u64; 16];

/// Largest number of bytes of a connection ID, and its length.
pub type ConnectionId = [u8; 21];

/// Figures of a path (`picoquic_path_quality_t`): the first twelve are named by [`Quality`]. There is room for more.
pub type Qualities = [u64; 64];

/// Controllers by our names and picoquic's.
pub const CONTROLLERS: [(&str, &CStr); 4] =
    [("newreno", c"newreno"), ("cubic", c"cubic"), ("bbr1", c"bbr1"), ("bbr3", c"bbr")];

/// Index of a figure in [`Qualities`].
#[derive(Clone, Copy, Debug)]
pub enum Quality {
    /// Smoothed round-trip time, in microseconds.
    Rtt = 3,
    /// Smallest round-trip time, in microseconds.
    RttMin = 6,
    /// Packets declared lost.
    Lost = 9,
    /// Those declared lost by a timeout.
    TimerLosses = 10,
    /// Packets declared lost and acknowledged later.
    Spurious = 11,
}

/// picoquic's name of a controller.
pub fn controller(ours: &str) -> Option<&'static CStr> {
    CONTROLLERS.iter().find(|(name, _)| *name == ours).map(|&(_, theirs)| theirs)
}

/// Why picoquic cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("picoquic in {}: {why}", file.display())]
pub struct LoadError {
    file: PathBuf,
    why: String,
}

/// Declares a field for each function, named without the prefix `picoquic_`, and looks it up.
macro_rules! functions {
    ($($name:ident: ($($argument:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// Functions that are called here, as picoquic.h of version 1.1.53 declares them.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Source of the random bytes of every context that is created from now on.
            pub random_source: *mut RandomBytes,
        }

        impl Functions {
            #[allow(unsafe_code)]
            fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of picoquic.h, and the library is never closed.
                unsafe {
                    Ok(Self {
                        $($name: *library.get(concat!("picoquic_", stringify!($name)).as_bytes())?,)*
                        random_source: *library.get("picoquic_crypto_random_provider_fn".as_bytes())?,
                    })
                }
            }
        }
    };
}

functions! {
    tls_api_init: ();
    register_all_congestion_control_algorithms: ();
    public_random_seed_64: (u64, c_int);
    create: (
        u32, *const c_char, *const c_char, *const c_char, *const c_char, OnEvent, Pointer, Pointer, Pointer, Pointer,
        u64, *mut u64, *const c_char, *const u8, usize,
    ) -> Pointer;
    free: (Pointer);
    get_congestion_algorithm: (*const c_char) -> Pointer;
    set_default_congestion_algorithm: (Pointer, Pointer);
    set_default_multipath_option: (Pointer, c_int);
    set_default_tp_value: (Pointer, u64, u64) -> c_int;
    set_max_data_control: (Pointer, u64);
    set_default_idle_timeout: (Pointer, u64);
    set_mtu_max: (Pointer, u32);
    set_null_verifier: (Pointer);
    create_client_cnx: (
        Pointer, *const Address, u64, u32, *const c_char, *const c_char, OnEvent, Pointer,
    ) -> Pointer;
    incoming_packet: (Pointer, *mut u8, usize, *const Address, *const Address, c_int, c_uchar, u64) -> c_int;
    prepare_next_packet: (
        Pointer, u64, *mut u8, usize, *mut usize, *mut Address, *mut Address, *mut c_int, *mut ConnectionId,
        *mut Pointer,
    ) -> c_int;
    get_next_wake_time: (Pointer, u64) -> u64;
    probe_new_path: (Pointer, *const Address, *const Address, u64) -> c_int;
    check_new_path_allowed: (Pointer, c_int) -> c_int;
    obtain_stashed_cnxid: (Pointer, u64) -> Pointer;
    set_path_status: (Pointer, u64, c_int) -> c_int;
    mark_datagram_ready_path: (Pointer, u64, c_int) -> c_int;
    provide_datagram_buffer_ex: (Pointer, usize, c_int) -> *mut u8;
    get_path_addr: (Pointer, u64, c_int, *mut Address) -> c_int;
    get_path_quality: (Pointer, u64, *mut Qualities) -> c_int;
    mark_active_stream: (Pointer, u64, c_int, Pointer) -> c_int;
    provide_stream_data_buffer: (Pointer, usize, c_int, c_int) -> *mut u8;
}

#[allow(unsafe_code)]
// SAFETY: functions are read only; the place of the random source is written under `ALONE` alone.
unsafe impl Send for Functions {}
#[allow(unsafe_code)]
// SAFETY: as above.
unsafe impl Sync for Functions {}

static LOADED: OnceLock<Result<Functions, LoadError>> = OnceLock::new();

/// Held by the run that uses picoquic: of its state, some is the whole process's.
pub static ALONE: Mutex<()> = Mutex::new(());

/// Loads picoquic from a shared library. Only the first call loads anything; its result stays.
pub fn load(file: &Path) -> Result<(), LoadError> {
    let open = || {
        let refused = |why: String| LoadError { file: file.to_owned(), why };
        let library = open(file).map_err(|error| refused(error.to_string()))?;
        let functions = Functions::of(&library).map_err(|error| refused(error.to_string()))?;
        // It is used until the process ends.
        std::mem::forget(library);
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        #[allow(unsafe_code)]
        // SAFETY: both may be called at any time, by one thread at a time.
        unsafe {
            (functions.tls_api_init)();
            (functions.register_all_congestion_control_algorithms)();
        }
        Ok(functions)
    };
    LOADED.get_or_init(open).as_ref().map(|_| ()).map_err(Clone::clone)
}

/// Functions that [`load`] has found.
pub fn loaded() -> Option<&'static Functions> {
    LOADED.get()?.as_ref().ok()
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn open(file: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::unix;
    // The library is a module of one version of Python, and calls Python's functions. Nothing here makes it do so: as
    // long as these are looked up only when they are called, every Python can load it.
    // SAFETY: what runs when it is loaded registers nothing outside of it.
    unsafe { unix::Library::open(Some(file), unix::RTLD_LAZY | unix::RTLD_LOCAL).map(Library::from) }
}

#[cfg(not(unix))]
#[allow(unsafe_code)]
fn open(file: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: what runs when it is loaded registers nothing outside of it.
    unsafe { Library::new(file) }
}
