//! Who is at the other end: a certificate of one's own, known by its fingerprint, and a token.
//!
//! The end that listens has an [`Identity`]: a self-signed certificate with its key, and a token. The end that connects
//! has the [`Pairing`] of it: the certificate's BLAKE3 hash and the token, in one line. TLS 1.3 proves that the peer has
//! the key of that certificate; no certificate authority is asked, and no name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::crypto::{CryptoError, HmacKey};
use noq_proto::{
    ClientConfig, EndpointConfig, HashedConnectionIdGenerator, IdleTimeout, ServerConfig, TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

use crate::driver::observer::{ObserverState, Observers};

/// The protocol's name in TLS (ALPN).
const ALPN: &[u8] = b"weftway/1";
const PREFIX: &str = "weft1-";
const HASH: usize = 32;
/// 128 bits cannot be guessed.
const TOKEN: usize = 16;

/// A token. It has no `Debug`: it must not come into a log.
#[derive(Clone)]
pub struct Token([u8; TOKEN]);

impl Token {
    /// Whether `text` is this token. The time that takes does not depend on where they differ: hashes of BLAKE3 are
    /// compared in constant time.
    pub fn is(&self, text: &str) -> bool {
        blake3::hash(self.text().as_bytes()) == blake3::hash(text.as_bytes())
    }

    /// As it travels.
    pub fn text(&self) -> String {
        BASE64URL_NOPAD.encode(&self.0)
    }
}

/// What the end that connects must know.
#[derive(Clone)]
pub struct Pairing {
    hash: blake3::Hash,
    /// What it shows to the end that listens.
    pub token: Token,
}

/// A text is no line of `weft pair`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no line of `weft pair`: it begins with {PREFIX} and has {} characters", PREFIX.len() + 64)]
pub struct NoPairing;

impl Pairing {
    /// Reads the line that [`Pairing::line`] wrote.
    pub fn parse(text: &str) -> Result<Self, NoPairing> {
        let coded = text.trim().strip_prefix(PREFIX).ok_or(NoPairing)?;
        let bytes = BASE64URL_NOPAD.decode(coded.as_bytes()).map_err(|_| NoPairing)?;
        let (hash, token) = bytes.split_first_chunk::<HASH>().ok_or(NoPairing)?;
        let token = token.try_into().map_err(|_| NoPairing)?;
        Ok(Self { hash: blake3::Hash::from_bytes(*hash), token: Token(token) })
    }

    /// One line.
    pub fn line(&self) -> String {
        let bytes = [self.hash.as_bytes().as_slice(), &self.token.0].concat();
        format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }
}

/// What the end that listens has.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    token: Token,
}

/// An identity cannot be made or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// No key, no randomness.
    #[error("an identity cannot be made: {0}")]
    Make(String),
    /// It is none of ours.
    #[error("this file holds no identity of `weft pair`: {0}")]
    Read(String),
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Stored {
    certificate: String,
    key: String,
    token: String,
}

impl Identity {
    /// A new one.
    pub fn generate() -> Result<Self, IdentityError> {
        let make = |error: &dyn std::fmt::Display| IdentityError::Make(error.to_string());
        let made = rcgen::generate_simple_self_signed(vec!["weftway".into()]).map_err(|error| make(&error))?;
        let mut token = [0; TOKEN];
        let random = ring::default_provider().secure_random;
        random.fill(&mut token).map_err(|_| make(&"the system gives no random numbers"))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { certificate: made.cert.der().clone(), key, token: Token(token) })
    }

    /// The text of a file with it. The file must be private.
    pub fn store(&self) -> String {
        let stored = Stored {
            certificate: BASE64URL_NOPAD.encode(&self.certificate),
            key: BASE64URL_NOPAD.encode(self.key.secret_pkcs8_der()),
            token: self.token.text(),
        };
        serde_json::json!(stored).to_string()
    }

    /// Reads what [`Identity::store`] wrote.
    pub fn load(text: &str) -> Result<Self, IdentityError> {
        let read = |error: &dyn std::fmt::Display| IdentityError::Read(error.to_string());
        let stored: Stored = serde_json::from_str(text).map_err(|error| read(&error))?;
        let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|error| read(&error));
        let token = decode(&stored.token)?.try_into().map_err(|_| read(&"its token has another length"))?;
        Ok(Self {
            certificate: decode(&stored.certificate)?.into(),
            key: decode(&stored.key)?.into(),
            token: Token(token),
        })
    }

    /// What the other end must know.
    pub fn pairing(&self) -> Pairing {
        Pairing { hash: blake3::hash(&self.certificate), token: self.token.clone() }
    }

    /// What an end that listens shows to those that connect. Certificate and key are parsed here, once.
    pub fn server(&self) -> Result<Server, IdentityError> {
        let read = |error: &dyn std::fmt::Display| IdentityError::Read(error.to_string());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| read(&error))?;
        let mut tls = builder
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key().into())
            .map_err(|error| read(&error))?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let tls = QuicServerConfig::try_from(tls).map_err(|error| read(&error))?;
        Ok(Server(ServerConfig::with_crypto(Arc::new(tls))))
    }

    /// The configuration of the endpoint that listens at `port`. A process that is started again there knows the connections
    /// of the process before it as lost, and says so at once (stateless reset, RFC 9000 §10.3). The key of another port is
    /// another one: nobody can use one process to end the connections of another (§21.11).
    pub fn endpoint(&self, port: u16) -> EndpointConfig {
        if port == 0 {
            return EndpointConfig::default();
        }
        let secret = [self.key.secret_pkcs8_der(), &port.to_be_bytes()].concat();
        let reset = blake3::derive_key("weftway 2026-11 stateless reset", &secret);
        let ids = blake3::derive_key("weftway 2026-11 connection IDs", &secret);
        let ids = ids.first_chunk().copied().map_or(0, u64::from_be_bytes);
        let mut config = EndpointConfig::new(Arc::new(ResetKey(reset)));
        config.cid_generator(Arc::new(move || Box::new(HashedConnectionIdGenerator::from_key(ids))));
        config
    }
}

