//! Flags that `run` and `agent` share.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use allowlist::{InvalidRule, Preset, Rule, UnknownPreset};
use clap::Args;
use sandbox::{ByteSize, Cpus, InvalidSpec, Mount};

use crate::config::{WorkspaceMode, duration, limit, time};

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ImageArgs {
    /// Use this image, which the engine must already have
    #[arg(long, value_name = "NAME", conflicts_with_all = ["dockerfile", "context"])]
    pub(crate) image: Option<String>,
    /// Build the image from this file [default: .sandbox/container/Dockerfile]
    #[arg(long, value_name = "FILE")]
    pub(crate) dockerfile: Option<PathBuf>,
    /// Build context folder [default: the Dockerfile's]
    #[arg(long, value_name = "DIR")]
    pub(crate) context: Option<PathBuf>,
    /// Rebuild an image that is older than this; 0: always [default: a day]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_image_age: Option<Duration>,
}

impl ImageArgs {
    /// Whether a flag names the source of the image.
    pub(crate) fn names_image(&self) -> bool {
        self.image.is_some() || self.dockerfile.is_some() || self.context.is_some()
    }
}

/// Flags of the network policy.
#[derive(Debug, Default, Args)]
pub(crate) struct PolicyArgs {
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Also allow this: HOST, HOST/PATH or a URL, optionally after methods, as in 'GET
    /// HOST/PATH'; * matches any text
    #[arg(long, value_name = "RULE", value_parser = rule)]
    pub(crate) allow: Vec<Rule>,
    /// Also allow the rules of this preset; `sandbox allowlist presets` lists them
    #[arg(long = "preset", value_name = "NAME", value_parser = preset)]
    pub(crate) presets: Vec<Preset>,
}

impl PolicyArgs {
    /// For a command that only has the flag `--allowlist`.
    pub(crate) fn of_file(path: Option<&Path>) -> Self {
        Self { allowlist: path.map(Path::to_owned), ..Self::default() }
    }

    /// Whether flags allow anything in addition to the file.
    pub(crate) fn allow_something(&self) -> bool {
        !self.allow.is_empty() || !self.presets.is_empty()
    }
}

#[derive(Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct TaskArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Allow any public host, and record requests: `sandbox allowlist learn` derives rules from
    /// them
    ///
    /// Private and reserved addresses stay out of reach, and credentials keep their scopes. In the
    /// network log, `[shield: down]` marks requests that no rule allows. After 24 hours the
    /// allowlist alone decides.
    #[arg(long)]
    pub(crate) audit: bool,
    /// Ask about requests that no rule allows: once, for this run, always or no
    ///
    /// Questions appear on the terminal; with -t, -d and `shell`, in `sandbox watch`. The program of
    /// `ask` in sandbox.yaml, if there is one, gets them too. If stdin is a terminal, the command
    /// gets no input; use a pipe. `always` adds the rule to the allowlist file, as `sandbox allowlist
    /// allow` does.
    #[arg(long, conflicts_with = "audit")]
    pub(crate) ask: bool,
    /// With --ask: refuse a request that has waited this long, such as 90s, 10m or 2h; at most 24h
    /// [default: 30s]
    #[arg(long, value_name = "TIME", requires = "ask", value_parser = time)]
    pub(crate) ask_timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) once: OnceArgs,
    /// Return only when its containers are removed from the engine [default: a process of its own
    /// removes them]
    #[arg(long)]
    pub(crate) wait: bool,
    /// Mount a file or folder of the host; :ro for read-only
    #[arg(long = "mount", value_name = "SRC:DST[:ro]", value_parser = problem_of::<Mount>)]
    pub(crate) mounts: Vec<Mount>,
    /// Allow mounts of `/`, home folders and system folders such as /etc
    #[arg(long)]
    pub(crate) allow_system_mounts: bool,
    /// How the task sees the work tree [default: auto for `agent`, direct for `run`]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) workspace: Option<WorkspaceMode>,
    /// Work in a linked git work tree of its own, on the branch NAME [default: a new name]
    ///
    /// `../PROJECT.worktrees/NAME` is created at HEAD, or used again. The run starts there, in the
    /// current folder's counterpart, and so do relative paths of other flags. Settings must be
    /// committed.
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = work_tree)]
    pub(crate) worktree: Option<String>,
    /// Allow writing files that host tools execute implicitly: git's hooks, .envrc, .claude and
    /// similar
    #[arg(long)]
    pub(crate) unprotected: bool,
    /// Also write the network log to FILE, and as JSON to FILE.jsonl
    #[arg(long, value_name = "FILE")]
    pub(crate) network_log: Option<PathBuf>,
    /// Follow the network log on stderr
    #[arg(long)]
    pub(crate) network_log_live: bool,
    /// Write the sandbox's own log to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// Settings of one run, which override the configuration.
#[derive(Debug, Default, Args)]
pub(crate) struct OnceArgs {
    /// Time limit, such as 90s, 10m or 2h; exit code 124 when it is reached
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub(crate) timeout: Option<Duration>,
    /// Set a variable; NAME alone passes on its value in your environment
    #[arg(short = 'e', long = "env", value_name = "NAME[=VALUE]")]
    pub(crate) variables: Vec<String>,
    /// Memory limit, such as 512m or 4g
    #[arg(long, value_name = "SIZE", value_parser = problem_of::<ByteSize>)]
    pub(crate) memory: Option<ByteSize>,
    /// CPU limit, such as 1.5
    #[arg(long, value_name = "N", value_parser = problem_of::<Cpus>)]
    pub(crate) cpus: Option<Cpus>,
    /// Limit of processes and threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pids: Option<u32>,
    /// Working directory in the container; relative paths start at the current folder's path
    /// in the container [default: that path]
    #[arg(short = 'w', long, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
}

/// clap's errors already name the flag, here and below.
fn rule(text: &str) -> Result<Rule, InvalidRule> {
    text.parse()
}

pub(super) fn preset(text: &str) -> Result<Preset, UnknownPreset> {
    text.parse()
}

/// Parses the name of a folder and of a branch; empty if one is to be chosen.
pub(super) fn work_tree(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_name = text.chars().all(is_plain)
        && !text.starts_with(['.', '-', '_'])
        && !text.ends_with('.')
        && text.strip_suffix(".lock").is_none()
        && !text.contains("..")
        && text.len() <= 100
        && text != "HEAD"
        // Git would take it for the id of an object.
        && !(matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("use letters, digits, `_`, `-` and single `.`, at most 100, starting with a letter or digit and not ending with `.lock`; \
             `HEAD` and ids of objects have a meaning of their own"
            .to_owned())
    }
}

fn problem_of<T: FromStr<Err = InvalidSpec>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: InvalidSpec| error.problem().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_tree_name_is_a_valid_branch_name() {
        for name in ["", "a", "fix-1.2_x"] {
            assert_eq!(work_tree(name).as_deref(), Ok(name));
        }
        for name in [
            ".",
            "..",
            "-b",
            "_x",
            ".git",
            "a/b",
            "a..b",
            "a.",
            "a.lock",
            "a b",
            "HEAD",
            "HEAD~1",
            "é",
            &"a".repeat(40),
            &"a".repeat(101),
        ] {
            assert!(work_tree(name).is_err(), "{name}");
        }
    }

    #[test]
    fn invalid_mount_is_reported_without_a_key_name() {
        assert_eq!(problem_of("a:/b"), Ok(Mount::read_write("a", "/b")));
        assert!(problem_of::<Mount>("a").unwrap_err().starts_with("`a` is not a mount; write SRC:DST"));
    }
}
