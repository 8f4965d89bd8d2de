//! The images of the sandbox, and their removal.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use sandbox_podman::{self as podman, Engine, EngineError};

const OWNER: &str = "sandbox.image.owner";
const KIND: &str = "sandbox.image.kind";
const LOWER: &str = "sandbox.image.lower";

/// The kind of an image of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageKind {
    /// The lower layer: the image of a Dockerfile.
    Repo,
    /// The upper layer, with the entry point.
    Overlay,
    /// The image of egress proxies.
    Proxy,
}

impl ImageKind {
    const ALL: [Self; 3] = [Self::Repo, Self::Overlay, Self::Proxy];

    /// Its name in tags and labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repo => "repo",
            Self::Overlay => "overlay",
            Self::Proxy => "proxy",
        }
    }
}

/// An image that was built with a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ImageSummary {
    /// The engine's id.
    pub id: String,
    /// The tag, `localhost/<prefix>-<kind>:<sha256>`. `None` for an image that a newer one has
    /// replaced.
    pub tag: Option<String>,
    /// The kind of the image.
    pub kind: ImageKind,
    /// When it was built.
    pub created: SystemTime,
    /// The size in bytes, including layers shared with other images.
    pub size: u64,
}

/// The labels of an image; an overlay has the id of its base.
pub(crate) fn labels(prefix: &str, kind: ImageKind, lower: Option<&str>) -> BTreeMap<String, String> {
    // An overlay inherits the labels of its base, so every label is always set.
    [(OWNER, prefix), (KIND, kind.as_str()), (LOWER, lower.unwrap_or_default())]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The tag of an image of the sandbox. It has the host `localhost`, because an engine looks up a
/// name without a host in a registry.
pub(crate) fn tag(prefix: &str, kind: ImageKind, sha256: &str) -> String {
    format!("localhost/{prefix}-{}:{sha256}", kind.as_str())
}

/// Whether an image with `labels` is an overlay on the image with the id `lower`.
pub(crate) fn is_built_on(labels: &BTreeMap<String, String>, lower: &str) -> bool {
    labels.get(KIND).is_some_and(|kind| kind == ImageKind::Overlay.as_str())
        && labels.get(LOWER).is_some_and(|known| known == lower)
}

/// Whether the image `name` is an overlay of the sandbox; an image that others built on one has
/// another name.
pub(crate) fn is_overlay(name: &str, labels: &BTreeMap<String, String>, prefix: &str) -> bool {
    let bare = name.strip_prefix("localhost/").unwrap_or(name);
    bare.starts_with(&format!("{prefix}-{}:", ImageKind::Overlay.as_str()))
        && labels.get(KIND).is_some_and(|kind| kind == ImageKind::Overlay.as_str())
}

/// The images of `prefix`, oldest first.
pub(crate) async fn list(engine: &Engine, prefix: &str) -> Result<Vec<ImageSummary>, EngineError> {
    let found = engine.list_images(&[format!("{OWNER}={prefix}")]).await?;
    let mut images: Vec<ImageSummary> =
        found.into_iter().filter_map(|image| summary(image, prefix)).collect();
    images.sort_by_key(|image| image.created);
    Ok(images)
}

/// Removes the images of `prefix` that are older than `age` or were replaced, and returns them.
/// Images in use are kept.
pub(crate) async fn prune(
    engine: &Engine,
    prefix: &str,
    age: Duration,
) -> Result<Vec<ImageSummary>, EngineError> {
    let now = SystemTime::now();
    // The newest first: an overlay is removed before its base.
    let old = list(engine, prefix).await?.into_iter().rev().filter(|image| is_old(image, now, age));
    remove(engine, old).await
}

/// Removes the images of proxies of `prefix`, including those that lost their name. Images in use
/// are kept.
pub(crate) async fn remove_proxies(engine: &Engine, prefix: &str) -> Result<(), EngineError> {
    let proxies = list(engine, prefix).await?.into_iter().filter(|image| image.kind == ImageKind::Proxy);
    remove(engine, proxies).await.map(drop)
}

/// Removes `images` except those in use, and returns the removed ones.
async fn remove(
    engine: &Engine,
    images: impl Iterator<Item = ImageSummary>,
) -> Result<Vec<ImageSummary>, EngineError> {
    let mut removed = Vec::new();
    for image in images {
        match engine.remove_image(image.tag.as_deref().unwrap_or(&image.id)).await {
            Ok(()) => removed.push(image),
            Err(error) if error.is_conflict() => tracing::debug!(id = image.id, "image is in use"),
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

/// The image of a proxy has no creation time: it is only old if everything is.
fn is_old(image: &ImageSummary, now: SystemTime, age: Duration) -> bool {
    let has_age = image.kind != ImageKind::Proxy || image.created > SystemTime::UNIX_EPOCH;
    image.tag.is_none()
        || age.is_zero()
        || (has_age && now.duration_since(image.created).is_ok_and(|old| old > age))
}

/// `None` for an image that others built on one of the sandbox's, or tagged for another purpose: it
/// is neither listed nor removed.
fn summary(image: podman::ImageSummary, prefix: &str) -> Option<ImageSummary> {
    let label = image.labels.get(KIND)?;
    let kind = ImageKind::ALL.into_iter().find(|kind| kind.as_str() == label)?;
    let name = tag(prefix, kind, "");
    let real = |tag: &String| tag != "<none>:<none>";
    let mut tags = image.tags.into_iter().filter(real).map(|tag| tag.starts_with(&name).then_some(tag));
    let tag = match tags.next() {
        None => None,
        Some(first) => Some(first?),
    };
    if tags.any(|other| other.is_none()) {
        return None;
    }
    Some(ImageSummary { id: image.id, tag, kind, created: image.created, size: image.size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine_image(kind: &str, tags: &[&str]) -> podman::ImageSummary {
        podman::ImageSummary {
            id: "sha256:1".to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            created: SystemTime::UNIX_EPOCH,
            size: 0,
            labels: BTreeMap::from([(OWNER.to_owned(), "p".to_owned()), (KIND.to_owned(), kind.to_owned())]),
        }
    }

    #[test]
    fn image_with_a_foreign_tag_is_not_listed() {
        for (kind, tags, expected) in [
            ("repo", vec!["localhost/p-repo:1"], Some(Some("localhost/p-repo:1"))),
            ("overlay", vec!["elsewhere.example/library/p-overlay:1"], None),
            ("repo", vec![], Some(None)),
            ("repo", vec!["<none>:<none>"], Some(None)),
            ("repo", vec!["localhost/mine:latest"], None),
            ("repo", vec!["localhost/p-repo:1", "localhost/mine:latest"], None),
            ("other", vec!["localhost/p-other:1"], None),
            ("overlay", vec!["localhost/p-repo:1"], None),
        ] {
            let found = summary(engine_image(kind, &tags), "p").map(|image| image.tag);
            assert_eq!(found, expected.map(|tag| tag.map(str::to_owned)), "{kind} {tags:?}");
        }
    }

    #[test]
    fn replaced_image_is_old_immediately() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let image = |tag: Option<&str>| ImageSummary {
            id: String::new(),
            tag: tag.map(str::to_owned),
            kind: ImageKind::Repo,
            created: SystemTime::UNIX_EPOCH,
            size: 0,
        };
        assert!(is_old(&image(None), now, Duration::MAX));
        assert!(is_old(&image(Some("t")), now, Duration::from_secs(99)));
        assert!(!is_old(&image(Some("t")), now, Duration::from_secs(100)));
        let proxy = |tag| ImageSummary { kind: ImageKind::Proxy, ..image(tag) };
        assert!(!is_old(&proxy(Some("t")), now, Duration::from_secs(1)), "it has no time");
        assert!(is_old(&proxy(Some("t")), now, Duration::ZERO) && is_old(&proxy(None), now, Duration::MAX));
    }

    #[test]
    fn overlay_label_has_the_id_of_its_base() {
        assert!(is_built_on(&labels("p", ImageKind::Overlay, Some("sha256:1")), "sha256:1"));
        assert!(!is_built_on(&labels("p", ImageKind::Overlay, Some("sha256:1")), "sha256:2"));
        assert!(!is_built_on(&labels("p", ImageKind::Repo, None), ""));
    }
}
