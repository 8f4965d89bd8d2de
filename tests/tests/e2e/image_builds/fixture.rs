//! A sandbox that builds images, and the results of builds.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use allowlist::Allowlist;
use e2e_tests::fixture;
use e2e_tests::setting::Setting;
use sandbox::diagnostics::Role;
use sandbox::image::ImageRequest;
use sandbox::{ImageSource, ImageTag, Network, NetworkSandboxConfig, Sandbox};
use tempfile::TempDir;

/// A separate sandbox with its own state folder.
pub(super) struct BuildFixture {
    pub(super) sandbox: Sandbox,
    folder: TempDir,
}

/// The result of a build.
#[derive(Debug)]
pub(super) struct Built {
    /// The tag, or the error with all its causes.
    pub(super) tag: Result<ImageTag, String>,
    /// The output of the steps and the engine's messages.
    pub(super) output: String,
    /// The lines that the build added to the network log.
    pub(super) log: String,
}

impl BuildFixture {
    pub(super) async fn new(prefix: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = fixture::config(&folder.path().join("state"));
        prefix.clone_into(&mut config.prefix);
        let sandbox = Sandbox::start(config.on_demand()).await.expect("the engine answers");
        // Leftovers of an earlier, aborted run.
        sandbox.prune_images(Duration::ZERO).await.expect("old images are removed");
        Self { sandbox, folder }
    }

    pub(super) fn logs(&self) -> &Path {
        self.folder.path()
    }

    /// Builds an image with these steps on the image with all clients. The probe is in the context.
    pub(super) async fn build(&self, network: Network, steps: &str) -> Built {
        // Without a stamp, the engine would reuse the layers of earlier runs.
        let stamp = format!("ENV STAMP={}\n", rand());
        let dockerfile = format!("FROM {}\n{stamp}{steps}", Setting::of_this_run().clients_image);
        self.build_source(ImageSource::build(dockerfile, probe()).with_network(network)).await
    }

    pub(super) async fn build_source(&self, source: ImageSource) -> Built {
        let before = self.log().len();
        let mut output = String::new();
        let built = self
            .sandbox
            .ensure_image(ImageRequest::new(&source).network_log_dir(self.logs()).on_line(|line| {
                output.push_str(line);
                output.push('\n');
            }))
            .await;
        Built { tag: built.map_err(|error| message(&error)), output, log: self.log().split_off(before) }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.logs().join("network-sandbox.log")).unwrap_or_default()
    }

    /// Checks that only images are left, and removes them.
    pub(super) async fn close(self) {
        let inventory = self.sandbox.inventory().await.expect("the engine answers");
        let left: Vec<_> = inventory
            .instances
            .iter()
            .filter(|instance| instance.id == self.sandbox.instance_id())
            .flat_map(|instance| &instance.objects)
            // The egress network stays for the next instance.
            .filter(|object| object.role != Role::Egress)
            .collect();
        assert!(left.is_empty(), "a build leaves nothing: {left:?}");
        self.sandbox.shutdown().await.expect("nothing is left");
        self.sandbox.prune_images(Duration::ZERO).await.expect("old images are removed");
    }
}

impl Built {
    pub(super) fn succeeded(&self) -> &ImageTag {
        match &self.tag {
            Ok(tag) => tag,
            Err(error) => panic!("{error}\n{}\n{}", self.output, self.log),
        }
    }

    pub(super) fn error(&self) -> &str {
        self.tag.as_ref().expect_err("it cannot be built")
    }
}

/// A network with the YAML document `allowlist` as its policy.
pub(super) fn permitting(allowlist: &str) -> Network {
    let allowlist = Allowlist::from_yaml(allowlist, "test.yaml").expect("a good allowlist");
    Network::Sandboxed(NetworkSandboxConfig::new(allowlist))
}

pub(super) fn probe() -> BTreeMap<String, Vec<u8>> {
    let probe = std::fs::read(&Setting::of_this_run().probe).expect("the probe");
    [("probe".to_owned(), probe)].into()
}

fn rand() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn message(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        message.push_str(": ");
        message.push_str(&error.to_string());
        next = error.source();
    }
    message
}
