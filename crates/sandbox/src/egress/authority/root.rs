//! The root authority and the intermediates it signs.

use std::fmt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use sandbox_proxy_protocol::{PrivateKeyPem, ProxyAuthority};
use time::{Duration, OffsetDateTime};

use super::file::AuthorityFile;
use super::pem;
use crate::egress::ProxyError;

/// The root's only name. It is fixed, so that the file name by which OpenSSL finds the certificate
/// is fixed too.
const ROOT_NAME: &str = "Sandbox Root CA";
/// The only name of every intermediate: one common name, as UTF-8.
const INTERMEDIATE_NAME: &str = "Sandbox Task CA";
/// Trust outlives restarts; removing the root's file replaces it.
const ROOT_LIFE: Duration = Duration::days(20 * 365);
const INTERMEDIATE_LIFE: Duration = Duration::days(1);
/// The clock of a suspended container may be slightly behind.
const BACKDATED: Duration = Duration::minutes(5);

/// The root authority that task containers trust.
pub(crate) struct RootAuthority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl RootAuthority {
    /// The name under which OpenSSL looks for the certificate in a folder of certificates.
    pub(crate) const HASHED_NAME: &'static str = "59134a59.0";

    /// A new authority, whose key is only in this value.
    pub(crate) fn new() -> Result<Self, ProxyError> {
        Self::with_key(KeyPair::generate()?)
    }

    /// The authority stored in `state_dir`, created if missing. Blocks on the file system.
    pub(crate) fn load_or_create(state_dir: &Path) -> Result<Self, ProxyError> {
        let file = AuthorityFile::lock(state_dir)?;
        match file.read()? {
            Some(text) => Self::parse(&text).map_err(|problem| file.damaged(&problem)),
            None => Self::create(&file),
        }
    }

    /// The path at which [`RootAuthority::load_or_create`] stores it.
    pub(crate) fn path(state_dir: &Path) -> PathBuf {
        AuthorityFile::path_in(state_dir)
    }

    /// The root certificate. It is public.
    pub(crate) fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// An authority for one proxy, valid for a day from now.
    pub(crate) fn intermediate(&self, now: OffsetDateTime) -> Result<ProxyAuthority, ProxyError> {
        let key = KeyPair::generate()?;
        let name = DnValue::Utf8String(INTERMEDIATE_NAME.to_owned());
        let mut params = authority_params(name, BasicConstraints::Constrained(0));
        params.not_before = now - BACKDATED;
        params.not_after = now + INTERMEDIATE_LIFE;
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(ProxyAuthority {
            certificate_pem: certificate.pem(),
            private_key_pem: PrivateKeyPem::new(key.serialize_pem()),
        })
    }

    fn create(file: &AuthorityFile) -> Result<Self, ProxyError> {
        let key = KeyPair::generate()?;
        let key_pem = key.serialize_pem();
        let root = Self::with_key(key)?;
        file.write(&format!("{key_pem}{}", root.certificate_pem))?;
        tracing::info!(path = %file.path().display(), "created a root authority");
        Ok(root)
    }

    fn with_key(key: KeyPair) -> Result<Self, ProxyError> {
        let now = OffsetDateTime::now_utc();
        let mut params = root_params();
        params.not_before = now - BACKDATED;
        params.not_after = now + ROOT_LIFE;
        let certificate_pem = params.self_signed(&key)?.pem();
        Ok(Self { certificate_pem, issuer: Issuer::new(root_params(), key) })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let key = pem::first(text, "PRIVATE KEY").ok_or("it holds no private key")?;
        let key = KeyPair::from_pem(key).map_err(|_| "its private key cannot be read")?;
        let certificate = pem::first(text, "CERTIFICATE").ok_or("it holds no certificate")?;
        let der = pem::certificates(certificate).pop().ok_or("its certificate cannot be read")?;
        let public = rcgen::PublicKeyData::subject_public_key_info(&key);
        // A certificate contains the public key unchanged; this avoids a parser.
        if !der.windows(public.len()).any(|window| window == public) {
            return Err("its key and its certificate do not belong together".to_owned());
        }
        Ok(Self { certificate_pem: format!("{certificate}\n"), issuer: Issuer::new(root_params(), key) })
    }
}

impl fmt::Debug for RootAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootAuthority").finish_non_exhaustive()
    }
}

