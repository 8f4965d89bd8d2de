//! Builds an image, or finds an existing one.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::dockerfile::{Confined, StepTrust};
use super::request::ImageRequest;
use super::steps::{self, Steps};
use super::{build_context, hash, overlay};
use crate::config::SandboxConfig;
use crate::container::ImageProbe;
use crate::context::Shared;
use crate::egress::{self, ProxyError};
use crate::error::{BuildReach, ImageBuildError, SandboxError};
use crate::image_store::{ImageKind, is_built_on, is_overlay, labels};
use crate::spec::{ImageSource, ImageTag, Network};
use crate::task;
use sandbox_files::FileLock;
use sandbox_network_log::LogSink;
use sandbox_podman::{BuildNetwork, BuildRequest, Engine, ImageFacts};

/// Lines of a failed build that its error quotes.
const QUOTED_LINES: usize = 20;
/// Paths of a shell; an image with a shell has one of them.
const SHELLS: [&str; 2] = ["/bin/sh", "/usr/bin/sh"];

/// The name of the folder that the steps of a build mount.
const TRUST_NAME: &str = "sandbox-trust";

/// The tag of an image that tasks can run in, built now if necessary.
pub(crate) async fn ensure(shared: &Shared, request: ImageRequest<'_>) -> Result<ImageTag, SandboxError> {
    let ImageRequest { source, network_log_dir, mut on_line } = request;
    if let Some(launcher) = shared.launcher() {
        // Nothing is built, and no overlay is added.
        let name = match source {
            ImageSource::Build { .. } => hash::tags(shared.prefix(), source, "").overlay,
            ImageSource::Existing(name) => name.clone(),
        };
        if launcher.has_image(&name).await? {
            return Ok(ImageTag::new(name));
        }
        return Err(ImageBuildError::NotFound { name: name.escape_debug().to_string() }.into());
    }
    let mut builder = Builder {
        shared,
        engine: shared.engine()?,
        config: shared.config(),
        log_dir: network_log_dir,
        on_line: &mut *on_line,
    };
    match source {
        ImageSource::Build { dockerfile, context_files, network } => {
            builder.built(dockerfile, context_files, network).await
        }
        ImageSource::Existing(name) => Ok(builder.existing(name).await?),
    }
}

struct Builder<'a> {
    shared: &'a Shared,
    engine: &'a Engine,
    config: &'a SandboxConfig,
    log_dir: Option<&'a Path>,
    on_line: &'a mut (dyn FnMut(&str) + Send),
}

