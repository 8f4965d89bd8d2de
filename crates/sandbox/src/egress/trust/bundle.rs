//! The CA bundle of an image.

use crate::container::ImageProbe;
use crate::spec::Launch;
use sandbox_podman::{EngineError, first_file};

/// The bundle next to the folder in which OpenSSL looks for hashed names.
const HASHED_FOLDER_OF: &str = Launch::AUTHORITY_BUNDLES[0];
/// The paths of Java's CAs in the distributions.
const JAVA_PATHS: [&str; 2] = ["/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"];

/// The CAs that an image contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ImageTrust {
    /// PEM; empty when the image has none.
    pub(super) bundle: String,
    /// The bundle paths that exist in the image.
    pub(super) bundle_paths: Vec<&'static str>,
    /// The paths of Java's CAs that exist in the image.
    pub(super) java_paths: Vec<&'static str>,
}

impl ImageTrust {
    /// Reads them from an image.
    pub(super) async fn read(image: &ImageProbe) -> Result<Self, EngineError> {
        let mut trust = Self::default();
        for path in Launch::AUTHORITY_BUNDLES {
            let Some(archive) = image.download(path).await? else {
                continue;
            };
            trust.bundle_paths.push(path);
            if trust.bundle.is_empty() {
                trust.bundle = first_file(&archive).unwrap_or_default();
            }
        }
        for path in JAVA_PATHS {
            if image.download(path).await?.is_some() {
                trust.java_paths.push(path);
            }
        }
        Ok(trust)
    }

    pub(super) fn has_hashed_folder(&self) -> bool {
        self.bundle_paths.contains(&HASHED_FOLDER_OF)
    }
}
