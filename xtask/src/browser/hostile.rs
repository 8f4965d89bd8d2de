//! A project and the state of its runs, as the sandbox leaves them, with hostile text in all that a
//! task can choose.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::process::{self, command};

/// Markup that runs a script, loads something, closes what is around it, or ends an attribute;
/// sequences for terminals; characters that hide or reorder text; and a word without a break.
fn hostile() -> String {
    let markup = "</pre></code></title></style></table><script>window.pwned = 1; alert(1)</script>\
                  <img src=http://evil.test/x onerror='window.pwned = 1'><a href='javascript:window.pwned = 1'>x</a>\
                  <iframe src=http://evil.test/></iframe><link rel=stylesheet href=http://evil.test/>\
                  <svg onload='window.pwned = 1'></svg><meta http-equiv=refresh content='9999;url=http://evil.test/'>\
                  <!-- \"'onfocus=window.pwned=1 autofocus tabindex=1 x=\" &lt;script&gt; ]]>";
    let signs = "\u{1b}]0;title\u{7} \u{1b}[31mred\u{9b}2J\r\u{8}\0 \u{202e}desrever\u{202c} \u{2066}a\u{200b}b\u{ad}c\u{feff} \u{301}\u{301}\u{301} \u{fdfd}";
    format!("{markup}{signs}{}", "long".repeat(200))
}

/// The runs of a project.
pub(crate) struct Runs {
    project: PathBuf,
    state: PathBuf,
    logs: PathBuf,
}

/// The arguments of `sandbox report` for the run with hostile text,
pub(crate) const HOSTILE: [&str; 1] = ["20260203T123456.000000"];
/// for that of 100,000 requests,
pub(crate) const LARGE: [&str; 1] = ["20260203T113456.000000-large"];
/// and for all runs.
pub(crate) const SINCE: [&str; 2] = ["--since", "36500d"];

impl Runs {
    /// Writes a new project and its runs into `folder`.
    pub(crate) fn write(folder: &Path) -> Result<Self> {
        let (project, state) = (folder.join("project"), folder.join("state/sandbox"));
        fs::create_dir_all(project.join(".sandbox"))?;
        fs::write(
            project.join(".sandbox/network-allowlist.yaml"),
            "domains: [allowed.example, unused.example]\n",
        )?;
        // The name of a project's folder is its name and a part of its digest.
        let digest = process::output(&mut shell("printf %s \"$0\" | sha256sum", &project))?;
        let key = format!("project-{}", digest.get(..12).context("sha256sum printed nothing")?);
        let runs = Self { logs: state.join("logs").join(&key), project, state };
        runs.write_session()?;
        runs.write_copy(&key)?;
        let id = format!("{}-<img src=x onerror=alert(1)>\u{202e}\u{1b}[31m", HOSTILE[0]);
        runs.write_run(&id, &hostile_log())?;
        Ok(runs)
    }

    /// The page that the command `sandbox` writes to `file`.
    pub(crate) fn page(&self, sandbox: &Path, args: &[&str], file: &Path) -> Result<PathBuf> {
        let mut report = command(sandbox, ["report", "--file"]);
        report
            .arg(file)
            .args(args)
            .current_dir(&self.project)
            .env("XDG_STATE_HOME", self.state.with_file_name(""))
            // Without settings of this machine's user.
            .env("XDG_CONFIG_HOME", self.state.with_file_name("none"));
        process::run_quietly(&mut report)?;
        Ok(file.to_owned())
    }

    /// Adds a run of 100,000 requests.
    pub(crate) fn add_large(&self) -> Result<()> {
        self.write_run(LARGE[0], &large_log(100_000))
    }

    fn write_run(&self, id: &str, log: &str) -> Result<()> {
        let folder = self.logs.join(id);
        fs::create_dir_all(&folder)?;
        let text = hostile();
        let session = json!({
            "agent": "claude", "folder": self.session(), "context": "context", "prompt": null, "id": text,
            "outcome": text, "cost": 1.25, "turns": 3,
        });
        let record = json!({
            "version": 1, "project": self.project, "command": text, "began": "2026-02-03T12:34:56Z", "copy": true,
            "end": {"exit_code": 1, "duration_ms": 60_000}, "session": session,
        });
        fs::write(folder.join("run.json"), record.to_string())?;
        fs::write(folder.join("network-sandbox.log"), "")?;
        Ok(fs::write(folder.join("network-sandbox.jsonl"), log)?)
    }

