//! Bundles: packed in a project, run as on another host, and their results.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e_tests::engine;
use e2e_tests::setting::Setting;
use e2e_tests::world::World;
use sandbox_bundle::{
    AgentEnd, AgentSummary, Content, Digest, Measured, Outcome, Receipt, ReceiptKey, RequestedHost, RunResult,
};
use serde_json::Value;

use crate::command_line::project::{Ended, Project, assert_nothing_left};

/// A host with a folder for bundles and results, which is not that of any project.
struct Host {
    project: Project,
    folder: tempfile::TempDir,
    prefix: &'static str,
}

impl Host {
    /// A project with a few files, and the user's own settings for runs of bundles.
    fn new(prefix: &'static str) -> Self {
        let host = Self {
            project: Project::with_prefix(prefix),
            folder: tempfile::tempdir().expect("a folder"),
            prefix,
        };
        host.project.write("unsorted", "b\na\n");
        host.project.write("src/old", "old");
        host.project.write("gone", "gone");
        // Engine, prefix and upstream access are those of the host.
        let config = fs::read_to_string(host.project.path().join(".sandbox/sandbox.yaml")).expect("settings");
        let config = config.lines().filter(|line| !line.starts_with("image:"));
        host.write("sandbox.yaml", &config.collect::<Vec<_>>().join("\n"));
        host.write("roots.pem", World::shared().roots_pem());
        host
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a file of the user's configuration.
    fn write(&self, name: &str, text: &str) {
        let folder = self.at("config/sandbox");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(name), text).expect("a file");
    }

    /// Packs `script`; returns the flag that names the bundle's digest.
    fn pack(&self, more: &[&str], script: &str) -> String {
        self.packed(&[&["create"], more, &["--", "bash", "-c", script]].concat())
    }

