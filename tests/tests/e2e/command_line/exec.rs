//! `exec`, `build` and `clean --force`.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use e2e_tests::setting::Setting;

use super::project::{Ended, Project, config};

/// A project that user 1000 can write to.
fn open_project() -> Project {
    let project = Project::new();
    fs::set_permissions(project.path(), fs::Permissions::from_mode(0o777)).expect("our own folder");
    project
}

fn exec(project: &Project, options: &[&str], script: &str) -> Ended {
    project.output(&[&["exec"], options, &["--", "bash", "-c", script]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn command_is_confined_and_its_exit_code_is_returned() {
    let project = open_project();
    let ended = exec(&project, &["--env", "GIVEN=x"], "id -u; echo $GIVEN; pwd; echo err >&2; exit 42");
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (Some(42), "1000\nx\n/workspace\n", "err\n")
    );
    for script in ["touch /etc/x", "touch /usr/x", "rm -rf --no-preserve-root /usr"] {
        let ended = exec(&project, &[], script);
        assert!(ended.code != Some(0) && ended.stderr.contains("Read-only"), "{ended:?}");
    }
    let control = project.run("id -u; touch /etc/x && echo written");
    assert_eq!(control.stdout, "0\nwritten\n", "the control: the container of an agent");

    // On a slow machine the command may reach the limit before it prints anything.
    let limits = ["4", "16", "64", "256"].into_iter();
    let mut late =
        limits.map(|limit| exec(&project, &["--timeout", limit], "echo begun; setsid sleep 600 & sleep 600"));
    let late = late.find(|late| late.code != Some(124) || !late.stdout.is_empty()).expect("it begins");
    assert_eq!((late.code, late.stdout.as_str()), (Some(124), "begun\n"), "{late:?}");
    assert_eq!(project.output(&["exec", "--", "no-such-program"]).code, Some(127));
    let nowhere = project.output(&["exec", "--engine", "unix:///no/such.sock", "--", "true"]);
    assert_eq!(nowhere.code, Some(125));
    assert!(
        nowhere.stderr.starts_with("error: Docker is not running") && nowhere.stderr.contains("hint:"),
        "{nowhere:?}"
    );
    let missing = project.output(&["exec", "--image", "localhost/no-such-image", "--", "true"]);
    assert!(missing.stderr.starts_with("error: Image not found"), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_in_a_folder_of_root_has_a_hint() {
    let hint = "hint: the folder belongs to root";
    for (project, is_of_root) in [(Project::new(), true), (open_project(), false)] {
        if is_of_root {
            fs::set_permissions(project.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
        }
        let ended = exec(&project, &[], "touch x");
        assert_eq!(
            (ended.code == Some(0), ended.stderr.contains(hint)),
            (!is_of_root, is_of_root),
            "{ended:?}"
        );
        let success = exec(&project, &[], "true");
        assert_eq!((success.code, success.stderr.as_str()), (Some(0), ""), "{success:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_and_network_flags_limit_the_command() {
    let project = open_project();
    let script = "ls given; echo made > made; ls -A .sandbox; echo x > .sandbox/x";
    project.write("given", "given");
    let none = exec(&project, &["--workspace", "none"], script);
    assert!(!none.stdout.contains("given"), "{none:?}");
    let reading = exec(&project, &["--workspace", "ro"], script);
    assert!(reading.stdout.contains("given") && reading.stderr.contains("made: Read-only"), "{reading:?}");
    assert!(!project.path().join("made").exists());
    let writing = exec(&project, &[], script);
    assert!(project.path().join("made").exists(), "{writing:?}");
    assert!(
        writing.stderr.contains("Read-only") && !project.path().join(".sandbox/x").exists(),
        "the settings stay read-only: {writing:?}"
    );

    let get = "curl -s https://open.test/; curl -s -o /dev/null -w '%{http_code}' https://shut.test/";
    assert_eq!(exec(&project, &[], get).stdout, "000");
    let sandboxed = exec(&project, &["--network", "sandboxed"], get);
    assert_eq!(sandboxed.stdout, "hello from open.test\n403", "{sandboxed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_is_protected_and_tampered_paths_are_reported() {
    let project = open_project();
    project.write(".mcp.json", "{}");
    let script = "echo evil > .mcp.json; echo evil > .envrc; echo fine > fine";
    let ended = exec(&project, &[], script);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stderr.contains(".mcp.json: Read-only")
            && ended.stderr.contains("warning: the task wrote `.envrc`")
            && ended.stderr.contains("hint: inspect it"),
        "{ended:?}"
    );
    assert!(!project.path().join(".envrc").exists() && project.path().join("fine").exists());
    // The control: unprotected, as the hint suggests.
    let ended = exec(&project, &["--unprotected"], script);
    assert!(!ended.stderr.contains("the task wrote"), "{ended:?}");
    assert!(project.path().join(".envrc").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn stdin_reaches_the_command() {
    let project = open_project();
    let mut child = project
        .sandbox(&["exec", "--", "wc", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the sandbox command");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&vec![b'x'; 100_000]).expect("a reader");
    drop(stdin);
    let output = child.wait_with_output().expect("our own child");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "100000\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn image_is_built_once_reported_and_removed_with_force() {
    let prefix = "e2e-cli-build";
    let project = Project::with_prefix(prefix);
    project.write(".sandbox/sandbox.yaml", &config(prefix, "X").replace("image: X\n", ""));
    let dockerfile = format!("FROM {}\nRUN date +%N > /stamp\n", Setting::of_this_run().image);
    project.write(".sandbox/container/Dockerfile", &dockerfile);
    project.output(&["clean", "--force"]);
    let status = project.output(&["status"]);
    assert!(status.stdout.contains("Not built") && status.stderr.contains("`sandbox build`"), "{status:?}");
    let built = project.output(&["build"]);
    assert_eq!(built.code, Some(0), "{built:?}");
    for message in ["Building sandbox image...", "Sandbox image built successfully!"] {
        assert!(built.stderr.contains(message), "{built:?}");
    }
    let stamp = || exec(&project, &["--workspace", "none"], "cat /stamp").stdout;
    let first = stamp();
    let again = project.output(&["build"]);
    assert!(again.stderr.contains("Sandbox image already exists"), "{again:?}");
    assert_eq!((again.stdout, stamp()), (built.stdout.clone(), first.clone()));
    let status = project.output(&["status", "--output", "json"]).json();
    assert_eq!(status["image"]["tag"], built.stdout.trim(), "{status}");
    let forced = project.output(&["build", "--force"]);
    assert!(forced.stderr.contains("built successfully"), "{forced:?}");
    assert_ne!(stamp(), first);

    let kept = project.output(&["clean"]);
    assert_eq!(kept.stderr, "hint: --force also removes the project's image\n", "{kept:?}");
    let removed = project.output(&["clean", "--force"]);
    assert!(removed.stdout.contains(&format!("removed image {}", built.stdout.trim())), "{removed:?}");
    assert!(
        removed.stdout.lines().all(|line| line.starts_with("removed ") || line.starts_with("no ")),
        "{removed:?}"
    );
    let none = project.output(&["clean", "--force"]);
    assert!(none.stdout.ends_with("the project has no image\n"), "{none:?}");
    project.write(".sandbox/container/Dockerfile", &format!("{dockerfile}RUN false\n"));
    let failed = project.output(&["build"]);
    assert!(
        failed.code == Some(125) && failed.stderr.contains("failed to build the sandbox image"),
        "{failed:?}"
    );
}
