//! `weft tunnel`: IP packets of local programs over several links, to an end that relays what is in them.

use std::hash::{BuildHasher, RandomState};

use weftway_relay::{Classes, ProxyLimits};
use weftway_tunnel::{Names, TunDevice, Tunnel};

use crate::failure::Failure;
use crate::options::ProxyOptions;
use crate::programs::proxying::carry;
use crate::progress::Watch;
use crate::setting::RECORD;

/// Takes the packets that come on a device, which may have `mtu` bytes, and has what they carry relayed, until the user
/// stops it. `names` says who answers questions to servers of names that no relay asks, `classes` how urgent each
/// connection is.
pub fn tunnel(
    device: TunDevice,
    mtu: usize,
    names: Names,
    classes: Classes,
    options: ProxyOptions,
    watch: Watch<'_>,
) -> Result<(), Failure> {
    let limits = ProxyLimits { record: RECORD as usize, ..ProxyLimits::default() };
    // The only random number of the standard library: nobody else knows it.
    let seed = RandomState::new().hash_one(0);
    carry(|| Ok(Tunnel::new(device, mtu, names, limits, classes, seed)), options, watch)
}
