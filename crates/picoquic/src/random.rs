//! Random bytes that follow from a seed, in place of those of the cryptographic library.

use std::cell::Cell;
use std::ffi::c_void;

use weftway_scenario::mix;

thread_local! {
    /// Seed, and number of draws so far. A run stays on one thread.
    static DRAWS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Begins again, with this seed.
pub fn seed(seed: u64) {
    DRAWS.set((seed, 0));
}

/// Fills `bytes` bytes from `to`.
///
/// # Safety
///
/// There has to be room for so many.
#[allow(unsafe_code)]
pub unsafe extern "C" fn bytes(to: *mut c_void, bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: the caller has so much room.
    let room = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
    for part in room.chunks_mut(8) {
        let (seed, count) = DRAWS.get();
        DRAWS.set((seed, count + 1));
        part.copy_from_slice(&mix(seed, count).to_le_bytes()[..part.len()]);
    }
}
