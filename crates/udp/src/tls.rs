//! Identities of both ends: a certificate of one's own, known by its fingerprint, and a token.
//!
//! The end that listens has an [`Identity`]: a self-signed certificate with its key, a token, and more tokens with the
//! names of clients. The end that connects has the [`Pairing`] of it: the certificate's BLAKE3 hash and one token, in
//! one line. TLS 1.3 proves that the peer has the key of that certificate; no certificate authority is asked, and no
//! name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::crypto::{CryptoError, HmacKey};
use noq_proto::{ClientConfig, EndpointConfig, HashedConnectionIdGenerator, ServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use weftway_path::Span;

use crate::settings::{IDLE, endpoint, transport};
use crate::token::{BadName, Token, Tokens, check_name};
use weftway_quic::driver::observer::ObserverState;

/// The protocol's name in TLS (ALPN).
const ALPN: &[u8] = b"weftway/1";
const PREFIX: &str = "weft1-";
const HASH: usize = 32;

/// Knowledge that the end that connects needs.
#[derive(Clone)]
pub struct Pairing {
    hash: blake3::Hash,
    /// Token that it shows to the end that listens.
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
        let token = token.try_into().map(Token).map_err(|_| NoPairing)?;
        Ok(Self { hash: blake3::Hash::from_bytes(*hash), token })
    }

    /// Text of one line.
    pub fn line(&self) -> String {
        let bytes = [self.hash.as_bytes().as_slice(), &self.token.0].concat();
        format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }
}

