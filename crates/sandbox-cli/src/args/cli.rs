//! The program and its subcommands.

use std::path::PathBuf;

use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use sandbox::EngineAddress;

use super::{
    AgentArgs, AllowlistCommand, ApplyArgs, AttachArgs, BackgroundArgs, BuildArgs, BundleCommand,
    ConfigCommand, CopyOfRun, DiffArgs, EachTask, ExecArgs, GateCommand, ImageCommand, InitArgs, LogsArgs,
    PolicyCommand, ReceiptCommand, RenderArgs, ReportArgs, RunArgs, RunsArg, ShellArgs, SlurmCommand,
    SshCommand, StopArgs, TaskArgs, TrustArgs, VerifyArgs, WaitArgs, WatchArgs,
};
use crate::trust::Trust;

const GLOBAL: &str = "Global options";

const AFTER_HELP: &str = "\
Settings are read from .sandbox/ in the current folder (from .airut/ where there is no .sandbox/): \
sandbox.yaml, network-allowlist.yaml, build-allowlist.yaml and container/Dockerfile. Only trusted \
versions count; see `sandbox help trust`.

Exit codes: the command's own; 1 negative result (agent: no success; doctor, verify, allowlist: a \
problem was found); 2 usage; 75 agent: the API is busy or unavailable, try again later; 124 time limit; 125 error of the sandbox, \
configuration or engine; 126 not executable; 127 not found; 128 + signal when a signal ended it; 141 \
output closed by its reader.";

/// Run an AI agent, or any command, in a container that reaches only what an allowlist permits.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version, after_help = AFTER_HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The flags of all commands, and the command: a shorthand is expanded, and so are the flags of
    /// one agent of `--each`.
    pub(crate) fn spelled_out(self) -> (GlobalArgs, Command) {
        let Self { mut global, command } = self;
        let command = match (command, global.task.take()) {
            (Command::Shell(args), _) => Command::Run(args.into_run()),
            (Command::Agent(mut args), Some(task)) => {
                args.be_for(task);
                Command::Agent(args)
            }
            (command, _) => command,
        };
        (global, command)
    }
}

