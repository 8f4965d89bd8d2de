//! The programs that the tests need on every engine: built or fetched first, and passed to them in
//! `SANDBOX_E2E_…`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::apt::{self, Needed};
use crate::cargo;
use crate::ci_runners::CiRunners;
use crate::claude_code;
use crate::go;
use crate::kubernetes::Kubernetes;
use crate::mcp_server;
use crate::nextest::{self, Built};
use crate::npm;
use crate::other_agents::{self, OtherAgents};
use crate::report::step;
use crate::s3_server;
use crate::slurm;
use crate::task_base_image::{BASE, CLIENTS};
use crate::task_proxy_image::{self, INSIDE};

use super::tiers::{NEED_DATABASES, NEED_FETCHED, NEED_KUBERNETES, NEED_S3, NEED_SLURM, Selection};

/// The newest npm that runs on the Node.js of the image with clients.
const NPM: &str = "npm@10";

const DATABASES: [Needed; 2] = [
    Needed { program: "pg_createcluster", package: "postgresql" },
    Needed { program: "redis-server", package: "redis-server" },
];

/// The paths of the programs.
pub(crate) struct Programs {
    pub(crate) tests: Built,
    pub(crate) stand_in: PathBuf,
    sandbox: PathBuf,
    proxy: PathBuf,
    claude: PathBuf,
    fetched: Option<Fetched>,
    s3_server: Option<PathBuf>,
    slurm: Option<PathBuf>,
    kubernetes: Option<Kubernetes>,
}

struct Fetched {
    agents: OtherAgents,
    npm: PathBuf,
    go: PathBuf,
    mcp_server: PathBuf,
    ci: CiRunners,
}

impl Programs {
    /// Builds and fetches the programs that `selections` need.
    pub(crate) fn prepare(selections: &[Selection], claude: Option<&Path>) -> Result<Self> {
        let claude = claude_code::visible_program(claude)?;
        let sandbox =
            step("building the sandbox command and all tests", || cargo::program_for_tests("sandbox"))?;
        let tests = nextest::build()?;
        let filters: Vec<String> =
            selections.iter().map(|selection| format!("({})", selection.filter)).collect();
        let names = tests.names(&filters.join(" | "))?;
        let are_any = |of: &[&str]| names.iter().any(|name| of.iter().any(|begin| name.starts_with(begin)));
        let fetched = are_any(&NEED_FETCHED).then(Fetched::prepare).transpose()?;
        if are_any(&NEED_DATABASES) {
            apt::ensure(&DATABASES)?;
        }
        // Only if needed, since the build takes minutes.
        let s3_server = are_any(&NEED_S3).then(s3_server::program).transpose()?;
        let slurm = are_any(&NEED_SLURM).then(slurm::root).transpose()?;
        let kubernetes = are_any(&NEED_KUBERNETES).then(Kubernetes::prepare).transpose()?;
        let stand_in = cargo::program_for_tests("stand-in")?;
        let proxy = task_proxy_image::build_for_tests()?;
        Ok(Self { tests, stand_in, sandbox, proxy, claude, fetched, s3_server, slurm, kubernetes })
    }

    /// The variables that name the programs.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let folder = |program: &Path| program.parent().unwrap_or(program).to_owned();
        // A test that needs a missing program fails, and its error contains this path.
        let or_none = |path: Option<&PathBuf>| {
            path.map_or_else(|| "/not-fetched-for-fast-tests".into(), OsString::from)
        };
        let fetched = |path: fn(&Fetched) -> &PathBuf| or_none(self.fetched.as_ref().map(path));
        let kubernetes = |path: fn(&Kubernetes) -> &PathBuf| or_none(self.kubernetes.as_ref().map(path));
        vec![
            ("SANDBOX_E2E_IMAGE", BASE.reference().into()),
            ("SANDBOX_E2E_CLIENTS_IMAGE", CLIENTS.reference().into()),
            ("SANDBOX_E2E_CLAUDE", self.claude.clone().into()),
            ("SANDBOX_E2E_CODEX", fetched(|fetched| &fetched.agents.codex)),
            ("SANDBOX_E2E_GEMINI", fetched(|fetched| &fetched.agents.gemini)),
            ("SANDBOX_E2E_OPENCODE", fetched(|fetched| &fetched.agents.opencode)),
            ("SANDBOX_E2E_NODE", fetched(|fetched| &fetched.agents.node)),
            ("SANDBOX_E2E_NPM", fetched(|fetched| &fetched.npm)),
            ("SANDBOX_E2E_GO", fetched(|fetched| &fetched.go)),
            ("SANDBOX_E2E_MCP_SERVER", fetched(|fetched| &fetched.mcp_server)),
            ("SANDBOX_E2E_ACT", fetched(|fetched| &fetched.ci.act)),
            ("SANDBOX_E2E_GITLAB_CI_LOCAL", fetched(|fetched| &fetched.ci.gitlab_ci_local)),
            ("SANDBOX_E2E_S3_SERVER", or_none(self.s3_server.as_ref())),
            ("SANDBOX_E2E_SLURM", or_none(self.slurm.as_ref())),
            ("SANDBOX_E2E_KUBECTL", kubernetes(|kubernetes| &kubernetes.kubectl)),
            ("SANDBOX_E2E_KUBERNETES_VALIDATE", kubernetes(|kubernetes| &kubernetes.validate)),
            ("SANDBOX_E2E_PROXY_DIR", folder(&self.proxy).into()),
            ("SANDBOX_E2E_SANDBOX_BIN", self.sandbox.clone().into()),
            // cargo builds examples with the tests, in a subfolder of the programs' folder.
            ("SANDBOX_E2E_EXAMPLES", folder(&self.sandbox).join("examples").into()),
            ("SANDBOX_E2E_PROBE", self.proxy.with_file_name(INSIDE).into()),
        ]
    }
}

impl Fetched {
    fn prepare() -> Result<Self> {
        let agents = other_agents::programs()?;
        let npm = npm::unpacked(NPM, "npm")?;
        let go = go::root()?;
        let mcp_server = mcp_server::program()?;
        Ok(Self { agents, npm, go, mcp_server, ci: CiRunners::prepare()? })
    }
}
