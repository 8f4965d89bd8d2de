//! The mounted trust files, stored in the state directory for each pair of image and root
//! authority.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rand::RngExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::bundle::ImageTrust;
use super::java;
use crate::container::ImageProbe;
use crate::egress::ProxyError;
use crate::egress::authority::{RootAuthority, certificates};
use crate::egress::blocking::blocking;
use crate::labels::Labels;
use crate::spec::Mount;
use sandbox_files::{Replacement, create_folder, hex};
use sandbox_podman::Engine;

/// The sandbox's folder in the container.
pub(crate) const FOLDER: &str = "/run/sandbox/trust";
/// The sandbox's folder in the steps of a build. `/dev` is in memory there, so that the mount point
/// does not become part of the image.
pub(crate) const BUILD_FOLDER: &str = "/dev/sandbox-trust";
/// Replaces the image in the path of files for a build, whose steps have several images.
const OF_BUILDS: &str = "builds";
pub(super) const BUNDLE: &str = "bundle.pem";
pub(super) const ROOT: &str = "root.pem";
pub(super) const HASHED: &str = "hashed";
pub(super) const JAVA: &str = "authorities.jks";
pub(super) const PHP: &str = "php";
pub(super) const WGETRC: &str = "wgetrc";
pub(super) const APT_CONFIG: &str = "apt.conf";
const LAYOUT: &str = "layout.json";

/// The trust files of one image, in place on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::egress) struct TrustFiles {
    dir: PathBuf,
    layout: Layout,
    /// The path of `dir` in the container.
    folder: &'static str,
}

/// The mounts in addition to the sandbox's folder; stored with the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout {
    bundle_paths: Vec<String>,
    java_paths: Vec<String>,
    hashed_folder: bool,
}

impl TrustFiles {
    pub(in crate::egress) fn mounts(&self) -> Vec<Mount> {
        let over = |file: &'static str| move |path: &String| Mount::read_only_at(self.dir.join(file), path);
        let mut mounts = vec![Mount::read_only_at(&self.dir, self.folder)];
        mounts.extend(self.layout.bundle_paths.iter().map(over(BUNDLE)));
        mounts.extend(self.layout.java_paths.iter().map(over(JAVA)));
        if self.layout.hashed_folder {
            let path = format!("/etc/ssl/certs/{}", RootAuthority::HASHED_NAME);
            mounts.push(Mount::read_only_at(self.dir.join(ROOT), path));
        }
        mounts
    }

    /// The path of `file` in the sandbox's folder in the container.
    pub(super) fn in_container(&self, file: &str) -> String {
        seen(self.folder, file)
    }

    pub(super) fn image_has_bundle(&self) -> bool {
        !self.layout.bundle_paths.is_empty()
    }
}

/// The folder of the state directory with the trust files. Nothing in it is secret.
#[derive(Debug, Clone)]
pub(in crate::egress) struct TrustStore {
    dir: PathBuf,
    root_pem: String,
}

impl TrustStore {
    pub(in crate::egress) fn new(folder: &Path, root: &RootAuthority) -> Self {
        // A new root authority invalidates all files.
        let digest = Sha256::digest(root.certificate_pem());
        let fingerprint = hex(digest.first_chunk::<8>().map_or(&[], |bytes| bytes));
        Self { dir: folder.join(fingerprint), root_pem: root.certificate_pem().to_owned() }
    }

    /// The files for the image `image_id`, created if missing.
    pub(in crate::egress) async fn of_image(
        &self,
        engine: &Engine,
        image_id: &str,
        labels: &Labels,
    ) -> Result<TrustFiles, ProxyError> {
        let (store, id) = (self.clone(), image_id.to_owned());
        if let Some(files) = blocking(move || Ok(store.find(&id, FOLDER))).await? {
            return Ok(files);
        }
        let probe = ImageProbe::create(engine, image_id, labels).await?;
        let image = ImageTrust::read(&probe).await;
        probe.remove().await?;
        let (store, id, image) = (self.clone(), image_id.to_owned(), image?);
        blocking(move || store.make(&id, &image, FOLDER)).await
    }

    /// The files for the steps of a build: only the root, because everything that they reach goes
    /// through the proxy.
    pub(in crate::egress) async fn of_builds(&self) -> Result<TrustFiles, ProxyError> {
        let store = self.clone();
        blocking(move || match store.find(OF_BUILDS, BUILD_FOLDER) {
            Some(files) => Ok(files),
            None => store.make(OF_BUILDS, &ImageTrust::default(), BUILD_FOLDER),
        })
        .await
    }

