//! The environment that `cargo xtask e2e` prepared, read in one place.

use std::path::PathBuf;
use std::sync::OnceLock;

use sandbox::ResourceLimits;

/// The environment that `cargo xtask e2e` prepared.
#[derive(Debug)]
pub struct Setting {
    /// The engine, as `unix:///path`.
    pub engine: String,
    /// Podman's major version.
    pub podman: String,
    /// The folder of this test run, new each time: state and temporary files.
    pub folder: PathBuf,
    /// The network namespace of the engine.
    pub host_netns: PathBuf,
    /// The port of a TCP service on all addresses of the host, if the tests may not enter
    /// `host_netns`.
    pub host_service: Option<u16>,
    /// An image with bash, curl and git.
    pub image: String,
    /// An image with Python, Node and more.
    pub clients_image: String,
    /// The Claude Code program.
    pub claude: PathBuf,
    /// The Codex program, in its package.
    pub codex: PathBuf,
    /// Gemini CLI's script, in its package.
    pub gemini: PathBuf,
    /// The `OpenCode` program.
    pub opencode: PathBuf,
    /// A Node.js that runs Gemini CLI.
    pub node: PathBuf,
    /// npm, unpacked.
    pub npm: PathBuf,
    /// Go's root, with its command only.
    pub go: PathBuf,
    /// The program of an MCP server, for Node.js.
    pub mcp_server: PathBuf,
    /// act, which runs jobs of GitHub.
    pub act: PathBuf,
    /// gitlab-ci-local, which runs jobs of GitLab, for Node.js.
    pub gitlab_ci_local: PathBuf,
    /// The S3 server that verifies signatures.
    pub s3_server: PathBuf,
    /// The Debian system of the machines of a Slurm cluster.
    pub slurm: PathBuf,
    /// kubectl.
    pub kubectl: PathBuf,
    /// The folder of kubernetes-validate and its dependencies, for `PYTHONPATH`.
    pub kubernetes_validate: PathBuf,
    /// The folder of the static proxy program.
    pub proxy_dir: PathBuf,
    /// The `sandbox` command.
    pub sandbox_bin: PathBuf,
    /// The folder of the crates' built examples.
    pub examples: PathBuf,
    /// The program that attacks from inside a container: `sandbox-inside` with the feature
    /// `attempts`.
    pub probe: PathBuf,
}

impl Setting {
    /// `name` with a suffix that is unique to this test run.
    ///
    /// A name that already has the suffix is returned unchanged.
    #[must_use]
    pub fn unique(&self, name: &str) -> String {
        let folder = self.folder.to_string_lossy();
        let tag = folder.rsplit('-').next().unwrap_or_default();
        if name.ends_with(tag) { name.to_owned() } else { format!("{name}-{tag}") }
    }

    /// The setting of this test run.
    ///
    /// # Panics
    ///
    /// If a variable is missing: the tests were not started by `cargo xtask e2e`. That is a
    /// failure, never a skipped test.
    pub fn of_this_run() -> &'static Setting {
        static SETTING: OnceLock<Setting> = OnceLock::new();
        SETTING.get_or_init(|| Setting {
            engine: variable("ENGINE"),
            podman: variable("PODMAN"),
            folder: variable("FOLDER").into(),
            host_netns: variable("HOST_NETNS").into(),
            host_service: optional("HOST_SERVICE").and_then(|port| port.parse().ok()),
            image: variable("IMAGE"),
            clients_image: variable("CLIENTS_IMAGE"),
            claude: variable("CLAUDE").into(),
            codex: variable("CODEX").into(),
            gemini: variable("GEMINI").into(),
            opencode: variable("OPENCODE").into(),
            node: variable("NODE").into(),
            npm: variable("NPM").into(),
            go: variable("GO").into(),
            mcp_server: variable("MCP_SERVER").into(),
            act: variable("ACT").into(),
            gitlab_ci_local: variable("GITLAB_CI_LOCAL").into(),
            s3_server: variable("S3_SERVER").into(),
            slurm: variable("SLURM").into(),
            kubectl: variable("KUBECTL").into(),
            kubernetes_validate: variable("KUBERNETES_VALIDATE").into(),
            proxy_dir: variable("PROXY_DIR").into(),
            sandbox_bin: variable("SANDBOX_BIN").into(),
            examples: variable("EXAMPLES").into(),
            probe: variable("PROBE").into(),
        })
    }
}

fn variable(name: &str) -> String {
    optional(name)
        .unwrap_or_else(|| panic!("SANDBOX_E2E_{name} is not set; run the tests with `cargo xtask e2e`"))
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn optional(name: &str) -> Option<String> {
    std::env::var(format!("SANDBOX_E2E_{name}")).ok()
}

impl Setting {
    /// Whether an unprivileged user runs the engine and the tests.
    #[must_use]
    pub fn is_rootless(&self) -> bool {
        self.host_service.is_some()
    }

    /// `limits` for a test of something else: a rootless engine may have no control groups, and
    /// then a limit that needs them is an error.
    #[must_use]
    pub fn possible(&self, mut limits: ResourceLimits) -> ResourceLimits {
        if self.is_rootless() {
            (limits.memory, limits.cpus, limits.pids) = (None, None, None);
        }
        limits
    }
}
