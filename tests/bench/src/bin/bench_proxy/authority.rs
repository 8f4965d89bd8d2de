//! The authorities of the measured proxy: a root that the client trusts, and an intermediate for
//! the proxy.

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use sandbox_proxy_protocol::{PrivateKeyPem, ProxyAuthority};

/// A root and its intermediate.
pub(crate) struct Authorities {
    /// The root's certificate.
    pub(crate) root_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authorities {
    /// Generates both.
    pub(crate) fn generate() -> Result<Self> {
        let key = KeyPair::generate().context("failed to generate the key of the root")?;
        let params = authority("benchmark root", BasicConstraints::Constrained(1));
        let root_pem = params.self_signed(&key).context("failed to sign the root")?.pem();
        Ok(Self { root_pem, issuer: Issuer::new(params, key) })
    }

    /// An intermediate for one proxy.
    pub(crate) fn intermediate(&self) -> Result<ProxyAuthority> {
        let key = KeyPair::generate().context("failed to generate the key of the intermediate")?;
        let params = authority("benchmark intermediate", BasicConstraints::Constrained(0));
        let certificate = params.signed_by(&key, &self.issuer).context("failed to sign the intermediate")?;
        Ok(ProxyAuthority {
            certificate_pem: certificate.pem(),
            private_key_pem: PrivateKeyPem::new(key.serialize_pem()),
        })
    }
}

fn authority(name: &str, constraints: BasicConstraints) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}