    fn session(&self) -> PathBuf {
        self.state.join("sessions/hostile")
    }

    fn write_session(&self) -> Result<()> {
        fs::create_dir_all(self.session())?;
        let text = hostile();
        let message = |kind: &str, content: Value| json!({"type": kind, "session_id": text, "message": {"role": kind, "content": content}});
        let lines = format!("{text}\n").repeat(60);
        let tool = json!({"type": "tool_use", "id": "1", "name": text, "input": {&text: [text, lines]}});
        let result = json!({"type": "tool_result", "tool_use_id": "1", "content": lines, "is_error": true});
        let mut inner = message("assistant", json!([{"type": "text", "text": "inner answer"}, tool]));
        inner["parent_tool_use_id"] = json!(text);
        let reply = json!({
            "session_id": text, "timestamp": "2026-02-03T12:34:57Z", "duration_ms": 9, "total_cost_usd": 1.25,
            "num_turns": 3, "request_text": text, "response_text": lines,
            "events": [message("assistant", json!([{"type": "text", "text": lines}, tool])),
                       message("user", json!([result])), inner],
        });
        let context = json!({"execution_context_id": "context", "replies": [reply]});
        Ok(fs::write(self.session().join("context.json"), context.to_string())?)
    }

    /// A copy of the work tree with files of a task.
    fn write_copy(&self, key: &str) -> Result<()> {
        let folder = self.state.join("copies").join(key);
        let upper = folder.join("upper");
        fs::create_dir_all(&upper)?;
        let text = hostile().replace('\0', "");
        let name: String = text.replace('/', "|").chars().take(120).collect();
        for (name, text) in [(name.as_str(), text.as_str()), ("package.json", &text), ("binary", "\0")] {
            fs::write(upper.join(name), format!("{text}\n-{text}\n+{text}\n"))?;
        }
        fs::write(folder.join("names"), "")?;
        let tree = process::output(&mut shell("printf %s \"$0\" | base64 --wrap 0", &self.project))?;
        let begun = json!({"version": 3, "tree": tree, "since": [0, 0]});
        Ok(fs::write(folder.join("begun.json"), begun.to_string())?)
    }
}

fn shell(script: &str, path: &Path) -> std::process::Command {
    let mut shell = command("sh", ["-c", script]);
    shell.arg(path);
    shell
}

fn hostile_log() -> String {
    let text = hostile();
    let mut log = String::new();
    for (second, (decision, reason)) in
        [("blocked", json!("host")), ("allowed", Value::Null), ("error", Value::Null)].into_iter().enumerate()
    {
        for (host, time) in
            [(text.as_str(), text.clone()), ("allowed.example", format!("2026-02-03T12:34:5{second}.000Z"))]
        {
            let mut request = request(&time, decision, host, &text);
            request["method"] = json!(text);
            request["reason"] = reason.clone();
            request["error"] = json!(text);
            request["credentials"] = json!([text, "API_KEY"]);
            request["masked"] = json!(2);
            let _ = writeln!(log, "{request}");
        }
    }
    log
}

/// A log of this number of requests; every second one is to a host of its own, and refused.
fn large_log(requests: usize) -> String {
    let mut log = String::new();
    for at in 0..requests {
        let time =
            format!("2026-02-03T{:02}:{:02}:{:02}.000Z", 11 + at / 36_000, at / 600 % 60, at / 10 % 60);
        let target = format!("/packages/{:x}/package-{at}-py3-none-any.whl", at * 7919);
        let request = if at % 2 == 0 {
            request(&time, "allowed", "allowed.example", &target)
        } else {
            let mut request = request(&time, "blocked", &format!("files{at}.example"), &target);
            (request["reason"], request["status"]) = (json!("host"), json!(403));
            request
        };
        let _ = writeln!(log, "{request}");
    }
    log
}

fn request(time: &str, decision: &str, host: &str, target: &str) -> Value {
    json!({
        "v": 1, "time": time, "event": "request", "decision": decision, "method": "GET", "scheme": "https",
        "host": host, "target": target, "status": 200, "rule": null, "reason": null, "error": null, "bytes_up": 100,
        "bytes_down": 20_000, "first_byte_ms": 10, "duration_ms": 250,
    })
}
