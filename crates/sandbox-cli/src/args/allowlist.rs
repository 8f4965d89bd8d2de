//! `allowlist …`.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use allowlist::Preset;
use clap::{Args, Subcommand, ValueEnum};

use super::task::preset;
use super::{ExecArgs, ExecNetwork, ImageArgs, Output, PolicyArgs, WorkspaceAccess};

#[derive(Debug, Subcommand)]
pub(crate) enum AllowlistCommand {
    /// Show which rule allows each request, or why it is blocked
    Check(CheckArgs),
    /// Find rules that allow more than meant, or nothing
    Lint(LintArgs),
    /// Explain why a URL is allowed or blocked, or what a run was refused and which rules to add
    Why(WhyArgs),
    /// Add the rules that a run would have needed
    Learn(LearnArgs),
    /// Add rules for reading from where the image's pip, npm, cargo, go, maven and apt fetch
    /// packages
    Packages(PackagesArgs),
    /// Show which requests of past runs another allowlist would judge in another way
    Simulate(SimulateArgs),
    /// Add a rule to the allowlist
    Allow(EditArgs),
    /// Remove from the allowlist what allows this
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
Exit codes: 0 all allowed, 1 any blocked, 2 a line that cannot be read.

Examples:
  sandbox allowlist check https://api.github.com/repos/o/r
  printf 'GET https://a.example/\\nPOST https://b.example/\\n' | sandbox allowlist check --output json -")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Method of the requests
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Output format; json: one object a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// URLs; `-`: read lines of `URL` or `METHOD URL` from stdin
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 nothing to say, 1 warnings, 125 a policy that cannot be read.")]
pub(crate) struct LintArgs {
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
RULE is HOST, HOST/PATH (patterns, * is any text) or a URL, which stands for itself; methods can come before it. The file is changed in place, with its \
comments, and made where there is none. It stays trusted if it was. A run that is going on keeps its policy, see `sandbox policy set`.

Exit codes of deny: 0 nothing allows it any more, 1 something else does.

Examples:
  sandbox allowlist allow api.example.com
  sandbox allowlist allow 'GET,HEAD api.example.com/repos/*'
  sandbox allowlist deny POST https://api.example.com/gists")]
pub(crate) struct EditArgs {
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Rule, in one argument or two
    #[arg(required = true, num_args = 1..=2, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: for a URL 0 allowed, 1 blocked; for a run 0.

Examples:
  sandbox allowlist why https://api.github.com/repos/o/r
  sandbox allowlist why                     # what this project's newest run was refused")]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Method of the request
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// URL, or a run that `sandbox ps --all` shows [default: the newest run]
    #[arg(value_name = "URL|RUN")]
    pub(crate) subject: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The smallest rules that allow what the run asked for, with --audit or without; nothing is asked of the network for it. Many paths in one folder \
become one rule, which says from how many; requests with a body, hosts that get credentials and models' APIs keep their paths. Read \
what was blocked before you agree to it. Nothing is learnt for addresses and metadata, pushes, and what was refused for another reason than \
a missing rule.

Example:
  sandbox run --audit -- make test
  sandbox allowlist learn")]
pub(crate) struct LearnArgs {
    /// Allowlist file to add to [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Write the rules without a question: a task chose what it asked for
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Run to learn from [default: the newest run of this project]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
What was refused for another reason than a missing rule is left out. Where a request's body decides, it counts as allowed.

Exit codes: 0 no verdict changes, 1 one does.")]
pub(crate) struct SimulateArgs {
    /// Run to look at [default: the newest run of this project]
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    pub(crate) run: Option<String>,
    /// Look at all runs of this project that are kept
    #[arg(long)]
    pub(crate) all: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// Allowlist file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The clients in the image are asked for what they are configured to use, or have built in, in a container without a network. The rules allow GET and HEAD; they \
are shown, and written when you agree. Ask again when the image is another.

Example:
  sandbox allowlist packages pip npm")]
pub(crate) struct PackagesArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Allowlist file to add to [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Write the rules without a question: an image can name any host
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Clients to ask [default: all of them]
    #[arg(value_enum, value_name = "CLIENT")]
    pub(crate) clients: Vec<PackageClient>,
}

impl PackagesArgs {
    /// What asks the image: nothing of the project is mounted, and nothing reached.
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

/// What fetches packages.
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
