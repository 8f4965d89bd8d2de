//! Image tags derived from the content of images.

use std::collections::BTreeMap;

use sandbox_files::hex;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{entrypoint, overlay};
use crate::image_store::{ImageKind, tag};
use crate::spec::{ImageSource, Network};

/// The tags of an image's two layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ImageTags {
    /// `localhost/<prefix>-repo:<sha256>`: the image of the Dockerfile. `None` for an image that is
    /// not built here.
    pub repo: Option<String>,
    /// `localhost/<prefix>-overlay:<sha256>`: the same with the entry point, in which tasks run.
    pub overlay: String,
}

impl ImageTags {
    /// The tags of `source` with `prefix`, computed without an engine. `None` for an image that the
    /// engine already has: its tag is derived from its id on the engine, see
    /// [`Sandbox::image_tags`](crate::Sandbox::image_tags).
    #[must_use]
    pub fn of_build(prefix: &str, source: &ImageSource) -> Option<Self> {
        match source {
            ImageSource::Build { .. } => Some(tags(prefix, source, "")),
            ImageSource::Existing(_) => None,
        }
    }
}

/// The tags of `source`. An existing image is identified by `existing_id`.
pub(crate) fn tags(prefix: &str, source: &ImageSource, existing_id: &str) -> ImageTags {
    match source {
        ImageSource::Build { dockerfile, context_files, network } => {
            let repo = repo_tag(prefix, dockerfile, context_files, network);
            ImageTags { overlay: overlay_tag(prefix, &repo), repo: Some(repo) }
        }
        ImageSource::Existing(_) => ImageTags { repo: None, overlay: overlay_tag(prefix, existing_id) },
    }
}

/// Also covers the network of the steps, which can change the resulting image.
pub(super) fn repo_tag(
    prefix: &str,
    dockerfile: &[u8],
    context_files: &BTreeMap<String, Vec<u8>>,
    network: &Network,
) -> String {
    let mut hash = FramedHash::new("repo");
    match network {
        Network::Disabled => hash.part(b"no network"),
        Network::Unrestricted => hash.part(b"the host's network"),
        Network::Sandboxed(config) => {
            hash.part(b"allowlist");
            // A policy is plain data: serialization cannot fail.
            hash.part(&serde_json::to_vec(config.allowlist()).unwrap_or_default());
        }
    }
    hash.part(dockerfile);
    for (path, content) in context_files {
        hash.part(path.as_bytes());
        hash.part(content);
    }
    tag(prefix, ImageKind::Repo, &hash.finish())
}

/// Covers everything in the overlay: the lower layer, identified by tag or id, and the generated
/// files of either form.
pub(super) fn overlay_tag(prefix: &str, lower: &str) -> String {
    let mut hash = FramedHash::new("overlay");
    hash.part(lower.as_bytes());
    hash.part(entrypoint::SCRIPT.as_bytes());
    for form in overlay::FORMS {
        hash.part(form.as_bytes());
    }
    tag(prefix, ImageKind::Overlay, &hash.finish())
}

/// SHA-256 over length-prefixed parts: different lists of parts never give the same bytes.
struct FramedHash(Sha256);

impl FramedHash {
    fn new(kind: &str) -> Self {
        let mut hash = Self(Sha256::new());
        hash.part(kind.as_bytes());
        hash
    }

    fn part(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn build(dockerfile: &str, files: &[(&str, &str)]) -> ImageSource {
        let files: BTreeMap<String, Vec<u8>> =
            files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())).collect();
        ImageSource::build(dockerfile, files)
    }

    #[test]
    fn different_content_has_different_tags_at_any_boundary() {
        let sources = [
            build("FROM a", &[]),
            build("FROM a", &[("", "")]),
            build("FROM aa", &[]),
            build("FROM ", &[("a", "")]),
            build("FROM a", &[("b", "c")]),
            build("FROM a", &[("bc", "")]),
            build("FROM a", &[("", "bc")]),
            build("FROM a", &[("b", "c"), ("d", "e")]),
            build("FROM a", &[("b", "cde")]),
            build("FROM ab", &[("", "c")]),
        ];
        let all: Vec<ImageTags> = sources.iter().map(|source| tags("p", source, "")).collect();
        assert_eq!(
            all.iter().map(|tags| tags.repo.clone().unwrap()).collect::<HashSet<_>>().len(),
            sources.len()
        );
        assert_eq!(all.iter().map(|tags| &tags.overlay).collect::<HashSet<_>>().len(), sources.len());
    }

    #[test]
    fn network_of_the_steps_changes_the_tag() {
        let policy = |yaml: &str| {
            let allowlist = allowlist::Allowlist::from_yaml(yaml, "x").unwrap();
            Network::Sandboxed(crate::spec::NetworkSandboxConfig::new(allowlist))
        };
        let networks = [
            Network::Disabled,
            Network::Unrestricted,
            policy("{}"),
            policy("domains: [a.example]"),
            policy("domains: [b.example]"),
        ];
        let repo = |network: &Network| {
            let source = build("FROM a", &[]).with_network(network.clone());
            tags("p", &source, "").repo.unwrap()
        };
        let all: HashSet<String> = networks.iter().map(repo).collect();
        assert_eq!(all.len(), networks.len());
        assert_eq!(repo(&policy("domains: [\"a.example\"] # same")), repo(&policy("domains: [a.example]")));
    }

    #[test]
    fn tags_have_the_documented_form_and_are_stable() {
        let tags = tags("sandbox", &build("FROM scratch\n", &[("a", "b")]), "");
        let repo = tags.repo.unwrap();
        assert_eq!(
            repo,
            "localhost/sandbox-repo:1c392301b8896b0694d252de50511ddf3792f00980cab530fa6ca50289c4a183"
        );
        let hash = tags.overlay.strip_prefix("localhost/sandbox-overlay:").unwrap();
        assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    }

    #[test]
    fn existing_image_is_identified_by_its_id() {
        let source = ImageSource::existing("localhost/base:latest");
        let (one, two) = (tags("p", &source, "sha256:1"), tags("p", &source, "sha256:2"));
        assert_eq!(one.repo, None);
        assert_ne!(one.overlay, two.overlay);
    }
}
