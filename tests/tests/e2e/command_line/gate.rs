//! `gate` and the key of that name: a repository of the host, from its creation to a task's push.

use std::process::Command;

use super::project::Project;

#[tokio::test(flavor = "multi_thread")]
async fn task_pushes_to_a_mirror_and_the_host_fetches_its_commit() {
    let project = Project::new();
    let git = |arguments: &[&str]| {
        let who = ["-c", "user.name=host", "-c", "user.email=host@example.test"];
        let ran = Command::new("git").current_dir(project.path()).args(who).args(arguments).output();
        let ran = ran.expect("git on the host");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    };
    git(&["init", "--quiet", "-b", "main", "upstream"]);
    git(&["-C", "upstream", "commit", "--quiet", "--allow-empty", "-m", "first"]);
    // All tests of a test run share one state folder.
    let name = format!("r{:016x}", rand::random::<u64>());
    let upstream = project.path().join("upstream");
    let upstream = upstream.to_str().expect("a plain path");
    let made = project.output(&["gate", "init", &name, "--upstream", upstream]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let synced = project.output(&["gate", "sync", &name, "--output", "json"]).json();
    assert_eq!(synced["repositories"][0]["applied"][0]["name"], "refs/heads/main", "{synced}");

    let rule =
        format!("url_prefixes: [{{host: gate, path: /{name}.git, git: {{push: ['refs/heads/agent/*']}}}}]\n");
    project.append(".sandbox/network-allowlist.yaml", &rule);
    let script = format!(
        "export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a.test GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a.test; cd /tmp && \
         git clone -q http://gate/{name}.git work && cd work && git commit -q --allow-empty -m inside && \
         git push -q origin HEAD:refs/heads/agent/x && ! git push -q origin HEAD:refs/heads/main"
    );
    // The control: without the key there is no gate.
    assert_ne!(project.run(&script).code, Some(0));
    project.append(".sandbox/sandbox.yaml", &format!("gate: [{name}]\n"));
    // A cloned project gets no repository before it is trusted.
    let wary = project.wary(&["run", "--", "true"]).output().expect("the sandbox command");
    let asked = String::from_utf8_lossy(&wary.stderr).into_owned();
    assert!(
        wary.status.code() == Some(125) && asked.contains(&format!("repository `{name}` of your gate")),
        "{asked}"
    );
    let ran = project.run(&script);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    git(&["-C", "upstream", "fetch", "--quiet", made.stdout.trim(), "agent/x"]);
    assert_eq!(git(&["-C", "upstream", "log", "-1", "--format=%s", "FETCH_HEAD"]), "inside");
}