impl Builder<'_> {
    async fn built(
        &mut self,
        dockerfile: &[u8],
        context_files: &BTreeMap<String, Vec<u8>>,
        network: &Network,
    ) -> Result<ImageTag, SandboxError> {
        let tag = hash::repo_tag(&self.config.prefix, dockerfile, context_files, network);
        let lower = {
            let _lock = self.lock(&tag).await?;
            match self.engine.image(&tag).await? {
                Some(image) if is_fresh(&image, self.config.max_image_age) => image.id,
                stale_or_none => {
                    let request = BuildRequest {
                        // An image that is too old was built from layers that are too old.
                        no_cache: stale_or_none.is_some(),
                        ..self.request(&tag, Bytes::new(), ImageKind::Repo, None)
                    };
                    self.repo(request, dockerfile, context_files, network).await?
                }
            }
        };
        Ok(self.overlay(&hash::overlay_tag(&self.config.prefix, &tag), &lower).await?)
    }

    /// Builds the lower layer, with the steps on `network`.
    async fn repo(
        &mut self,
        mut request: BuildRequest,
        dockerfile: &[u8],
        context_files: &BTreeMap<String, Vec<u8>>,
        network: &Network,
    ) -> Result<String, SandboxError> {
        let reach = network.into();
        if *network == Network::Unrestricted {
            request.tar = build_context::archive(dockerfile, context_files)?;
            request.network = BuildNetwork::Host;
            return Ok(self.build(request, reach).await?);
        }
        let confined = Confined::parse(dockerfile)?;
        if !confined.has_steps() {
            request.tar = build_context::archive(dockerfile, context_files)?;
            return Ok(self.build(request, reach).await?);
        }
        let log = self.log_dir.map(LogSink::open).transpose().map_err(ProxyError::from)?.unwrap_or_default();
        let steps = Steps::open(self.shared, steps::policy(network), log).await?;
        let (step_network, trust) = (steps.network(), steps.trust());
        let built = async {
            request.network = step_network;
            let mut dockerfile = dockerfile.to_vec();
            if let Some(trust) = trust {
                let given = StepTrust {
                    name: TRUST_NAME,
                    target: egress::BUILD_TRUST_FOLDER,
                    variables: &trust.variables,
                };
                dockerfile = confined.with(&given).into_bytes();
                request.folders = [(TRUST_NAME.to_owned(), trust.folder.clone())].into();
                request.shown_as = vec![(given.flag(), String::new()), (given.arguments(), "…".to_owned())];
            }
            request.tar = build_context::archive(&dockerfile, context_files)?;
            self.build(request, reach).await
        };
        let built = built.await;
        // The records of the last step are logged when this returns.
        match (built, steps.close(self.shared).await) {
            (Ok(id), closed) => closed.map(|()| id),
            (Err(error), closed) => {
                task::log_leftover(closed);
                Err(error.into())
            }
        }
    }

    async fn existing(&mut self, name: &str) -> Result<ImageTag, ImageBuildError> {
        let missing = || ImageBuildError::NotFound { name: name.escape_debug().to_string() };
        let image = self.engine.image(name).await?.ok_or_else(missing)?;
        if is_overlay(name, &image.labels, &self.config.prefix) {
            return Ok(ImageTag::new(name));
        }
        self.overlay(&hash::overlay_tag(&self.config.prefix, &image.id), &image.id).await
    }

    /// Adds the entry point to the image with the id `lower`, unless that was done before.
    async fn overlay(&mut self, tag: &str, lower: &str) -> Result<ImageTag, ImageBuildError> {
        let _lock = self.lock(tag).await?;
        let known = self.engine.image(tag).await?;
        if !known.is_some_and(|image| is_built_on(&image.labels, lower)) {
            let context = overlay::context(lower, self.has_shell(lower).await?)?;
            let request = self.request(tag, context, ImageKind::Overlay, Some(lower));
            self.build(request, BuildReach::Nothing).await?;
        }
        Ok(ImageTag::new(tag))
    }

    async fn has_shell(&mut self, image: &str) -> Result<bool, ImageBuildError> {
        self.shared.begin();
        let probe = ImageProbe::create(self.engine, image, &self.shared.labels("")).await?;
        let mut found = false;
        for path in SHELLS {
            found = found || probe.download(path).await?.is_some();
        }
        probe.remove().await?;
        self.shared.settle();
        Ok(found)
    }

    fn request(&self, tag: &str, tar: Bytes, kind: ImageKind, lower: Option<&str>) -> BuildRequest {
        BuildRequest::new(tag, tar, labels(&self.config.prefix, kind, lower))
    }

    async fn build(
        &mut self,
        mut request: BuildRequest,
        reach: BuildReach,
    ) -> Result<String, ImageBuildError> {
        match self.build_once(request.clone(), reach).await {
            // The engine's cache lookup met an image that was being removed: build without the
            // cache.
            Err(ImageBuildError::Failed { source, .. }) if source.is_image_race() => {
                tracing::debug!(tag = request.tag, error = %source, "building again without the engine's cache");
                request.no_cache = true;
                self.build_once(request, reach).await
            }
            built => built,
        }
    }

    async fn build_once(
        &mut self,
        request: BuildRequest,
        reach: BuildReach,
    ) -> Result<String, ImageBuildError> {
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
        built.map_err(|source| ImageBuildError::Failed { tag, reach, output, source })
    }

    async fn lock(&mut self, tag: &str) -> Result<FileLock, ImageBuildError> {
        let path = self.config.state_dir.join("locks").join(format!("{}.lock", tag.replace([':', '/'], "-")));
        locked(&path).await
    }
}

async fn locked(path: &Path) -> Result<FileLock, ImageBuildError> {
    let failed = |source| ImageBuildError::File { operation: "lock", path: path.to_owned(), source };
    FileLock::exclusive(path).await.map_err(failed)
}

/// An image from the future is fresh: clocks differ, and a rebuild would not change that.
fn is_fresh(image: &ImageFacts, max_age: Duration) -> bool {
    SystemTime::now().duration_since(image.created).map_or(!max_age.is_zero(), |age| age < max_age)
}