/// Certificate, key and tokens of the end that listens.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    token: Token,
    /// More tokens, each for the client of that name.
    named: BTreeMap<String, Token>,
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
    /// No client can have that name.
    #[error(transparent)]
    Name(#[from] BadName),
    /// No client has that name.
    #[error("no pairing line has the name {name}: {}", listed(names))]
    UnknownName {
        /// Which name.
        name: String,
        /// Names that there are.
        names: Vec<String>,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "there are no names".to_owned() } else { format!("the names are {}", names.join(", ")) }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Stored {
    certificate: String,
    key: String,
    token: String,
    /// The tokens of clients with names. Older files have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    named: BTreeMap<String, String>,
}

impl Identity {
    /// A new one.
    pub fn generate() -> Result<Self, IdentityError> {
        let make = |error: &dyn std::fmt::Display| IdentityError::Make(error.to_string());
        let made = rcgen::generate_simple_self_signed(vec!["weftway".into()]).map_err(|error| make(&error))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { certificate: made.cert.der().clone(), key, token: new_token()?, named: BTreeMap::new() })
    }

    /// The text of a file with it. The file must be private.
    pub fn store(&self) -> String {
        let stored = Stored {
            certificate: BASE64URL_NOPAD.encode(&self.certificate),
            key: BASE64URL_NOPAD.encode(self.key.secret_pkcs8_der()),
            token: self.token.text(),
            named: self.named.iter().map(|(name, token)| (name.clone(), token.text())).collect(),
        };
        serde_json::json!(stored).to_string()
    }

    /// Reads what [`Identity::store`] wrote.
    pub fn load(text: &str) -> Result<Self, IdentityError> {
        let read = |error: &dyn std::fmt::Display| IdentityError::Read(error.to_string());
        let stored: Stored = serde_json::from_str(text).map_err(|error| read(&error))?;
        let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|error| read(&error));
        let token = |text: &str| Token::parse(text).map_err(|error| read(&error));
        let named = stored.named.iter().map(|(name, text)| {
            check_name(name).map_err(|error| read(&error))?;
            Ok((name.clone(), token(text)?))
        });
        Ok(Self {
            certificate: decode(&stored.certificate)?.into(),
            key: decode(&stored.key)?.into(),
            token: token(&stored.token)?,
            named: named.collect::<Result<_, IdentityError>>()?,
        })
    }

    /// Pairing of the other end.
    pub fn pairing(&self) -> Pairing {
        self.pairing_with(&self.token)
    }

    /// Pairing of the client of this name.
    pub fn pairing_of(&self, name: &str) -> Result<Pairing, IdentityError> {
        let token = self.named.get(name).ok_or_else(|| self.unknown(name))?;
        Ok(self.pairing_with(token))
    }

    fn pairing_with(&self, token: &Token) -> Pairing {
        Pairing { hash: blake3::hash(&self.certificate), token: token.clone() }
    }

    /// Makes a token for a client. One that has this name already keeps its own.
    pub fn add(&mut self, name: &str) -> Result<(), IdentityError> {
        check_name(name)?;
        if !self.named.contains_key(name) {
            self.named.insert(name.to_owned(), new_token()?);
        }
        Ok(())
    }

    /// Takes a client's token away.
    pub fn revoke(&mut self, name: &str) -> Result<(), IdentityError> {
        self.named.remove(name).map(drop).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> IdentityError {
        let names = self.names().map(str::to_owned).collect();
        check_name(name)
            .map_or_else(IdentityError::from, |()| IdentityError::UnknownName { name: name.to_owned(), names })
    }

    /// The names of clients that have tokens of their own.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    /// The tokens that are valid.
    pub fn tokens(&self) -> Tokens {
        Tokens::new(&self.token, &self.named)
    }

    /// Credentials of an end that listens, for those that connect. Certificate and key are parsed here, once.
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

    /// The configuration of the endpoint that listens at `port`. A process that is started again there knows the
    /// connections of the process before it as lost, and says so at once (stateless reset, RFC 9000 §10.3). The key of
    /// another port is another one: nobody can use one process to end the connections of another (§21.11).
    pub fn endpoint(&self, port: u16) -> EndpointConfig {
        if port == 0 {
            return endpoint(EndpointConfig::default());
        }
        let reset = blake3::derive_key("weftway 2026-11 stateless reset", &self.secret(port));
        let ids = self.connection_id_key(port);
        let mut config = EndpointConfig::new(Arc::new(ResetKey(reset)));
        config.cid_generator(Arc::new(move || Box::new(HashedConnectionIdGenerator::from_key(ids))));
        // A client of noq knows the reset of its first path alone, and asks on all paths at a time whether this end is
        // there: each has its answer. Who guesses connection IDs gets none: 40 bits of each are a check.
        config.min_reset_interval(Duration::ZERO);
        endpoint(config)
    }

    /// By it the process that listens at `port` knows the connection IDs of the process before it.
    fn connection_id_key(&self, port: u16) -> u64 {
        let key = blake3::derive_key("weftway 2026-11 connection IDs", &self.secret(port));
        key.first_chunk().copied().map_or(0, u64::from_be_bytes)
    }

    fn secret(&self, port: u16) -> Vec<u8> {
        [self.key.secret_pkcs8_der(), &port.to_be_bytes()].concat()
    }
}

fn new_token() -> Result<Token, IdentityError> {
    Token::generate().ok_or_else(|| IdentityError::Make("the system gives no random numbers".to_owned()))
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
    /// For one connection whose packets may have `largest_payload` bytes, or for all that come.
    pub fn config(&self, observers: Arc<ObserverState>, largest_payload: u16) -> ServerConfig {
        let mut config = self.0.clone();
        config.transport_config(transport(observers, largest_payload, IDLE));
        config
    }
}

