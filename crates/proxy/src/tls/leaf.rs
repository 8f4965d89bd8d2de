//! Leaf certificates: one for each exact host, minted on first use, cached while there is room.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use allowlist::HostName;
use lru::LruCache;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use sandbox_proxy_protocol::ProxyAuthority;
use time::OffsetDateTime;

use super::alert::provider;
use super::authority::{Authority, AuthorityError};

/// How far a leaf is backdated, for clients whose clock is behind.
const BACKDATED: Duration = Duration::from_mins(5);
/// How long a leaf is valid, unless its issuer expires earlier.
const VALID: Duration = Duration::from_hours(24);
/// After this a cached leaf is minted again.
const FRESH: Duration = Duration::from_hours(12);
/// The longest common name that X.520 allows, in characters.
const COMMON_NAME: usize = 64;

/// Mints the certificates that clients see. Cloning is cheap: clones share the cache.
#[derive(Clone)]
pub(crate) struct LeafIssuer {
    inner: Arc<Inner>,
}

struct Inner {
    authority: Authority,
    /// One key for all leaves: generating keys is the slow part, and separate keys would protect
    /// nothing, since all of them would be held here.
    key: KeyPair,
    signer: Arc<dyn SigningKey>,
    /// Held only to look up or to insert, never while minting.
    cache: Mutex<LruCache<HostName, Cached>>,
}

struct Cached {
    certified: Arc<CertifiedKey>,
    minted: Instant,
}

impl LeafIssuer {
    /// An issuer that caches `capacity` leaves (at least one).
    ///
    /// # Errors
    ///
    /// If the authority's certificate or key cannot be used.
    pub(crate) fn new(authority: &ProxyAuthority, capacity: usize) -> Result<Self, AuthorityError> {
        let authority = Authority::read(authority)?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(AuthorityError::LeafKey)?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signer = provider().key_provider.load_private_key(der).map_err(AuthorityError::LeafSigner)?;
        let capacity = NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN);
        let cache = Mutex::new(LruCache::new(capacity));
        Ok(Self { inner: Arc::new(Inner { authority, key, signer, cache }) })
    }

    /// The certificate for `host`; `None` if it cannot be minted.
    pub(crate) fn certificate(&self, host: &HostName) -> Option<Arc<CertifiedKey>> {
        if let Some(cached) = self.cached(host) {
            return Some(cached);
        }
        let certified = match self.inner.mint(host) {
            Ok(certified) => Arc::new(certified),
            Err(error) => {
                tracing::warn!(%host, %error, "failed to mint a leaf certificate");
                return None;
            }
        };
        let cached = Cached { certified: Arc::clone(&certified), minted: Instant::now() };
        self.inner.cache.lock().unwrap_or_else(PoisonError::into_inner).put(host.clone(), cached);
        Some(certified)
    }

    fn cached(&self, host: &HostName) -> Option<Arc<CertifiedKey>> {
        let mut cache = self.inner.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = cache.get(host)?;
        (cached.minted.elapsed() < FRESH).then(|| Arc::clone(&cached.certified))
    }
}

impl Inner {
    fn mint(&self, host: &HostName) -> Result<CertifiedKey, rcgen::Error> {
        #[cfg(feature = "forced-panic")]
        crate::forced_panic::leaf_error(host)?;
        let now = OffsetDateTime::now_utc();
        let mut params = CertificateParams::new([host.as_str().to_owned()])?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, host.as_str().chars().take(COMMON_NAME).collect::<String>());
        params.not_before = (now - BACKDATED).max(self.authority.not_before);
        params.not_after = (now + VALID).min(self.authority.not_after);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = params.signed_by(&self.key, &self.authority.issuer)?;
        let chain = vec![leaf.into(), self.authority.certificate.clone()];
        Ok(CertifiedKey::new(chain, Arc::clone(&self.signer)))
    }
}

impl fmt::Debug for LeafIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafIssuer")
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertifiedIssuer, DnValue, IsCa};
    use sandbox_proxy_protocol::PrivateKeyPem;

    use super::super::authority::validity;
    use super::*;

    fn authority(name: DnValue, not_after: OffsetDateTime) -> ProxyAuthority {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.not_before = OffsetDateTime::now_utc() - BACKDATED;
        params.not_after = not_after;
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        ProxyAuthority {
            certificate_pem: issuer.pem(),
            private_key_pem: PrivateKeyPem::new(issuer.key().serialize_pem()),
        }
    }

    fn tomorrow() -> OffsetDateTime {
        OffsetDateTime::now_utc() + VALID
    }

    fn host(name: &str) -> HostName {
        HostName::from_wire(name.as_bytes()).unwrap()
    }

    #[test]
    fn cache_is_bounded_and_keeps_leaves_in_use() {
        let issuer = LeafIssuer::new(&authority(DnValue::Utf8String("a".to_owned()), tomorrow()), 2).unwrap();
        let kept = issuer.certificate(&host("kept.example")).unwrap();
        for index in 0..5 {
            issuer.certificate(&host(&format!("{index}.example"))).unwrap();
            assert!(Arc::ptr_eq(&kept, &issuer.certificate(&host("kept.example")).unwrap()));
        }
        assert_eq!(issuer.inner.cache.lock().unwrap().len(), 2);
    }

    #[test]
    fn leaf_expires_with_its_issuer() {
        let soon = OffsetDateTime::now_utc().replace_nanosecond(0).unwrap() + Duration::from_mins(1);
        let issuer = LeafIssuer::new(&authority(DnValue::Utf8String("a".to_owned()), soon), 1).unwrap();
        let leaf = issuer.certificate(&host("a.example")).unwrap();
        let dates = |der: &[u8]| validity(der).map(|(from, to, _)| (from, to)).unwrap();
        assert_eq!(dates(&leaf.cert[0]).1, dates(&leaf.cert[1]).1);
        assert!(dates(&leaf.cert[0]).0 >= dates(&leaf.cert[1]).0);
    }

    #[test]
    fn authorities_that_cannot_sign_are_refused() {
        let good = || authority(DnValue::Utf8String("a".to_owned()), tomorrow());
        let broken = |certificate: &str, key: &str| {
            let authority = ProxyAuthority {
                certificate_pem: certificate.to_owned(),
                private_key_pem: PrivateKeyPem::new(key.to_owned()),
            };
            LeafIssuer::new(&authority, 1).map(|_| ()).unwrap_err()
        };
        let one = good();
        assert!(matches!(broken("", one.private_key_pem.expose()), AuthorityError::Certificate(_)));
        assert!(matches!(broken(&one.certificate_pem, ""), AuthorityError::Key(_)));
        assert!(matches!(
            broken(&one.certificate_pem, good().private_key_pem.expose()),
            AuthorityError::Mismatch
        ));
        let printable = authority(DnValue::PrintableString("Sandbox".try_into().unwrap()), tomorrow());
        assert!(LeafIssuer::new(&printable, 1).is_ok());
        let odd = authority(DnValue::Ia5String("Sandbox".try_into().unwrap()), tomorrow());
        assert!(matches!(LeafIssuer::new(&odd, 1).map(|_| ()), Err(AuthorityError::Form(_))));
    }
}
