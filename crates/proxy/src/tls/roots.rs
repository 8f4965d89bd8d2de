//! The authorities that upstreams are verified against: the web's and the operator's.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::alert::provider;

/// Why extra authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The text is not PEM.
    #[error("failed to read the extra roots")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// A certificate is not an authority.
    #[error("failed to use certificate {0} of the extra roots as an authority")]
    Authority(usize, #[source] rustls::Error),
    /// The text contains no certificate.
    #[error("the extra roots hold no certificate")]
    Empty,
    /// The provider lacks the protocol versions.
    #[error("failed to set up TLS")]
    Versions(#[source] rustls::Error),
}

/// The TLS configuration for upstreams: verified against the web's roots and those of
/// `extra_roots_pem`, with HTTP/2 where it is offered.
///
/// # Errors
///
/// If a certificate of `extra_roots_pem` cannot be read or used: a root that is silently missing
/// would look like an attack later.
pub(crate) fn upstream_config(extra_roots_pem: &str) -> Result<Arc<ClientConfig>, RootsError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let web = roots.len();
    for (index, certificate) in CertificateDer::pem_slice_iter(extra_roots_pem.as_bytes()).enumerate() {
        let certificate = certificate.map_err(RootsError::Pem)?;
        roots.add(certificate).map_err(|source| RootsError::Authority(index, source))?;
    }
    if roots.len() == web && !extra_roots_pem.trim().is_empty() {
        return Err(RootsError::Empty);
    }
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(RootsError::Versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_roots_are_all_or_nothing() {
        assert!(upstream_config("").is_ok());
        assert!(matches!(upstream_config("not a certificate"), Err(RootsError::Empty)));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(upstream_config(broken), Err(RootsError::Authority(0, _))));
    }
}
