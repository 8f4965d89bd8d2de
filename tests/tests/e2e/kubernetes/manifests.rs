//! The rendered manifests, checked by kubectl and against the published schemas.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use e2e_tests::setting::Setting;
use tempfile::TempDir;

use super::rendering::Rendering;
use crate::command_line::project::Ended;

/// The version of the published schemas.
const VERSION: &str = "1.37";

/// kubectl and kubernetes-validate, and the stand-in for a cluster that kubectl asks.
struct Checks {
    folder: TempDir,
    server: Child,
    /// The server ends with it, even if the test is killed.
    lifeline: Option<ChildStdin>,
    url: String,
}

impl Checks {
    fn new() -> Self {
        let schemas = "kubernetes_validate/kubernetes-json-schema";
        let definitions = format!("{schemas}/v{VERSION}.0-local/_definitions.json");
        let mut server = Command::new("python3")
            .args(["-c", include_str!("api_server.py")])
            .arg(Setting::of_this_run().kubernetes_validate.join(definitions))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let lifeline = server.stdin.take();
        let mut port = String::new();
        BufReader::new(server.stdout.take().expect("a pipe")).read_line(&mut port).expect("output");
        let port: u16 = port.trim_end().parse().expect("the server listens");
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, server, lifeline, url: format!("http://127.0.0.1:{port}") }
    }

    /// kubectl's dry run of a creation of the objects.
    fn dry_run(&self, manifests: &str) -> Ended {
        let file = self.written(manifests);
        let mut kubectl = Command::new(&Setting::of_this_run().kubectl);
        kubectl
            .env_clear()
            .env("HOME", self.folder.path())
            .args(["create", "--dry-run=client", "--server", &self.url, "--cache-dir"])
            .arg(self.folder.path().join("cache"))
            .arg("--filename")
            .arg(file);
        kubectl.stdin(Stdio::null()).output().expect("kubectl").into()
    }

    /// What the published schemas say, which have the kinds of Kubernetes itself only.
    fn validated(&self, manifests: &str) -> Ended {
        let file = self.written(manifests);
        let mut python = Command::new("python3");
        python
            .env("PYTHONPATH", &Setting::of_this_run().kubernetes_validate)
            .args(["-m", "kubernetes_validate", "--strict", "-k", VERSION])
            .arg(file);
        python.stdin(Stdio::null()).output().expect("python3").into()
    }

    fn written(&self, manifests: &str) -> PathBuf {
        let file = self.folder.path().join("manifests.yaml");
        fs::write(&file, manifests).expect("a file");
        file
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.server.wait();
    }
}

/// `manifests` with one field misspelt.
fn misspelt(manifests: &str, field: &str, instead: &str) -> String {
    let changed = manifests.replace(field, instead);
    assert_ne!(changed, manifests, "there is a field {field}");
    changed
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_pass_kubectl_and_the_schemas() {
    let rendering = Rendering::new();
    let proxy = rendering.proxy("localhost/proxy:1");
    let job = rendering.task(&["--runtime-class", "gvisor", "--claim", "files"], "true").manifests;
    let sandbox = rendering.task(&["--as", "sandbox"], "true").manifests;
    let checks = Checks::new();
    // With the numbers of objects, and of those whose kind has a published schema.
    for (manifests, objects, published) in [(&proxy, 3, 3), (&job, 2, 2), (&sandbox, 2, 1)] {
        let ended = checks.dry_run(manifests);
        let created = ended.stdout.matches(" created (dry run)").count();
        assert_eq!((ended.code, created), (Some(0), objects), "{ended:?}\n{manifests}");
        let ended = checks.validated(manifests);
        let passed = ended.stdout.matches(" passed for resource ").count();
        assert_eq!((ended.code, passed), (Some(0), published), "{ended:?}\n{manifests}");
    }
    // The controls: both refuse one misspelt field.
    for (manifests, field, instead, is_published) in [
        (&proxy, "stdinOnce", "stdinOnly", true),
        (&proxy, "policyTypes", "policyType", true),
        (&job, "dnsPolicy", "dnsPolicies", true),
        (&sandbox, "dnsPolicy", "dnsPolicies", false),
        (&sandbox, "operatingMode", "operatingMood", false),
    ] {
        let changed = misspelt(manifests, field, instead);
        checks.dry_run(&changed).fails(1, &format!("unknown field \"{instead}\""));
        if is_published {
            let ended = checks.validated(&changed);
            assert!(ended.code == Some(1) && ended.stdout.contains(&format!("'{instead}'")), "{ended:?}");
        }
    }
}
