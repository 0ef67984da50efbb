//! A cryptographic session without cryptography, for runs in virtual time.
//!
//! Packets have the size that AES-128-GCM gives them: a tag of 16 bytes, which holds the number of the packet. A packet that
//! comes so late that its shortened number is read as another one (RFC 9000 §17.1) is refused. All keys are the same, and
//! a packet bears the key phase of the end that reads it, so that nothing comes of noq's key updates: it compares the packet
//! numbers of different paths then, and drops what is under way. Nothing is encrypted and nobody is authenticated, so
//! it must never meet a network. The handshake has the round trips of TLS 1.3 without resumption, with messages of
//! fixed size:
//!
//! ```text
//! client                                server
//! hello, transport parameters  →
//!                              ←  hello (Initial); transport parameters, finished (Handshake)
//! finished (Handshake)         →
//! ```
//!
//! What it saves is time: a run with it says what the transport costs, not what a cipher costs.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair, Keys,
    PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError};
use portable_atomic::AtomicU64;
use weftway_scenario::mix;

/// The tag of AES-128-GCM and the sample of its header protection (RFC 9001 §5).
const TAG: usize = 16;
/// Bits of a packet's first byte (RFC 9000 §17).
const LONG_HEADER: u8 = 0x80;
const KEY_PHASE: u8 = 0x04;
/// A hello with transport parameters is padded to this.
const HELLO: usize = 512;
/// A message without them.
const SHORT: usize = 32;

/// Identity of a session without cryptography: its key updates harm nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoKeys;

/// Both sides' configuration, and the keys that need no session.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullCrypto;

impl NullCrypto {
    /// For a client.
    pub fn client() -> Arc<dyn ClientConfig> {
        Arc::new(Self)
    }

    /// For a server.
    pub fn server() -> Arc<dyn ServerConfig> {
        Arc::new(Self)
    }
}

impl ClientConfig for NullCrypto {
    fn start_session(
        &self,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(NullSession::new(Side::Client, params)))
    }
}

impl ServerConfig for NullCrypto {
    fn initial_keys(&self, _version: u32, _dst_cid: ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys(&Arc::default()))
    }

    fn retry_tag(&self, _version: u32, _orig_dst_cid: ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(&self, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(NullSession::new(Side::Server, params))
    }
}

/// A handshake under way, or done.
struct NullSession {
    side: Side,
    /// This side's parameters, as they are sent.
    own: Vec<u8>,
    peer: Option<TransportParameters>,
    /// Bytes that arrived of a message that is not whole.
    partial: Vec<u8>,
    /// Messages taken.
    taken: u32,
    /// Steps of [`Session::write_handshake`] done.
    written: u32,
    /// Keys made after the first ones: one in advance, and one more with each update.
    made: Arc<AtomicU64>,
}

impl NullSession {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut own = vec![0, 0];
        params.write(&mut own);
        let length = own.len() - 2;
        debug_assert!(own.len() <= HELLO, "transport parameters fit into a hello");
        own[..2].copy_from_slice(&(length as u16).to_be_bytes());
        own.resize(HELLO, 0);
        Self { side, own, peer: None, partial: Vec::new(), taken: 0, written: 0, made: Arc::default() }
    }

    /// Length of the next message.
    fn expects(&self) -> usize {
        match (self.side, self.taken) {
            (Side::Client, 0) => SHORT,
            (Side::Client, _) | (Side::Server, 0) => HELLO,
            (Side::Server, _) => SHORT,
        }
    }

    /// Takes a whole message; whether it brought the peer's parameters.
    fn take(&mut self, message: &[u8]) -> Result<bool, TransportError> {
        self.taken += 1;
        if message.len() < HELLO {
            return Ok(false);
        }
        let length = usize::from(u16::from_be_bytes([message[0], message[1]]));
        // One whose length is wrong reads as one without parameters, which noq refuses.
        let mut params = message.get(2..2 + length).unwrap_or_default();
        self.peer = Some(TransportParameters::read(self.side, &mut params)?);
        Ok(true)
    }

    /// Messages that must have been taken before this step.
    fn is_due(&self) -> bool {
        match (self.side, self.written) {
            (Side::Client, 0) => true,
            (Side::Client, step) => step < 3 && self.taken >= step,
            (Side::Server, step) => step < 2 && self.taken >= 1,
        }
    }
}