#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    /// Podman's socket [default: the configuration, `CONTAINER_HOST`, `DOCKER_HOST`, podman's usual
    /// sockets]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    pub(crate) engine: Option<EngineAddress>,
    /// Configuration file, or a folder to use in place of .sandbox [default: .sandbox/sandbox.yaml]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,
    /// Trust the project's current files for this command; with a digest, only if `sandbox trust
    /// --show` prints the same one; with `run --bundle`, the digest of the bundle
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        value_name = "DIGEST",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = trust
    )]
    pub(crate) trust: Option<Trust>,
    /// This process owns a run that others attach to
    #[arg(long, global = true, hide = true)]
    pub(crate) owner: bool,
    /// This process starts one agent of `--each`
    #[arg(long, global = true, hide = true)]
    pub(crate) task: Option<EachTask>,
    /// Pass escape sequences to this terminal unfiltered: programs can then set the clipboard and
    /// inject input
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) raw_terminal: bool,
    /// Use colors [auto: on a terminal, unless `NO_COLOR` is set]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "WHEN", default_value_t)]
    pub(crate) color: ColorChoice,
    /// Print no progress on stderr
    #[arg(short, long, global = true, help_heading = GLOBAL, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Increase verbosity on stderr (-vv for everything)
    #[arg(short, long, global = true, help_heading = GLOBAL, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command in the sandbox
    Run(RunArgs),
    /// Run a shell in the sandbox, on this terminal
    Shell(ShellArgs),
    /// Run an agent in the sandbox: Claude Code, Codex or another
    Agent(Box<AgentArgs>),
    /// Run an untrusted command under a stricter profile (UID 1000, no network, tight limits), or a
    /// command in an active run
    Exec(ExecArgs),
    /// Build the project's image unless it exists, and print its tag
    Build {
        #[command(flatten)]
        args: BuildArgs,
        /// Rebuild it even if it exists
        #[arg(long)]
        force: bool,
    },
    /// Pack a command or an agent's prompt, with its policy and the work tree, into one file
    #[command(subcommand)]
    Bundle(BundleCommand),
    /// Verify the receipt of a result of a bundle, or print the key of this host's receipts
    #[command(subcommand)]
    Receipt(ReceiptCommand),
    #[command(flatten)]
    Slurm(SlurmCommand),
    /// Write manifests that run a command and its proxy on Kubernetes (experimental)
    Render(Box<RenderArgs>),
    /// Write settings, allowlist and Dockerfile for the project's languages and agent
    Init(InitArgs),
    /// Show the changes a task made in its copy of the work tree
    Diff(DiffArgs),
    /// Apply a task's changes from its copy to the work tree
    Apply(ApplyArgs),
    /// Discard a task's changes in its copy
    Discard(CopyOfRun),
    /// Build, list and move images
    #[command(subcommand)]
    Image(ImageCommand),
    /// Check and edit the network policy
    #[command(subcommand)]
    Allowlist(AllowlistCommand),
    /// Check the configuration, without running anything
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Create and show the SSH keys that git signs commits with
    #[command(subcommand)]
    Ssh(SshCommand),
    /// Create and update the git repositories that tasks reach at the host `gate`
    #[command(subcommand)]
    Gate(GateCommand),
    /// Show the network log of a run, or its output
    Logs(LogsArgs),
    /// Write an HTML report of a run, or of many
    Report(ReportArgs),
    /// Show or change the policy of an active run
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List active runs, or all stored ones
    Ps(PsArgs),
    /// Watch active runs and their requests, full screen
    Watch(WatchArgs),
    /// Attach to a run that has a terminal or is in the background
    Attach(AttachArgs),
    /// Stop a run
    Stop(StopArgs),
    /// Wait until runs end, and print their exit codes
    Wait(WaitArgs),
    /// Remove logs and output of ended runs
    ///
    /// Sessions, copies and work trees stay.
    Rm(RunsArg),
    /// Show the sandbox's objects on the engine, and their runs
    Status(StatusArgs),
    /// Remove objects of ended runs from the engine
    Clean(CleanArgs),
    /// Show the rights that the project's files request, and trust the files
    Trust(TrustArgs),
    /// Check this host and suggest fixes
    Doctor(DoctorArgs),
    /// Verify the sandbox's guarantees from inside containers
    Verify(VerifyArgs),
    /// Print a completion script
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// Print the manual page, or write all of them
    Man {
        /// Folder to write one page per command to
        dir: Option<PathBuf>,
    },
}

impl Command {
    /// The flags of a run that a separate process owns; `None` if this process owns it.
    pub(crate) fn background(&self) -> Option<BackgroundArgs> {
        match self {
            Self::Run(args) => Some(args.background.clone()).filter(BackgroundArgs::has_owner),
            Self::Agent(args) if args.each.is_none() => args.detach.then(BackgroundArgs::detached),
            _ => None,
        }
    }

    /// The flags of a task.
    pub(crate) fn task(&self) -> Option<&TaskArgs> {
        match self {
            Self::Run(args) => Some(&args.task),
            Self::Agent(args) => Some(&args.task),
            _ => None,
        }
    }

    /// The run in whose work tree it is executed.
    pub(crate) fn in_tree_of(&self) -> Option<&str> {
        match self {
            Self::Diff(DiffArgs { copy, .. }) | Self::Apply(ApplyArgs { copy, .. }) | Self::Discard(copy) => {
                copy.run.as_deref()
            }
            _ => None,
        }
    }

    /// Whether the operator is asked about requests that no rule allows.
    pub(crate) fn asks(&self) -> bool {
        self.task().is_some_and(|task| task.ask)
    }
}

