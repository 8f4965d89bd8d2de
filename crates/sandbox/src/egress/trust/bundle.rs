//! The bundle of authorities that an image brings.

use crate::container::ImageProbe;
use crate::spec::Launch;
use sandbox_podman::{EngineError, first_file};

/// The folder that OpenSSL looks into by hashed names. It is there when the first path is.
const HASHED_FOLDER_OF: &str = Launch::AUTHORITY_BUNDLES[0];
/// Where distributions with Java keep its authorities.
const JAVA_PATHS: [&str; 2] = ["/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"];

/// What an image has of its own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ImageTrust {
    /// PEM; empty when the image has none.
    pub(super) bundle: String,
    /// Those paths that the image has.
    pub(super) bundle_paths: Vec<&'static str>,
    /// Those paths of Java's authorities that the image has.
    pub(super) java_paths: Vec<&'static str>,
}

impl ImageTrust {
    /// Reads it out of an image.
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