    fn packed(&self, what: &[&str]) -> String {
        let bundle = self.at("job.bundle").display().to_string();
        let (command, more) = what.split_first().expect("a command");
        let ended = self.project.output(&[&["bundle", command, "-o", &bundle], more].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        format!("--trust=sha256:{}", ended.stdout.trim())
    }

    /// The command that runs `bundle` in the folder of the results.
    fn command(&self, more: &[&str], bundle: &str, result: &str) -> Command {
        let run = ["run", "--bundle", bundle, "--result", result];
        let mut command = self.project.wary(&[&run[..], more].concat());
        command.current_dir(self.folder.path()).env("XDG_CONFIG_HOME", self.at("config"));
        command
    }

    /// Runs the bundle, with variables.
    fn run(&self, more: &[&str], set: &[(&str, &str)], result: &str) -> Ended {
        let mut command = self.command(more, "job.bundle", result);
        command.envs(set.iter().copied()).output().expect("the sandbox command").into()
    }

    fn record(&self, result: &str) -> Value {
        let text = fs::read(self.at(result).join("result.json")).expect("a record");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// What a result says about changed paths.
    fn changes(&self, result: &str) -> (Vec<String>, Vec<String>) {
        let mut archive =
            tar::Archive::new(fs::File::open(self.at(result).join("changes.tar")).expect("a file"));
        let first = archive.entries().expect("entries").next().expect("an entry").expect("an entry");
        let changes: Value = serde_json::from_reader(first).expect("JSON");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let list = |name: &str| changes.get(name).and_then(Value::as_array).expect("a list").iter();
        let removed = list("removed").map(text);
        let there = list("tree").map(|entry| text(entry.get("path").expect("a path")));
        (there.collect(), removed.collect())
    }

    async fn close(&self) {
        assert_nothing_left(self.prefix).await;
        let copies = self.project.state().join("sandbox/bundle-copies");
        let left = fs::read_dir(copies).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["lock"]);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort_unstable();
    names
}

const FILES: [&str; 6] = ["changes.tar", "network.jsonl", "receipt.json", "result.json", "stderr", "stdout"];
/// Those of an agent.
const AGENT_FILES: [&str; 2] = ["agent.json", "context.json"];
/// The document with a verifier of receipts in Python.
const DOCUMENT: &str = include_str!("../../../docs/bundles.md");

#[tokio::test(flavor = "multi_thread")]
async fn deterministic_command_has_one_result_on_files_that_stay_unchanged() {
    let host = Host::new("e2e-bundle");
    let script = "sort unsorted > sorted; echo new > src/old; rm gone; echo out; echo err >&2; exit 3";
    let digest = host.pack(&[], script);
    let [first, second] = ["first", "second"].map(|result| {
        let ended = host.run(&[&digest], &[], result);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(3), "out\n"), "{ended:?}");
        assert_eq!(names(&host.at(result)), FILES);
        assert_eq!(fs::read_to_string(host.at(result).join("stdout")).expect("a file"), "out\n");
        assert_eq!(fs::read_to_string(host.at(result).join("stderr")).expect("a file"), "err\n");
        let (there, removed) = host.changes(result);
        assert_eq!(there, ["sorted", "src", "src/old"]);
        assert_eq!(removed, ["gone"]);
        host.record(result)
    });
    assert_eq!(first["outcome"]["exit_code"], 3);
    assert_eq!(first["outcome"]["ended"], "exited");
    assert_eq!((&first["digest"], &first["outcome"]), (&second["digest"], &second["outcome"]));
    // Nothing of the project changed, and no copy of it has anything.
    assert_eq!(fs::read_to_string(host.project.path().join("src/old")).expect("a file"), "old");
    assert!(host.project.path().join("gone").exists() && !host.project.path().join("sorted").exists());
    let diff = host.project.output(&["diff"]);
    assert!(!diff.stdout.contains("sorted"), "{diff:?}");
    let again = host.run(&[&digest], &[], "first");
    again.fails(2, "exists already");
    // The control: another output is another result.
    let digest = host.pack(&[], "date +%N");
    for result in ["third", "fourth"] {
        assert_eq!(host.run(&[&digest], &[], result).code, Some(0));
    }
    assert_ne!(host.record("third")["digest"], host.record("fourth")["digest"]);
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bundle_reaches_what_both_policies_permit() {
    let host = Host::new("e2e-bundle-policy");
    let digest = host.pack(&[], "curl -s -o /dev/null -w '%{http_code}' https://open.test/");
    assert_eq!(host.run(&[&digest], &[], "open").stdout, "200", "the control");
    let log = fs::read_to_string(host.at("open/network.jsonl")).expect("a file");
    assert!(log.contains("open.test"), "{log}");
    host.write("policy.yaml", "domains: [other.test]\n");
    let ended = host.run(&[&digest], &[], "narrowed");
    assert!(ended.stdout != "200", "{ended:?}");
    let log = fs::read_to_string(host.at("narrowed/network.jsonl")).expect("a file");
    assert!(log.contains("open.test") && log.contains("blocked"), "{log}");
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_is_given_by_a_variable_and_is_nowhere_in_the_result() {
    const SECRET: &str = "hunter2-hunter2-hunter2";
    let host = Host::new("e2e-bundle-secret");
    host.project.append(
        ".sandbox/sandbox.yaml",
        "masked_secrets: {TOKEN: {value: !env ELSEWHERE, scopes: [open.test], headers: [authorization]}}\n",
    );
    let digest = host.pack(
        &[],
        "echo \"$TOKEN\" | tee token; curl -s -H \"Authorization: $TOKEN\" https://open.test/ > /dev/null",
    );
    host.run(&[], &[("TOKEN", SECRET)], "result").fails(125, "takes variables of this host: TOKEN");
    host.run(&[&digest], &[], "result").fails(125, "the bundle takes the variable `TOKEN`, which is not set");
    assert!(!host.at("result").exists());
    let ended = host.run(&[&digest], &[("TOKEN", SECRET)], "result");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.len() > 10, "a surrogate: {ended:?}");
    let mut command = host.command(&[&digest, "--secrets-stdin"], "job.bundle", "other");
    let mut running =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the sandbox command");
    let variables = format!(r#"{{"TOKEN": "{SECRET}"}}"#);
    running.stdin.take().expect("a pipe").write_all(variables.as_bytes()).expect("a reader");
    assert_eq!(running.wait().expect("its end").code(), Some(0));
    assert!(host.at("other").exists());
    for name in FILES {
        let bytes = fs::read(host.at("result").join(name)).expect("a file");
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "{name}");
    }
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bundle_in_a_folder_that_tasks_can_write_needs_its_digest() {
    let host = Host::new("e2e-bundle-trust");
    let digest = host.pack(&[], "true");
    let run = |more: &[&str], bundle: &str, result: &str| -> Ended {
        host.command(more, bundle, result).output().expect("the sandbox command").into()
    };
    run(&[], "job.bundle", "private").fails(125, "private networks");
    let settings = fs::read_to_string(host.at("config/sandbox/sandbox.yaml")).expect("settings");
    let settings = settings.lines().filter(|line| !line.starts_with("upstream:"));
    host.write("sandbox.yaml", &settings.collect::<Vec<_>>().join("\n"));
    // A run in the folder of the bundle makes it one that tasks can write.
    let inside = host.project.path().join("job.bundle");
    fs::copy(host.at("job.bundle"), &inside).expect("a copy");
    assert_eq!(host.project.run("true").code, Some(0));
    let inside = inside.display().to_string();
    run(&[], &inside, "result").fails(125, "in a folder that tasks can write to");
    run(&["--trust"], &inside, "result").fails(125, "in a folder that tasks can write to");
    assert_eq!(run(&[&digest], &inside, "result").code, Some(0));
    let other = format!("--trust=sha256:{}", "0".repeat(64));
    run(&[&other], &inside, "other").fails(125, "not the one in --trust");
    assert_eq!(run(&[], "job.bundle", "outside").code, Some(0), "the control");
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn result_is_applied_to_the_project_unless_the_host_changed_the_same_files() {
    let host = Host::new("e2e-bundle-apply");
    let digest =
        host.pack(&[], "sort unsorted > sorted; echo new > src/old; rm gone; echo x > .envrc; mkfifo pipe");
    assert_eq!(host.run(&[&digest], &[], "result").code, Some(0));
    let result = host.at("result").display().to_string();
    let text = |path: &str| fs::read_to_string(host.project.path().join(path)).ok();
    let on_result = |more: &[&str]| host.project.output(&[more, &["--result", &result]].concat());
    let diff = on_result(&["diff"]);
    let expected = "A  .envrc (withheld: protected)\nD  gone\nA  sorted\nM  src/old\n";
    assert_eq!((diff.code, diff.stdout.as_str()), (Some(0), expected), "{diff:?}");
    assert!(diff.stderr.contains("lacks changes"), "{diff:?}");
    host.project.write("src/old", "by the user");
    on_result(&["apply"]).fails(125, "src/old");
    assert_eq!((text("sorted"), text("gone").as_deref()), (None, Some("gone")), "all or nothing");
    host.project.write("src/old", "old");
    let applied = on_result(&["apply"]);
    assert_eq!(applied.stdout, "D  gone\nA  sorted\nM  src/old\n", "{applied:?}");
    let now = ["sorted", "src/old", "gone", ".envrc"].map(text);
    assert_eq!(now, [Some("a\nb\n".to_owned()), Some("new\n".to_owned()), None, None]);
    // As after a run, the rest waits in the copy.
    let rest = host.project.output(&["apply", "--include-protected"]);
    assert_eq!((rest.code, rest.stdout.as_str()), (Some(0), "A  .envrc (withheld: protected)\n"), "{rest:?}");
    assert_eq!(text(".envrc").as_deref(), Some("x\n"));
    assert_eq!(names(&host.at("result")), FILES, "it stays");
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receipt_states_what_a_run_reached_and_only_its_key_verifies_it() {
    let host = Host::new("e2e-bundle-receipt");
    let digest = host.pack(&[], "curl -s https://open.test/ > page; curl -s https://blocked.test/; exit 3");
    assert_eq!(host.run(&[&digest], &[], "result").code, Some(3));
    let key = host.project.output(&["receipt", "key"]);
    assert!(key.stdout.starts_with("-----BEGIN PUBLIC KEY-----\n"), "{key:?}");
    fs::write(host.at("key.pem"), &key.stdout).expect("a file");
    let [result, key] = ["result", "key.pem"].map(|name| host.at(name).display().to_string());
    let verify = |more: &[&str]| host.project.output(&[&["receipt", "verify", &result], more].concat());
    let shown = verify(&["--key", &key]);
    for line in
        ["exit code 3", "permitted  open.test (1)", "refused    blocked.test (1)", "Sandbox-Receipt: sha256:"]
    {
        assert!(shown.code == Some(0) && shown.stdout.contains(line), "{line}: {shown:?}");
    }
    assert_eq!(verify(&[]).code, Some(0), "the key of this host");
    let other = sandbox_bundle::ReceiptKey::new(&[7; 32]).public().to_pem();
    fs::write(&key, other).expect("a file");
    verify(&["--key", &key]).fails(125, "is signed by another key");
    fs::write(host.at("result/stdout"), "other").expect("a file");
    verify(&[]).fails(125, "`stdout` was changed");
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verifier_in_python_agrees_on_a_thousand_receipts() {
    let project = Project::with_prefix("e2e-receipts");
    let (_, script) = DOCUMENT.split_once("```python\n").expect("a script");
    project.write("verify.py", script.split_once("```").expect("its end").0);
    let key = ReceiptKey::new(&rand::random());
    project.write("key.pem", &key.public().to_pem());
    let expected: Vec<(String, bool)> = (0..1_000).map(|number| receipt(&project, number, &key)).collect();
    let image = &Setting::of_this_run().clients_image;
    let command = "python3 verify.py key.pem receipts/*";
    let ended = project.output(&["run", "--image", image, "--", "bash", "-c", command]);
    assert_eq!(ended.code, Some(1), "it refuses some: {ended:?}");
    let verdict = |line: &str| {
        let (folder, verdict) = line.split_once(' ').expect("a verdict");
        (folder.to_owned(), verdict.starts_with("bundle "))
    };
    let found: Vec<_> = ended.stdout.lines().map(verdict).collect();
    assert_eq!(found, expected);
    let good = expected.iter().filter(|(_, is_good)| *is_good).count();
    assert_eq!(good, 500, "the others have a changed byte, and one contradicts its result");
    assert_nothing_left("e2e-receipts").await;
}

/// Writes a result with a receipt; every second pair has a changed byte, or contradicts itself. Returns
/// its folder, and whether it is accepted.
fn receipt(project: &Project, number: usize, key: &ReceiptKey) -> (String, bool) {
    let content = |bytes: &[u8]| Content { sha256: Digest::of(bytes), size: bytes.len() as u64 };
    let random = || Digest::of(&rand::random::<[u8; 8]>());
    let (bundle, empty) = (random(), content(b""));
    let agent = rand::random::<bool>().then(|| AgentEnd {
        summary: AgentSummary {
            outcome: sandbox::Outcome::Success,
            turns: 3,
            microdollars: rand::random_range(0..1 << 53),
        },
        report: empty,
        session: empty,
    });
    let summary = agent.as_ref().map(|agent| agent.summary);
    let outcome = Outcome {
        bundle,
        ended: sandbox_bundle::Ended::Exited,
        exit_code: rand::random(),
        agent,
        changes: empty,
        omitted: Vec::new(),
        omitted_more: 0,
        stdout: empty,
        stderr: empty,
        cut: 0,
    };
    let [image, program] = ["x\"\\é\n", "0.1.0"].map(str::to_owned);
    let duration_ms = rand::random_range(0..1 << 53);
    let measured = Measured { network: empty, duration_ms, oom_killed: false, image: image.clone(), program };
    let record = RunResult::new(outcome, measured).expect("a record");
    let host =
        |_| RequestedHost { host: random().to_string(), permitted: 1, refused: rand::random_range(0..9) };
    let receipt = Receipt {
        bundle,
        tree: random(),
        policy: random(),
        policy_changed: false,
        image,
        changes: empty.sha256,
        ended: record.outcome.ended,
        exit_code: record.outcome.exit_code,
        agent: summary,
        duration_ms,
        hosts: (0..rand::random_range(0..4)).map(host).collect(),
        hosts_more: 0,
    };
    let receipt = if number == 1 { Receipt { bundle: random(), ..receipt } } else { receipt };
    let mut files = [record.to_bytes().expect("a record"), receipt.sign(&record, key).expect("a receipt")];
    if number % 2 == 1 && number > 1 {
        let [record, receipt] = &mut files;
        let file = if rand::random() { record } else { receipt };
        let at = rand::random_range(0..file.len());
        *file.get_mut(at).expect("a byte") ^= rand::random_range(1..=255);
    }
    let folder = format!("receipts/{number:04}");
    let path = project.path().join(&folder);
    fs::create_dir_all(&path).expect("a folder");
    for name in FILES.into_iter().chain(AGENT_FILES) {
        fs::write(path.join(name), "").expect("a file");
    }
    let [result, receipt] = &files;
    fs::write(path.join("result.json"), result).expect("a file");
    fs::write(path.join("receipt.json"), receipt).expect("a file");
    let keys = [key.public()];
    let verified =
        RunResult::read(result).is_ok_and(|record| Receipt::verify(receipt, &record, &keys).is_ok());
    (folder, verified)
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_of_a_bundle_has_an_outcome_and_a_session_in_its_result() {
    const KEY: &str = "sk-ant-api03-bundle-0123456789abcdefghij";
    let host = Host::new("e2e-bundle-agent");
    let file = host.at("job.bundle").display().to_string();
    let pack = |name: &str| -> Ended {
        let mut command = host.project.sandbox(&["bundle", "agent", "-o", &file, "hello"]);
        command.env_remove("ANTHROPIC_API_KEY").env(name, KEY).output().expect("the command").into()
    };
    let [without, with] = ["OTHER", "ANTHROPIC_API_KEY"].map(pack);
    let warned = |ended: &Ended| ended.stderr.contains("the agent gets no key");
    assert!(warned(&without) && !warned(&with), "{without:?} {with:?}");
    host.project.append(
        ".sandbox/sandbox.yaml",
        "masked_secrets: {ANTHROPIC_API_KEY: {preset: anthropic}}\n\
         env: {CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', CLAUDE_CODE_MAX_RETRIES: '1'}\n",
    );
    let claude = Setting::of_this_run().claude.display().to_string();
    let run = |digest: &str, result: &str| {
        host.run(&["--agent-bin", &claude, digest], &[("ANTHROPIC_API_KEY", KEY)], result)
    };
    let prompt = "scenario:tool-use\ncommand: echo by the agent > src/new";
    let digest = host.packed(&["agent", "--max-turns", "9", prompt]);
    let ended = host.run(&[&digest], &[("ANTHROPIC_API_KEY", KEY)], "missing");
    ended.fails(127, "the image has no `claude`");
    let ended = run(&digest, "result");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let files = names(&host.at("result"));
    assert_eq!(files, [&AGENT_FILES[..1], &FILES[..1], &AGENT_FILES[1..], &FILES[1..]].concat());
    for name in &files {
        let bytes = fs::read(host.at("result").join(name)).expect("a file");
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{name}");
    }
    let json = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(host.at("result").join(name)).expect("a file")).expect("JSON")
    };
    let (report, session) = (json("agent.json"), json("context.json"));
    assert_eq!((&report["outcome"], &report["workspace"]), (&"success".into(), &Value::Null));
    assert_eq!(report["session_id"], session["replies"][0]["session_id"]);
    assert_eq!(session["replies"][0]["request_text"], prompt);
    let record = host.record("result");
    let summary = &record["outcome"]["agent"]["summary"];
    assert_eq!((&summary["outcome"], &summary["turns"]), (&"success".into(), &report["turns"]));
    let result = host.at("result").display().to_string();
    let verified = host.project.output(&["receipt", "verify", &result]);
    assert!(verified.code == Some(0) && verified.stdout.contains("agent      success, "), "{verified:?}");
    let applied = host.project.output(&["apply", "--result", &result]);
    assert_eq!(applied.stdout, "A  src/new\n", "{applied:?}");
    fs::write(host.at("result/context.json"), "{}").expect("a file");
    host.project.output(&["diff", "--result", &result]).fails(125, "`context.json` was changed");

    let digest = host.packed(&["agent", "scenario:rate-limit"]);
    let limited = run(&digest, "limited");
    assert_eq!(limited.code, Some(75), "{limited:?}");
    let outcome = &host.record("limited")["outcome"];
    assert_eq!(
        (&outcome["agent"]["summary"]["outcome"], &outcome["exit_code"]),
        (&"rate_limited".into(), &75.into())
    );
    let limited = host.at("limited").display().to_string();
    let diff = host.project.output(&["diff", "--result", &limited]);
    assert!(diff.stderr.contains("the agent ended with outcome rate_limited"), "{diff:?}");
    let digest = host.packed(&["agent", "--timeout", "3s", "scenario:hang"]);
    assert_eq!(run(&digest, "late").code, Some(124));
    assert_eq!(host.record("late")["outcome"]["ended"], "timed_out");
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_run_leaves_no_result_and_the_next_one_removes_the_rest() {
    let host = Host::new("e2e-bundle-kill");
    let digest = host.pack(&[], "echo begun; if [ -e wait ]; then sleep 600; fi");
    let plain_digest = digest;
    let plain = host.at("plain.bundle");
    fs::rename(host.at("job.bundle"), &plain).expect("a bundle");
    host.project.write("wait", "");
    let digest = host.pack(&[], "echo begun; if [ -e wait ]; then sleep 600; fi");
    let mut killed = host.command(&[&digest], "job.bundle", "killed");
    let mut killed = killed.stdout(Stdio::piped()).spawn().expect("the sandbox command");
    let mut line = String::new();
    BufReader::new(killed.stdout.take().expect("a pipe")).read_line(&mut line).expect("output");
    assert_eq!(line, "begun\n");
    killed.kill().expect("a process");
    killed.wait().expect("its end");
    assert!(!host.at("killed").exists());
    let ended = host.command(&[&plain_digest], "plain.bundle", "next").output().expect("the sandbox command");
    assert_eq!(Ended::from(ended).code, Some(0));
    assert_eq!(names(&host.at("next")), FILES);
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_sandbox_leaves_no_result_and_a_time_limit_does() {
    let host = Host::new("e2e-bundle-end");
    let digest = host.pack(&["--image", "localhost/there-is-none:1"], "true");
    let ended = host.run(&[&digest], &[], "result");
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert_eq!(names(host.folder.path()), ["config", "job.bundle"], "no result, and no hidden folder");
    let digest = host.pack(&["--timeout", "1s"], "echo begun > begun; sleep 60");
    host.run(&["--agent-bin", "/bin/true", &digest], &[], "result").fails(2, "--agent-bin is for agents");
    let ended = host.run(&[&digest], &[], "result");
    assert_eq!(ended.code, Some(124), "{ended:?}");
    let record = host.record("result");
    assert_eq!(
        (&record["outcome"]["ended"], &record["outcome"]["exit_code"]),
        (&"timed_out".into(), &124.into())
    );
    assert_eq!(host.changes("result").0, ["begun"]);
    assert_eq!(engine::containers(host.prefix).await, Vec::<String>::new());
    host.close().await;
}