/// Parses `--trust`, with or without a digest.
fn trust(text: &str) -> Result<Trust, String> {
    match text {
        "" => Ok(Trust::Now),
        digest => Ok(Trust::Digest(digest.parse()?)),
    }
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The newest 50 runs of each project are stored, with their network log and output: see `sandbox logs`, `attach` and \
`report`.")]
pub(crate) struct PsArgs {
    /// Also list ended runs
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Also remove all images and all state: logs, sessions, copies with their changes, keys, trust
    /// decisions
    #[arg(long)]
    pub(crate) all: bool,
    /// With --all: do not ask
    #[arg(short, long, requires = "all")]
    pub(crate) yes: bool,
    /// Also remove the project's image
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// The output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    #[default]
    Text,
    Json,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{ColorChoice, CommandFactory as _};

    use super::*;

    /// Appends the help of `command` and of its subcommands.
    fn help(command: &mut clap::Command, text: &mut String) {
        text.push_str(&command.render_long_help().to_string());
        text.push_str("\n========\n");
        for command in command.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            help(command, text);
        }
    }

    #[test]
    fn command_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_of_everything() {
        let mut command = Cli::command().term_width(100).color(ColorChoice::Never);
        command.build();
        let mut text = String::new();
        help(&mut command, &mut text);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn first_double_dash_ends_the_options() {
        let cli = Cli::try_parse_from(["sandbox", "run", "--timeout", "3", "--", "ls", "--", "-v"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("no run") };
        assert_eq!(run.command, ["ls", "--", "-v"]);
        assert_eq!((run.task.once.timeout, cli.global.verbose), (Some(Duration::from_secs(3)), 0));
    }

    #[test]
    fn command_without_double_dash_is_parsed() {
        let cli = Cli::try_parse_from(["sandbox", "run", "--timeout", "3m", "ls", "-l", "--", "-v"]).unwrap();
        let Command::Run(run) = cli.command else { panic!("no run") };
        assert_eq!(run.command, ["ls", "-l", "--", "-v"]);
        assert_eq!((run.task.once.timeout, cli.global.verbose), (Some(Duration::from_mins(3)), 0));
        assert!(Cli::try_parse_from(["sandbox", "run", "--tiemout", "3", "ls"]).is_err(), "a flag of ours");
    }

    #[test]
    fn time_of_questions_has_a_unit() {
        let cli = Cli::try_parse_from(["sandbox", "run", "--ask", "--ask-timeout", "2m", "--", "ls"]);
        let Command::Run(run) = cli.unwrap().command else { panic!("no run") };
        assert_eq!(run.task.ask_timeout, Some(Duration::from_mins(2)));
    }

    #[test]
    fn invalid_command_lines_are_refused() {
        for arguments in [
            &["run"][..],
            &["run", "-t", "--detach-keys", "ctrl-P", "--", "ls"],
            &["shell", "--", "ls"],
            &["run", "--timeout", "0", "--", "ls"],
            &["run", "--ask-timeout", "90s", "--", "ls"],
            &["run", "--ask", "--ask-timeout", "0", "--", "ls"],
            &["run", "--ask", "--ask-timeout", "25h", "--", "ls"],
            &["run", "--image", "a", "--dockerfile", "b", "--", "ls"],
            &["run", "--mount", "/a", "--", "ls"],
            &["bundle"],
            &["bundle", "create", "-o", "x"],
            &["bundle", "agent", "x"],
            &["bundle", "agent", "-o", "x", "--resume", "x"],
            &["bundle", "agent", "-o", "x", "prompt", "another"],
            &["bundle", "create", "--", "ls"],
            &["bundle", "create", "-o", "x", "--mount", "/a:/b", "--", "ls"],
            &["exec"],
            &["exec", "--timeout", "0", "--", "ls"],
            &["exec", "--network", "bridge", "--", "ls"],
            &["exec", "--mount", "/a:/b", "--", "ls"],
            &["run", "--engine", "tcp://1.2.3.4:5", "--", "ls"],
            &["allowlist", "check"],
            &["config"],
            &["config", "schema", "--output", "json"],
            &["logs", "--run", "a", "--file", "b"],
            &["completions", "cmd"],
        ] {
            assert!(Cli::try_parse_from([&["sandbox"], arguments].concat()).is_err(), "{arguments:?}");
        }
    }
}
