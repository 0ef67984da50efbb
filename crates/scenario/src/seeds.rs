//! Seeds: each component draws from a stream of its own, so that one more moves nobody else's draws.

use weftway_link::Seeds;

/// A stream of its own for every component: SplitMix64 over the seed and the component's number.
pub fn mix(seed: u64, component: u64) -> u64 {
    let mut z = seed.wrapping_add(component.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The seeds of the links that carry data and acknowledgements of the path `name` of connection `conn`. They follow
/// from the name, so that a path alone draws what it draws beside others.
pub fn path_seeds(seed: u64, conn: u8, name: &str) -> (Seeds, Seeds) {
    let data = mix(seed ^ hash(name), 0x1000 * (u64::from(conn) + 1));
    let of_link = |own| Seeds { own, run: seed };
    (of_link(data), of_link(mix(data, 1)))
}

/// The seeds of the shared link with this number.
pub fn shared_seeds(seed: u64, number: usize) -> Seeds {
    Seeds { own: mix(seed, 0x5000 + number as u64), run: seed }
}

/// The number of a group of links with something in common, which is drawn once for all of them.
pub fn group(kind: &str, name: &str) -> u64 {
    mix(hash(name), hash(kind))
}
