//! A project, and the manifests that `sandbox render` prints in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use e2e_tests::secret::unique;
use e2e_tests::setting::Setting;
use e2e_tests::world::World;

use crate::command_line::project::{Ended, Project};

/// The name of all rendered tasks.
pub(super) const NAME: &str = "e2e-kube";
/// The address of all rendered proxies, in a subnet that no other test uses, and no sandbox.
pub(super) const PROXY_ADDRESS: &str = "10.203.0.10";
/// The only host in the policy.
pub(super) const ALLOWED: &str = "kubernetes-allowed.test";

/// A project with a policy and a secret, whose surrogate is in `TOKEN`.
pub(super) struct Rendering {
    project: Project,
    pub(super) secret: String,
}

/// A rendered task.
pub(super) struct RenderedTask {
    pub(super) manifests: String,
    /// The start document of its proxy.
    pub(super) document: Vec<u8>,
}

impl Rendering {
    pub(super) fn new() -> Self {
        let project = Project::new();
        project.write(".sandbox/network-allowlist.yaml", &format!("domains: [{ALLOWED}]\n"));
        let entry = format!("{{value: !env REAL, scopes: [{ALLOWED}], headers: [authorization]}}");
        project.append(".sandbox/sandbox.yaml", &format!("masked_secrets: {{TOKEN: {entry}}}\n"));
        Self { project, secret: unique("ghp_", 36) }
    }

    /// The manifests of a proxy with `image`.
    pub(super) fn proxy(&self, image: &str) -> String {
        self.render(&["--proxy-image", image])
    }

    /// A task that runs the bash script `script`.
    pub(super) fn task(&self, flags: &[&str], script: &str) -> RenderedTask {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("start.json");
        let shown = path.display().to_string();
        let of_task = ["--proxy-address", PROXY_ADDRESS, "--start-document", &shown];
        let image = ["--image", &Setting::of_this_run().image];
        let command = ["--", "bash", "-c", script];
        let manifests = self.render(&[&of_task[..], &image, flags, &command].concat());
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "only the user can read the start document");
        RenderedTask { manifests, document: fs::read(&path).expect("a file") }
    }

    fn render(&self, flags: &[&str]) -> String {
        let dns = World::shared().dns().to_string();
        let render = ["render", "--kubernetes", "--name", NAME, "--dns", &dns];
        let mut command = self.project.sandbox(&[&render[..], flags].concat());
        let ended: Ended = command.env("REAL", &self.secret).output().expect("the sandbox command").into();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    }
}