    /// The files for the image `image_id`, if they exist. Blocks.
    fn find(&self, image_id: &str, folder: &'static str) -> Option<TrustFiles> {
        let dir = self.folder_of(image_id);
        let layout = fs::read_to_string(dir.join(LAYOUT)).ok()?;
        Some(TrustFiles { layout: serde_json::from_str(&layout).ok()?, dir, folder })
    }

    /// Creates the files for the image `image_id`. If another process does the same, either result
    /// is kept: they are equal. Blocks.
    fn make(
        &self,
        image_id: &str,
        image: &ImageTrust,
        folder: &'static str,
    ) -> Result<TrustFiles, ProxyError> {
        let dir = self.folder_of(image_id);
        let layout = Layout {
            bundle_paths: image.bundle_paths.iter().map(|path| (*path).to_owned()).collect(),
            java_paths: image.java_paths.iter().map(|path| (*path).to_owned()).collect(),
            hashed_folder: image.has_hashed_folder(),
        };
        let written = self.write(&dir, &self.contents(image, folder), &layout);
        written.map_err(ProxyError::file("write trust files to", &dir))?;
        Ok(TrustFiles { dir, layout, folder })
    }

    fn contents(&self, image: &ImageTrust, folder: &str) -> Vec<(String, Vec<u8>)> {
        let bundle = merged(&image.bundle, &self.root_pem);
        let bundle_path = seen(folder, BUNDLE);
        let text = |name: &str, text: String| (name.to_owned(), text.into_bytes());
        vec![
            (JAVA.to_owned(), java::key_store(&certificates(&bundle))),
            text(BUNDLE, bundle),
            text(ROOT, self.root_pem.clone()),
            text(&format!("{HASHED}/{}", RootAuthority::HASHED_NAME), self.root_pem.clone()),
            text(
                &format!("{PHP}/sandbox.ini"),
                format!("openssl.cafile={bundle_path}\ncurl.cainfo={bundle_path}\n"),
            ),
            text(WGETRC, format!("ca_certificate = {bundle_path}\n")),
            text(APT_CONFIG, format!("Acquire::https::CAInfo \"{bundle_path}\";\n")),
        ]
    }

    /// Writes a whole folder under another name and renames it: no reader sees it incomplete.
    fn write(&self, dir: &Path, contents: &[(String, Vec<u8>)], layout: &Layout) -> io::Result<()> {
        let new = self.dir.join(format!("new-{:016x}", rand::rng().random::<u64>()));
        for folder in [new.clone(), new.join(HASHED), new.join(PHP)] {
            create_folder(&folder, 0o700)?;
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        }
        let layout = serde_json::to_vec(layout)?;
        for (name, content) in
            contents.iter().map(|(name, content)| (&**name, content)).chain([(LAYOUT, &layout)])
        {
            // The task's user must be able to read it.
            Replacement::shared(0o644).write(&new.join(name), content)?;
        }
        match fs::rename(&new, dir) {
            Err(_) if dir.join(LAYOUT).is_file() => fs::remove_dir_all(&new),
            renamed => renamed,
        }
    }

    fn folder_of(&self, image_id: &str) -> PathBuf {
        let name: String =
            image_id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.dir.join(name)
    }
}

fn seen(folder: &str, file: &str) -> String {
    format!("{folder}/{file}")
}