impl Session for NullSession {
    fn initial_keys(&self, _dst_cid: ConnectionId, _side: Side) -> Keys {
        keys(&self.made)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(NoKeys))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(false)
    }

    fn is_handshaking(&self) -> bool {
        self.taken < 2
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.partial.extend_from_slice(buf);
        let mut any = false;
        while self.is_handshaking() && self.partial.len() >= self.expects() {
            let rest = self.partial.split_off(self.expects());
            let message = std::mem::replace(&mut self.partial, rest);
            any |= self.take(&message)?;
        }
        Ok(any)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        if !self.is_due() {
            return None;
        }
        self.written += 1;
        match (self.side, self.written) {
            (Side::Client, 1) => buf.extend_from_slice(&self.own),
            (Side::Client, 2) => return Some(keys(&self.made)),
            (Side::Client, _) => {
                buf.resize(buf.len() + SHORT, 0);
                return Some(keys(&self.made));
            }
            (Side::Server, 1) => {
                buf.resize(buf.len() + SHORT, 0);
                return Some(keys(&self.made));
            }
            (Side::Server, _) => {
                buf.extend_from_slice(&self.own);
                return Some(keys(&self.made));
            }
        }
        None
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(KeyPair { local: Box::new(NullKey), remote: Box::new(NullKey) })
    }

    fn is_valid_retry(&self, _orig_dst_cid: ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        output.fill(0);
        Ok(())
    }
}

fn keys(made: &Arc<AtomicU64>) -> Keys {
    let header = || Box::new(NullHeader { made: Arc::clone(made) });
    Keys {
        header: KeyPair { local: header(), remote: header() },
        packet: KeyPair { local: Box::new(NullKey), remote: Box::new(NullKey) },
    }
}

/// A key that protects nothing.
struct NullKey;

impl NullKey {
    fn tag(packet: u64) -> [u8; TAG] {
        u128::from(packet).to_be_bytes()
    }
}

impl PacketKey for NullKey {
    fn encrypt(&self, _path_id: PathId, packet: u64, buf: &mut [u8], _header_len: usize) {
        if let Some(tag) = buf.last_chunk_mut() {
            *tag = Self::tag(packet);
        }
    }

    fn decrypt(
        &self,
        _path_id: PathId,
        packet: u64,
        _header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let length = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        if payload.last_chunk() != Some(&Self::tag(packet)) {
            return Err(CryptoError);
        }
        payload.truncate(length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

/// Protects no header; a short one that comes in gets this end's own key phase (RFC 9001 §6).
struct NullHeader {
    made: Arc<AtomicU64>,
}

impl HeaderKey for NullHeader {
    fn decrypt(&self, _pn_offset: usize, packet: &mut [u8]) {
        let Some(first) = packet.first_mut().filter(|first| **first & LONG_HEADER == 0) else { return };
        let updates = self.made.load(Ordering::Relaxed).saturating_sub(1);
        *first = *first & !KEY_PHASE | if updates % 2 == 1 { KEY_PHASE } else { 0 };
    }

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG
    }
}

/// Signs with a hash that anybody can compute: reset tokens must differ, and nobody attacks a run in virtual time.
impl HmacKey for NullCrypto {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        let hash = data.iter().fold(0, |hash, &byte| mix(hash, u64::from(byte)));
        for (at, part) in signature_out.chunks_mut(8).enumerate() {
            part.copy_from_slice(&mix(hash, at as u64).to_be_bytes()[..part.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut own = vec![0; signature.len()];
        self.sign(data, &mut own);
        if own == signature { Ok(()) } else { Err(CryptoError) }
    }
}

impl HandshakeTokenKey for NullCrypto {
    fn seal(&self, _token_nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        data.extend_from_slice(&[0; TAG]);
        Ok(())
    }

    fn open<'a>(&self, _token_nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let length = data.len().checked_sub(TAG).ok_or(CryptoError)?;
        Ok(&data[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_refused_under_another_number() {
        let mut packet = [7; 40];
        PacketKey::encrypt(&NullKey, PathId::ZERO, 3, &mut packet, 0);
        let open = |number| {
            let mut payload = BytesMut::from(&packet[..]);
            PacketKey::decrypt(&NullKey, PathId::ZERO, number, &[], &mut payload).map(|()| payload.len()).ok()
        };
        assert_eq!(open(3), Some(24));
        // One byte of the number travels: it was read as the next one that ends so.
        assert_eq!(open(259), None);
    }

    #[test]
    fn a_short_header_gets_the_key_phase_of_its_reader() {
        let made = Arc::new(AtomicU64::new(0));
        let header = NullHeader { made: Arc::clone(&made) };
        let read = |keys: u64, first: u8| {
            made.store(keys, Ordering::Relaxed);
            let mut packet = [first, 0];
            header.decrypt(1, &mut packet);
            packet[0]
        };
        // The first keys, and those after one update and two.
        assert_eq!([1, 2, 3].map(|keys| read(keys, 0x40)), [0x40, 0x44, 0x40]);
        assert_eq!([1, 2, 3].map(|keys| read(keys, 0x44)), [0x40, 0x44, 0x40]);
        assert_eq!(read(2, 0xc0), 0xc0, "a long one has none");
    }
}
