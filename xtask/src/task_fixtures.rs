//! `fixtures`: records the output of the real Claude Code with the stand-in for the Messages API.
//!
//! Each run writes its standard output to `crates/claude-output/fixtures/NAME.jsonl`, and a record
//! of its end to `runs.json`. Machine paths, addresses and ids are replaced.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::claude_code;
use crate::messages_api::StandIn;
use crate::process;
use crate::report::{say, step};
use crate::scrub::Scrubber;
use crate::workspace;

#[derive(Args)]
pub(crate) struct FixturesArgs {
    /// Record this Claude Code; else one is fetched with npm.
    #[arg(long, value_name = "PATH")]
    claude_bin: Option<PathBuf>,
    /// Record only the runs whose name contains this, and keep the other recordings.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// The maximum time without output of a run.
const TIMEOUT: Duration = Duration::from_mins(1);

/// One run of Claude Code.
#[derive(Clone)]
struct Run {
    name: String,
    prompt: String,
    /// Flags in addition to those of every run.
    flags: Vec<String>,
    /// The run whose session this one resumes.
    resumes: Option<&'static str>,
    environment: Environment,
    ending: Ending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Environment {
    Plain,
    WithoutKey,
    /// Nothing listens at the address of the API.
    NoListener,
    /// This many retries are allowed; other runs do not retry.
    Retries(u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    ByItself,
    /// Killed as soon as a line contains this text.
    KilledAt(&'static str),
}

/// The scenarios of the stand-in that are recorded without special settings.
const SCENARIOS: &[&str] = &[
    "background",
    "conflict",
    "drop",
    "drop-at-once",
    "empty",
    "error-mid-stream",
    "forbidden",
    "gateway-timeout",
    "image-error",
    "no-credit",
    "not-found",
    "not-json",
    "overloaded",
    "payment-required",
    "prompt-too-long",
    "quoted-error",
    "rate-limit",
    "refusal",
    "request-timeout",
    "request-too-large",
    "server-error",
    "session-corrupted",
    "subagent",
    "thinking",
    "tool-use",
    "unauthorized",
    "unavailable",
    "unprocessable",
];

/// Records every run, or those that `--only` selects.
pub(crate) fn run(args: &FixturesArgs) -> Result<()> {
    let program = claude_code::program(args.claude_bin.as_deref())?;
    let version = process::output(process::command("env", [&program]).arg("--version"))?;
    let recorder = Recorder {
        stand_in: step("starting the stand-in for the Messages API", StandIn::start)?,
        program,
        scratch: fresh_folder(&workspace::state().join("fixtures"))?,
        target: workspace::root().join("crates/claude-output/fixtures"),
    };
    fs::create_dir_all(&recorder.target)
        .with_context(|| format!("failed to create {}", recorder.target.display()))?;
    let records = recorder.target.join("runs.json");
    let mut document = read_records(&records, args.only.is_some())?;
    for run in
        runs().iter().filter(|run| args.only.as_ref().is_none_or(|only| run.name.contains(only.as_str())))
    {
        let record = recorder.record(run).with_context(|| format!("failed to record {}", run.name))?;
        document.insert(run.name.clone(), record);
    }
    let document = json!({"claude_code_version": version.trim(), "runs": document});
    fs::write(&records, format!("{document:#}\n"))
        .with_context(|| format!("failed to write {}", records.display()))?;
    fs::remove_dir_all(&recorder.scratch)
        .with_context(|| format!("failed to remove {}", recorder.scratch.display()))
}

/// All runs, each after the one that it resumes.
fn runs() -> Vec<Run> {
    let plain = |name: &str, prompt: &str| Run {
        name: name.to_owned(),
        prompt: prompt.to_owned(),
        flags: Vec::new(),
        resumes: None,
        environment: Environment::Plain,
        ending: Ending::ByItself,
    };
    let flags = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut runs: Vec<_> = SCENARIOS
        .iter()
        .map(|scenario| plain(scenario, &format!("Please scenario:{scenario} now.")))
        .collect();
    runs.extend([
        plain("text", "Hello."),
        Run { resumes: Some("text"), ..plain("resume", "And again.") },
        Run {
            flags: flags(&["--resume", "00000000-0000-0000-0000-000000000000"]),
            ..plain("resume-unknown", "Hello.")
        },
        Run { flags: flags(&["--max-turns", "2"]), ..plain("max-turns", "Please scenario:tool-loop now.") },
        Run { flags: flags(&["--no-such-flag"]), ..plain("usage", "Hello.") },
        Run {
            flags: flags(&["--max-budget-usd", "0.001"]),
            ..plain("max-budget", "Please scenario:tool-loop now.")
        },
        Run {
            environment: Environment::Retries(1),
            ..plain("retry", "Please scenario:overloaded-once now.")
        },
        Run { environment: Environment::WithoutKey, ..plain("not-logged-in", "Hello.") },
        Run { environment: Environment::NoListener, ..plain("connection-refused", "Hello.") },
        Run {
            ending: Ending::KilledAt(r#""type":"assistant""#),
            ..plain("killed", "Please scenario:slow now.")
        },
        Run {
            environment: Environment::Retries(10),
            ending: Ending::KilledAt(r#""attempt":3"#),
            ..plain("rate-limit-retries", "Please scenario:rate-limit now.")
        },
    ]);
    runs
}

/// The records of the runs that are not recorded again.
fn read_records(path: &Path, keep: bool) -> Result<serde_json::Map<String, Value>> {
    if !keep || !path.exists() {
        return Ok(serde_json::Map::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    let document: Value =
        serde_json::from_str(&text).with_context(|| format!("failed to parse {}", path.display()))?;
    Ok(document.get("runs").and_then(Value::as_object).cloned().unwrap_or_default())
}

struct Recorder {
    program: PathBuf,
    stand_in: StandIn,
    scratch: PathBuf,
    target: PathBuf,
}

impl Recorder {
    /// Runs Claude Code, writes its standard output, and returns how it ended.
    fn record(&self, run: &Run) -> Result<Value> {
        // A session is found only from the same folder and with the same home.
        let base = self.scratch.join(run.resumes.unwrap_or(&run.name));
        let (home, work) = (base.join("home"), base.join("work"));
        for folder in [&home, &work] {
            fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        }
        let session_file = base.join("session");
        let url = match run.environment {
            Environment::NoListener => unused_address()?,
            _ => self.stand_in.url().to_owned(),
        };
        let mut command = self.command(run, &home, &work, &url);
        if run.resumes.is_some() {
            let id = fs::read_to_string(&session_file).context("the run to resume has no session")?;
            command.args(["--resume", &id]);
        }
        let errors = base.join("stderr");
        command
            .stderr(File::create(&errors).with_context(|| format!("failed to create {}", errors.display()))?);
        let (lines, exit_code) = watch(&mut command, run)?;
        if let Some(id) = session_id(&lines) {
            fs::write(&session_file, id).context("failed to write the session")?;
        }
        let stderr = fs::read_to_string(&errors).context("failed to read the stderr of Claude Code")?;
        say(format!("{}: exit {exit_code:?}, {} lines", run.name, lines.len()));
        self.write(run, &base, &url, &lines, &stderr, exit_code)
    }

    fn command(&self, run: &Run, home: &Path, work: &Path, url: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["-p", "--model", "sonnet", "--dangerously-skip-permissions"])
            .args(["--output-format", "stream-json", "--verbose"])
            .args(&run.flags)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", home)
            .env("CLAUDE_CODE_TMPDIR", home)
            .env("IS_SANDBOX", "1")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("ANTHROPIC_BASE_URL", url)
            .current_dir(work);
        let retries = if let Environment::Retries(retries) = run.environment { retries } else { 0 };
        command.env("CLAUDE_CODE_MAX_RETRIES", retries.to_string());
        if run.environment != Environment::WithoutKey {
            command.env("ANTHROPIC_API_KEY", "sk-ant-stand-in");
        }
        command
    }

    fn write(
        &self,
        run: &Run,
        base: &Path,
        url: &str,
        lines: &[String],
        stderr: &str,
        exit_code: Option<i32>,
    ) -> Result<Value> {
        let mut scrubber = Scrubber::default();
        for (folder, with) in [("work", "/workspace"), ("home", "/root"), ("", "/scratch")] {
            let path = base.join(folder).display().to_string();
            let path = path.trim_end_matches('/');
            scrubber.replace(path, with);
            // Claude Code names its folders after the project's path.
            scrubber.replace(path.replace(|c: char| !c.is_ascii_alphanumeric(), "-"), "-workspace");
        }
        scrubber.replace(url.trim_start_matches("http://"), "api.example");
        let output: String = lines.iter().map(|line| scrubber.scrub(line) + "\n").collect();
        let path = self.target.join(format!("{}.jsonl", run.name));
        fs::write(&path, output).with_context(|| format!("failed to write {}", path.display()))?;
        let stderr = scrubber.scrub(stderr);
        Ok(json!({
            "prompt": run.prompt,
            "flags": run.flags,
            "resumes": run.resumes,
            "exit_code": exit_code,
            "stderr": stderr,
        }))
    }
}

/// Runs a command to its end, or until it is killed; returns the lines of its standard output and
/// its exit code, which is `None` after a kill.
fn watch(command: &mut Command, run: &Run) -> Result<(Vec<String>, Option<i32>)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("failed to start Claude Code")?;
    let lines = collect(&mut child, run);
    if lines.is_err() || run.ending != Ending::ByItself {
        child.kill().context("failed to kill Claude Code")?;
    }
    let status = child.wait().context("failed to wait for Claude Code")?;
    Ok((lines?, status.code()))
}

fn collect(child: &mut Child, run: &Run) -> Result<Vec<String>> {
    let mut stdin = child.stdin.take().context("Claude Code has no stdin")?;
    // A program that refuses its flags ends without reading, so this write may fail.
    let _ = stdin.write_all(run.prompt.as_bytes());
    drop(stdin);
    let stdout = child.stdout.take().context("Claude Code has no stdout")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let mut lines = Vec::new();
    loop {
        match receiver.recv_timeout(TIMEOUT) {
            Ok(line) => {
                let is_last = matches!(run.ending, Ending::KilledAt(text) if line.contains(text));
                lines.push(line);
                if is_last {
                    return Ok(lines);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(lines),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                bail!("Claude Code was silent for {} s", TIMEOUT.as_secs())
            }
        }
    }
}

fn session_id(lines: &[String]) -> Option<String> {
    let event: Value = serde_json::from_str(lines.first()?).ok()?;
    event.get("session_id").and_then(Value::as_str).map(str::to_owned)
}

/// An address on which nothing listens, since it was free a moment ago.
fn unused_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("failed to find a free port")?;
    let address = listener.local_addr().context("failed to read the free port")?;
    Ok(format!("http://{address}"))
}

fn fresh_folder(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("failed to remove {}", path.display()))?;
    }
    fs::create_dir_all(path).with_context(|| format!("failed to create {}", path.display()))?;
    Ok(path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_resumed_runs_come_first() {
        let mut seen = HashSet::new();
        for run in runs() {
            assert!(run.resumes.is_none_or(|earlier| seen.contains(earlier)), "{}", run.name);
            assert!(seen.insert(run.name.clone()), "{} twice", run.name);
        }
    }
}
