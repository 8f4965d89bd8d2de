//! The intermediate authority of one task, as received in the start document.
//!
//! A leaf must name its issuer byte for byte and carry the issuer's key identifier, so both are
//! read from the certificate.

use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, Issuer, KeyIdMethod, KeyPair, PublicKeyData,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sandbox_proxy_protocol::ProxyAuthority;
use time::OffsetDateTime;

use super::der::{self, Elements};

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x0e];
/// The tag of `extensions` in a certificate.
const EXTENSIONS: u8 = 0xa3;
/// The tag of `version` in a certificate.
const VERSION: u8 = 0xa0;

/// Why an authority cannot be used. No message reveals any of the key.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate is not PEM.
    #[error("failed to read the authority's certificate")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// The certificate does not have the form that the sandbox creates.
    #[error("the authority's certificate has no {0} that a leaf could refer to")]
    Form(&'static str),
    /// The key is not PKCS#8 PEM of a kind we sign with.
    #[error("failed to read the authority's private key")]
    Key(#[source] rcgen::Error),
    /// The key belongs to another certificate.
    #[error("the authority's private key does not belong to its certificate")]
    Mismatch,
    /// The key that all leaves share could not be generated.
    #[error("failed to generate the key of the leaf certificates")]
    LeafKey(#[source] rcgen::Error),
    /// That key cannot sign.
    #[error("failed to load the key of the leaf certificates")]
    LeafSigner(#[source] rustls::Error),
}

/// An authority that can sign.
pub(super) struct Authority {
    pub(super) issuer: Issuer<'static, KeyPair>,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) not_before: OffsetDateTime,
    pub(super) not_after: OffsetDateTime,
}

impl Authority {
    /// Reads the authority of a start document.
    pub(super) fn read(authority: &ProxyAuthority) -> Result<Self, AuthorityError> {
        let certificate = CertificateDer::from_pem_slice(authority.certificate_pem.as_bytes())
            .map_err(AuthorityError::Certificate)?;
        let key = KeyPair::from_pem(authority.private_key_pem.expose()).map_err(AuthorityError::Key)?;
        let facts = Facts::read(&certificate)?;
        if facts.public_key != key.subject_public_key_info() {
            return Err(AuthorityError::Mismatch);
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = facts.name;
        params.key_identifier_method = KeyIdMethod::PreSpecified(facts.key_identifier);
        Ok(Self {
            issuer: Issuer::new(params, key),
            not_before: facts.not_before,
            not_after: facts.not_after,
            certificate: certificate.into_owned(),
        })
    }
}

/// The facts about its issuer that a leaf needs.
struct Facts {
    name: DistinguishedName,
    key_identifier: Vec<u8>,
    public_key: Vec<u8>,
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
}

impl Facts {
    fn read(certificate: &[u8]) -> Result<Self, AuthorityError> {
        let (not_before, not_after, mut parts) = validity(certificate)?;
        let name = parts
            .expect(der::SEQUENCE)
            .and_then(common_name)
            .ok_or(AuthorityError::Form("single common name"))?;
        let before_key = parts.0;
        parts.expect(der::SEQUENCE).ok_or(AuthorityError::Form("public key"))?;
        let key_length = before_key.len() - parts.0.len();
        let public_key = before_key.get(..key_length).unwrap_or_default().to_vec();
        let key_identifier = parts
            .find(|(tag, _)| *tag == EXTENSIONS)
            .and_then(|(_, content)| key_identifier(content))
            .ok_or(AuthorityError::Form("subject key identifier"))?;
        Ok(Self { name, key_identifier, public_key, not_before, not_after })
    }
}

/// The start and end of the validity of a certificate, and the elements after them.
pub(super) fn validity(
    certificate: &[u8],
) -> Result<(OffsetDateTime, OffsetDateTime, Elements<'_>), AuthorityError> {
    let mut parts = Elements(certificate)
        .expect(der::SEQUENCE)
        .and_then(|outer| Elements(outer).expect(der::SEQUENCE))
        .map(Elements)
        .ok_or(AuthorityError::Form("body"))?;
    parts.expect(VERSION).ok_or(AuthorityError::Form("version"))?;
    // Serial number, signature algorithm, issuer.
    let dates = parts.nth(3).map(|(_, content)| Elements(content));
    let mut dates = dates.ok_or(AuthorityError::Form("validity"))?;
    let mut time = || dates.next().and_then(der::time).ok_or(AuthorityError::Form("validity"));
    Ok((time()?, time()?, parts))
}

/// The name, if its only attribute is a common name.
fn common_name(name: &[u8]) -> Option<DistinguishedName> {
    let mut sets = Elements(name);
    let mut attributes = Elements(sets.expect(der::SET)?);
    let mut attribute = Elements(attributes.expect(der::SEQUENCE)?);
    if sets.next().is_some() || attributes.next().is_some() || attribute.expect(der::OID)? != COMMON_NAME {
        return None;
    }
    let (tag, value) = attribute.next()?;
    let text = std::str::from_utf8(value).ok()?;
    let value = match tag {
        der::UTF8_STRING => DnValue::Utf8String(text.to_owned()),
        der::PRINTABLE_STRING => DnValue::PrintableString(text.try_into().ok()?),
        _ => return None,
    };
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, value);
    Some(name)
}

fn key_identifier(extensions: &[u8]) -> Option<Vec<u8>> {
    Elements(Elements(extensions).expect(der::SEQUENCE)?).find_map(|(_, extension)| {
        let mut parts = Elements(extension);
        if parts.expect(der::OID)? != SUBJECT_KEY_IDENTIFIER {
            return None;
        }
        let (_, value) = parts.find(|(tag, _)| *tag == der::OCTET_STRING)?;
        Some(Elements(value).expect(der::OCTET_STRING)?.to_vec())
    })
}
