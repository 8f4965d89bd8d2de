//! The bundle of authorities that an image brings.

use std::io::Read;

use crate::container::ImageProbe;
use crate::engine::EngineError;
use crate::spec::Launch;

/// The folder that OpenSSL looks into by hashed names. It is there when the first path is.
const HASHED_FOLDER_OF: &str = Launch::AUTHORITY_BUNDLES[0];
/// Where distributions with Java keep its authorities.
const JAVA_PATHS: [&str; 2] = ["/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts"];
/// The bundle of Debian 13 has 220 KB; a hostile image is not read into memory without end.
const LARGEST: u64 = 8 * 1024 * 1024;

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

/// The text of the first plain file; a link, which another path of ours leads to, has none.
pub(crate) fn first_file(archive: &[u8]) -> Option<String> {
    let mut archive = tar::Archive::new(archive);
    let file = archive
        .entries()
        .ok()?
        .filter_map(Result::ok)
        .find(|entry| entry.header().entry_type().is_file())?;
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_plain_file_counts() {
        let mut builder = tar::Builder::new(Vec::new());
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder
            .append_link(&mut link, "cert.pem", "certs/ca-certificates.crt")
            .unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(3);
        builder
            .append_data(&mut header, "ca-certificates.crt", &b"pem"[..])
            .unwrap();
        assert_eq!(first_file(&builder.into_inner().unwrap()).as_deref(), Some("pem"));
        assert_eq!(first_file(b"no archive"), None);
    }
}
