//! `policy` and `stop`: an active run, controlled by another process.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::Value;

use super::project::{Ended, Project, assert_nothing_left};

/// Prints the sockets that it sees, then for each line of URLs the statuses of requests to them.
const SCRIPT: &str = "echo sockets $(find / -path /proc -prune -o -type s -print); \
    while read -r urls; do for url in $urls; do curl -s -o /dev/null -w '%{http_code} ' \"$url\"; done; echo; done";

/// An active `sandbox run` with the script.
pub(super) struct Run {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Run {
    fn start(project: &Project) -> Self {
        Self::spawn(project.sandbox(&["run", "--", "bash", "-c", SCRIPT]))
    }

    pub(super) fn spawn(mut command: std::process::Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the sandbox command");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut run = Self { child, stdin, stdout };
        let sockets = run.line();
        // The task does not see the control socket.
        assert!(sockets == "sockets", "{sockets:?}: {:?}", run.end());
        run
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("output");
        line.trim_end().to_owned()
    }

    pub(super) fn ask(&mut self, urls: &str) -> String {
        self.stdin.write_all(format!("{urls}\n").as_bytes()).expect("it reads");
        self.line()
    }

    pub(super) fn end(self) -> Ended {
        let Self { child, stdin, .. } = self;
        drop(stdin);
        child.wait_with_output().expect("our own child").into()
    }
}

fn succeed(project: &Project, arguments: &[&str]) -> String {
    let ended = project.output(arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

/// The ids of the runs with a shield in the output of `status`, and the states of the shields.
fn shields(project: &Project) -> Vec<(String, String)> {
    let status = project.output(&["status", "--output", "json"]).json();
    let instances = status.get("instances").and_then(Value::as_array).expect("a list");
    let text = |instance: &Value, name: &str| Some(instance.get(name)?.as_str()?.to_owned());
    instances.iter().filter_map(|instance| Some((text(instance, "id")?, text(instance, "shield")?))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_of_a_run_is_changed_by_another_process() {
    let prefix = "e2e-cli-policy";
    let project = Project::with_prefix(prefix);
    project.output(&["policy", "show"]).fails(125, "no run is in progress");
    let mut run = Run::start(&project);
    let urls = "https://open.test/ https://other.test/";
    assert_eq!(run.ask(urls), "200 403");
    let shown = project.output(&["policy", "show", "--output", "json"]).json();
    let id = shown["run"].as_str().expect("a text").to_owned();
    assert_eq!(shields(&project), [(id.clone(), "up".to_owned())]);
    assert_eq!(shown["policy"]["domains"][0], "open.test", "{shown}");
    assert_eq!(shown["pid"], run.child.id());

    project.write("bad.yaml", "domains:\n  - a.test\n  - 'https://b.test'\n");
    project.output(&["policy", "set", "bad.yaml"]).fails(125, "bad.yaml:3:5");
    assert_eq!(run.ask(urls), "200 403", "nothing changed");
    project.write("next.yaml", "domains: [other.test]\n");
    let refused = project.wary(&["policy", "set", "next.yaml"]).output().expect("the sandbox command");
    Ended::from(refused).fails(125, "sandbox trust");
    assert_eq!(run.ask(urls), "200 403", "a file that a task may have written is not used");
    assert_eq!(succeed(&project, &["policy", "set", "next.yaml", &id]), format!("{id}  up\n"));
    assert_eq!(run.ask(urls), "403 200");
    assert!(succeed(&project, &["policy", "show"]).contains("\"other.test\""));

    let down = succeed(&project, &["policy", "down", "--for", "10m", &id[..6]]);
    assert!(down.starts_with(&format!("{id}  down until 20")), "{down}");
    assert_eq!(run.ask(urls), "200 200");
    assert_eq!(run.ask("http://private.test/"), "403");
    succeed(&project, &["policy", "up"]);
    assert_eq!(run.ask(urls), "403 200");

    assert_eq!(succeed(&project, &["policy", "quarantine"]), format!("{id}  quarantine\n"));
    assert_eq!(run.ask(urls), "403 403");
    project.output(&["policy", "down", "--for", "1s"]).fails(125, "quarantined");
    assert_eq!(shields(&project), [(id, "quarantine".to_owned())]);
    assert_eq!(run.end().code, Some(0));
    let log = succeed(&project, &["logs"]);
    assert!(log.contains("\nPOLICY set -> up\n") && log.contains("\nPOLICY down -> down until 20"), "{log}");
    assert_nothing_left(prefix).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_stopped_by_another_process() {
    let prefix = "e2e-cli-stop";
    let project = Project::with_prefix(prefix);
    let (first, second) = (Run::start(&project), Run::start(&project));
    let sandbox = project.state().join("sandbox/control");
    let sockets = || fs::read_dir(&sandbox).expect("a folder").count();
    assert_eq!(sockets(), 2);
    let several = project.output(&["stop"]);
    several.fails(2, "more than one run matches");
    let ids: Vec<String> = shields(&project).into_iter().map(|(id, _)| id).collect();
    assert!(ids.len() == 2 && ids.iter().all(|id| several.stderr.contains(id.as_str())), "{several:?}");
    assert_eq!(succeed(&project, &["stop", &ids[0]]), format!("{}  stopped\n", ids[0]));
    assert_eq!(shields(&project), [(ids[1].clone(), "up".to_owned())]);

    // The socket of a killed run does not count as a run, and is removed.
    let mut killed = Run::start(&project);
    assert_eq!(sockets(), 2);
    killed.child.kill().expect("our own child");
    killed.child.wait().expect("our own child");
    assert_eq!(sockets(), 2, "the control: it left its socket");
    assert_eq!(succeed(&project, &["stop", "--all"]), format!("{}  stopped\n", ids[1]));
    assert_eq!([first.end().code, second.end().code], [Some(143); 2]);
    assert_eq!(sockets(), 0);
    project.output(&["stop"]).fails(125, "no run is in progress");
    succeed(&project, &["clean"]);
    assert_nothing_left(prefix).await;
}

/// Opens the folders and the sockets to everyone: only the check of the peer's user remains.
fn weaken(state: &Path) {
    for path in ["", "sandbox", "sandbox/control"] {
        fs::set_permissions(state.join(path), fs::Permissions::from_mode(0o755)).expect("our own folder");
    }
    for socket in fs::read_dir(state.join("sandbox/control")).expect("a folder") {
        let socket = socket.expect("a socket").path();
        fs::set_permissions(socket, fs::Permissions::from_mode(0o666)).expect("our own socket");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_socket_refuses_another_user() {
    const NOBODY: u32 = 65534;
    let project = Project::new();
    let state = tempfile::tempdir().expect("a folder");
    // In a folder where another user can execute it.
    let program = state.path().join("program");
    fs::copy(project.program(), &program).expect("a copy");
    let show = |user: Option<u32>| -> Ended {
        let mut command = std::process::Command::new(&program);
        command.args(["policy", "show"]).env("XDG_STATE_HOME", state.path()).current_dir("/");
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.output().expect("the sandbox command").into()
    };
    let mut command = project.sandbox(&["run", "--", "bash", "-c", SCRIPT]);
    command.env("XDG_STATE_HOME", state.path());
    let run = Run::spawn(command);
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
    show(Some(NOBODY)).fails(125, "ermission denied");
    weaken(state.path());
    let refused = show(Some(NOBODY));
    refused.fails(125, "refuses this user");
    assert_eq!(refused.stdout, "");
    let own = show(None);
    assert!(own.code == Some(0) && own.stdout.contains("Shield   up"), "the control: {own:?}");
    let ended = run.end();
    assert!(ended.stderr.contains("user 65534 was refused"), "{ended:?}");
}
