//! TLS of noq's end, since picoquic has no connection without.
//!
//! Keys are drawn by the cryptographic library and are others each time. Sizes are always the same: one cipher, a
//! certificate of RSA, and no tickets.

use std::sync::{Arc, OnceLock};

use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CipherSuite, DigitallySignedStruct, SignatureScheme};
use weftway_quic::virtual_time::Crypto;

use crate::end::{ALPN, CERTIFICATE, KEY};

/// Cryptography for whichever end is noq's: made once.
pub fn crypto() -> Result<Crypto, String> {
    static MADE: OnceLock<Result<Crypto, String>> = OnceLock::new();
    MADE.get_or_init(|| make().map_err(|error| error.to_string())).clone()
}

fn make() -> Result<Crypto, Box<dyn std::error::Error>> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    let provider = Arc::new(provider);
    let versions = &[&rustls::version::TLS13];

    let mut client = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Any { provider: provider.clone() }))
        .with_no_client_auth();
    client.alpn_protocols = vec![ALPN.to_bytes().to_vec()];
    client.resumption = rustls::client::Resumption::disabled();

    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes())?];
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes())?;
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    server.alpn_protocols = vec![ALPN.to_bytes().to_vec()];
    server.send_tls13_tickets = 0;

    Ok(Crypto {
        client: Arc::new(QuicClientConfig::try_from(client)?),
        server: Arc::new(QuicServerConfig::try_from(server)?),
    })
}

/// Accepts any certificate: both ends are in one process.
#[derive(Debug)]
struct Any {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
