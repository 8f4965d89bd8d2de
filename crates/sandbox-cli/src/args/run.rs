//! `run`.

use std::path::PathBuf;

use clap::Args;

use super::agent::program;
use super::{BackgroundArgs, TaskArgs};
use crate::terminal::DetachKeys;

/// Flags that a bundle decides, or that mean something only in a project.
const NOT_OF_BUNDLES: [&str; 29] = [
    "image",
    "dockerfile",
    "context",
    "max_image_age",
    "allowlist",
    "allow",
    "presets",
    "audit",
    "ask",
    "ask_timeout",
    "timeout",
    "variables",
    "memory",
    "cpus",
    "pids",
    "workdir",
    "mounts",
    "allow_system_mounts",
    "workspace",
    "worktree",
    "unprotected",
    "network_log",
    "network_log_live",
    "terminal",
    "detach",
    "_interactive",
    "detach_keys",
    "wait",
    "command",
];

#[derive(Debug, Args)]
#[command(after_help = "\
The current folder is mounted at /workspace and is the working directory. stdin, stdout and stderr \
are passed through byte for byte; on a terminal, escape sequences that set the clipboard or inject \
input are removed (see --raw-terminal).

With -t the command has a terminal. Ctrl-P Ctrl-Q, or closing the terminal, leaves it running: see \
`sandbox ps`, `attach` and `stop`.

Examples:
  sandbox run --timeout 600 -- cargo test
  sandbox run -t -- python3
  sandbox run --bundle tests.bundle --result tests.result")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    #[command(flatten)]
    pub(crate) background: BackgroundArgs,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "bundle", value_name = "CMD")]
    pub(crate) command: Vec<String>,
    /// Run the command or the agent of a bundle on the files in it, and store what it changed with --result
    ///
    /// Everything else is the bundle's too; nothing of the current folder is read. The policies of this
    /// host, and the limits, the engine and `upstream` in your own sandbox.yaml count as well. A bundle
    /// that takes variables of this host runs only with --trust=sha256:DIGEST: `sandbox bundle show`
    /// lists them. It gets no input.
    #[arg(long, value_name = "FILE", requires = "result", conflicts_with_all = NOT_OF_BUNDLES)]
    pub(crate) bundle: Option<PathBuf>,
    /// With --bundle: create this folder with the result, once the run has ended
    #[arg(long, value_name = "DIR", requires = "bundle", conflicts_with = "command")]
    pub(crate) result: Option<PathBuf>,
    /// With --bundle: the agent's program on this host, to mount read-only [default: the image's]
    #[arg(long, value_name = "PATH", requires = "bundle", conflicts_with = "command", value_parser = program())]
    pub(crate) agent_bin: Option<PathBuf>,
    /// With --bundle: take its variables from stdin, a JSON object such as {"NAME": "VALUE"}, and not
    /// from the environment
    #[arg(long, requires = "bundle", conflicts_with = "command")]
    pub(crate) secrets_stdin: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Like `sandbox run -t -- bash`, or sh if the image has no bash.")]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// Keys that detach from the shell; '' disables them
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    pub(crate) detach_keys: DetachKeys,
}

impl ShellArgs {
    /// The `run` command that this is a shorthand of.
    pub(crate) fn into_run(self) -> RunArgs {
        let script = "if command -v bash > /dev/null; then exec bash; else exec sh; fi";
        RunArgs {
            task: self.task,
            background: BackgroundArgs::on_terminal(self.detach_keys),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            bundle: None,
            result: None,
            agent_bin: None,
            secrets_stdin: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::NOT_OF_BUNDLES;
    use crate::args::Cli;

    #[test]
    fn no_flag_of_run_is_ignored_with_a_bundle() {
        let cli = Cli::command();
        let run = cli.find_subcommand("run").unwrap();
        let of_bundles = ["bundle", "result", "agent_bin", "secrets_stdin", "log", "help", "version"];
        for arg in run.get_arguments().filter(|arg| !arg.is_global_set()) {
            let id = arg.get_id().as_str();
            assert!(NOT_OF_BUNDLES.contains(&id) || of_bundles.contains(&id), "{id}");
        }
    }

    #[test]
    fn bundle_and_flags_of_a_project_exclude_each_other() {
        let parse = |flags: &[&str]| Cli::try_parse_from([&["sandbox", "run"], flags].concat()).map(drop);
        let bundle = ["--bundle", "b", "--result", "r"];
        assert!(parse(&bundle).is_ok() && parse(&["--", "make"]).is_ok(), "the control");
        let digest = format!("--trust=sha256:{}", "0".repeat(64));
        assert!(parse(&[&bundle[..], &[digest.as_str()]].concat()).is_ok());
        for incomplete in [
            &["--bundle", "b"][..],
            &["--result", "r"],
            &["--result", "r", "--", "make"],
            &["--agent-bin", "/x", "--", "make"],
            &["--secrets-stdin", "--", "make"],
            &[],
        ] {
            assert!(parse(incomplete).is_err(), "{incomplete:?}");
        }
        for flags in [
            &["--", "make"][..],
            &["-t"],
            &["-d"],
            &["-e", "A=a"],
            &["--image", "x"],
            &["--allow", "a.example"],
            &["--audit"],
            &["--timeout", "1m"],
            &["--mount", "/a:/a"],
            &["--workspace", "direct"],
            &["--worktree"],
            &["--unprotected"],
            &["--network-log", "x"],
        ] {
            assert!(parse(&[&bundle[..], flags].concat()).is_err(), "{flags:?}");
        }
    }
}