/// The key of stateless resets.
struct ResetKey([u8; blake3::KEY_LEN]);

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        out.copy_from_slice(blake3::keyed_hash(&self.0, data).as_bytes());
    }

    fn signature_len(&self) -> usize {
        blake3::OUT_LEN
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let theirs = blake3::Hash::from_slice(signature).map_err(|_| CryptoError)?;
        // This comparison takes the same time wherever they differ.
        if blake3::keyed_hash(&self.0, data) == theirs { Ok(()) } else { Err(CryptoError) }
    }
}

/// The configuration of an end that listens.
#[derive(Clone)]
pub struct Server(ServerConfig);

impl Server {
    /// For one connection, or for all that come.
    pub fn config(&self, observers: Arc<ObserverState>) -> ServerConfig {
        let mut config = self.0.clone();
        config.transport_config(transport(observers));
        config
    }
}

/// The configuration of an end that connects, and a flag that says whether another certificate came.
pub fn client(
    pairing: &Pairing,
    observers: Arc<ObserverState>,
) -> Result<(ClientConfig, Arc<AtomicBool>), IdentityError> {
    let make = |error: &dyn std::fmt::Display| IdentityError::Make(error.to_string());
    let provider = Arc::new(ring::default_provider());
    let mismatch = Arc::new(AtomicBool::new(false));
    let pinned = Pinned { hash: pairing.hash, provider: provider.clone(), mismatch: mismatch.clone() };
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| make(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let tls = QuicClientConfig::try_from(tls).map_err(|error| make(&error))?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport(observers));
    Ok((config, mismatch))
}

/// The one certificate that is accepted.
#[derive(Debug)]
struct Pinned {
    hash: blake3::Hash,
    provider: Arc<CryptoProvider>,
    mismatch: Arc<AtomicBool>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if blake3::hash(certificate) == self.hash {
            return Ok(ServerCertVerified::assertion());
        }
        self.mismatch.store(true, Ordering::Relaxed);
        Err(rustls::CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Paths that may be open at a time.
pub const MAX_PATHS: usize = 8;
/// Some more, for paths that are closed and opened again.
const SPARE_PATHS: u32 = 8;
/// A connection without any sign of life for so long is over.
const IDLE: Duration = Duration::from_secs(30);
/// An idle path says that it is alive, which also keeps bindings of NATs: the shortest known are of some 20 s.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// What the control stream may have in flight: it has no congestion control of its own.
const CONTROL_WINDOW: u32 = 256 << 10;
/// Room for the records of what arrives in one call.
const RECORDS: usize = 4 << 20;

fn transport(observers: Arc<ObserverState>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    let idle = IdleTimeout::from(VarInt::from_u32(IDLE.as_millis() as u32));
    config
        .congestion_controller_factory(Arc::new(Observers(observers)))
        .max_concurrent_multipath_paths(MAX_PATHS as u32 + SPARE_PATHS)
        .max_concurrent_bidi_streams(1u32.into())
        .max_concurrent_uni_streams(0u32.into())
        .max_idle_timeout(Some(idle))
        .default_path_keep_alive_interval(Some(KEEP_ALIVE))
        .stream_receive_window(CONTROL_WINDOW.into())
        .datagram_receive_buffer_size(Some(RECORDS))
        .datagram_send_buffer_size(4096)
        .enable_segmentation_offload(false);
    Arc::new(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_and_its_pairing_survive_being_written() {
        let identity = Identity::generate().unwrap();
        let again = Identity::load(&identity.store()).unwrap();
        let line = identity.pairing().line();
        assert_eq!(again.pairing().line(), line);
        let pairing = Pairing::parse(&format!("  {line}\n")).unwrap();
        assert!(identity.token.is(&pairing.token.text()));
        assert!(!Identity::generate().unwrap().token.is(&pairing.token.text()));
    }

    #[test]
    fn what_is_no_pairing_is_refused() {
        let line = Identity::generate().unwrap().pairing().line();
        for text in ["", "weft1-", "weft1-!!", &line[1..], &line[..line.len() - 1], &format!("{line}AA")] {
            assert!(Pairing::parse(text).is_err(), "{text}");
        }
    }
}