/// The root first, because old tools read only one certificate.
fn merged(bundle: &str, root: &str) -> String {
    let mut merged = format!("{root}{bundle}");
    if !merged.ends_with('\n') {
        merged.push('\n');
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::super::environment::variables;
    use super::*;

    fn image(bundle_paths: Vec<&'static str>) -> ImageTrust {
        let bundle = if bundle_paths.is_empty() { String::new() } else { "# theirs\n".to_owned() };
        ImageTrust { bundle, bundle_paths, java_paths: vec!["/etc/ssl/certs/java/cacerts"] }
    }

    fn store() -> (tempfile::TempDir, TrustStore) {
        let state = tempfile::tempdir().unwrap();
        let root = RootAuthority::load_or_create(state.path()).unwrap();
        let store = TrustStore::new(state.path(), &root);
        (state, store)
    }

    #[test]
    fn files_are_created_once_readable_by_all_and_without_keys() {
        let (_state, store) = store();
        assert_eq!(store.find("sha256:1", FOLDER), None);
        let made = store.make("sha256:1", &image(vec!["/etc/ssl/cert.pem"]), FOLDER).unwrap();
        assert_eq!(store.find("sha256:1", FOLDER).as_ref(), Some(&made));
        assert_eq!(store.make("sha256:1", &image(vec!["/etc/ssl/cert.pem"]), FOLDER).unwrap(), made);
        assert_eq!(fs::read_dir(&store.dir).unwrap().count(), 1, "nothing incomplete is left");
        for name in [BUNDLE, ROOT, JAVA, WGETRC, APT_CONFIG, "php/sandbox.ini", "hashed/59134a59.0"] {
            let path = made.dir.join(name);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644, "{name}");
            assert!(!String::from_utf8_lossy(&fs::read(&path).unwrap()).contains("PRIVATE"), "{name}");
        }
    }

    #[test]
    fn bundle_starts_with_the_root_and_keeps_the_images_cas() {
        let (_state, store) = store();
        let made = store.make("x", &image(vec!["/etc/ssl/cert.pem"]), FOLDER).unwrap();
        let bundle = fs::read_to_string(made.dir.join(BUNDLE)).unwrap();
        assert_eq!(bundle, format!("{}# theirs\n", store.root_pem));
    }

    #[test]
    fn existing_files_of_the_image_alone_are_mounted_over() {
        let (_state, store) = store();
        let targets = |paths: Vec<&'static str>| {
            let files = store.make(&format!("image-{}", paths.len()), &image(paths), FOLDER).unwrap();
            let mounts = files.mounts();
            assert!(mounts.iter().all(Mount::read_only));
            mounts.iter().map(|mount| mount.container_path().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(targets(vec![]), ["/run/sandbox/trust", "/etc/ssl/certs/java/cacerts"]);
        assert_eq!(
            targets(vec!["/etc/ssl/certs/ca-certificates.crt"]),
            [
                "/run/sandbox/trust",
                "/etc/ssl/certs/ca-certificates.crt",
                "/etc/ssl/certs/java/cacerts",
                "/etc/ssl/certs/59134a59.0"
            ]
        );
    }

    /// Every variable names a file or folder of the right kind.
    #[test]
    fn each_variable_names_a_file_that_its_tool_can_read() {
        let (_state, store) = store();
        let files = store.make("x", &image(vec![]), FOLDER).unwrap();
        let variables = variables(&files);
        assert_eq!(variables.len(), 22);
        for (name, value) in &variables {
            let path = value.trim_start_matches("-Djavax.net.ssl.trustStore=").trim_start_matches(':');
            let path = files.dir.join(path.strip_prefix("/run/sandbox/trust/").unwrap());
            let certificates = |path: &Path| certificates(&fs::read_to_string(path).unwrap()).len();
            match &**name {
                "SSL_CERT_DIR" => assert_eq!(certificates(&path.join(RootAuthority::HASHED_NAME)), 1),
                "PHP_INI_SCAN_DIR" => assert!(path.join("sandbox.ini").is_file() && value.starts_with(':')),
                "JAVA_TOOL_OPTIONS" => {
                    assert!(fs::read(&path).unwrap().starts_with(&[0xfe, 0xed, 0xfe, 0xed]));
                }
                "WGETRC" | "APT_CONFIG" => assert!(fs::read_to_string(&path).unwrap().contains(BUNDLE)),
                _ => assert_eq!(certificates(&path), 1, "{name}"),
            }
        }
    }

    #[test]
    fn variables_of_a_build_point_into_a_folder_outside_of_the_image() {
        let (_state, store) = store();
        let files = store.make(OF_BUILDS, &ImageTrust::default(), BUILD_FOLDER).unwrap();
        assert_eq!(store.find(OF_BUILDS, BUILD_FOLDER).as_ref(), Some(&files));
        assert_eq!(files.mounts().len(), 1);
        let variables = variables(&files);
        assert_eq!(variables["SSL_CERT_FILE"], "/dev/sandbox-trust/bundle.pem");
        for (name, value) in &variables {
            // They are written into a Dockerfile unchanged.
            let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.=:".contains(c);
            assert!(value.contains(BUILD_FOLDER) && value.chars().all(plain), "{name}={value}");
        }
        let settings = fs::read_to_string(files.dir.join(APT_CONFIG)).unwrap();
        assert!(settings.contains("/dev/sandbox-trust/bundle.pem"), "{settings}");
    }

    #[test]
    fn settings_variables_are_not_set_if_the_image_has_a_bundle() {
        let (_state, store) = store();
        let files = store.make("x", &image(vec!["/etc/ssl/cert.pem"]), FOLDER);
        let variables = variables(&files.unwrap());
        assert!(!variables.contains_key("WGETRC") && !variables.contains_key("APT_CONFIG"));
    }
}
