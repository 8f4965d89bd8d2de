//! Builds an image, or finds the one that is there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::inventory::{ImageKind, is_overlay, labels, stands_on};
use super::lock::FileLock;
use super::probe::Probe;
use super::{ImageBuildError, build_context, hash, overlay};
use crate::config::SandboxConfig;
use crate::engine::{BuildNetwork, BuildRequest, Engine, ImageFacts};
use crate::reap::Labels;
use crate::spec::{ImageSource, ImageTag};

/// Lines of a failed build that its error quotes.
const QUOTED_LINES: usize = 20;
/// Paths of which an image with a shell has one.
const SHELLS: [&str; 2] = ["/bin/sh", "/usr/bin/sh"];

/// The tag of an image for `source` that tasks can run in, built now if need be. `on_line` gets each line of a build's output.
pub(crate) async fn ensure(
    engine: &Engine,
    config: &SandboxConfig,
    owner: &Labels,
    source: &ImageSource,
    mut on_line: impl FnMut(&str) + Send,
) -> Result<ImageTag, ImageBuildError> {
    let mut builder = Builder {
        engine,
        config,
        owner,
        on_line: &mut on_line,
    };
    match source {
        ImageSource::Build {
            dockerfile,
            context_files,
        } => builder.built(dockerfile, context_files).await,
        ImageSource::Existing(name) => builder.existing(name).await,
    }
}

struct Builder<'a> {
    engine: &'a Engine,
    config: &'a SandboxConfig,
    owner: &'a Labels,
    on_line: &'a mut (dyn FnMut(&str) + Send),
}

impl Builder<'_> {
    async fn built(
        &mut self,
        dockerfile: &[u8],
        context_files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<ImageTag, ImageBuildError> {
        let tag = hash::repo_tag(&self.config.prefix, dockerfile, context_files);
        let lower = {
            let _lock = self.lock(&tag).await?;
            match self.engine.image(&tag).await? {
                Some(image) if is_fresh(&image, self.config.max_image_age) => image.id,
                stale_or_none => {
                    let context = build_context::archive(dockerfile, context_files)?;
                    // An image that is too old was built from layers that are too old.
                    self.build(&tag, context, stale_or_none.is_some(), ImageKind::Repo, None)
                        .await?
                }
            }
        };
        self.overlay(&hash::overlay_tag(&self.config.prefix, &tag), &lower)
            .await
    }

    async fn existing(&mut self, name: &str) -> Result<ImageTag, ImageBuildError> {
        let missing = || ImageBuildError::NotFound {
            name: name.escape_debug().to_string(),
        };
        let image = self.engine.image(name).await?.ok_or_else(missing)?;
        if is_overlay(name, &image.labels, &self.config.prefix) {
            return Ok(ImageTag::new(name));
        }
        self.overlay(&hash::overlay_tag(&self.config.prefix, &image.id), &image.id)
            .await
    }

    /// Puts the entry point on the image with the id `lower`, unless that was done before.
    async fn overlay(&mut self, tag: &str, lower: &str) -> Result<ImageTag, ImageBuildError> {
        let _lock = self.lock(tag).await?;
        let known = self.engine.image(tag).await?;
        if !known.is_some_and(|image| stands_on(&image.labels, lower)) {
            let context = overlay::context(lower, self.has_shell(lower).await?)?;
            self.build(tag, context, false, ImageKind::Overlay, Some(lower))
                .await?;
        }
        Ok(ImageTag::new(tag))
    }

    async fn has_shell(&self, image: &str) -> Result<bool, ImageBuildError> {
        let probe = Probe::create(self.engine, image, self.owner).await?;
        let mut found = false;
        for path in SHELLS {
            found = found || probe.download(path).await?.is_some();
        }
        probe.remove().await?;
        Ok(found)
    }

    async fn build(
        &mut self,
        tag: &str,
        context: Bytes,
        no_cache: bool,
        kind: ImageKind,
        lower: Option<&str>,
    ) -> Result<String, ImageBuildError> {
        let mut request = BuildRequest {
            tag: tag.to_owned(),
            tar: context,
            no_cache,
            labels: labels(&self.config.prefix, kind, lower),
            network: BuildNetwork::Default,
        };
        match self.build_once(request.clone()).await {
            // Looking through the cache, the engine met an image that somebody was removing: it need not look.
            Err(ImageBuildError::Failed { source, .. }) if source.is_image_race() => {
                tracing::debug!(tag, error = %source, "building again without the engine's cache");
                request.no_cache = true;
                self.build_once(request).await
            }
            built => built,
        }
    }

    async fn build_once(&mut self, request: BuildRequest) -> Result<String, ImageBuildError> {
        let tag = request.tag.clone();
        let mut output: Vec<String> = Vec::new();
        let built = self
            .engine
            .build(request, &mut |line: &str| {
                if output.len() == QUOTED_LINES {
                    output.remove(0);
                }
                output.push(line.escape_debug().to_string());
                (self.on_line)(line);
            })
            .await;
        built.map_err(|source| ImageBuildError::Failed { tag, output, source })
    }

    async fn lock(&self, tag: &str) -> Result<FileLock, ImageBuildError> {
        let path = self
            .config
            .state_dir
            .join("locks")
            .join(format!("{}.lock", tag.replace([':', '/'], "-")));
        locked(&path).await
    }
}

async fn locked(path: &Path) -> Result<FileLock, ImageBuildError> {
    let failed = |source| ImageBuildError::File {
        operation: "lock",
        path: path.to_owned(),
        source,
    };
    FileLock::exclusive(path).await.map_err(failed)
}

/// An image from the future is fresh: clocks differ, and building it anew would not mend that.
fn is_fresh(image: &ImageFacts, max_age: Duration) -> bool {
    SystemTime::now()
        .duration_since(image.created)
        .map_or(!max_age.is_zero(), |age| age < max_age)
}