/// The configuration of an end that connects, whose packets may have `largest_payload` bytes, and whose connections are
/// over after the silence `idle`; and a flag that says whether another certificate came.
pub fn client(
    pairing: &Pairing,
    observers: Arc<ObserverState>,
    largest_payload: u16,
    idle: Span,
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
    config.transport_config(transport(observers, largest_payload, idle));
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::PeerIncompatible::Tls13RequiredForQuic.into())
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

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use noq_proto::{ConnectionIdGenerator, DatagramEvent, Endpoint, FourTuple};

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

    /// As many as a client has paths, which all ask at the same time.
    #[test]
    fn each_packet_for_a_connection_before_is_answered_by_a_reset() {
        let identity = Identity::generate().unwrap();
        let mut endpoint = Endpoint::new(Arc::new(identity.endpoint(4433)), None, true);
        let mut ids = HashedConnectionIdGenerator::from_key(identity.connection_id_key(4433));
        let (now, mut buffer) = (std::time::Instant::now(), Vec::new());
        for path in 1..=3 {
            let route = FourTuple::new(([192, 0, 2, path], 1234).into(), None);
            let packet = [&[0x40], &ids.generate_cid()[..], &[7; 30]].concat();
            let answer = endpoint.handle(now, route, None, BytesMut::from(&packet[..]), &mut buffer);
            let Some(DatagramEvent::Response(answer)) = answer else { panic!("path {path} has no answer") };
            assert_eq!(answer.destination, route.remote());
            assert!(answer.size < packet.len(), "it brings no more than it answers");
        }
    }

    #[test]
    fn what_is_no_pairing_is_refused() {
        let line = Identity::generate().unwrap().pairing().line();
        for text in ["", "weft1-", "weft1-!!", &line[1..], &line[..line.len() - 1], &format!("{line}AA")] {
            assert!(Pairing::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_client_with_a_name_has_a_token_of_its_own_until_it_is_revoked() {
        let mut identity = Identity::generate().unwrap();
        let plain = identity.pairing().line();
        identity.add("phone").unwrap();
        identity.add("laptop").unwrap();
        let line = identity.pairing_of("laptop").unwrap().line();
        identity.add("laptop").unwrap();
        let mut again = Identity::load(&identity.store()).unwrap();
        assert_eq!(again.pairing_of("laptop").unwrap().line(), line, "the second time it is the same");
        assert_eq!(again.pairing().line(), plain);
        assert_eq!(again.names().collect::<Vec<_>>(), ["laptop", "phone"]);
        let shown = Pairing::parse(&line).unwrap().token;
        assert_eq!(again.tokens().find(&shown.text()).unwrap().name.as_deref(), Some("laptop"));
        again.revoke("laptop").unwrap();
        assert!(!again.tokens().has(&shown) && again.tokens().has(&identity.pairing().token));
        again.add("laptop").unwrap();
        assert_ne!(again.pairing_of("laptop").unwrap().line(), line, "a revoked line never comes back");
    }

    #[test]
    fn a_name_that_is_unknown_or_none_is_told() {
        let mut identity = Identity::generate().unwrap();
        let told = |error: Result<(), IdentityError>| error.unwrap_err().to_string();
        assert_eq!(told(identity.revoke("laptop")), "no pairing line has the name laptop: there are no names");
        identity.add("tv").unwrap();
        identity.add("phone").unwrap();
        assert_eq!(told(identity.revoke("laptop")), "no pairing line has the name laptop: the names are phone, tv");
        assert!(matches!(identity.add("lap top"), Err(IdentityError::Name(_))));
        assert!(matches!(identity.revoke("lap top"), Err(IdentityError::Name(_))));
    }

    #[test]
    fn an_identity_without_names_is_stored_as_before() {
        let identity = Identity::generate().unwrap();
        let stored: serde_json::Value = serde_json::from_str(&identity.store()).unwrap();
        let keys: Vec<&String> = stored.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["certificate", "key", "token"]);
        let mut bad = stored.clone();
        bad["named"] = serde_json::json!({ "a b": identity.token.text() });
        assert!(matches!(Identity::load(&bad.to_string()), Err(IdentityError::Read(_))));
        bad["named"] = serde_json::json!({ "laptop": "AAAA" });
        assert!(matches!(Identity::load(&bad.to_string()), Err(IdentityError::Read(_))));
    }
}