fn root_params() -> CertificateParams {
    authority_params(DnValue::Utf8String(ROOT_NAME.to_owned()), BasicConstraints::Constrained(1))
}

fn authority_params(name: DnValue, constraints: BasicConstraints) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use sha1::{Digest, Sha1};

    use super::*;

    fn key_identifier(pem_text: &str) -> Vec<u8> {
        let der = pem::certificates(pem_text).pop().unwrap();
        Sha1::digest(der).to_vec()
    }

    fn contains(haystack: &[u8], needle: &[u8]) -> bool {
        haystack.windows(needle.len()).any(|window| window == needle)
    }

    #[test]
    fn root_is_created_once_and_then_loaded() {
        let state = tempfile::tempdir().unwrap();
        let first = RootAuthority::load_or_create(state.path()).unwrap();
        let second = RootAuthority::load_or_create(state.path()).unwrap();
        assert_eq!(first.certificate_pem(), second.certificate_pem());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state.path().join("authority")), 0o700);
        assert_eq!(mode(&state.path().join("authority/root.pem")), 0o600);
    }

    #[test]
    fn concurrent_creations_agree_on_one_root() {
        let state = tempfile::tempdir().unwrap();
        let authorities: Vec<String> = std::thread::scope(|scope| {
            let make = || RootAuthority::load_or_create(state.path()).unwrap().certificate_pem().to_owned();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(authorities.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn damaged_file_is_an_error_with_its_path_and_the_fix() {
        let state = tempfile::tempdir().unwrap();
        RootAuthority::load_or_create(state.path()).unwrap();
        let path = state.path().join("authority/root.pem");
        let whole = fs::read_to_string(&path).unwrap();
        let other = tempfile::tempdir().unwrap();
        let foreign = RootAuthority::load_or_create(other.path()).unwrap();
        let (key, _) = whole.split_at(whole.find("-----BEGIN CERTIFICATE").unwrap());
        for (text, problem) in [
            (String::new(), "no private key"),
            (whole[..whole.len() / 2].to_owned(), "no"),
            (key.to_owned(), "no certificate"),
            (format!("{key}{}", foreign.certificate_pem()), "do not belong together"),
        ] {
            fs::write(&path, text).unwrap();
            let error = RootAuthority::load_or_create(state.path()).unwrap_err().to_string();
            for part in [problem, path.to_str().unwrap(), "remove that file"] {
                assert!(error.contains(part), "{error}");
            }
        }
        fs::write(&path, &whole).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(RootAuthority::load_or_create(state.path()).unwrap_err().to_string().contains("others"));
    }

    #[test]
    fn intermediates_are_distinct_sign_leaves_only_and_name_the_root() {
        let state = tempfile::tempdir().unwrap();
        let root = RootAuthority::load_or_create(state.path()).unwrap();
        let now = OffsetDateTime::from_unix_timestamp(1_770_122_096).unwrap();
        let (one, two) = (root.intermediate(now).unwrap(), root.intermediate(now).unwrap());
        assert_ne!(key_identifier(&one.certificate_pem), key_identifier(&two.certificate_pem));
        let der = pem::certificates(&one.certificate_pem).pop().unwrap();
        let path_length_0 = [0x30, 0x06, 0x01, 0x01, 0xff, 0x02, 0x01, 0x00];
        for part in [
            ROOT_NAME.as_bytes(),
            INTERMEDIATE_NAME.as_bytes(),
            b"260203122956Z",
            b"260204123456Z",
            &path_length_0,
        ] {
            assert!(contains(&der, part), "{part:?}");
        }
        assert!(one.private_key_pem.expose().starts_with("-----BEGIN PRIVATE KEY-----"));
    }

    /// OpenSSL hashes the name in lower case, without its outermost frame; the first four bytes are
    /// read little-endian.
    #[test]
    fn hashed_name_is_that_of_openssl() {
        let name = ROOT_NAME.to_lowercase();
        let length = u8::try_from(name.len()).unwrap();
        let mut canonical =
            vec![0x31, length + 9, 0x30, length + 7, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, length];
        canonical.extend(name.as_bytes());
        let digest = Sha1::digest(&canonical);
        let hash = u32::from_le_bytes(digest[..4].try_into().unwrap());
        assert_eq!(RootAuthority::HASHED_NAME, format!("{hash:08x}.0"));
    }
}
