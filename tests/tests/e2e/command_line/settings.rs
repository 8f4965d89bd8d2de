//! Sources of settings, and reports of errors in them.

use std::fs;

use e2e_tests::setting::Setting;

use super::project::{Ended, PREFIX, Project, config};

#[tokio::test(flavor = "multi_thread")]
async fn error_in_the_settings_is_125_with_its_location() {
    let project = Project::new();
    project.append(".sandbox/sandbox.yaml", "imgae: x\n");
    let ended = project.run("true");
    ended.fails(125, "error: .sandbox/sandbox.yaml:5:1: unknown key `imgae`: did you mean `image`?");

    let project = Project::new();
    project.write(".sandbox/network-allowlist.yaml", "domains: open.test\n");
    let ended = project.run("true");
    ended.fails(125, ".sandbox/network-allowlist.yaml:1:10: `domains` must be a list");

    let ended = Project::new().output(&["run", "--mount", "/no/such/folder:/x", "--", "true"]);
    ended.fails(125, "`/no/such/folder` does not exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_error_is_2_and_unreachable_engine_is_125_with_a_hint() {
    let project = Project::new();
    assert_eq!(project.output(&["run"]).code, Some(2));
    assert_eq!(project.output(&["run", "--timeout", "0", "--", "true"]).code, Some(2));
    let ended = project.output(&["run", "--engine", "unix:///no/such.sock", "--", "true"]);
    assert_eq!(ended.code, Some(125));
    assert!(
        ended.stderr.contains("/no/such.sock") && ended.stderr.contains("hint: start podman"),
        "{ended:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_policy_blocks_all_hosts_with_a_warning() {
    let project = Project::new();
    fs::remove_file(project.path().join(".sandbox/network-allowlist.yaml")).expect("a file");
    let ended = project.run("curl -sS -o /dev/null -w '%{http_code}' https://open.test/");
    assert_eq!(ended.stdout, "403", "{ended:?}");
    let warning =
        "warning: .sandbox/network-allowlist.yaml does not exist, so no host can be reached; write ";
    assert!(ended.stderr.starts_with(warning) && ended.stderr.lines().count() == 1, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_network_sandbox_is_reported() {
    let project = Project::new();
    project.append(".sandbox/sandbox.yaml", "network_sandbox: false\n");
    let ended =
        project.run("curl -sS --max-time 20 --resolve open.test:80:203.0.113.10 http://open.test/free");
    assert_eq!(ended.stdout, "hello from open.test\n", "{ended:?}");
    assert!(ended.stderr.contains("warning: `network_sandbox: false`"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_come_from_env_and_pass_env() {
    let project = Project::new();
    project.append(".sandbox/sandbox.yaml", "env: {GIVEN: \"a b\"}\npass_env: [PASSED, ABSENT]\n");
    let script =
        ["run", "-v", "--", "bash", "-c", "echo $GIVEN-$PASSED-${ABSENT-unset}-${SECRET-unset}-$IS_SANDBOX"];
    let ended: Ended = project
        .sandbox(&script)
        .env("PASSED", "p")
        .env("SECRET", "s")
        .env_remove("ABSENT")
        .output()
        .expect("the sandbox command")
        .into();
    assert_eq!(ended.stdout, "a b-p-unset-unset-1\n", "{ended:?}");
    assert!(ended.stderr.contains("note: pass_env: `ABSENT` is not set"), "{ended:?}");
    let quiet = project.run("true");
    assert_eq!(quiet.stderr, "", "only -v reports it");
}

#[tokio::test(flavor = "multi_thread")]
async fn former_settings_folder_is_read_if_the_current_is_absent() {
    let project = Project::new();
    fs::rename(project.path().join(".sandbox"), project.path().join(".airut")).expect("a folder");
    let ended = project.output(&["run", "-v", "--", "curl", "-sS", "https://open.test/"]);
    assert_eq!(ended.stdout, "hello from open.test\n", "{ended:?}");
    assert!(
        ended.stderr.contains("/.airut/sandbox.yaml")
            && ended.stderr.contains("/.airut/network-allowlist.yaml"),
        "{ended:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn project_dockerfile_is_built_and_its_failure_is_reported() {
    let project = Project::new();
    let without_image = config(PREFIX, "X").replace("image: X\n", "");
    project.write(".sandbox/sandbox.yaml", &without_image);
    let none = project.output(&["run", "--context", ".", "--", "true"]);
    none.fails(125, "error: no image");
    none.fails(125, "hint: create ");

    let dockerfile = format!(
        "FROM {}\nCOPY greeting /greeting\nRUN echo built >> /greeting\n",
        Setting::of_this_run().image
    );
    project.write(".sandbox/container/Dockerfile", &dockerfile);
    project.write(".sandbox/container/greeting", "hello\n");
    let ended = project.run("cat /greeting");
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (Some(0), "hello\nbuilt\n", ""),
        "{ended:?}"
    );

    project.write(".sandbox/container/Dockerfile", &format!("{dockerfile}RUN echo the-reason; exit 3\n"));
    let failed = project.run("true");
    assert_eq!(failed.code, Some(125));
    assert!(
        failed.stderr.contains("error: failed to build image `localhost/e2e-cli-repo:")
            && failed.stderr.contains("the-reason"),
        "{failed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn state_folder_in_the_work_tree_is_refused() {
    let project = Project::new();
    let ended: Ended = project
        .sandbox(&["run", "--", "true"])
        .env("XDG_STATE_HOME", project.path().join("state"))
        .output()
        .expect("the sandbox command")
        .into();
    ended.fails(125, "would show the task the sandbox's own keys");
}
