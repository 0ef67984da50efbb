//! Cookies: they show that a peer receives what is sent to its address, without keeping anything of those who ask.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::wire::{Cookie, Ns, SECOND_NS, Session};

/// Makes cookies, and knows them again.
pub struct Cookies {
    secret: Vec<u8>,
}

impl Cookies {
    /// A cookie is valid in the ten seconds in which it was made, and in the ten after.
    pub const SLOT_NS: Ns = 10 * SECOND_NS;

    /// Cookies that nobody else can make.
    pub fn new(secret: &[u8]) -> Self {
        Self { secret: secret.to_vec() }
    }

    /// The cookie of an address, for a path of a session.
    pub fn bake(&self, now_ns: Ns, address: &str, session: Session, path: u8) -> Cookie {
        let whole = self.of(now_ns / Self::SLOT_NS, address, session, path).finalize().into_bytes();
        whole.first_chunk().copied().unwrap_or_default()
    }

    /// Returns true if the peer at this address was given it of late.
    pub fn is_valid(&self, cookie: &Cookie, now_ns: Ns, address: &str, session: Session, path: u8) -> bool {
        let slot = now_ns / Self::SLOT_NS;
        let is_of = |slot| self.of(slot, address, session, path).verify_truncated_left(cookie).is_ok();
        is_of(slot) || is_of(slot - 1)
    }

    fn of(&self, slot: Ns, address: &str, session: Session, path: u8) -> Hmac<Sha256> {
        // A key of any length is one.
        let mut made = <Hmac<Sha256> as Mac>::new_from_slice(&self.secret)
            .unwrap_or_else(|_| <Hmac<Sha256> as Mac>::new(&Default::default()));
        made.update(format!("{slot} {address} {path} ").as_bytes());
        made.update(&session);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: Session = *b"session!";

    #[test]
    fn a_cookie_is_of_one_address_one_path_and_one_time() {
        let cookies = Cookies::new(b"secret");
        let baked = cookies.bake(0, "here 1", SESSION, 0);
        let slot = Cookies::SLOT_NS;
        assert!(cookies.is_valid(&baked, 2 * slot - 1, "here 1", SESSION, 0));
        assert!(!cookies.is_valid(&baked, 2 * slot, "here 1", SESSION, 0));
        assert!(!cookies.is_valid(&baked, 0, "here 2", SESSION, 0));
        assert!(!cookies.is_valid(&baked, 0, "here 1", SESSION, 1));
        assert!(!Cookies::new(b"another").is_valid(&baked, 0, "here 1", SESSION, 0));
    }
}
