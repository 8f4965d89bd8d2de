//! Certificate authorities: of the task, and of the upstreams.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sandbox_proxy_protocol::{PrivateKeyPem, ProxyAuthority};
use time::{Duration, OffsetDateTime};

/// All the keys of a test. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pki(Arc<Inner>);

struct Inner {
    root: CertificateDer<'static>,
    intermediate_pem: String,
    intermediate_key: String,
    upstream: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let root = authority("Sandbox Root CA", None);
        let intermediate = authority("Sandbox Task CA", Some(&root));
        Self(Arc::new(Inner {
            root: root.der().clone(),
            intermediate_pem: intermediate.pem(),
            intermediate_key: intermediate.key().serialize_pem(),
            upstream: authority("Upstream CA", None),
        }))
    }

    /// The task's intermediate, in the form of a start document.
    pub(crate) fn authority(&self) -> ProxyAuthority {
        ProxyAuthority {
            certificate_pem: self.0.intermediate_pem.clone(),
            private_key_pem: PrivateKeyPem::new(self.0.intermediate_key.clone()),
        }
    }

    /// The root of upstream certificates, as PEM.
    pub(crate) fn upstream_root(&self) -> String {
        self.0.upstream.pem()
    }

    /// The configuration of a client that trusts the task's root.
    pub(crate) fn client(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.root.clone()).unwrap();
        client_config(roots, alpn)
    }

    /// The configuration of an upstream with a certificate for `names`.
    pub(crate) fn server(&self, names: &[&str], alpn: &[&str]) -> Arc<ServerConfig> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0.upstream).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], key)
                .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

/// The configuration of a client that trusts `roots`.
pub(crate) fn client_config(roots: RootCertStore, alpn: &[&str]) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

fn authority(
    name: &str,
    issuer: Option<&CertifiedIssuer<'static, KeyPair>>,
) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, DnValue::Utf8String(name.to_owned()));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(u8::from(issuer.is_none())));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = issuer.is_some();
    params.not_before = OffsetDateTime::now_utc() - Duration::minutes(5);
    params.not_after = OffsetDateTime::now_utc() + Duration::days(1);
    let key = KeyPair::generate().unwrap();
    match issuer {
        Some(issuer) => CertifiedIssuer::signed_by(params, key, issuer).unwrap(),
        None => CertifiedIssuer::self_signed(params, key).unwrap(),
    }
}
