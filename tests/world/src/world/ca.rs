//! The authority of the test origins.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// An authority that no browser knows.
pub struct TestAuthority {
    pem: String,
    issuer: Arc<Issuer<'static, KeyPair>>,
}

impl TestAuthority {
    /// A new authority.
    ///
    /// # Panics
    ///
    /// When no key can be made.
    #[must_use]
    pub fn generate() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = name("e2e test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Arc::new(Issuer::new(params, key)) }
    }

    /// The authority's certificate.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    /// A server that shows a certificate for whatever name it is asked for, and speaks HTTP/2 and
    /// HTTP/1.1.
    ///
    /// # Panics
    ///
    /// When the provider lacks its own default versions.
    #[must_use]
    pub fn server_config(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("default versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AnyName {
                issuer: Arc::clone(&self.issuer),
                made: Mutex::default(),
            }));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }
}

impl fmt::Debug for TestAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestAuthority")
    }
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

/// Makes a certificate for each name once.
struct AnyName {
    issuer: Arc<Issuer<'static, KeyPair>>,
    /// Locked for one look-up or insertion.
    made: Mutex<std::collections::HashMap<String, Arc<CertifiedKey>>>,
}

impl AnyName {
    fn certify(&self, host: &str) -> Option<Arc<CertifiedKey>> {
        let key = KeyPair::generate().ok()?;
        let mut params = CertificateParams::new([host.to_owned()]).ok()?;
        params.distinguished_name = name("e2e origin");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate: CertificateDer<'static> = params.signed_by(&key, &self.issuer).ok()?.der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = rustls::crypto::ring::sign::any_supported_type(&key).ok()?;
        Some(Arc::new(CertifiedKey::new(vec![certificate], key)))
    }
}

impl ResolvesServerCert for AnyName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let host = hello.server_name()?;
        // A host whose certificate is for another name: what a client must refuse.
        let host = if host == "wrong-certificate.test" { "other.test" } else { host };
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(host) {
            return Some(Arc::clone(known));
        }
        let fresh = self.certify(host)?;
        made.insert(host.to_owned(), Arc::clone(&fresh));
        Some(fresh)
    }
}

impl fmt::Debug for AnyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyName")
    }
}
