//! `allowlist …`.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use allowlist::{HostPattern, LearnStep, Preset};
use clap::{Args, Subcommand, ValueEnum};

use super::task::preset;
use super::{ExecArgs, ExecNetwork, ImageArgs, Output, PolicyArgs, WorkspaceAccess};

#[derive(Debug, Subcommand)]
pub(crate) enum AllowlistCommand {
    /// Show which rule allows each request, or why it is blocked
    Check(CheckArgs),
    /// Find rules that allow more than intended, or nothing
    Lint(LintArgs),
    /// Explain why a URL is allowed or blocked, or which requests of a run were refused and which
    /// rules to add
    Why(WhyArgs),
    /// Add the rules that runs would have needed
    Learn(LearnArgs),
    /// Add rules that let the image's pip, npm, cargo, go, maven and apt fetch packages
    Packages(PackagesArgs),
    /// Show which requests of past runs another allowlist would judge differently
    Simulate(SimulateArgs),
    /// Show what another allowlist newly allows and blocks
    Diff(DiffPoliciesArgs),
    /// Add a rule to the allowlist, and remove it from `deny`
    Allow(EditArgs),
    /// Add a `deny` rule to the allowlist, which wins over all others
    Deny(EditArgs),
    /// List the presets that an allowlist can name, or show the rules of one
    Presets {
        /// Preset to show, as a policy in YAML
        #[arg(value_name = "NAME", value_parser = preset)]
        name: Option<Preset>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 all allowed, 1 any blocked, 2 invalid line.

Examples:
  sandbox allowlist check https://api.github.com/repos/o/r
  printf 'GET https://a.example/\\nPOST https://b.example/\\n' | sandbox allowlist check --output json -")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Method of the requests
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Output format; json: one object per line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// URLs; `-`: read lines of `URL` or `METHOD URL` from stdin
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 no warnings, 1 warnings, 125 invalid policy.")]
pub(crate) struct LintArgs {
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
RULE is HOST, HOST/PATH (patterns: * matches any text) or a URL, which matches only itself, \
optionally after methods. The file is edited in place, keeping its comments, or created. If it was \
trusted, it remains trusted. Active runs keep their policy; see `sandbox policy set`.

Exit codes: 0 done, 1 allowed but a `deny` rule still forbids it, in whole or in part.

Examples:
  sandbox allowlist allow api.example.com
  sandbox allowlist allow 'GET,HEAD api.example.com/repos/*'
  sandbox allowlist deny POST https://api.example.com/gists")]
pub(crate) struct EditArgs {
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Rule, in one or two arguments
    #[arg(required = true, num_args = 1..=2, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: for a URL 0 allowed, 1 blocked; for a run 0.

Examples:
  sandbox allowlist why https://api.github.com/repos/o/r
  sandbox allowlist why                     # refused requests of this project's newest run")]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Method of the request
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// URL, or a run of this project from `sandbox ps --all` [default: its newest]
    #[arg(value_name = "URL|RUN")]
    pub(crate) subject: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Derives the smallest rules that allow the runs' recorded requests, with or without --audit; no \
network access is needed. Many paths in one folder become one rule, unless --exact; with --host, all \
paths of a host do. Such a rule names this step and the number of paths, and allows only GET and \
HEAD: requests with a body, hosts that get credentials and APIs of models keep their exact paths. \
A preset that allows two of the paths takes the place of rules, unless --exact or one of its \
hosts gets credentials. \
Review blocked requests before you agree. Hosts whose names look generated or imitate a known host, \
and unusual numbers of new hosts, are listed but get no rules, except with --with. No rules are \
derived for IP addresses that did not answer, metadata services, pushes, and requests that were \
refused for reasons other than a missing rule.

Example:
  sandbox run --audit -- make test
  sandbox allowlist learn")]
pub(crate) struct LearnArgs {
    /// Allowlist file to add to [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Derive rules without wildcards, one for each path and query
    #[arg(long)]
    exact: bool,
    /// Derive one rule for GET and HEAD of all paths of a host
    #[arg(long, conflicts_with = "exact")]
    host: bool,
    /// Also add rules for this host, however doubtful; may have wildcards, may be repeated
    #[arg(long, value_name = "HOST", value_parser = HostPattern::new)]
    pub(crate) with: Vec<HostPattern>,
    /// Write the rules without asking; note that the task chose its requests
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Runs to learn from [default: this project's newest]
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<String>,
}

impl LearnArgs {
    pub(crate) fn step(&self) -> LearnStep {
        match self {
            Self { exact: true, .. } => LearnStep::Exact,
            Self { host: true, .. } => LearnStep::Host,
            _ => LearnStep::Folder,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Requests that were refused for reasons other than a missing rule are left out. Where the verdict \
depends on a request's body, it counts as allowed.

Exit codes: 0 no verdict changes, 1 a verdict changes.")]
pub(crate) struct SimulateArgs {
    /// Check all stored runs of this project; those without a network log are skipped
    #[arg(long, conflicts_with = "runs")]
    pub(crate) all: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Allowlist file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Runs to check [default: this project's newest]
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
For each rule by which only one of both policies allows requests, prints one such request. This is \
decided on the rules: what is not listed does not differ, apart from bodies of requests to models' \
vendors. Rules of `deny`, settings for vendor tools and budgets are compared as such. Rules that \
cannot be decided are listed, too.

Exit codes: 0 same, 1 differs, 3 no difference found, but some rules or bodies are not decided.

Examples:
  sandbox allowlist diff .sandbox/network-allowlist.yaml next.yaml
  sandbox allowlist diff github .sandbox/network-allowlist.yaml")]
pub(crate) struct DiffPoliciesArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Allowlist file or preset
    #[arg(value_name = "A")]
    pub(crate) old: OsString,
    /// Allowlist file or preset to compare with it
    #[arg(value_name = "B")]
    pub(crate) new: OsString,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Queries the clients in the image for their configured or built-in registries, in a container \
without a network. The rules allow GET and HEAD; they are shown, and written if you agree. Repeat \
this when the image changes.

Example:
  sandbox allowlist packages pip npm")]
pub(crate) struct PackagesArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Allowlist file to add to [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Write the rules without asking; note that an image can name any host
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Clients to query [default: all]
    #[arg(value_enum, value_name = "CLIENT")]
    pub(crate) clients: Vec<PackageClient>,
}

impl PackagesArgs {
    /// The arguments of the container that queries the image: without mounts of the project and
    /// without a network.
    pub(crate) fn asking(&self) -> ExecArgs {
        ExecArgs {
            run: None,
            terminal: false,
            _interactive: 0,
            image: self.image.clone(),
            timeout: Duration::from_secs(30),
            workspace: WorkspaceAccess::None,
            allow_system_mounts: false,
            unprotected: false,
            network: ExecNetwork::None,
            allowlist: None,
            variables: Vec::new(),
            log: None,
            command: Vec::new(),
        }
    }
}

/// A client of package registries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum PackageClient {
    Pip,
    Npm,
    Cargo,
    Go,
    Maven,
    Apt,
}

impl PackageClient {
    pub(crate) const ALL: [Self; 6] = [Self::Pip, Self::Npm, Self::Cargo, Self::Go, Self::Maven, Self::Apt];
}

impl fmt::Display for PackageClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pip => "pip",
            Self::Npm => "npm",
            Self::Cargo => "cargo",
            Self::Go => "go",
            Self::Maven => "maven",
            Self::Apt => "apt",
        })
    }
}
