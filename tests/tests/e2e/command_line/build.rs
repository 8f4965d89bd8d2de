//! Network access of image builds, as `sandbox.yaml` and the files next to it configure it.

use e2e_tests::setting::Setting;

use super::project::{Project, config};

/// A project whose image is built from `steps`, anew in each test run.
fn project(prefix: &str, steps: &str) -> Project {
    let project = Project::with_prefix(prefix);
    project.write(".sandbox/sandbox.yaml", &config(prefix, "X").replace("image: X\n", ""));
    project.write(
        ".sandbox/container/Dockerfile",
        &format!("FROM {}\nENV STAMP={prefix}{}\n{steps}", Setting::of_this_run().image, std::process::id()),
    );
    project
}

#[tokio::test(flavor = "multi_thread")]
async fn build_reaches_only_the_hosts_of_its_allowlist() {
    let project = project("e2e-cli-reach", "RUN curl -fsS --max-time 60 https://open.test/build > /page\n");
    for command in [&["build"][..], &["image", "build"], &["run", "--", "true"], &["verify"]] {
        let failed = project.output(command);
        assert!(failed.code == Some(125) && failed.stderr.contains("build-allowlist.yaml"), "{failed:?}");
    }

    project.write(".sandbox/build-allowlist.yaml", "domains: [closed.test]\n");
    let failed = project.output(&["build"]);
    assert!(failed.stderr.contains("sandbox logs"), "{failed:?}");
    let logs = project.output(&["logs"]);
    assert!(logs.stdout.contains("BLOCKED GET https://open.test/build -> 403 [reason: host]"), "{logs:?}");

    project.write(".sandbox/build-allowlist.yaml", "domains: [open.test]\n");
    let ran = project.run("cat /page");
    assert!(ran.stdout.contains("hello from open.test"), "{ran:?}");
    let logs = project.output(&["logs"]);
    assert!(logs.stdout.contains("allowed GET https://open.test/build -> 200"), "{logs:?}");
    let built = project.output(&["build"]);
    assert!(
        built.code == Some(0) && built.stderr.contains("already exists"),
        "the run built this image: {built:?}"
    );
    project.output(&["image", "prune", "--max-image-age", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_sets_the_build_allowlist_or_the_host_network() {
    let project =
        project("e2e-cli-build-keys", "RUN curl -fsS --max-time 60 http://open.test/keys && echo reached\n");
    let plain = config("e2e-cli-build-keys", "X").replace("image: X\n", "");
    let with = |build: &str| project.write(".sandbox/sandbox.yaml", &format!("{plain}build: {build}\n"));

    with("{allowlist: ../policy.yaml}");
    let missing = project.output(&["build"]);
    assert!(missing.code == Some(125) && missing.stderr.contains("policy.yaml"), "{missing:?}");
    project.write("policy.yaml", "domains: [open.test]\n");
    let built = project.output(&["build"]);
    assert_eq!(built.code, Some(0), "{built:?}");

    with("{network: host}");
    let hash = |project: &Project| project.output(&["image", "hash"]).stdout;
    let before = hash(&project);
    let asked = project.wary(&["build"]).output().expect("the sandbox command");
    let asked = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(asked.contains("build images outside of the sandbox"), "the user has not confirmed it: {asked}");
    // On the engine's network: the name server of the test world answers, without a proxy or a log.
    let built = project.output(&["build"]);
    assert_eq!(built.code, Some(0), "{built:?}");
    with("{allowlist: ../policy.yaml}");
    assert_ne!(hash(&project), before, "the network is part of the image's hash");

    project.append(".sandbox/container/Dockerfile", "ADD http://open.test/added /added\n");
    let refused = project.output(&["build"]);
    assert!(
        refused.code == Some(125)
            && refused.stderr.contains("line 4 of the Dockerfile")
            && refused.stderr.contains("network: host"),
        "{refused:?}"
    );
    project.output(&["image", "prune", "--max-image-age", "0"]);
}
