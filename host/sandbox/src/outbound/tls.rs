//! Whom an encrypted connection trusts.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Makes TLS connections; the certificates of the authorities are read when the first one is made.
pub(super) struct Tls {
    more_roots: Vec<Vec<u8>>,
    connector: OnceLock<TlsConnector>,
}

impl Tls {
    /// Trusts the system's authorities, and those of `more_roots` (DER) besides.
    pub(super) fn new(more_roots: Vec<Vec<u8>>) -> Tls {
        Tls { more_roots, connector: OnceLock::new() }
    }

    /// # Errors
    ///
    /// There is no cryptography for any version of TLS.
    pub(super) fn connector(&self) -> io::Result<TlsConnector> {
        if let Some(connector) = self.connector.get() {
            return Ok(connector.clone());
        }
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(self.roots())
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(self.connector.get_or_init(|| TlsConnector::from(Arc::new(config))).clone())
    }

    /// The system's, which an operator can add to; where it has none, as in bare containers, Mozilla's.
    fn roots(&self) -> RootCertStore {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "some of the system's certificate authorities cannot be read");
        }
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(found.certs);
        if taken == 0 {
            tracing::info!("the system has no certificate authorities: trusting those that Mozilla trusts");
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        roots.add_parsable_certificates(self.more_roots.iter().map(|der| CertificateDer::from(der.clone())));
        roots
    }
}
